//! Reduces the number of compute threads under CPU contention. llama.cpp's threads synchronize by spinning, hundreds of
//! times per token: when other threads compete for the CPUs, two threads can be many times slower than one. So the time
//! that runnable threads waited for a CPU is watched, and a batch whose threads wait too long goes on with fewer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Waiting up to this long is not contention: something short ran in between.
const TOLERATED: Duration = Duration::from_millis(8);

/// Waiting beyond which a batch is restarted with fewer threads. Longer than `TOLERATED`, since receiving a request and
/// retrieving its passages takes some CPU time just when its prefill begins.
const RESTART_AFTER: Duration = Duration::from_millis(50);

/// Interval of the checks during a batch; a check takes microseconds.
const CHECK_INTERVAL: Duration = Duration::from_millis(4);

/// How long fewer threads compute before one more is tried: at first, and at most; it doubles with each contention.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The number of compute threads, and the files they are watched by.
pub(super) struct ComputeThreads {
    max: usize,
    now: usize,
    backoff: Duration,
    /// When one more thread is tried.
    retry: Option<Instant>,
    watched: Vec<PathBuf>,
}

/// Watches the threads during a batch.
pub(super) struct ContentionWatch<'a> {
    watched: &'a [PathBuf],
    waited_before: Duration,
    started: Instant,
    checked: std::cell::Cell<Instant>,
    contended: std::cell::Cell<bool>,
}

impl ComputeThreads {
    /// At most `max` threads; `watched` are their `schedstat` files.
    pub(super) fn new(max: usize, watched: Vec<PathBuf>) -> Self {
        Self { max: max.max(1), now: max.max(1), backoff: BACKOFF.0, retry: None, watched }
    }

    /// The number of threads for the next batch.
    pub(super) fn next(&mut self, time: Instant) -> usize {
        if self.retry.is_some_and(|retry| retry <= time) {
            self.now = (self.now + 1).min(self.max);
            self.retry = (self.now < self.max).then_some(time + self.backoff);
        }
        self.now
    }

    /// Starts watching a batch, if there is more than one thread.
    pub(super) fn watch(&self, time: Instant) -> Option<ContentionWatch<'_>> {
        (self.now > 1).then(|| ContentionWatch::new(&self.watched, time))
    }

    /// After contention: fewer threads go on, and it takes longer each time until more are tried.
    pub(super) fn use_fewer(&mut self, time: Instant) {
        self.now = (self.now * 3 / 4).max(1);
        self.retry = Some(time + self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF.1);
        tracing::debug!(threads = self.now, "CPU contention: fewer threads compute");
    }

    /// After a batch without contention.
    pub(super) fn on_uncontended_batch(&mut self) {
        if self.now == self.max {
            self.backoff = BACKOFF.0;
        }
    }
}

impl<'a> ContentionWatch<'a> {
    fn new(watched: &'a [PathBuf], time: Instant) -> Self {
        let waited_before = total_wait(watched);
        Self { watched, waited_before, started: time, checked: time.into(), contended: false.into() }
    }

    /// Whether the threads have waited for so long, and for such a share of the time, that restarting the batch with fewer
    /// is faster.
    pub(super) fn should_restart(&self) -> bool {
        let time = Instant::now();
        if self.contended.get() || time.duration_since(self.checked.get()) < CHECK_INTERVAL {
            return self.contended.get();
        }
        self.checked.set(time);
        self.contended.set(is_worth_restart(self.waited(), time.duration_since(self.started)));
        self.contended.get()
    }

    /// Whether the threads waited for a good part of the batch's time.
    pub(super) fn was_contended(self) -> bool {
        self.contended.get() || is_contention(self.waited(), self.started.elapsed())
    }

    fn waited(&self) -> Duration {
        total_wait(self.watched).saturating_sub(self.waited_before)
    }
}

fn is_contention(waited: Duration, elapsed: Duration) -> bool {
    waited > TOLERATED && waited > elapsed / 4
}

fn is_worth_restart(waited: Duration, elapsed: Duration) -> bool {
    waited > RESTART_AFTER && is_contention(waited, elapsed)
}

/// How long all threads together were runnable and waited for a CPU.
fn total_wait(watched: &[PathBuf]) -> Duration {
    watched.iter().filter_map(|path| wait_of(path)).sum()
}

/// The second number of a `schedstat` file: nanoseconds that the thread waited for a CPU.
fn wait_of(path: &Path) -> Option<Duration> {
    let text = fs::read_to_string(path).ok()?;
    Some(Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?))
}

/// The `schedstat` files of this process's threads; none where the kernel has none.
pub(super) fn thread_stats() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path().join("schedstat"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn under_contention_fewer_threads_go_on_and_more_are_tried_later_each_time() {
        let start = Instant::now();
        let mut threads = ComputeThreads::new(2, Vec::new());
        assert_eq!(threads.next(start), 2);
        threads.use_fewer(start);
        assert_eq!((threads.next(after(start, 999)), threads.next(after(start, 1_000))), (1, 2));
        threads.use_fewer(after(start, 1_000));
        assert_eq!((threads.next(after(start, 2_999)), threads.next(after(start, 3_000))), (1, 2));
        threads.on_uncontended_batch();
        threads.use_fewer(after(start, 4_000));
        assert_eq!((threads.next(after(start, 4_999)), threads.next(after(start, 5_000))), (1, 2));
    }

    #[test]
    fn threads_become_fewer_step_by_step_down_to_one() {
        let start = Instant::now();
        let mut threads = ComputeThreads::new(8, Vec::new());
        let mut numbers = Vec::new();
        for _ in 0..7 {
            threads.use_fewer(start);
            numbers.push(threads.now);
        }
        assert_eq!(numbers, [6, 4, 3, 2, 1, 1, 1]);
        assert!(threads.watch(start).is_none());
        let climbed = (1..20).map(|minute| threads.next(after(start, minute * 60_000))).max();
        assert_eq!(climbed, Some(8));
    }

    #[test]
    fn contention_takes_a_good_part_of_the_time() {
        let milliseconds = Duration::from_millis;
        assert!(!is_contention(milliseconds(7), milliseconds(10)));
        assert!(is_contention(milliseconds(9), milliseconds(10)));
        assert!(!is_contention(milliseconds(9), milliseconds(40)));
        assert!(is_contention(milliseconds(500), milliseconds(1_000)));
    }

    #[test]
    fn a_short_wait_does_not_restart_a_batch() {
        let milliseconds = Duration::from_millis;
        assert!(!is_worth_restart(milliseconds(12), milliseconds(20)));
        assert!(is_worth_restart(milliseconds(60), milliseconds(100)));
        assert!(!is_worth_restart(milliseconds(60), milliseconds(1_000)));
        assert!(is_worth_restart(milliseconds(500), milliseconds(1_000)));
    }

    #[test]
    fn the_kernel_reports_how_long_a_thread_waited() {
        let stats = thread_stats();
        assert!(!stats.is_empty() && stats.iter().any(|path| wait_of(path).is_some()), "{stats:?}");
        assert_eq!(wait_of(Path::new("/proc/self/no-such-file")), None);
    }
}
