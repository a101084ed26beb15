//! Bursts of clients: memory after one, and the bound of streams.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use testing::FakeModel;
use tokio::time::{sleep, timeout};

use crate::binary::{Home, Server};
use crate::client::{Response, ask, get, post};
use crate::ingest::home_with_pages;

async fn server(fake: &FakeModel, model: &str, streams: &str) -> Server {
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", model),
        ("WELLSPRING__STREAMS__RESUME_SECONDS", "1"),
        ("MAX_CONCURRENT_STREAMS", streams),
    ];
    Home::new().serve(&[], &variables).await
}

/// Asks, and returns the time to the first token.
async fn first_token(server: &Server) -> Duration {
    let session = post(server, "/api/generation/session", "", &json!({})).await.json().await;
    let body = json!({"sessionId": session["sessionId"], "prompt": "why?"});
    let asked_at = Instant::now();
    let mut stream = post(server, "/api/generation/stream", "", &body).await;
    assert_eq!(stream.delta().await.expect("the answer begins")["type"], "token");
    asked_at.elapsed()
}

/// Asks, and reads a little of the answer.
async fn begun(server: &Server) -> Response {
    let mut stream = ask(server, "why?").await;
    stream.delta().await.expect("the answer begins");
    stream
}

#[tokio::test]
async fn the_memory_of_a_burst_of_clients_is_returned() {
    let clients = if std::env::var_os("WELLSPRING_SOAK").is_some() { 1_000 } else { 100 };
    rlimit::increase_nofile_limit(u64::MAX).expect("the system lets it");
    let fake = FakeModel::start().await;
    let server = server(&fake, "fake,tokens=2000,pace=100ms", "1000").await;
    first_token(&server).await;
    let before = server.memory();

    let crowd = join_all((0..clients).map(|_| begun(&server))).await;
    let with = server.memory();
    drop(crowd);
    sleep(Duration::from_secs(2)).await;
    let waited = first_token(&server).await;
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    let memory_is_back = async {
        while server.memory() >= 2 * before {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let took = Duration::from_secs(5);
    let is_back = timeout(took, memory_is_back).await.is_ok();
    let after = server.memory();
    assert!(is_back, "{before} bytes before, {with} with them, and {after} {took:?} later");
    println!(
        "{clients} clients: a first token in {waited:?} after them; {before} bytes, {with} with them, {after}"
    );
}

#[tokio::test]
async fn one_stream_too_many_is_refused_and_readers_are_bounded() {
    let fake = FakeModel::start().await;
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,stall=3"),
        ("WELLSPRING__LIMITS__READERS", "120"),
        ("WELLSPRING__SERVER__DRAIN_SECONDS", "0"),
    ];
    let server = Home::new().serve(&[], &variables).await;
    let streams = join_all((0..100).map(|_| begun(&server))).await;
    let session = post(&server, "/api/generation/session", "", &json!({})).await.json().await;
    let body = json!({"sessionId": session["sessionId"], "prompt": "why?"});
    let refused = post(&server, "/api/generation/stream", "", &body).await;
    assert_eq!((refused.status, refused.header("retry-after").parse()), (503, Ok(1)));
    assert_eq!(refused.json().await["code"], "overloaded");

    let path = format!("/api/generation/prompts/{}/stream", streams[0].header("x-prompt-id"));
    let joined = join_all((0..40).map(|_| get(&server, &path))).await;
    let statuses: Vec<_> = joined.iter().flatten().map(|response| response.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 20, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 20, "{statuses:?}");
}

/// Chat model and embedder are both 200 ms away, there are documents, and a follow-up is completed by the rule or by the
/// model.
#[tokio::test]
async fn a_remote_provider_answers_within_a_second() {
    for rewriting in ["rule", "model"] {
        let (fake, home) = (FakeModel::start().await, home_with_pages());
        let variables = [
            ("WELLSPRING__PROVIDERS__LOCAL__KIND", "openai"),
            ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", &format!("{}/v1", fake.url())),
            ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,delay=200ms"),
            ("WELLSPRING__EMBEDDING__KIND", "ollama"),
            ("WELLSPRING__EMBEDDING__MODEL", "fake,delay=200ms"),
            ("WELLSPRING__EMBEDDING__BASE_URL", fake.url()),
            ("WELLSPRING__GENERATION__REWRITING", rewriting),
        ];
        assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
        let server = home.serve(&[], &variables).await;
        let session = post(&server, "/api/generation/session", "", &json!({})).await.json().await;
        for question in ["What lifts water?", "And why does it do that?"] {
            let body = json!({"sessionId": session["sessionId"], "prompt": question});
            let asked_at = Instant::now();
            let mut stream = post(&server, "/api/generation/stream", "", &body).await;
            stream.delta().await.expect("the answer begins");
            let waited = asked_at.elapsed();
            println!("{question} {waited:?}, rewriting by {rewriting}");
            assert!(
                (Duration::from_millis(400)..Duration::from_secs(1)).contains(&waited),
                "{question} {waited:?}, rewriting by {rewriting}"
            );
            let (_, done) = stream.answer().await;
            let sources = done["metadata"]["sources"].as_array().map(Vec::len);
            assert!(sources > Some(0), "it is answered from documents: {done}");
        }
    }
}
