//! What waits for the threads. Queries are taken as soon as a thread is free; bulk is taken between queries, but
//! held back by them no longer than its patience, so that neither waits for the other for ever.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Failure;

use super::job::Job;
use super::{Call, busy};

/// How long running queries hold back the next batch of a bulk thread.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the threads share.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    query_came: Condvar,
    bulk_came: Condvar,
    queries_ended: Condvar,
    max_queries: usize,
}

#[derive(Default)]
struct Waiting {
    queries: VecDeque<Call>,
    running_queries: usize,
    calls: VecDeque<Call>,
    jobs: VecDeque<(Arc<Job>, usize)>,
    closed: bool,
}

/// What a bulk thread does next.
pub(super) enum Bulk {
    /// Makes a call into a job.
    Call(Call),
    /// Runs one batch of a job.
    Batch(Arc<Job>, usize),
}

/// Held while a query runs.
pub(super) struct Running<'a>(&'a Queue);

impl Queue {
    pub(super) fn new(max_queries: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            query_came: Condvar::new(),
            bulk_came: Condvar::new(),
            queries_ended: Condvar::new(),
            max_queries,
        }
    }

    pub(super) fn push_query(&self, query: Call) -> Result<(), Failure> {
        let mut waiting = self.waiting();
        if waiting.queries.len() >= self.max_queries {
            waiting.queries.retain(|query| !query.answer.is_closed());
        }
        if waiting.queries.len() >= self.max_queries {
            return Err(busy());
        }
        waiting.queries.push_back(query);
        self.query_came.notify_one();
        Ok(())
    }

    pub(super) fn push_bulk(&self, call: Call) {
        let mut waiting = self.waiting();
        // Callers who left have given back their room, so what they asked for may not stay either.
        waiting.calls.retain(|call| !call.answer.is_closed());
        waiting.calls.push_back(call);
        self.bulk_came.notify_one();
    }

    pub(super) fn push_job(&self, job: Arc<Job>) {
        self.waiting().jobs.push_back((job, 0));
        self.bulk_came.notify_all();
    }

    /// Lets every thread end after what it is at.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.query_came.notify_all();
        self.bulk_came.notify_all();
        self.queries_ended.notify_all();
    }

    /// The next query, or none at the end.
    pub(super) fn next_query(&self) -> Option<(Call, Running<'_>)> {
        let idle = |waiting: &mut Waiting| waiting.queries.is_empty() && !waiting.closed;
        let waited = self.query_came.wait_while(self.waiting(), idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        if waiting.closed {
            return None;
        }
        let query = waiting.queries.pop_front()?;
        waiting.running_queries += 1;
        Some((query, Running(self)))
    }

    /// The next piece of bulk, or none at the end.
    pub(super) fn next_bulk(&self) -> Option<Bulk> {
        let mut waiting = self.waiting();
        loop {
            let held_back = |waiting: &mut Waiting| waiting.running_queries > 0 && !waiting.closed;
            let waited = self.queries_ended.wait_timeout_while(waiting, PATIENCE, held_back);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            if waiting.closed {
                return None;
            }
            if let Some(work) = waiting.take_bulk() {
                return Some(work);
            }
            let idle = |waiting: &mut Waiting| {
                waiting.calls.is_empty() && waiting.jobs.is_empty() && !waiting.closed
            };
            waiting = self.bulk_came.wait_while(waiting, idle).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Batches of what was begun, then what was not.
    fn take_bulk(&mut self) -> Option<Bulk> {
        while let Some((job, next)) = self.jobs.front_mut() {
            if *next < job.batches() && !job.is_abandoned() {
                *next += 1;
                return Some(Bulk::Batch(Arc::clone(job), *next - 1));
            }
            self.jobs.pop_front();
        }
        self.calls.pop_front().map(Bulk::Call)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.waiting().running_queries -= 1;
        self.0.queries_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn what_callers_who_left_asked_for_does_not_pile_up() {
        let queue = Queue::new(2);
        for _ in 0..100 {
            let call = || Call { texts: vec!["text".to_owned()], answer: oneshot::channel().0 };
            queue.push_bulk(call());
            queue.push_query(call()).unwrap();
        }
        assert_eq!(queue.waiting().calls.len(), 1);
        assert!(queue.waiting().queries.len() <= 2);
    }
}
