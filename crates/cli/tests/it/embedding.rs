//! The server never waits for its embedder, and reports its health.

use serde_json::Value;
use testing::{FakeModel, models_folder};
use tokio::process::Command;

use crate::binary::{Home, Server, run};
use crate::client::{ask, get};

async fn embedding(server: &Server) -> Value {
    let ready = get(server, "/health/ready").await.expect("it answers");
    assert_eq!(ready.status, 200);
    ready.json().await["services"]["embedding"].clone()
}

#[tokio::test]
async fn without_its_model_the_server_starts_and_reports_what_to_do() {
    let mut server = Home::new().serve(&[], &[]).await;
    let log = server.logged("embedding model not loaded").await;
    let embedding = embedding(&server).await;
    assert_eq!(embedding["status"], "degraded");
    let message = embedding["message"].as_str().expect("it has a message");
    let sha256 = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd";
    for told in [&log, message] {
        for words in
            ["int8.hmsemb is missing", sha256, "wellspring models pull granite-embedding-30m-english"]
        {
            assert!(told.contains(words), "{words:?} is not in {told}");
        }
    }
}

#[tokio::test]
async fn the_server_is_ready_before_its_model_and_stops_without_it() {
    let home = Home::new();
    // Opening a pipe blocks until it has a writer, so this model is never loaded.
    let pipe = home.write("slow-model/config.json", "");
    std::fs::remove_file(&pipe).expect("it was just written");
    assert_eq!(run(Command::new("mkfifo").arg(&pipe)).await.code, Some(0));
    let fake = FakeModel::start().await;
    let variables = [
        ("WELLSPRING__EMBEDDING__MODEL", "./slow-model"),
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake"),
    ];
    let server = home.serve(&[], &variables).await;
    let embedding = embedding(&server).await;
    assert_eq!(embedding["status"], "degraded");
    assert!(embedding["message"].as_str().is_some_and(|told| told.contains("being loaded")), "{embedding}");
    let (_, done) = ask(&server, "why?").await.answer().await;
    assert_eq!(done["type"], "done", "who asks does not wait for it");
    server.stopped().await;
}

#[tokio::test]
async fn health_reports_when_the_model_is_loaded() {
    let folder = models_folder();
    let variables = [("WELLSPRING__MODELS__DIR", folder.to_str().expect("a plain path"))];
    let mut server = Home::new().serve(&[], &variables).await;
    server.logged("embedding model loaded").await;
    // The last health check may be reported a moment longer.
    while embedding(&server).await["status"] != "up" {}
}

#[tokio::test]
async fn a_server_that_embeds_is_asked_whether_it_would() {
    let fake = FakeModel::start().await;
    let variables = [
        ("WELLSPRING__EMBEDDING__KIND", "ollama"),
        ("WELLSPRING__EMBEDDING__MODEL", "fake"),
        ("WELLSPRING__EMBEDDING__BASE_URL", fake.url()),
    ];
    let server = Home::new().serve(&[], &variables).await;
    assert_eq!(embedding(&server).await["status"], "up");
}

#[tokio::test]
async fn a_server_that_embeds_needs_a_model_of_its_own() {
    for (model, words) in [
        (None, "embedding.model (default): it is needed"),
        (Some("granite-embedding-30m-english"), "is a model of this process"),
    ] {
        let mut variables = vec![("WELLSPRING__EMBEDDING__KIND", "openai")];
        variables.extend(model.map(|model| ("WELLSPRING__EMBEDDING__MODEL", model)));
        let ran = Home::new().run(&["serve"], &variables).await;
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains(words), "{}", ran.err);
    }
}
