//! The log of a prompt in memory: durable batches that readers may see, and the wakers of readers that wait
//! for more. A reader holds only a position, so a slow reader delays neither the writer nor other readers.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use domain::{Batch, EndCause, Step};

/// The visible log of a prompt. It grows until its terminal event.
#[derive(Default)]
pub(crate) struct PromptLog {
    visible: Mutex<VisibleLog>,
}

#[derive(Default)]
struct VisibleLog {
    batches: Vec<Batch>,
    /// Tokens of the answer's text so far.
    tokens: u64,
    /// What ended the prompt, once the terminal event is visible.
    ended: Option<EndCause>,
    /// Readers that wait for the next batch, by cursor id.
    wakers: BTreeMap<u64, Waker>,
    /// Cursors created so far; the source of their ids.
    cursors: u64,
}

impl PromptLog {
    /// The complete log of an ended prompt.
    pub(crate) fn complete(batches: Vec<Batch>) -> Self {
        let log = Self::default();
        batches.into_iter().for_each(|batch| log.publish(batch));
        log
    }

    /// Makes a batch visible and wakes the waiting readers. The batch must be durable.
    pub(crate) fn publish(&self, batch: Batch) {
        let wakers = {
            let mut visible = self.visible();
            debug_assert!(visible.ended.is_none(), "nothing follows the terminal event");
            visible.tokens += batch.iter().filter(|event| matches!(event.step, Step::Text(_))).count() as u64;
            if let Some(Step::Ended(ended)) = batch.last().map(|event| &event.step) {
                visible.ended = Some(ended.cause);
            }
            visible.batches.push(batch);
            std::mem::take(&mut visible.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    /// Waits until the terminal event is visible, and returns what ended the prompt.
    pub(crate) async fn wait_for_end(self: &Arc<Self>) -> EndCause {
        let mut cursor = self.cursor();
        poll_fn(|cx| cursor.poll_end(cx)).await
    }

    /// All batches, if the terminal event is among them.
    pub(crate) fn complete_batches(&self) -> Option<Vec<Batch>> {
        let visible = self.visible();
        visible.ended.is_some().then(|| visible.batches.clone())
    }

    /// Tokens of the answer's text so far.
    pub(crate) fn token_count(&self) -> u64 {
        self.visible().tokens
    }

    /// A cursor before the first batch.
    pub(crate) fn cursor(self: &Arc<Self>) -> LogCursor {
        let mut visible = self.visible();
        visible.cursors += 1;
        LogCursor { log: self.clone(), id: visible.cursors, next: 0 }
    }

    /// Every change under the lock is complete before anything can panic, so a poisoned lock is still sound.
    fn visible(&self) -> MutexGuard<'_, VisibleLog> {
        self.visible.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's position in a log.
pub(crate) struct LogCursor {
    log: Arc<PromptLog>,
    id: u64,
    next: usize,
}

impl LogCursor {
    /// The next batch; none after the terminal one.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Batch>> {
        let mut visible = self.log.visible();
        if let Some(batch) = visible.batches.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(batch.clone()));
        }
        if visible.ended.is_some() {
            return Poll::Ready(None);
        }
        visible.wakers.insert(self.id, cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn log(&self) -> &PromptLog {
        &self.log
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<EndCause> {
        let mut visible = self.log.visible();
        if let Some(cause) = visible.ended {
            return Poll::Ready(cause);
        }
        visible.wakers.insert(self.id, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for LogCursor {
    fn drop(&mut self) {
        self.log.visible().wakers.remove(&self.id);
    }
}
