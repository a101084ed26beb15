//! `kill -9` at a random moment while many streams run: everything that clients have seen is recovered. A hundred times with
//! `WELLSPRING_SOAK`.

use std::env;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testing::{FakeModel, fake_text};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::binary::{Home, Server};
use crate::client::{get, get_with, post};

const STREAMS: usize = 32;
const TOKENS: u64 = 40;

/// An answer takes about 400 ms, so some have ended when the server is killed.
const MODEL: &str = "fake,tokens=40,pace=10ms";
const LONGEST_LIFE: u64 = 500;

#[tokio::test]
async fn a_killed_server_loses_nothing_that_a_client_has_seen() {
    let rounds = if env::var_os("WELLSPRING_SOAK").is_some() { 100 } else { 10 };
    let mut dice = Dice::new();
    let (fake, home) = (FakeModel::start().await, Home::new());
    let data = home.path("data");
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", MODEL),
        ("WELLSPRING__DATA_DIR", data.to_str().expect("a plain path")),
    ];
    let mut server = home.serve(&[], &variables).await;
    for round in 0..rounds {
        let streams = start_streams(&server).await;
        sleep(Duration::from_millis(dice.below(LONGEST_LIFE))).await;
        server.signal("KILL").await;
        server.ended().await;
        let mut seen = Vec::new();
        for (prompt, reading) in streams {
            seen.push(Seen { prompt, lines: reading.await.expect("a reader does not panic") });
        }

        let killed = Instant::now();
        server = home.serve(&[], &variables).await;
        let ready = killed.elapsed();
        let mut whole = 0;
        for seen in &seen {
            whole += u32::from(check_replay(&server, seen).await == Ending::Whole);
        }
        println!("round {round}: ready in {ready:?}; {whole} answers had ended");
        check_that_nothing_runs(&server).await;
        check_resume(&server, &seen[0]).await;
        for seen in &seen[..2] {
            check_retry(&server, seen).await;
        }
        check_integrity(&data.join("history.db"));
    }
}

/// A prompt as its client asked it.
struct Asked {
    id: String,
    body: Value,
}

/// What a client had seen of it when the server died.
struct Seen {
    prompt: Asked,
    lines: String,
}

async fn start_streams(server: &Server) -> Vec<(Asked, JoinHandle<String>)> {
    let mut streams = Vec::new();
    for number in 0..STREAMS {
        let session = post(server, "/api/generation/session", "", &json!({})).await.json().await;
        let body = json!({
            "sessionId": session["sessionId"],
            "prompt": format!("question {number}"),
            "idempotencyKey": format!("key {number}"),
        });
        let response = post(server, "/api/generation/stream", "", &body).await;
        assert_eq!(response.status, 200);
        let id = response.header("x-prompt-id").to_owned();
        streams.push((Asked { id, body }, tokio::spawn(response.lines())));
    }
    streams
}

/// How a prompt ended.
#[derive(PartialEq, Eq)]
enum Ending {
    Whole,
    Interrupted,
}

async fn check_replay(server: &Server, seen: &Seen) -> Ending {
    let replay = replay(server, &seen.prompt, "").await;
    assert!(replay.starts_with(&seen.lines), "seen:\n{}\nreplayed:\n{replay}", seen.lines);
    let deltas: Vec<Value> = replay.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (seq, delta) in deltas.iter().enumerate() {
        assert_eq!((&delta["seq"], &delta["promptId"]), (&seq.into(), &seen.prompt.id.as_str().into()));
    }
    let (last, tokens) = deltas.split_last().expect("a stream has an end");
    assert!(tokens.iter().all(|delta| delta["type"] == "token"), "one delta ends it: {replay}");
    let text: String = tokens.iter().map(|delta| delta["text"].as_str().expect("a token has text")).collect();
    assert!(fake_text(TOKENS).starts_with(&text), "{text}");

    let path = format!("/api/generation/prompts/{}", seen.prompt.id);
    let status = get(server, &path).await.expect("an answer").json().await["status"].clone();
    if last["type"] == "done" {
        assert_eq!((status, text), ("done".into(), fake_text(TOKENS)));
        return Ending::Whole;
    }
    assert_eq!((&last["type"], status), (&"error".into(), "error".into()));
    assert_eq!(last["metadata"]["code"], "interrupted");
    assert_eq!(last["metadata"]["retryable"], true);
    Ending::Interrupted
}

async fn replay(server: &Server, prompt: &Asked, headers: &str) -> String {
    let path = format!("/api/generation/prompts/{}/stream", prompt.id);
    let response = get_with(server, &path, headers).await.expect("the server answers");
    assert_eq!(response.status, 200);
    response.lines().await
}

async fn check_that_nothing_runs(server: &Server) {
    let running = get(server, "/api/prompts?status=in-flight").await.expect("an answer").json().await;
    assert_eq!(running["prompts"], json!([]));
}

/// A client that reconnects after the crash resumes where it was.
async fn check_resume(server: &Server, seen: &Seen) {
    let all = replay(server, &seen.prompt, "").await;
    let Some(last) = seen.lines.lines().count().checked_sub(1) else { return };
    let rest = replay(server, &seen.prompt, &format!("Last-Event-ID: {last}\r\n")).await;
    assert_eq!(format!("{}{rest}", seen.lines), all);
}

/// A retry with the key of an ended prompt is a replay; of an interrupted one, a new prompt.
async fn check_retry(server: &Server, seen: &Seen) {
    let before = replay(server, &seen.prompt, "").await;
    let retry = post(server, "/api/generation/stream", "", &seen.prompt.body).await;
    assert_eq!(retry.status, 200);
    let id = retry.header("x-prompt-id").to_owned();
    let answer = retry.lines().await;
    if before.contains("\"type\":\"done\"") {
        assert_eq!((id, answer), (seen.prompt.id.clone(), before));
        return;
    }
    assert_ne!(id, seen.prompt.id);
    assert_eq!(answer.lines().count() as u64, TOKENS + 1);
    assert_eq!(replay(server, &seen.prompt, "").await, before, "the first is still what it was");
}

pub(crate) fn check_integrity(database: &Path) {
    let database = rusqlite::Connection::open(database).expect("the database is there");
    let found = database.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(found.as_deref(), Ok("ok"));
}

/// Random numbers whose seed is printed; `WELLSPRING_SEED` gives one.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new() -> Self {
        let given = env::var("WELLSPRING_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let seed = given.unwrap_or_else(now);
        println!("WELLSPRING_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
