//! `kill -9` at a random moment of an ingest: the catalog is consistent, and the next run completes it.
//! `WELLSPRING_SOAK` makes it fifty times.

use std::env;
use std::time::Duration;

use serde_json::{Value, json};
use testing::FakeModel;
use tokio::time::sleep;

use crate::binary::Home;
use crate::client::{get, post};
use crate::crash::{Dice, check_integrity};
use crate::ingest::embedding_by;

const FILES: usize = 200;
const LONGEST_LIFE: u64 = 600;

#[tokio::test]
async fn a_killed_ingest_leaves_whole_documents_and_the_next_one_completes_it() {
    let rounds = if env::var_os("WELLSPRING_SOAK").is_some() { 50 } else { 5 };
    let (fake, mut dice) = (FakeModel::start().await, Dice::new());
    for round in 0..rounds {
        let home = Home::new();
        for number in 0..FILES {
            home.write(&format!("wiki/{number}.md"), &format!("# Page {number}\n\nword{number} and water\n"));
        }
        let variables = embedding_by(&fake);
        let mut ingest = home.start(&["ingest", "wiki"], &variables);
        sleep(Duration::from_millis(dice.below(LONGEST_LIFE))).await;
        ingest.kill().await.expect("it can be killed");
        let catalog = home.path(".local/share/wellspring/knowledge.db");
        let filed = catalog.exists();
        if filed {
            check_integrity(&catalog);
        }
        check_documents(&home, &variables).await;

        let ran = home.run(&["ingest", "wiki", "--json"], &variables).await;
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let summary: Value = serde_json::from_str(&ran.out).expect("JSON");
        let source = &summary["sources"][0];
        let count = |name: &str| source[name].as_u64().expect("a number");
        println!("round {round}: {} were there, {} were missing", count("unchanged"), count("added"));
        assert_eq!(count("unchanged") + count("added"), FILES as u64, "{source}");
        assert_eq!(check_documents(&home, &variables).await, FILES as u64);
    }
}

/// Checks that every listed document is found by its own words, with a vector or without; returns their number.
async fn check_documents(home: &Home, variables: &[(&str, &str)]) -> u64 {
    let server = home.serve(&[], variables).await;
    let page = get(&server, "/api/documents?pageSize=5").await.expect("an answer").json().await;
    for document in page["documents"].as_array().expect("a list") {
        assert_eq!(document["chunkCount"], 1, "{document}");
        let path = document["filePath"].as_str().expect("a path");
        let query = json!({
            "query": format!("word{}", path.trim_end_matches(".md")),
            "filters": {"filePath": path},
        });
        // The index may still be on its way to the catalog.
        while post(&server, "/api/query", "", &query).await.json().await[0]["filePath"] != path {}
    }
    let count = page["totalCount"].as_u64().expect("a number");
    server.stopped().await;
    count
}
