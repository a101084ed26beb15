//! Backups under load, and servers that start from them.
//! `WELLSPRING_SOAK` makes twenty of them.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::{env, fs};

use futures::future::join_all;
use serde_json::{Value, json};
use testing::FakeModel;

use crate::binary::{Home, Server};
use crate::client::{get, post};
use crate::ingest::found;

const DATA: &str = ".local/share/wellspring";

/// A prompt, and all deltas that its client got.
struct Answered {
    prompt: String,
    lines: String,
}

fn variables(fake: &FakeModel) -> [(&str, &str); 9] {
    [
        ("WELLSPRING__EMBEDDING__KIND", "ollama"),
        ("WELLSPRING__EMBEDDING__MODEL", "fake"),
        ("WELLSPRING__EMBEDDING__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__KIND", "ollama"),
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,tokens=40"),
        ("WELLSPRING__PROVIDERS__ENDLESS__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__ENDLESS__MODEL", "fake,tokens=100000,pace=10ms"),
        ("WELLSPRING__GENERATION__MAX_TOKENS", "100000"),
    ]
}

async fn session(server: &Server) -> Value {
    post(server, "/api/generation/session", "", &json!({})).await.json().await["sessionId"].take()
}

async fn answered(server: &Server) -> Answered {
    let body =
        json!({"sessionId": session(server).await, "prompt": "What lifts water?", "provider": "local"});
    let response = post(server, "/api/generation/stream", "", &body).await;
    let prompt = response.header("x-prompt-id").to_owned();
    Answered { prompt, lines: response.lines().await }
}

/// Ingests a document and returns its path; it is searchable by then.
async fn ingest(server: &Server, number: usize) -> String {
    let path = format!("pages/{number}.md");
    let text = format!("# Page {number}\n\nThe word of this page is quoll{number}.\n");
    let document = json!({"repoUrl": "https://example.com/wiki", "filePath": path, "text": text});
    let taken = post(server, "/api/documents/ingest", "", &json!({"documents": [document]})).await;
    assert_eq!(taken.json().await["successCount"], 1);
    path
}

async fn replay(server: &Server, prompt: &str) -> String {
    let path = format!("/api/generation/prompts/{prompt}/stream");
    get(server, &path).await.expect("an answer").lines().await
}

/// A server started from the copy has everything from before it, and runs no prompt.
async fn check_restored(home: &Home, copy: &str, fake: &FakeModel, before: &Before) {
    let elsewhere = Home::new();
    let data = elsewhere.path(DATA);
    fs::create_dir_all(&data).expect("the home can be written to");
    for file in ["history.db", "knowledge.db"] {
        fs::copy(home.path(copy).join(file), data.join(file)).expect("it was copied");
    }
    let mut restored = elsewhere.serve(&[], &variables(fake)).await;
    for answered in &before.answers {
        assert_eq!(replay(&restored, &answered.prompt).await, answered.lines);
    }
    let cut_off = replay(&restored, &before.runs).await;
    assert!(cut_off.lines().last().is_some_and(|last| last.contains("\"interrupted\"")), "{cut_off}");
    let running = get(&restored, "/api/prompts?status=in-flight").await.expect("an answer").json().await;
    assert_eq!(running["prompts"], json!([]));
    // The index is rebuilt from the catalog in the background.
    while found(&restored, "quoll0").await.is_empty() {}
    for (number, path) in before.documents.iter().enumerate() {
        let found = found(&restored, &format!("quoll{number}")).await;
        assert!(found.contains(path), "{path} is not in {found:?}");
    }
    answered(&restored).await;
    restored.signal("TERM").await;
    restored.logged("stopped").await;
    assert!(!restored.log.contains("corrupt"), "{}", restored.log);
}

/// What was stored before a backup.
struct Before {
    answers: Vec<Answered>,
    documents: Vec<String>,
    /// A prompt that runs all the time.
    runs: String,
}

#[tokio::test]
async fn a_backup_under_load_has_everything_from_before_it() {
    let copies = if env::var_os("WELLSPRING_SOAK").is_some() { 20 } else { 2 };
    let (fake, home) = (FakeModel::start().await, Home::new());
    let server = home.serve(&[], &variables(&fake)).await;
    let body = json!({"sessionId": session(&server).await, "prompt": "why?", "provider": "endless"});
    let mut endless = post(&server, "/api/generation/stream", "", &body).await;
    endless.delta().await.expect("the answer begins");
    let runs = endless.header("x-prompt-id").to_owned();
    let mut before = Before { answers: Vec::new(), documents: Vec::new(), runs };
    let next = Cell::new(0);
    for copy in 0..copies {
        before.answers.extend(join_all((0..4).map(|_| answered(&server))).await);
        for _ in 0..4 {
            before.documents.push(ingest(&server, next.replace(next.get() + 1)).await);
        }
        let name = format!("copies/{copy}");
        let made = Cell::new(false);
        let beside = async {
            let (mut answers, mut documents) = (Vec::new(), Vec::new());
            while !made.get() {
                answers.push(answered(&server).await);
                documents.push(ingest(&server, next.replace(next.get() + 1)).await);
                endless.delta().await.expect("the answer goes on");
            }
            (answers, documents)
        };
        let copying = async {
            let ran = home.run(&["backup", &name], &variables(&fake)).await;
            made.set(true);
            ran
        };
        let ((answers, documents), ran) = tokio::join!(beside, copying);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        assert!(ran.out.contains("history.db") && ran.out.contains("knowledge.db"), "{}", ran.out);
        println!("copy {copy}: {} answers and documents came meanwhile", answers.len());
        check_restored(&home, &name, &fake, &before).await;
        before.answers.extend(answers);
        before.documents.extend(documents);
    }
    drop(endless);
    server.stopped().await;
}

#[tokio::test]
async fn a_backup_overwrites_nothing_and_needs_a_database() {
    let home = Home::new();
    let ran = home.run(&["backup", "copy"], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("has no database to copy: is it data_dir?"), "{}", ran.err);
    assert!(!home.path("copy").exists());

    home.serve(&[], &[]).await.stopped().await;
    assert_eq!(home.run(&["backup", "copy"], &[]).await.code, Some(0), "no server needs to run");
    let ran = home.run(&["backup", "copy"], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("copy is not empty: name a folder that is new or empty"), "{}", ran.err);
    let ran = home.run(&["backup", "other"], &[("WELLSPRING__STORAGE__KIND", "memory")]).await;
    assert!(ran.err.contains("storage.kind is \"memory\""), "{}", ran.err);
}

#[tokio::test]
async fn copies_are_private_and_a_failed_backup_leaves_none() {
    let home = Home::new();
    home.serve(&[], &[]).await.stopped().await;
    // A folder that was there keeps its mode, and everybody may look into this one.
    fs::create_dir(home.path("copy")).expect("the home can be written to");
    fs::set_permissions(home.path("copy"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let knowledge = home.path(DATA).join("knowledge.db");
    let whole = fs::read(&knowledge).expect("it is there");
    fs::write(&knowledge, "no database at all").expect("it can be written to");
    let ran = home.run(&["backup", "copy"], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("knowledge.db: "), "{}", ran.err);
    assert_eq!(fs::read_dir(home.path("copy")).expect("it is there").count(), 0, "and it can be named again");

    fs::write(&knowledge, whole).expect("it can be written to");
    let ran = home.run(&["backup", "copy"], &[]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    for file in ["history.db", "knowledge.db"] {
        let mode = fs::metadata(home.path("copy").join(file)).expect("it was copied").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}
