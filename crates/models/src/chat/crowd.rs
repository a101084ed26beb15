//! How many threads compute. Those of llama.cpp wait for each other by spinning, hundreds of times a token: where
//! others want the processors too, two of them are many times slower than one. So it is watched how long the threads
//! that could run were kept from running, and whoever is kept too long goes on with fewer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So much waiting is nobody's crowd: something short ran in between.
const BRIEF: Duration = Duration::from_millis(8);

/// So much more of it has to be seen before what is computed is given up, to be begun anew by fewer. Who asks, and what
/// finds passages for it, takes a moment of a processor just when its prompt begins to be read.
const WORTH_BEGINNING_ANEW: Duration = Duration::from_millis(50);

/// How often it is looked while something is computed; looking takes microseconds.
const BETWEEN_LOOKS: Duration = Duration::from_millis(4);

/// How long fewer threads compute before one more is tried: at first, and at most, when that went wrong each time.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The number of threads, and what they are watched by.
pub(super) struct Threads {
    most: usize,
    now: usize,
    pause: Duration,
    /// When one more is tried.
    retry: Option<Instant>,
    watched: Vec<PathBuf>,
}

/// A look at threads while they compute.
pub(super) struct Watch<'a> {
    watched: &'a [PathBuf],
    kept_before: Duration,
    started: Instant,
    looked: std::cell::Cell<Instant>,
    crowded: std::cell::Cell<bool>,
}

impl Threads {
    /// At most so many, each with the file in which the kernel tells of it.
    pub(super) fn new(most: usize, watched: Vec<PathBuf>) -> Self {
        Self { most: most.max(1), now: most.max(1), pause: PAUSES.0, retry: None, watched }
    }

    /// How many compute next.
    pub(super) fn next(&mut self, time: Instant) -> usize {
        if self.retry.is_some_and(|retry| retry <= time) {
            self.now = (self.now + 1).min(self.most);
            self.retry = (self.now < self.most).then_some(time + self.pause);
        }
        self.now
    }

    /// Begins to watch, if there is more than one.
    pub(super) fn watch(&self, time: Instant) -> Option<Watch<'_>> {
        (self.now > 1).then(|| Watch::new(&self.watched, time))
    }

    /// They were in a crowd: fewer go on, and it takes longer each time until more are tried.
    pub(super) fn give_way(&mut self, time: Instant) {
        self.now = (self.now * 3 / 4).max(1);
        self.retry = Some(time + self.pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
        tracing::debug!(threads = self.now, "others want the processors: fewer threads compute");
    }

    /// They were not.
    pub(super) fn went_well(&mut self) {
        if self.now == self.most {
            self.pause = PAUSES.0;
        }
    }
}

impl<'a> Watch<'a> {
    fn new(watched: &'a [PathBuf], time: Instant) -> Self {
        let kept_before = kept(watched);
        Self { watched, kept_before, started: time, looked: time.into(), crowded: false.into() }
    }

    /// Whether they have been kept from running for a good part of the time, and for so long that it is better to begin
    /// anew with fewer than to go on.
    pub(super) fn is_crowded(&self) -> bool {
        let time = Instant::now();
        if self.crowded.get() || time.duration_since(self.looked.get()) < BETWEEN_LOOKS {
            return self.crowded.get();
        }
        self.looked.set(time);
        self.crowded.set(is_begun_anew(self.kept(), time.duration_since(self.started)));
        self.crowded.get()
    }

    /// Whether they were kept from running for a good part of the time, seen from its end.
    pub(super) fn was_crowded(self) -> bool {
        self.crowded.get() || is_crowd(self.kept(), self.started.elapsed())
    }

    fn kept(&self) -> Duration {
        kept(self.watched).saturating_sub(self.kept_before)
    }
}

fn is_crowd(kept: Duration, elapsed: Duration) -> bool {
    kept > BRIEF && kept > elapsed / 4
}

fn is_begun_anew(kept: Duration, elapsed: Duration) -> bool {
    kept > WORTH_BEGINNING_ANEW && is_crowd(kept, elapsed)
}

/// How long threads could have run and did not, all together.
fn kept(watched: &[PathBuf]) -> Duration {
    watched.iter().filter_map(|path| kept_from_running(path)).sum()
}

/// The second number of the file: nanoseconds in which the thread waited for a processor.
fn kept_from_running(path: &Path) -> Option<Duration> {
    let text = fs::read_to_string(path).ok()?;
    Some(Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?))
}

/// The threads of this process, by the files in which the kernel tells of them. None where it does not.
pub(super) fn threads_here() -> Vec<PathBuf> {
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
    fn in_a_crowd_fewer_go_on_and_more_are_tried_later_and_later() {
        let start = Instant::now();
        let mut threads = Threads::new(2, Vec::new());
        assert_eq!(threads.next(start), 2);
        threads.give_way(start);
        assert_eq!((threads.next(after(start, 999)), threads.next(after(start, 1_000))), (1, 2));
        threads.give_way(after(start, 1_000));
        assert_eq!((threads.next(after(start, 2_999)), threads.next(after(start, 3_000))), (1, 2));
        threads.went_well();
        threads.give_way(after(start, 4_000));
        assert_eq!((threads.next(after(start, 4_999)), threads.next(after(start, 5_000))), (1, 2));
    }

    #[test]
    fn many_threads_become_fewer_step_by_step_and_never_none() {
        let start = Instant::now();
        let mut threads = Threads::new(8, Vec::new());
        let mut numbers = Vec::new();
        for _ in 0..7 {
            threads.give_way(start);
            numbers.push(threads.now);
        }
        assert_eq!(numbers, [6, 4, 3, 2, 1, 1, 1]);
        assert!(threads.watch(start).is_none());
        let climbed = (1..20).map(|minute| threads.next(after(start, minute * 60_000))).max();
        assert_eq!(climbed, Some(8));
    }

    #[test]
    fn a_crowd_takes_a_good_part_of_the_time() {
        let milliseconds = Duration::from_millis;
        assert!(!is_crowd(milliseconds(7), milliseconds(10)));
        assert!(is_crowd(milliseconds(9), milliseconds(10)));
        assert!(!is_crowd(milliseconds(9), milliseconds(40)));
        assert!(is_crowd(milliseconds(500), milliseconds(1_000)));
    }

    #[test]
    fn nothing_is_begun_anew_for_a_moment_that_others_took() {
        let milliseconds = Duration::from_millis;
        assert!(!is_begun_anew(milliseconds(12), milliseconds(20)));
        assert!(is_begun_anew(milliseconds(60), milliseconds(100)));
        assert!(!is_begun_anew(milliseconds(60), milliseconds(1_000)));
        assert!(is_begun_anew(milliseconds(500), milliseconds(1_000)));
    }

    #[test]
    fn the_kernel_tells_how_long_a_thread_was_kept_from_running() {
        let here = threads_here();
        assert!(!here.is_empty() && here.iter().any(|path| kept_from_running(path).is_some()), "{here:?}");
        assert_eq!(kept_from_running(Path::new("/proc/self/no-such-file")), None);
    }
}
