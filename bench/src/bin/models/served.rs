//! The real server with a model in it, asked over HTTP.

use std::cell::Cell;
use std::time::{Duration, Instant};

use bench::client::{self, Response};
use bench::process::Process;
use tempfile::TempDir;
use tokio::time::sleep;

use super::figures::milliseconds;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A server, until dropped.
pub(crate) struct Served {
    _data: Option<TempDir>,
    server: Process,
    questions: Cell<usize>,
}

/// The figures of one answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Milliseconds from the request to the first token.
    pub(crate) first_token: f64,
    /// Tokens of the answer per second, after the first.
    pub(crate) per_second: f64,
    /// Tokens of the prompt, of these cached, and of the answer.
    pub(crate) input: usize,
    pub(crate) cached: usize,
    pub(crate) output: usize,
}

impl Served {
    /// Starts a server with this model and waits until it answers.
    pub(crate) async fn start(model: &str, most_tokens: usize) -> Self {
        let data = TempDir::new().expect("a folder for its data");
        let settings = [
            ("WELLSPRING__DATA_DIR", data.path().to_str().expect("a plain path")),
            ("WELLSPRING__PROVIDERS__LOCAL__KIND", "embedded"),
            ("WELLSPRING__PROVIDERS__LOCAL__MODEL", model),
            ("WELLSPRING__GENERATION__MAX_TOKENS", &most_tokens.to_string()),
            ("WELLSPRING__GENERATION__WHEN_NOTHING_FOUND", "answer"),
            ("RUST_LOG", "warn"),
        ];
        let settings = settings.map(|(name, value)| (name, value.to_owned()));
        Self { _data: Some(data), ..Self::over(&settings).await }
    }

    /// Starts a server with these settings and waits until it answers.
    pub(crate) async fn over(settings: &[(&str, String)]) -> Self {
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let server = Process::start("wellspring", &["serve", "--bind", "127.0.0.1:0"], &settings).await;
        let served = Self { _data: None, server, questions: Cell::new(0) };
        served.ask(8).await;
        served
    }

    /// Asks a question that makes the prompt's uncached part about this many tokens long.
    pub(crate) async fn ask(&self, unread: usize) -> Asked {
        // No two questions begin alike, so that they share the system prefix alone.
        let number = self.questions.replace(self.questions.get() + 1);
        let words = unread.saturating_sub(12).max(4);
        let words: Vec<&str> = (0..words).map(|word| WORDS[(word * 7 + number) % WORDS.len()]).collect();
        self.answer(&format!("{number} {}", words.join(" "))).await
    }

    /// Asks for the longest answer.
    pub(crate) async fn ask_for_long(&self) -> Asked {
        let number = self.questions.replace(self.questions.get() + 1);
        self.answer(&format!("{number}. Write a long story about a river and a town, with many details."))
            .await
    }

    /// Asks a question, in a session of its own.
    pub(crate) async fn answer(&self, question: &str) -> Asked {
        let address = &self.server.address;
        let session = client::session(address).await;
        let started = Instant::now();
        let mut response = client::ask_about(address, &session, "application/x-ndjson", question).await;
        let begun = response.until(r#""type":"token""#).await;
        let (first_token, first) = (milliseconds(started), Instant::now());
        let prompt =
            begun.split_once(r#""promptId":""#).expect("a delta names its prompt").1[..36].to_owned();
        response.whole().await;
        let seconds = first.elapsed().as_secs_f64();
        let usage = self.usage(&prompt).await;
        let (input, cached, output) =
            (count(&usage, "input"), count(&usage, "cached"), count(&usage, "output"));
        let per_second = output.saturating_sub(1) as f64 / seconds;
        Asked { first_token, per_second, input, cached, output }
    }

    /// Waits until the model has done its postponed prefill.
    pub(crate) async fn at_rest(&self) {
        loop {
            let ready =
                Response::to(&self.server.address, "GET", "/health/ready", "*/*", "").await.whole().await;
            if !ready.contains(r#""unread""#) || count(&ready, "unread") == 0 {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The token counts in the events of a prompt.
    async fn usage(&self, prompt: &str) -> String {
        let path = format!("/api/prompts/{prompt}/events");
        let events = Response::to(&self.server.address, "GET", &path, "*/*", "").await.whole().await;
        let (_, usage) = events.split_once(r#""usage""#).expect("the model counts");
        usage.split_once('}').expect("an event ends").0.to_owned()
    }
}

fn count(usage: &str, name: &str) -> usize {
    let (_, number) = usage.split_once(&format!("\"{name}\":")).expect("it is counted");
    let digits = number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().expect("a number")
}

/// Words that are one token each in most vocabularies.
const WORDS: [&str; 24] = [
    "water", "house", "time", "people", "world", "school", "night", "city", "book", "table", "light",
    "music", "river", "green", "small", "number", "paper", "letter", "family", "market", "window", "garden",
    "summer", "road",
];
