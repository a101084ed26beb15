//! A breaker and a spare provider under 50 requests a second, while the first provider fails, recovers and fails slowly.

mod paused;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use domain::{ModelEvent, Provider, Request};
use futures::StreamExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

const PER_SECOND: u32 = 50;

/// What became of a request.
#[derive(Clone, Debug)]
struct Asked {
    at: Instant,
    took: Duration,
    /// Who answered it.
    by: String,
}

/// Requests at a steady pace, each as its own task, until time is over.
struct Load {
    provider: Arc<dyn Provider>,
    running: JoinSet<Asked>,
}

impl Load {
    fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, running: JoinSet::new() }
    }

    /// Goes on for so long; tells after each request that it began.
    async fn go_on(&mut self, time: Duration, mut look: impl FnMut()) {
        let mut pace = interval(Duration::from_secs(1) / PER_SECOND);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let end = Instant::now() + time;
        while Instant::now() < end {
            pace.tick().await;
            self.running.spawn(ask(self.provider.clone()));
            look();
        }
    }

    /// All requests so far, in the order they began.
    async fn ends(&mut self) -> Vec<Asked> {
        let mut all = Vec::new();
        while let Some(asked) = self.running.join_next().await {
            all.push(asked.unwrap());
        }
        all.sort_by_key(|asked| asked.at);
        all
    }
}

/// Asks, and insists on an answer.
async fn ask(provider: Arc<dyn Provider>) -> Asked {
    let at = Instant::now();
    let request = Request { question: "Why?".to_owned(), max_tokens: 64, ..Request::default() };
    let events: Vec<_> = provider.stream(Arc::new(request)).map(Result::unwrap).collect().await;
    let Some(ModelEvent::Started(model)) = events.first() else { panic!("{events:?}") };
    assert!(matches!(events.last(), Some(ModelEvent::Finish(_))), "{events:?}");
    Asked { at, took: at.elapsed(), by: model.provider.to_string() }
}
