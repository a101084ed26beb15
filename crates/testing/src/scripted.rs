//! A provider that a test drives by hand, event by event, without sockets: good on paused time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, FinishReason, ModelEvent, ModelId, ModelStream, Provider, Request, Text};
use futures::Stream;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// So many calls may wait for the test to take them.
const WAITING_CALLS: usize = 1_024;

/// So many events may wait for the engine to read them.
const WAITING_EVENTS: usize = 1 << 16;

/// Tokens that fit into a scripted model; each byte is one.
const WINDOW: usize = 8_192;

/// On paused time this passes at once if nothing else happens.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// A provider whose answers are given by the test.
pub struct ScriptedProvider {
    model: ModelId,
    calls: mpsc::Sender<ScriptedCall>,
}

impl ScriptedProvider {
    /// A provider with this name and model, and the calls that will be made to it.
    pub fn new(provider: &str, model: &str) -> (Self, ScriptedCalls) {
        let (sender, receiver) = mpsc::channel(WAITING_CALLS);
        let model = ModelId { provider: provider.into(), model: model.into() };
        (Self { model, calls: sender }, ScriptedCalls { receiver })
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn model(&self) -> ModelId {
        self.model.clone()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let started = Act::Send(Ok(ModelEvent::Started(self.model.clone())));
        sender.try_send(started).expect("the channel is empty");
        let call = ScriptedCall { request, sender };
        self.calls.try_send(call).expect("the test keeps the calls, and takes them");
        Box::pin(ScriptedStream { receiver, ended: false })
    }

    fn room(&self, request: &Request) -> Option<usize> {
        request.room(WINDOW, str::len)
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len()
    }

    async fn health(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The calls made to a [`ScriptedProvider`], in order.
pub struct ScriptedCalls {
    receiver: mpsc::Receiver<ScriptedCall>,
}

impl ScriptedCalls {
    /// Waits for the next call.
    ///
    /// # Panics
    /// If none comes within a day (on paused time: before everything stands still), or if the provider
    /// is gone.
    pub async fn next(&mut self) -> ScriptedCall {
        let call = timeout(PATIENCE, self.receiver.recv()).await;
        call.expect("the provider is asked before the test stands still").expect("the provider lives")
    }

    /// The next call, if it was made already.
    pub fn try_next(&mut self) -> Option<ScriptedCall> {
        self.receiver.try_recv().ok()
    }
}

/// One call of the provider. `Started` is sent by itself. A call that the test lets go is silent from
/// then on.
pub struct ScriptedCall {
    request: Arc<Request>,
    sender: mpsc::Sender<Act>,
}

impl ScriptedCall {
    /// What the provider was asked.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Sends an event. If the stream was dropped, nobody sees it.
    ///
    /// # Panics
    /// If very many events wait to be read.
    pub fn send(&self, event: ModelEvent) {
        self.act(Act::Send(Ok(event)));
    }

    /// Sends a token of text.
    pub fn text(&self, token: &str) {
        self.send(ModelEvent::Text(Text::from(token)));
    }

    /// Ends the answer properly.
    pub fn finish(self) {
        self.send(ModelEvent::Finish(FinishReason::Stop));
    }

    /// Ends the answer with a failure.
    pub fn fail(self, failure: Failure) {
        self.act(Act::Send(Err(failure)));
    }

    /// The stream panics when it comes to this.
    pub fn panic(self) {
        self.act(Act::Panic);
    }

    /// Whether the stream was dropped.
    pub fn is_aborted(&self) -> bool {
        self.sender.is_closed()
    }

    /// Waits until the stream is dropped.
    ///
    /// # Panics
    /// If it isn't within a day.
    pub async fn aborted(&self) {
        timeout(PATIENCE, self.sender.closed())
            .await
            .expect("the stream is dropped before the test stands still");
    }

    fn act(&self, act: Act) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(act) {
            panic!("{WAITING_EVENTS} events wait to be read");
        }
    }
}

/// What a stream does next.
enum Act {
    Send(Result<ModelEvent, Failure>),
    Panic,
}

struct ScriptedStream {
    receiver: mpsc::Receiver<Act>,
    ended: bool,
}

impl Stream for ScriptedStream {
    type Item = Result<ModelEvent, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match ready!(self.receiver.poll_recv(cx)) {
            Some(Act::Send(item)) => {
                self.ended = matches!(item, Ok(ModelEvent::Finish(_)) | Err(_));
                Poll::Ready(Some(item))
            }
            Some(Act::Panic) => panic!("the provider panics because the test says so"),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::FailureKind;
    use futures::{FutureExt, StreamExt};

    use super::*;

    fn ask(provider: &ScriptedProvider, question: &str) -> ModelStream {
        provider.stream(Arc::new(Request { question: question.to_owned(), ..Request::default() }))
    }

    fn started() -> Result<ModelEvent, Failure> {
        Ok(ModelEvent::Started(ModelId { provider: "local".into(), model: "fake".into() }))
    }

    #[tokio::test(start_paused = true)]
    async fn the_test_says_what_is_answered() {
        let (provider, mut calls) = ScriptedProvider::new("local", "fake");
        assert!(calls.try_next().is_none());
        let answer = ask(&provider, "why?");
        let call = calls.next().await;
        assert_eq!(call.request().question, "why?");
        call.text("be");
        call.text("cause");
        call.finish();
        let text = |token: &str| Ok(ModelEvent::Text(token.into()));
        let finish = Ok(ModelEvent::Finish(FinishReason::Stop));
        assert_eq!(answer.collect::<Vec<_>>().await, [started(), text("be"), text("cause"), finish]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_the_last_item() {
        let (provider, mut calls) = ScriptedProvider::new("local", "fake");
        let answer = ask(&provider, "why?");
        let failure = Failure::new(FailureKind::Died, "gone");
        calls.next().await.fail(failure.clone());
        assert_eq!(answer.collect::<Vec<_>>().await, [started(), Err(failure)]);
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_stream_aborts_the_call() {
        let (provider, mut calls) = ScriptedProvider::new("local", "fake");
        let answer = ask(&provider, "why?");
        let call = calls.next().await;
        assert!(!call.is_aborted());
        drop(answer);
        call.aborted().await;
        assert!(call.is_aborted());
        call.text("nobody hears this");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_the_test_lets_go_is_silent() {
        let (provider, mut calls) = ScriptedProvider::new("local", "fake");
        let mut answer = ask(&provider, "why?");
        drop(calls.next().await);
        assert_eq!(answer.next().await, Some(started()));
        assert_eq!(answer.next().now_or_never(), None);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the provider panics because the test says so")]
    async fn a_stream_panics_when_told() {
        let (provider, mut calls) = ScriptedProvider::new("local", "fake");
        let answer = ask(&provider, "why?");
        calls.next().await.panic();
        answer.collect::<Vec<_>>().await;
    }
}
