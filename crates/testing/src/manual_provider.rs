//! A provider whose events a test sends one by one, without sockets, so that it works on paused time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, FinishReason, ModelEvent, ModelId, ModelStream, Provider, Request, Text};
use futures::Stream;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Calls that may wait for [`ManualCalls::next`].
const MAX_PENDING_CALLS: usize = 1_024;

/// Events of a call that may wait to be read.
const MAX_PENDING_EVENTS: usize = 1 << 16;

/// The context window in tokens, where each byte is a token.
const WINDOW: usize = 8_192;

/// Elapses at once on paused time, if no task can make progress.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// A provider whose answers are sent by the test, call by call.
pub struct ManualProvider {
    model: ModelId,
    calls: mpsc::Sender<ManualCall>,
}

impl ManualProvider {
    /// A provider with this name and model, and the queue of its calls.
    pub fn new(provider: &str, model: &str) -> (Self, ManualCalls) {
        let (sender, receiver) = mpsc::channel(MAX_PENDING_CALLS);
        let model = ModelId { provider: provider.into(), model: model.into() };
        (Self { model, calls: sender }, ManualCalls { receiver })
    }
}

#[async_trait]
impl Provider for ManualProvider {
    fn model(&self) -> ModelId {
        self.model.clone()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let (sender, receiver) = mpsc::channel(MAX_PENDING_EVENTS);
        let started = Step::Send(Ok(ModelEvent::Started(self.model.clone())));
        sender.try_send(started).expect("the channel is empty");
        let call = ManualCall { request, sender };
        self.calls.try_send(call).expect("the test holds the calls and takes them");
        Box::pin(ManualStream { receiver, ended: false })
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

/// The calls made to a [`ManualProvider`], in order.
pub struct ManualCalls {
    receiver: mpsc::Receiver<ManualCall>,
}

impl ManualCalls {
    /// Waits for the next call.
    ///
    /// # Panics
    /// If there is no call within a day, which on paused time means as soon as no task can make progress, or
    /// if the provider is dropped.
    pub async fn next(&mut self) -> ManualCall {
        let call = timeout(TIMEOUT, self.receiver.recv()).await;
        call.expect("the provider is called before the timeout").expect("the provider is alive")
    }

    /// The next call, if there is one already.
    pub fn try_next(&mut self) -> Option<ManualCall> {
        self.receiver.try_recv().ok()
    }
}

/// One call of a [`ManualProvider`]. `Started` is sent automatically. Dropping it leaves the stream silent
/// and open.
pub struct ManualCall {
    request: Arc<Request>,
    sender: mpsc::Sender<Step>,
}

impl ManualCall {
    /// The request of the call.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Sends an event. It is discarded if the stream was dropped.
    ///
    /// # Panics
    /// If 65,536 events wait to be read.
    pub fn send(&self, event: ModelEvent) {
        self.push(Step::Send(Ok(event)));
    }

    /// Sends a token of text.
    pub fn text(&self, token: &str) {
        self.send(ModelEvent::Text(Text::from(token)));
    }

    /// Ends the answer with `Stop`.
    pub fn finish(self) {
        self.send(ModelEvent::Finish(FinishReason::Stop));
    }

    /// Ends the answer with a failure.
    pub fn fail(self, failure: Failure) {
        self.push(Step::Send(Err(failure)));
    }

    /// Makes the stream panic after the events sent so far.
    pub fn panic(self) {
        self.push(Step::Panic);
    }

    /// Whether the stream was dropped.
    pub fn is_aborted(&self) -> bool {
        self.sender.is_closed()
    }

    /// Waits until the stream is dropped.
    ///
    /// # Panics
    /// If it is not dropped within a day.
    pub async fn aborted(&self) {
        timeout(TIMEOUT, self.sender.closed()).await.expect("the stream is dropped before the timeout");
    }

    fn push(&self, step: Step) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(step) {
            panic!("{MAX_PENDING_EVENTS} events wait to be read");
        }
    }
}

/// What a stream does next.
enum Step {
    Send(Result<ModelEvent, Failure>),
    Panic,
}

struct ManualStream {
    receiver: mpsc::Receiver<Step>,
    ended: bool,
}

impl Stream for ManualStream {
    type Item = Result<ModelEvent, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match ready!(self.receiver.poll_recv(cx)) {
            Some(Step::Send(item)) => {
                self.ended = matches!(item, Ok(ModelEvent::Finish(_)) | Err(_));
                Poll::Ready(Some(item))
            }
            Some(Step::Panic) => panic!("the provider panics because the test says so"),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::FailureKind;
    use futures::{FutureExt, StreamExt};

    use super::*;

    fn ask(provider: &ManualProvider, question: &str) -> ModelStream {
        provider.stream(Arc::new(Request { question: question.to_owned(), ..Request::default() }))
    }

    fn started() -> Result<ModelEvent, Failure> {
        Ok(ModelEvent::Started(ModelId { provider: "local".into(), model: "fake".into() }))
    }

    #[tokio::test(start_paused = true)]
    async fn the_test_sends_the_answer() {
        let (provider, mut calls) = ManualProvider::new("local", "fake");
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
        let (provider, mut calls) = ManualProvider::new("local", "fake");
        let answer = ask(&provider, "why?");
        let failure = Failure::new(FailureKind::Died, "gone");
        calls.next().await.fail(failure.clone());
        assert_eq!(answer.collect::<Vec<_>>().await, [started(), Err(failure)]);
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_stream_aborts_the_call() {
        let (provider, mut calls) = ManualProvider::new("local", "fake");
        let answer = ask(&provider, "why?");
        let call = calls.next().await;
        assert!(!call.is_aborted());
        drop(answer);
        call.aborted().await;
        assert!(call.is_aborted());
        call.text("this is discarded");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_is_silent() {
        let (provider, mut calls) = ManualProvider::new("local", "fake");
        let mut answer = ask(&provider, "why?");
        drop(calls.next().await);
        assert_eq!(answer.next().await, Some(started()));
        assert_eq!(answer.next().now_or_never(), None);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the provider panics because the test says so")]
    async fn a_stream_panics_when_the_test_says_so() {
        let (provider, mut calls) = ManualProvider::new("local", "fake");
        let answer = ask(&provider, "why?");
        calls.next().await.panic();
        answer.collect::<Vec<_>>().await;
    }
}
