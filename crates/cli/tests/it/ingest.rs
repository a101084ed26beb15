//! `wellspring ingest` and `reindex`: folders into the knowledge base, alone and beside a server.

use serde_json::{Value, json};
use testing::FakeModel;

use crate::binary::{Home, Ran, Server, run};
use crate::client::{get, post};

/// The variables of a binary whose embedder is a fake server.
pub(crate) fn embedding_by(fake: &FakeModel) -> [(&str, &str); 3] {
    [
        ("WELLSPRING__EMBEDDING__KIND", "ollama"),
        ("WELLSPRING__EMBEDDING__MODEL", "fake"),
        ("WELLSPRING__EMBEDDING__BASE_URL", fake.url()),
    ]
}

/// A home with a folder of two pages, and a file that is skipped.
pub(crate) fn home_with_pages() -> Home {
    let home = Home::new();
    home.write("wiki/pumps.md", "# Pumps\n\nPumps lift water.\n");
    home.write("wiki/guide/cats.md", "# Cats\n\nCats sleep long.\n");
    home.write("wiki/.env", "KEY=secret\n");
    home
}

fn summary(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    serde_json::from_str(&ran.out).expect("a summary is JSON")
}

/// The paths of what the server finds.
pub(crate) async fn found(server: &Server, query: &str) -> Vec<String> {
    let hits = post(server, "/api/query", "", &json!({"query": query})).await.json().await;
    let hits = hits.as_array().expect("a list").clone();
    hits.iter().map(|hit| hit["filePath"].as_str().expect("a path").to_owned()).collect()
}

#[tokio::test]
async fn a_folder_is_read_and_only_what_changed_is_read_again() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let ingest = async |arguments: &[&str]| home.run(arguments, &embedding_by(&fake)).await;
    let ran = ingest(&["ingest", "wiki"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.starts_with("wiki: 2 added, 0 changed, 0 removed, 0 unchanged"), "{}", ran.out);
    assert!(ran.out.contains("2 chunks embedded"), "{}", ran.out);
    assert_eq!(ran.err, "", "there is no terminal to draw on");

    let again = summary(&ingest(&["ingest", "wiki", "--json"]).await);
    let source = &again["sources"][0];
    assert_eq!(
        (&source["added"], &source["unchanged"], &source["embedded"]),
        (&json!(0), &json!(2), &json!(0))
    );

    home.write("wiki/pumps.md", "# Pumps\n\nPumps lift oil.\n");
    std::fs::remove_file(home.path("wiki/guide/cats.md")).unwrap();
    let changed = summary(&ingest(&["ingest", "wiki", "--json"]).await);
    let source = &changed["sources"][0];
    assert_eq!((&source["changed"], &source["removed"]), (&json!(1), &json!(1)), "{changed}");
}

#[tokio::test]
async fn a_single_file_is_read_and_its_neighbours_stay_what_they_are() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    summary(&home.run(&["ingest", "wiki", "--json"], &embedding_by(&fake)).await);
    home.write("wiki/pumps.md", "# Pumps\n\nPumps lift oil.\n");
    home.write("wiki/new.md", "# New\n");
    let ran = home.run(&["ingest", "wiki/pumps.md", "--json"], &embedding_by(&fake)).await;
    let source = &summary(&ran)["sources"][0];
    let counts =
        ["added", "changed", "removed", "unchanged"].map(|name| source[name].as_u64().expect("a number"));
    assert_eq!(counts, [0, 1, 0, 0], "{source}");
}

#[tokio::test]
async fn an_unreadable_source_is_reported_and_the_others_are_read() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let ran = home.run(&["ingest", "nowhere", "wiki"], &embedding_by(&fake)).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), "wellspring: 1 of 2 sources could not be read\n"));
    assert!(ran.out.starts_with("nowhere: not read: "), "{}", ran.out);
    assert!(ran.out.contains("wiki: 2 added"), "{}", ran.out);
}

#[tokio::test]
async fn without_its_embedding_model_ingest_fails_with_advice() {
    let ran = home_with_pages().run(&["ingest", "wiki"], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("wellspring models pull granite-embedding-30m-english"), "{}", ran.out);
}

#[tokio::test]
async fn a_server_finds_what_is_ingested_beside_it() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let variables = embedding_by(&fake);
    let server = home.serve(&[], &variables).await;
    assert_eq!(found(&server, "Pumps lift water.").await, [""; 0]);
    let ran = home.run(&["ingest", "wiki", "--collection", "ours"], &variables).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    while found(&server, "Pumps lift water.").await.len() < 2 {}
    assert_eq!(found(&server, "Pumps lift water.").await[0], "pumps.md");
    let collections = get(&server, "/api/documents/collections").await.expect("an answer").json().await;
    assert_eq!(collections["collections"], json!([{"id": "ours", "name": "ours", "document_count": 2}]));
}

#[tokio::test]
async fn an_index_of_another_model_is_refused_until_it_is_rebuilt() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let mut variables = embedding_by(&fake);
    home.run(&["ingest", "wiki"], &variables).await;
    variables[1].1 = "fake,dimension=32";
    for arguments in [&["serve", "--bind", "127.0.0.1:0"][..], &["search", "pumps"], &["ingest", "wiki"]] {
        let ran = home.run(arguments, &variables).await;
        assert_eq!(ran.code, Some(1), "{arguments:?}");
        let words = "index: the index was made with the embedding model fake, and fake,dimension=32 is configured: \
                     run `wellspring reindex`";
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.err);
    }
    let ran = home.run(&["reindex"], &variables).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.starts_with("2 chunks embedded, the index rebuilt"), "{}", ran.err);
    let server = home.serve(&[], &variables).await;
    assert_eq!(found(&server, "Pumps lift water.").await[0], "pumps.md");
}

#[tokio::test]
async fn a_missing_index_is_rebuilt_from_the_catalog() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let variables = embedding_by(&fake);
    home.run(&["ingest", "wiki"], &variables).await;
    std::fs::remove_dir_all(home.path(".local/share/wellspring/index")).unwrap();
    let server = home.serve(&[], &variables).await;
    while found(&server, "Pumps lift water.").await.len() < 2 {}
    assert_eq!(found(&server, "Pumps lift water.").await[0], "pumps.md");
}

#[tokio::test]
async fn an_index_is_not_rebuilt_under_a_server() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let server = home.serve(&[], &embedding_by(&fake)).await;
    let ran = home.run(&["reindex"], &embedding_by(&fake)).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains(&format!("the server at {} (process ", server.address)), "{}", ran.err);
}

#[tokio::test]
async fn a_bare_repository_is_read_as_one_and_what_is_printed_has_no_credentials() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let git = |arguments: &[&str]| {
        let mut command = tokio::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments);
        command.current_dir(home.path("wiki"));
        command
    };
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "."],
        &["commit", "--quiet", "-m", "pages"],
        &["clone", "--quiet", "--bare", ".", "../bare.git"],
    ] {
        assert_eq!(run(&mut git(arguments)).await.code, Some(0), "{arguments:?}");
    }
    let ran = home.run(&["ingest", "bare.git"], &embedding_by(&fake)).await;
    assert!(ran.out.starts_with("bare.git: 2 added"), "its pages and nothing of git's own: {}", ran.out);

    let address = "https://me:secret@127.0.0.1:1/team/service.git";
    for flags in [&["ingest", address][..], &["ingest", address, "--json"]] {
        let ran = home.run(flags, &embedding_by(&fake)).await;
        assert_eq!(ran.code, Some(1));
        assert!(!format!("{}{}", ran.out, ran.err).contains("secret"), "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("https://127.0.0.1:1/team/service.git"), "{}", ran.out);
    }
}
