//! A provider's answer as it passes by: what of it speaks for the provider, and what against it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use domain::{Failure, FailureKind, ModelEvent, ModelStream};
use futures::stream::{Stream, StreamExt};
use tokio::time::Instant;

use super::Book;
use super::state::{Ticket, Verdict};

/// How long a provider may be silent before whoever reads its answer gives up.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Before the first token.
    pub first_token: Duration,
    /// Afterwards.
    pub stall: Duration,
}

/// Whoever gives up for silence has counted it from a moment before it is noticed here: by at most so much.
const EARLIER: Duration = Duration::from_millis(100);

/// An answer that is judged once: by its end, or by how it was left.
pub(super) struct Judged {
    answer: ModelStream,
    /// None once it is judged.
    ticket: Option<Ticket>,
    book: Arc<Book>,
    patience: Patience,
    /// Somebody can see that it is being answered.
    has_begun: bool,
    /// There is text, or a tool to be called.
    has_answer: bool,
    silent_since: Option<Instant>,
}

impl Judged {
    pub(super) fn new(answer: ModelStream, ticket: Ticket, book: Arc<Book>, patience: Patience) -> Self {
        let silent_since = Some(Instant::now());
        Self {
            answer,
            ticket: Some(ticket),
            book,
            patience,
            has_begun: false,
            has_answer: false,
            silent_since,
        }
    }

    fn hear(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Started(_) | ModelEvent::Waiting | ModelEvent::Usage(_) => {}
            ModelEvent::Text(_) | ModelEvent::ToolCall(_) | ModelEvent::Reasoning(_) => {
                self.has_answer |= !matches!(event, ModelEvent::Reasoning(_));
                if !self.has_begun {
                    self.has_begun = true;
                    self.begins();
                }
            }
            ModelEvent::Finish(_) if self.has_answer => self.judge(Verdict::Succeeded),
            // An empty answer does not count.
            ModelEvent::Finish(_) => self.judge(Verdict::Nothing),
        }
    }

    fn begins(&self) {
        if let Some(ticket) = self.ticket {
            self.book.hear(ticket, Verdict::Answers);
        }
    }

    fn judge(&mut self, verdict: Verdict) {
        if let Some(ticket) = self.ticket.take() {
            self.book.hear(ticket, verdict);
        }
    }

    fn fails(&mut self, failure: &Failure) {
        if let Some(ticket) = self.ticket.take() {
            self.book.hear_failure(ticket, failure);
        }
    }

    /// Whether whoever leaves now does so because nothing came.
    fn silence(&self) -> Option<Failure> {
        let (kind, bound) = match self.has_begun {
            false => (FailureKind::SilentAtStart, self.patience.first_token),
            true => (FailureKind::Stalled, self.patience.stall),
        };
        let is_too_long = self.silent_since?.elapsed() + EARLIER.min(bound / 10) >= bound;
        is_too_long.then(|| Failure::new(kind, format!("sent nothing for {bound:?}")))
    }
}

impl Stream for Judged {
    type Item = Result<ModelEvent, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.answer.poll_next_unpin(context);
        match &polled {
            Poll::Pending => {
                self.silent_since.get_or_insert_with(Instant::now);
                return polled;
            }
            Poll::Ready(Some(Ok(event))) => self.hear(event),
            Poll::Ready(Some(Err(failure))) => self.fails(failure),
            Poll::Ready(None) if self.has_begun => {
                self.fails(&Failure::new(FailureKind::Died, "its answer broke off"));
            }
            Poll::Ready(None) => self.judge(Verdict::Nothing),
        }
        self.silent_since = None;
        polled
    }
}

impl Drop for Judged {
    /// A reader who leaves says nothing about the provider, unless it leaves because of its silence.
    fn drop(&mut self) {
        match self.silence() {
            Some(silence) => self.fails(&silence),
            None => self.judge(Verdict::Nothing),
        }
    }
}
