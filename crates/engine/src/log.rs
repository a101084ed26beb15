//! The log of a prompt as readers see it: batches that are durable, and a wake-up for whoever waits for
//! more. A reader holds a position and nothing else, so a slow one holds nothing up.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use domain::{Batch, EndCause, Step};

/// A log that grows until its terminal event.
#[derive(Default)]
pub(crate) struct Log {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    batches: Vec<Batch>,
    /// Tokens of the answer so far.
    tokens: u64,
    /// The terminal event, once it is visible.
    ended: Option<EndCause>,
    /// Those who wait for the next batch.
    waiting: BTreeMap<u64, Waker>,
    cursors: u64,
}

impl Log {
    /// A log that has ended.
    pub(crate) fn ended_with(batches: Vec<Batch>) -> Self {
        let log = Self::default();
        batches.into_iter().for_each(|batch| log.publish(batch));
        log
    }

    /// Makes a durable batch visible.
    pub(crate) fn publish(&self, batch: Batch) {
        let waiting = {
            let mut state = self.state();
            debug_assert!(state.ended.is_none(), "nothing follows the terminal event");
            state.tokens += batch.iter().filter(|event| matches!(event.step, Step::Text(_))).count() as u64;
            if let Some(Step::Ended(ended)) = batch.last().map(|event| &event.step) {
                state.ended = Some(ended.cause);
            }
            state.batches.push(batch);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }

    /// Waits until the terminal event is visible; tells what ended the prompt.
    pub(crate) async fn ended(self: &Arc<Self>) -> EndCause {
        let mut cursor = self.cursor();
        poll_fn(|cx| cursor.poll_ended(cx)).await
    }

    /// All of it, if the terminal event is visible.
    pub(crate) fn ended_batches(&self) -> Option<Vec<Batch>> {
        let state = self.state();
        state.ended.is_some().then(|| state.batches.clone())
    }

    /// Tokens of the answer so far.
    pub(crate) fn token_count(&self) -> u64 {
        self.state().tokens
    }

    /// A position before the first event.
    pub(crate) fn cursor(self: &Arc<Self>) -> Cursor {
        let mut state = self.state();
        state.cursors += 1;
        Cursor { log: self.clone(), id: state.cursors, next: 0 }
    }

    /// Every change of the state is whole before anything can panic, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A position in a log.
pub(crate) struct Cursor {
    log: Arc<Log>,
    id: u64,
    next: usize,
}

impl Cursor {
    /// The next batch; none after the terminal one.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Batch>> {
        let mut state = self.log.state();
        if let Some(batch) = state.batches.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(batch.clone()));
        }
        if state.ended.is_some() {
            return Poll::Ready(None);
        }
        state.waiting.insert(self.id, cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<EndCause> {
        let mut state = self.log.state();
        if let Some(cause) = state.ended {
            return Poll::Ready(cause);
        }
        state.waiting.insert(self.id, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.log.state().waiting.remove(&self.id);
    }
}
