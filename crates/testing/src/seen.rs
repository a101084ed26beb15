//! What the fake saw, kept for the tests: each request and how it ended.

use std::collections::VecDeque;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

/// A request that the fake saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// What was called, such as `/api/chat`.
    pub path: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The body; null if there was none, or no JSON.
    pub body: Value,
    /// How it ended.
    pub ending: Ending,
    /// Tokens sent so far.
    pub tokens: u64,
}

impl Seen {
    pub(crate) fn new(path: &str, authorization: Option<String>, body: Value) -> Self {
        Self { path: path.to_owned(), authorization, body, ending: Ending::Running, tokens: 0 }
    }

    /// Whether it asked for an answer.
    pub fn is_chat(&self) -> bool {
        matches!(self.path.as_str(), "/v1/chat/completions" | "/api/chat")
    }

    /// Whether it asked for vectors.
    pub fn is_embedding(&self) -> bool {
        matches!(self.path.as_str(), "/v1/embeddings" | "/api/embed")
    }

    /// The texts whose vectors it asked for.
    pub fn texts(&self) -> Vec<&str> {
        match &self.body["input"] {
            Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
            text => text.as_str().into_iter().collect(),
        }
    }

    /// The model that was asked.
    pub fn model(&self) -> Option<&str> {
        self.body["model"].as_str()
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Not yet.
    Running,
    /// Everything was sent.
    Completed,
    /// The client closed the connection before the end.
    Closed,
    /// The fake ended it: by a scripted fault, or because it was stopped.
    Failed,
}

/// So many requests are kept, the newest.
const KEPT: usize = 10_000;

/// How long a test waits for something that should be there at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// The requests seen so far; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<watch::Sender<Kept>>);

#[derive(Default)]
struct Kept {
    requests: VecDeque<Seen>,
    /// The number of the oldest one kept.
    first: u64,
}

impl Kept {
    /// Where the request with this number is, if it is still kept.
    fn position(&self, number: u64) -> Option<usize> {
        let position = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (position < self.requests.len()).then_some(position)
    }
}

impl Requests {
    /// Notes a request.
    pub(crate) fn add(&self, seen: Seen) -> Entry {
        let mut number = 0;
        self.0.send_modify(|kept| {
            if kept.requests.len() == KEPT {
                kept.requests.pop_front();
                kept.first += 1;
            }
            number = kept.first + kept.requests.len() as u64;
            kept.requests.push_back(seen);
        });
        Entry { requests: self.clone(), number, ended: false }
    }

    /// How many requests before this one asked the same of the same model.
    pub(crate) fn like_it_before(&self, entry: &Entry) -> u64 {
        let kept = self.0.borrow();
        let Some(position) = kept.position(entry.number) else { return 0 };
        let this = &kept.requests[position];
        let alike = |seen: &&Seen| seen.path == this.path && seen.model() == this.model();
        kept.requests.range(..position).filter(alike).count() as u64
    }

    /// Looks at what was seen.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&VecDeque<Seen>) -> T) -> T {
        look(&self.0.borrow().requests)
    }

    /// Waits until the requests meet the condition.
    #[track_caller]
    pub(crate) fn wait_until(
        &self,
        condition: impl Fn(&VecDeque<Seen>) -> bool,
    ) -> impl Future<Output = Vec<Seen>> {
        let caller = Location::caller();
        let mut changes = self.0.subscribe();
        async move {
            let met = timeout(PATIENCE, changes.wait_for(|kept| condition(&kept.requests))).await;
            if let Ok(Ok(kept)) = met {
                return kept.requests.iter().cloned().collect();
            }
            let seen = self.look(|requests| requests.iter().rev().take(10).cloned().collect::<Vec<_>>());
            panic!("{caller}: waited {PATIENCE:?} in vain; the newest requests are {seen:#?}");
        }
    }
}

/// One request while it runs. Dropped before its end, the client has closed it.
pub(crate) struct Entry {
    requests: Requests,
    pub(crate) number: u64,
    ended: bool,
}

impl Entry {
    /// So many more tokens were sent.
    pub(crate) fn sent(&self, tokens: u64) {
        self.update(|seen| seen.tokens += tokens);
    }

    /// The request has ended; the first ending counts.
    pub(crate) fn end(&mut self, ending: Ending) {
        if !self.ended {
            self.ended = true;
            self.update(|seen| seen.ending = ending);
        }
    }

    fn update(&self, update: impl FnOnce(&mut Seen)) {
        self.requests.0.send_modify(|kept| {
            if let Some(position) = kept.position(self.number) {
                update(&mut kept.requests[position]);
            }
        });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.end(Ending::Closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str) -> Seen {
        Seen::new(path, None, Value::Null)
    }

    #[test]
    fn a_request_that_is_dropped_was_closed_by_its_client() {
        let requests = Requests::default();
        let mut completed = requests.add(seen("/a"));
        completed.sent(3);
        completed.end(Ending::Completed);
        drop(completed);
        drop(requests.add(seen("/b")));
        let endings = requests.look(|all| all.iter().map(|one| (one.tokens, one.ending)).collect::<Vec<_>>());
        assert_eq!(endings, [(3, Ending::Completed), (0, Ending::Closed)]);
    }

    #[test]
    fn requests_that_ask_the_same_are_counted() {
        let requests = Requests::default();
        let entries = ["/a", "/a", "/b", "/a"].map(|path| requests.add(seen(path)));
        assert_eq!(entries.each_ref().map(|entry| requests.like_it_before(entry)), [0, 1, 0, 2]);
    }

    #[test]
    fn the_newest_requests_are_kept() {
        let requests = Requests::default();
        let mut oldest = requests.add(seen("/oldest"));
        let mut second = requests.add(seen("/second"));
        for _ in 0..KEPT - 1 {
            requests.add(seen("/later")).end(Ending::Completed);
        }
        oldest.end(Ending::Failed);
        second.end(Ending::Completed);
        requests.look(|all| {
            assert_eq!(all.len(), KEPT);
            assert_eq!((all[0].path.as_str(), all[0].ending), ("/second", Ending::Completed));
        });
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "waited 60s in vain")]
    async fn a_wait_in_vain_says_so() {
        Requests::default().wait_until(|all| !all.is_empty()).await;
    }
}
