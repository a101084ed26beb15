//! The queue of the threads. A query runs as soon as a query thread is free. Bulk batches start between
//! queries, but queries delay each by no longer than `MAX_BULK_DELAY`, so that neither starves.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Failure;

use super::job::Job;
use super::{EmbedCall, overloaded};

/// Longest time for which running queries delay the next batch of a bulk thread.
const MAX_BULK_DELAY: Duration = Duration::from_millis(100);

/// The queue that all threads share.
pub(super) struct Queue {
    state: Mutex<QueueState>,
    query_added: Condvar,
    bulk_added: Condvar,
    query_ended: Condvar,
    max_queries: usize,
}

#[derive(Default)]
struct QueueState {
    queries: VecDeque<EmbedCall>,
    running_queries: usize,
    /// Bulk calls that are not tokenized yet.
    bulk_calls: VecDeque<EmbedCall>,
    /// Bulk jobs in progress, each with its next batch.
    jobs: VecDeque<(Arc<Job>, usize)>,
    closed: bool,
}

/// A task of a bulk thread.
pub(super) enum BulkTask {
    /// Tokenize a call.
    Tokenize(EmbedCall),
    /// Run one batch of a job.
    Batch(Arc<Job>, usize),
}

/// A guard that counts a query as running.
pub(super) struct RunningQuery<'a>(&'a Queue);

impl Queue {
    pub(super) fn new(max_queries: usize) -> Self {
        Self {
            state: Mutex::default(),
            query_added: Condvar::new(),
            bulk_added: Condvar::new(),
            query_ended: Condvar::new(),
            max_queries,
        }
    }

    pub(super) fn push_query(&self, query: EmbedCall) -> Result<(), Failure> {
        let mut state = self.state();
        if state.queries.len() >= self.max_queries {
            state.queries.retain(|query| !query.reply.is_closed());
        }
        if state.queries.len() >= self.max_queries {
            return Err(overloaded());
        }
        state.queries.push_back(query);
        self.query_added.notify_one();
        Ok(())
    }

    pub(super) fn push_bulk(&self, call: EmbedCall) {
        let mut state = self.state();
        // A caller that is gone has released its permits, so its texts must not stay in memory either.
        state.bulk_calls.retain(|call| !call.reply.is_closed());
        state.bulk_calls.push_back(call);
        self.bulk_added.notify_one();
    }

    pub(super) fn push_job(&self, job: Arc<Job>) {
        self.state().jobs.push_back((job, 0));
        self.bulk_added.notify_all();
    }

    /// Makes every thread end after its current task.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.query_added.notify_all();
        self.bulk_added.notify_all();
        self.query_ended.notify_all();
    }

    /// Waits for the next query. None once the queue is closed.
    pub(super) fn next_query(&self) -> Option<(EmbedCall, RunningQuery<'_>)> {
        let idle = |state: &mut QueueState| state.queries.is_empty() && !state.closed;
        let waited = self.query_added.wait_while(self.state(), idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        let query = state.queries.pop_front()?;
        state.running_queries += 1;
        Some((query, RunningQuery(self)))
    }

    /// Waits for the next bulk task. None once the queue is closed.
    pub(super) fn next_bulk(&self) -> Option<BulkTask> {
        let mut state = self.state();
        loop {
            let is_delayed = |state: &mut QueueState| state.running_queries > 0 && !state.closed;
            let waited = self.query_ended.wait_timeout_while(state, MAX_BULK_DELAY, is_delayed);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.closed {
                return None;
            }
            if let Some(task) = state.take_bulk() {
                return Some(task);
            }
            let idle = |state: &mut QueueState| {
                state.bulk_calls.is_empty() && state.jobs.is_empty() && !state.closed
            };
            state = self.bulk_added.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Jobs in progress come before new calls.
    fn take_bulk(&mut self) -> Option<BulkTask> {
        while let Some((job, next)) = self.jobs.front_mut() {
            if *next < job.batch_count() && !job.is_abandoned() {
                *next += 1;
                return Some(BulkTask::Batch(Arc::clone(job), *next - 1));
            }
            self.jobs.pop_front();
        }
        self.bulk_calls.pop_front().map(BulkTask::Tokenize)
    }
}

impl Drop for RunningQuery<'_> {
    fn drop(&mut self) {
        self.0.state().running_queries -= 1;
        self.0.query_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn calls_of_disconnected_callers_are_dropped() {
        let queue = Queue::new(2);
        for _ in 0..100 {
            let call = || EmbedCall { texts: vec!["text".to_owned()], reply: oneshot::channel().0 };
            queue.push_bulk(call());
            queue.push_query(call()).unwrap();
        }
        assert_eq!(queue.state().bulk_calls.len(), 1);
        assert!(queue.state().queries.len() <= 2);
    }
}
