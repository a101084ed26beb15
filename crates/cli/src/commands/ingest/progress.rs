//! The progress of reading a source: one line that is redrawn on a terminal, otherwise nothing.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ingest::IngestProgress;

/// The least time between two drawings.
const REDRAW: Duration = Duration::from_millis(100);

/// The progress line of one source, on standard error.
pub(in crate::commands) struct ProgressLine<'a> {
    source: &'a str,
    began: Instant,
    /// When the line was last drawn; `None` without a terminal, or if it is not wanted.
    drawn: Option<Mutex<Option<Instant>>>,
}

impl<'a> ProgressLine<'a> {
    pub(in crate::commands) fn new(source: &'a str, wanted: bool) -> Self {
        let drawn = (wanted && io::stderr().is_terminal()).then(Mutex::default);
        Self { source, began: Instant::now(), drawn }
    }

    /// Redraws the line, unless it was just drawn.
    pub(in crate::commands) fn update(&self, progress: IngestProgress) {
        let Some(drawn) = &self.drawn else { return };
        let mut drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        *drawn = Some(Instant::now());
        status!("\r\x1b[K{}: {}", self.source, line(progress, self.began.elapsed()));
    }
}

impl Drop for ProgressLine<'_> {
    fn drop(&mut self) {
        let drawn = self.drawn.as_ref().map(|drawn| drawn.lock().unwrap_or_else(PoisonError::into_inner));
        if drawn.is_some_and(|drawn| drawn.is_some()) {
            status!("\r\x1b[K");
        }
    }
}

fn line(progress: IngestProgress, elapsed: Duration) -> String {
    let IngestProgress { files, files_total, chunks, embedded } = progress;
    let of = files_total.map(|total| format!(" of {total}")).unwrap_or_default();
    let rate = embedded as f64 / elapsed.as_secs_f64().max(0.001);
    let mut line = format!("{files}{of} files, {embedded} of {chunks} chunks, {rate:.0} chunks/s");
    if let Some(left) = left(progress, rate) {
        line.push_str(&format!(", {} left", duration(left)));
    }
    line
}

/// An estimate of the time left: the remaining files are assumed to be like those already read.
fn left(progress: IngestProgress, rate: f64) -> Option<Duration> {
    let IngestProgress { files, files_total, chunks, embedded } = progress;
    let total = files_total.filter(|_| files > 0)?.max(files);
    let expected = chunks as f64 * total as f64 / files as f64;
    let seconds = (expected - embedded as f64).max(0.0) / rate;
    Duration::try_from_secs_f64(seconds).ok().filter(|_| embedded > 0)
}

/// A duration as people write it.
pub(in crate::commands) fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_progress_rate_and_time_left() {
        let progress = IngestProgress { files: 50, files_total: Some(100), chunks: 400, embedded: 200 };
        let expected = "50 of 100 files, 200 of 400 chunks, 100 chunks/s, 6.0 s left";
        assert_eq!(line(progress, Duration::from_secs(2)), expected);
    }

    #[test]
    fn unknown_figures_are_left_out() {
        let none = IngestProgress { files: 0, files_total: Some(9), chunks: 0, embedded: 0 };
        assert_eq!(line(none, Duration::ZERO), "0 of 9 files, 0 of 0 chunks, 0 chunks/s");
        let unknown = IngestProgress { files: 3, files_total: None, chunks: 9, embedded: 9 };
        assert_eq!(line(unknown, Duration::from_secs(1)), "3 files, 9 of 9 chunks, 9 chunks/s");
    }

    #[test]
    fn a_duration_is_short() {
        for (seconds, expected) in
            [(1.26, "1.3 s"), (59.0, "59 s"), (61.0, "1 min 1 s"), (7_260.0, "2 h 1 min")]
        {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), expected);
        }
    }
}
