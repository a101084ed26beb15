//! Journals that fail or delay calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Batch, Claim, EndCause, Ended, Event, Journal, NewPrompt, Principal, PromptId, Run, Step, StorageError,
};
use tokio::time::sleep;

/// Forwards to another journal, and fails claims or appends while the test says so. Reads never fail. As
/// every journal does, it finishes later what it could not finish while failing.
pub struct FailingJournal {
    inner: Arc<dyn Journal>,
    unfinished: Mutex<Vec<(Run, Batch)>>,
    appends_fail: AtomicBool,
    claims_fail: AtomicBool,
}

impl FailingJournal {
    /// Forwards every call, until told to fail.
    pub fn new(inner: Arc<dyn Journal>) -> Self {
        Self {
            inner,
            unfinished: Mutex::default(),
            appends_fail: AtomicBool::new(false),
            claims_fail: AtomicBool::new(false),
        }
    }

    /// Makes appends and finishes fail, or succeed again.
    pub fn fail_appends(&self, fail: bool) {
        self.appends_fail.store(fail, Ordering::SeqCst);
    }

    /// Makes claims fail, or succeed again.
    pub fn fail_claims(&self, fail: bool) {
        self.claims_fail.store(fail, Ordering::SeqCst);
    }
}

#[async_trait]
impl Journal for FailingJournal {
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        check(&self.claims_fail, "claim")?;
        self.write_unrecorded_ends().await?;
        self.inner.claim(who, new).await
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        check(&self.appends_fail, "append")?;
        self.inner.append(run, batch).await
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        if let Err(error) = check(&self.appends_fail, "finish") {
            let end = Step::Ended(Box::new(Ended::interrupted(EndCause::Journal)));
            let last = [Event { step: end, ..last[0].clone() }].into();
            self.unfinished.lock().expect("no thread panics with the lock").push((run, last));
            return Err(error);
        }
        self.inner.finish(run, last).await
    }

    async fn write_unrecorded_ends(&self) -> Result<(), StorageError> {
        check(&self.appends_fail, "mend")?;
        let unfinished =
            std::mem::take(&mut *self.unfinished.lock().expect("no thread panics with the lock"));
        for (run, last) in unfinished {
            self.inner.finish(run, last).await?;
        }
        self.inner.write_unrecorded_ends().await
    }

    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        self.inner.read(who, id).await
    }
}

/// Forwards to another journal, with a delay before and after each call, to let a test observe what happens
/// meanwhile.
pub struct SlowJournal {
    inner: Arc<dyn Journal>,
    delay: Duration,
}

impl SlowJournal {
    /// Delays each call by `delay` before and after it.
    pub fn new(inner: Arc<dyn Journal>, delay: Duration) -> Self {
        Self { inner, delay }
    }

    async fn slowly<T>(&self, call: impl Future<Output = T>) -> T {
        sleep(self.delay).await;
        let done = call.await;
        sleep(self.delay).await;
        done
    }
}

#[async_trait]
impl Journal for SlowJournal {
    async fn claim(&self, who: &Principal, new: NewPrompt) -> Result<Claim, StorageError> {
        self.slowly(self.inner.claim(who, new)).await
    }

    async fn append(&self, run: &Run, batch: Batch) -> Result<(), StorageError> {
        self.slowly(self.inner.append(run, batch)).await
    }

    async fn finish(&self, run: Run, last: Batch) -> Result<(), StorageError> {
        self.slowly(self.inner.finish(run, last)).await
    }

    async fn write_unrecorded_ends(&self) -> Result<(), StorageError> {
        self.slowly(self.inner.write_unrecorded_ends()).await
    }

    async fn read(&self, who: &Principal, id: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
        self.slowly(self.inner.read(who, id)).await
    }
}

fn check(fails: &AtomicBool, call: &str) -> Result<(), StorageError> {
    if fails.load(Ordering::SeqCst) {
        return Err(StorageError::other(format!("{call} fails because the test says so")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct AcceptingJournal;

    #[async_trait]
    impl Journal for AcceptingJournal {
        async fn claim(&self, _: &Principal, _: NewPrompt) -> Result<Claim, StorageError> {
            Ok(Claim::NoRoom)
        }
        async fn append(&self, _: &Run, _: Batch) -> Result<(), StorageError> {
            Ok(())
        }
        async fn finish(&self, _: Run, _: Batch) -> Result<(), StorageError> {
            Ok(())
        }
        async fn write_unrecorded_ends(&self) -> Result<(), StorageError> {
            Ok(())
        }
        async fn read(&self, _: &Principal, _: PromptId) -> Result<Option<Vec<Batch>>, StorageError> {
            Ok(None)
        }
    }

    #[tokio::test]
    async fn appends_fail_while_the_test_says_so() {
        let journal = FailingJournal::new(Arc::new(AcceptingJournal));
        let run = || Run { prompt: PromptId::new(crate::PausedClock::START), who: Principal::local() };
        let nothing: Batch =
            Arc::new([Event { position: 1, at: crate::PausedClock::START, step: Step::Text("".into()) }]);
        for fail in [false, true, false] {
            journal.fail_appends(fail);
            assert_eq!(journal.append(&run(), nothing.clone()).await.is_err(), fail);
            assert_eq!(journal.finish(run(), nothing.clone()).await.is_err(), fail);
            assert_eq!(journal.read(&Principal::local(), run().prompt).await, Ok(None));
        }
    }
}
