//! A breaker and a spare provider under 50 requests a second, while the first provider fails, recovers and fails slowly.

mod paused_time;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use domain::{ModelEvent, Provider, Request};
use futures::StreamExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

const PER_SECOND: u32 = 50;

/// A request that was answered.
#[derive(Clone, Debug)]
struct AnsweredRequest {
    at: Instant,
    took: Duration,
    /// The provider that answered.
    by: String,
}

/// A load of [`PER_SECOND`] requests a second, each its own task.
struct Load {
    provider: Arc<dyn Provider>,
    running: JoinSet<AnsweredRequest>,
}

impl Load {
    fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, running: JoinSet::new() }
    }

    /// Sends requests for this time, and calls `check` after each.
    async fn run(&mut self, time: Duration, mut check: impl FnMut()) {
        let mut pace = interval(Duration::from_secs(1) / PER_SECOND);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let end = Instant::now() + time;
        while Instant::now() < end {
            pace.tick().await;
            self.running.spawn(ask(self.provider.clone()));
            check();
        }
    }

    /// Waits for all requests so far; returns them in the order they were sent.
    async fn finish(&mut self) -> Vec<AnsweredRequest> {
        let mut all = Vec::new();
        while let Some(asked) = self.running.join_next().await {
            all.push(asked.unwrap());
        }
        all.sort_by_key(|asked| asked.at);
        all
    }
}

/// Sends a request, and panics unless it is answered.
async fn ask(provider: Arc<dyn Provider>) -> AnsweredRequest {
    let at = Instant::now();
    let request = Request { question: "Why?".to_owned(), max_tokens: 64, ..Request::default() };
    let events: Vec<_> = provider.stream(Arc::new(request)).map(Result::unwrap).collect().await;
    let Some(ModelEvent::Started(model)) = events.first() else { panic!("{events:?}") };
    assert!(matches!(events.last(), Some(ModelEvent::Finish(_))), "{events:?}");
    AnsweredRequest { at, took: at.elapsed(), by: model.provider.to_string() }
}
