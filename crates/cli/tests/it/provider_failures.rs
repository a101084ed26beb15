//! The server under 50 requests a second while its first provider fails, recovers, is gone and fails slowly: a fallback
//! answers, no client sees a failure or waits long, and the metrics agree. A tenth of the time by default, all of it with
//! `WELLSPRING_SOAK`.

use std::env;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use testing::{FakeModel, HangingServer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::binary::{Home, Server, soon};
use crate::client::post;
use crate::metrics::samples;

const PER_SECOND: u32 = 50;
const CONNECT: Duration = Duration::from_millis(500);
const OPEN: Duration = Duration::from_secs(1);

/// What a busy machine may add to it.
const BUSY: Duration = Duration::from_secs(2);

/// How long a provider stays as it is.
fn a_while() -> Duration {
    if env::var_os("WELLSPRING_SOAK").is_some() {
        Duration::from_secs(15)
    } else {
        Duration::from_millis(1_500)
    }
}

/// An answer, as its client saw it.
struct Asked {
    by: String,
    took: Duration,
}

struct World {
    server: Arc<Server>,
    running: JoinSet<Asked>,
    answers: Vec<Asked>,
}

impl World {
    async fn new(first: &FakeModel, model: &str, spare: &FakeModel) -> Self {
        let home = Home::new();
        home.write(
            "mine.toml",
            &format!(
                "[generation]\nproviders = ['first', 'spare']\n\
                 [providers.first]\nkind = 'openai'\nbase_url = '{}/v1'\nmodel = '{model}'\nconnect_seconds = {}\n\
                 [providers.spare]\nkind = 'ollama'\nbase_url = '{}'\nmodel = 'fake,tokens=4'\n\
                 [breaker]\nopen_seconds = {}\n[limits]\nconcurrent_streams = 1000\n",
                first.url(),
                CONNECT.as_secs_f64(),
                spare.url(),
                OPEN.as_secs(),
            ),
        );
        let server = Arc::new(home.serve(&["--config", "mine.toml"], &[]).await);
        Self { server, running: JoinSet::new(), answers: Vec::new() }
    }

    /// Asks at a steady pace for so long, and returns when all of that is answered.
    async fn go_on(&mut self, time: Duration) -> &[Asked] {
        let mut pace = interval(Duration::from_secs(1) / PER_SECOND);
        // A machine that was busy for a moment is not asked for all of it at once.
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (end, before) = (Instant::now() + time, self.answers.len());
        while Instant::now() < end {
            pace.tick().await;
            self.running.spawn(ask(self.server.clone()));
        }
        while let Some(asked) = self.running.join_next().await {
            self.answers.push(asked.expect("every client gets an answer"));
        }
        let longest = self.answers[before..].iter().map(|asked| asked.took).max();
        assert!(longest < Some(CONNECT + BUSY), "a client waited {longest:?}");
        &self.answers[before..]
    }

    async fn breaker_is_open(&self) -> bool {
        samples(&self.server).await["wellspring_breaker_open{provider=\"first\"}"] == 1.0
    }

    /// Goes on until the first provider is asked again; its breaker must close within this time.
    async fn recovers(&mut self, within: Duration) {
        let since = Instant::now();
        while self.breaker_is_open().await {
            self.go_on(Duration::from_millis(100)).await;
            assert!(since.elapsed() < within + BUSY, "its breaker is still open after {:?}", since.elapsed());
        }
        println!("it was asked again after {:?}", since.elapsed());
        let answers = self.go_on(a_while()).await;
        assert!(answers.iter().all(|asked| asked.by == "first"));
    }

    /// What is measured is what clients saw.
    async fn check_measured(&self) {
        let measured = samples(&self.server).await;
        for (provider, model) in [("first", None), ("spare", Some("fake,tokens=4"))] {
            let begins = format!("gen_ai_server_request_duration_seconds_count{{provider=\"{provider}\"");
            let counted: f64 = measured
                .iter()
                .filter(|(name, _)| {
                    name.starts_with(&begins) && model.is_none_or(|model| name.contains(model))
                })
                .map(|(_, count)| count)
                .sum();
            let seen = self.answers.iter().filter(|asked| asked.by == provider).count();
            assert_eq!(counted, seen as f64, "{provider}");
        }
        assert_eq!(measured["wellspring_prompts_total{outcome=\"done\"}"], self.answers.len() as f64);
        assert_eq!(measured["wellspring_errors_total{code=\"provider_unavailable\"}"], 0.0);
    }
}

/// Asks, and insists on an answer.
async fn ask(server: Arc<Server>) -> Asked {
    let session = post(&server, "/api/generation/session", "", &json!({})).await.json().await;
    let body = json!({"sessionId": session["sessionId"], "prompt": "why?"});
    let asked_at = Instant::now();
    let (_, done) = post(&server, "/api/generation/stream", "", &body).await.answer().await;
    assert_eq!(done["type"], "done", "{done}");
    let by = done["metadata"]["provider"].as_str().expect("it is a name").to_owned();
    Asked { by, took: asked_at.elapsed() }
}

/// How often a model server was asked for an answer.
fn calls(server: &FakeModel) -> usize {
    server.chats().len()
}

#[tokio::test]
async fn the_breaker_opens_after_ten_failures_at_most_and_closes_on_recovery() {
    let (first, spare) = (FakeModel::start().await, FakeModel::start().await);
    // Five failures in a row open the breaker, two probes fail, the third is answered.
    let mut world = World::new(&first, "fake,tokens=4,status=500,times=7", &spare).await;
    // One after another, so that every failure is known before the next request.
    while !world.breaker_is_open().await {
        let asked = ask(world.server.clone()).await;
        assert_eq!(asked.by, "spare");
        world.answers.push(asked);
        assert!(calls(&first) <= 10, "it failed ten times and is not left alone");
    }
    assert_eq!(calls(&first), 5);
    soon("its last failure", async {
        while calls(&first) < 7 {
            world.go_on(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert_eq!(calls(&first), 7, "one probe at a time");
    world.recovers(OPEN).await;
    world.check_measured().await;
}

#[tokio::test]
async fn an_unreachable_provider_delays_clients_by_a_connect_timeout_at_most() {
    let (first, spare) = (FakeModel::start().await, FakeModel::start().await);
    let address: SocketAddr = first.url().strip_prefix("http://").unwrap().parse().unwrap();
    let start = async || FakeModel::serve(TcpListener::bind(address).await.unwrap(), Vec::new()).unwrap();
    let mut world = World::new(&first, "fake,tokens=4", &spare).await;
    assert!(world.go_on(a_while()).await.iter().all(|asked| asked.by == "first"));

    first.stop().await;
    assert!(world.go_on(a_while()).await.iter().all(|asked| asked.by == "spare"));
    assert!(world.breaker_is_open().await);
    let first = start().await;
    world.recovers(OPEN).await;

    first.stop().await;
    let hole = HangingServer::open(address).await.unwrap();
    assert!(world.go_on(a_while()).await.iter().all(|asked| asked.by == "spare"));
    assert!(world.breaker_is_open().await);
    drop(hole);
    let _first = start().await;
    world.recovers(CONNECT + OPEN).await;
    world.check_measured().await;
}

#[tokio::test]
async fn the_breaker_opens_on_slow_failures_too() {
    const SLOWLY: Duration = Duration::from_millis(300);
    let (first, spare) = (FakeModel::start().await, FakeModel::start().await);
    let mut world = World::new(&first, "fake,tokens=4,silence=300ms,status=503,times=1000", &spare).await;
    let answers = world.go_on(OPEN / 2).await;
    assert!(answers.iter().all(|asked| asked.by == "spare"));
    assert!(world.breaker_is_open().await);
    // Those that were on their way before the first failures were known.
    let before = calls(&first);
    let began = Instant::now();
    let late = world.go_on(a_while()).await;
    let probes = calls(&first) - before;
    assert!(
        probes as f64 <= 1.0 + began.elapsed().div_duration_f64(OPEN),
        "{probes} probes in {:?}",
        began.elapsed()
    );
    let waited = late.iter().filter(|asked| asked.took > SLOWLY).count();
    assert!(
        waited * 10 < late.len(),
        "{waited} of {} waited for it although it is known to fail",
        late.len()
    );
    world.check_measured().await;
}
