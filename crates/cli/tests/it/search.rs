//! `wellspring search`: in the process, and through the server that runs on the data folder.

use serde_json::Value;
use testing::FakeModel;

use crate::binary::Home;
use crate::client::get;
use crate::ingest::{embedding_by, home_with_pages};

const SERVER: &str = ".local/share/wellspring/server.json";

#[tokio::test]
async fn passages_are_found_without_a_server() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    home.run(&["ingest", "wiki"], &embedding_by(&fake)).await;
    let ran = home.run(&["search", "Pumps lift water.", "-k", "1"], &embedding_by(&fake)).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.starts_with("1. Pumps  0."), "{}", ran.out);
    assert!(ran.out.contains("pumps.md:1-3") && ran.out.contains("| Pumps lift water."), "{}", ran.out);
    assert!(!ran.out.contains("Cats"), "{}", ran.out);
}

#[tokio::test]
async fn a_running_server_returns_the_same_passages() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let variables = embedding_by(&fake);
    home.run(&["ingest", "wiki"], &variables).await;
    let search = ["search", "Pumps lift water.", "--json"];
    let alone = home.run(&search, &variables).await;
    let mut server = home.serve(&[], &variables).await;
    let through = home.run(&search, &variables).await;
    assert_eq!((through.code, through.err.as_str()), (Some(0), ""));
    server.logged("\"path\":\"/api/query\",\"status\":200").await;
    assert_eq!(through.out, alone.out);
    let hits: Value = serde_json::from_str(&through.out).expect("JSON");
    assert_eq!(hits[0]["filePath"], "pumps.md");
}

#[tokio::test]
async fn the_server_file_has_the_address_until_the_server_stops() {
    let home = Home::new();
    let server = home.serve(&[], &[]).await;
    let written: Value = serde_json::from_slice(&std::fs::read(home.path(SERVER)).unwrap()).expect("JSON");
    assert_eq!(written["address"], server.address.as_str());
    assert!(written["processId"].is_u64(), "{written}");
    server.stopped().await;
    assert!(!home.path(SERVER).exists());
}

#[tokio::test]
async fn the_server_file_of_a_killed_server_is_ignored() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let variables = embedding_by(&fake);
    home.run(&["ingest", "wiki"], &variables).await;
    let server = home.serve(&[], &variables).await;
    server.signal("KILL").await;
    server.ended().await;
    // Another process has its address and its process id by now.
    let other = Home::new().serve(&[], &variables).await;
    let stale = format!(r#"{{"address":"{}","processId":{}}}"#, other.address, std::process::id());
    home.write(SERVER, &stale);
    let ran = home.run(&["search", "Pumps lift water."], &variables).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.starts_with("1. Pumps"), "{}", ran.out);
    let server = home.serve(&[], &variables).await;
    assert_eq!(get(&server, "/health/ready").await.expect("it answers").status, 200);
}

#[tokio::test]
async fn without_documents_the_error_says_how_to_ingest_some() {
    let ran = Home::new().run(&["search", "water"], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("`wellspring ingest PATH` brings some"), "{}", ran.err);
}
