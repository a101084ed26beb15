//! Records requests and how they ended.

use std::collections::VecDeque;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

/// A request to the fake model server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordedRequest {
    /// The path, such as `/api/chat`.
    pub path: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The JSON body; null if it is missing or not JSON.
    pub body: Value,
    /// How it ended.
    pub ending: RequestEnding,
    /// Tokens sent so far.
    pub tokens: u64,
}

impl RecordedRequest {
    pub(crate) fn new(path: &str, authorization: Option<String>, body: Value) -> Self {
        Self { path: path.to_owned(), authorization, body, ending: RequestEnding::Running, tokens: 0 }
    }

    /// Whether it is a chat request, of either API.
    pub fn is_chat(&self) -> bool {
        matches!(self.path.as_str(), "/v1/chat/completions" | "/api/chat")
    }

    /// Whether it is an embedding request, of either API.
    pub fn is_embedding(&self) -> bool {
        matches!(self.path.as_str(), "/v1/embeddings" | "/api/embed")
    }

    /// The texts of an embedding request.
    pub fn texts(&self) -> Vec<&str> {
        match &self.body["input"] {
            Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
            text => text.as_str().into_iter().collect(),
        }
    }

    /// The requested model.
    pub fn model(&self) -> Option<&str> {
        self.body["model"].as_str()
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEnding {
    /// It has not ended.
    Running,
    /// The answer was sent completely.
    Completed,
    /// The client closed the connection before the end.
    Closed,
    /// The server ended it, by a fault of the script or because it stopped.
    Failed,
}

/// Number of requests kept, the newest.
const MAX_REQUESTS: usize = 10_000;

/// How long [`RequestLog::wait_until`] waits.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The recorded requests, shared by all clones.
#[derive(Clone, Default)]
pub(crate) struct RequestLog(Arc<watch::Sender<Requests>>);

#[derive(Default)]
struct Requests {
    newest: VecDeque<RecordedRequest>,
    /// The number of the oldest kept request.
    first: u64,
}

impl Requests {
    /// The index of the request with this number, if it is still kept.
    fn position(&self, number: u64) -> Option<usize> {
        let position = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (position < self.newest.len()).then_some(position)
    }
}

impl RequestLog {
    pub(crate) fn add(&self, request: RecordedRequest) -> Recording {
        let mut number = 0;
        self.0.send_modify(|requests| {
            if requests.newest.len() == MAX_REQUESTS {
                requests.newest.pop_front();
                requests.first += 1;
            }
            number = requests.first + requests.newest.len() as u64;
            requests.newest.push_back(request);
        });
        Recording { requests: self.clone(), number, ended: false }
    }

    /// Number of earlier requests with the same path and model.
    pub(crate) fn similar_before(&self, recording: &Recording) -> u64 {
        let requests = self.0.borrow();
        let Some(position) = requests.position(recording.number) else { return 0 };
        let this = &requests.newest[position];
        let is_similar =
            |request: &&RecordedRequest| request.path == this.path && request.model() == this.model();
        requests.newest.range(..position).filter(is_similar).count() as u64
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&VecDeque<RecordedRequest>) -> T) -> T {
        read(&self.0.borrow().newest)
    }

    /// Waits until the requests meet the condition; panics after [`TIMEOUT`].
    #[track_caller]
    pub(crate) fn wait_until(
        &self,
        condition: impl Fn(&VecDeque<RecordedRequest>) -> bool,
    ) -> impl Future<Output = Vec<RecordedRequest>> {
        let caller = Location::caller();
        let mut changes = self.0.subscribe();
        async move {
            let met = timeout(TIMEOUT, changes.wait_for(|requests| condition(&requests.newest))).await;
            if let Ok(Ok(requests)) = met {
                return requests.newest.iter().cloned().collect();
            }
            let newest = self.read(|requests| requests.iter().rev().take(10).cloned().collect::<Vec<_>>());
            panic!("{caller}: waited {TIMEOUT:?} without success; the newest requests are {newest:#?}");
        }
    }
}

/// A running request. If it is dropped before its end, the client has closed the connection.
pub(crate) struct Recording {
    requests: RequestLog,
    pub(crate) number: u64,
    ended: bool,
}

impl Recording {
    /// Adds to the number of tokens sent.
    pub(crate) fn sent(&self, tokens: u64) {
        self.update(|request| request.tokens += tokens);
    }

    /// Sets how the request ended. Only the first call counts.
    pub(crate) fn end(&mut self, ending: RequestEnding) {
        if !self.ended {
            self.ended = true;
            self.update(|request| request.ending = ending);
        }
    }

    fn update(&self, update: impl FnOnce(&mut RecordedRequest)) {
        self.requests.0.send_modify(|requests| {
            if let Some(position) = requests.position(self.number) {
                update(&mut requests.newest[position]);
            }
        });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(RequestEnding::Closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str) -> RecordedRequest {
        RecordedRequest::new(path, None, Value::Null)
    }

    #[test]
    fn a_request_dropped_before_its_end_was_closed_by_the_client() {
        let requests = RequestLog::default();
        let mut completed = requests.add(seen("/a"));
        completed.sent(3);
        completed.end(RequestEnding::Completed);
        drop(completed);
        drop(requests.add(seen("/b")));
        let endings = requests.read(|all| all.iter().map(|one| (one.tokens, one.ending)).collect::<Vec<_>>());
        assert_eq!(endings, [(3, RequestEnding::Completed), (0, RequestEnding::Closed)]);
    }

    #[test]
    fn similar_requests_are_counted() {
        let requests = RequestLog::default();
        let entries = ["/a", "/a", "/b", "/a"].map(|path| requests.add(seen(path)));
        assert_eq!(entries.each_ref().map(|recording| requests.similar_before(recording)), [0, 1, 0, 2]);
    }

    #[test]
    fn the_newest_requests_are_kept() {
        let requests = RequestLog::default();
        let mut oldest = requests.add(seen("/oldest"));
        let mut second = requests.add(seen("/second"));
        for _ in 0..MAX_REQUESTS - 1 {
            requests.add(seen("/later")).end(RequestEnding::Completed);
        }
        oldest.end(RequestEnding::Failed);
        second.end(RequestEnding::Completed);
        requests.read(|all| {
            assert_eq!(all.len(), MAX_REQUESTS);
            assert_eq!((all[0].path.as_str(), all[0].ending), ("/second", RequestEnding::Completed));
        });
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "waited 60s without success")]
    async fn a_wait_that_times_out_panics() {
        RequestLog::default().wait_until(|all| !all.is_empty()).await;
    }
}
