//! The progress of a pull: one line per step, and on a terminal one line that is redrawn for the bytes received.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use models::files::{Model, PullProgress};

/// The least time between two drawings.
const REDRAW: Duration = Duration::from_millis(100);

/// The progress of pulling one model, on standard error.
pub(super) struct PullProgressLine<'a> {
    model: &'a Model,
    terminal: bool,
    drawn: Option<Instant>,
}

impl<'a> PullProgressLine<'a> {
    pub(super) fn new(model: &'a Model) -> Self {
        Self { model, terminal: io::stderr().is_terminal(), drawn: None }
    }

    pub(super) fn update(&mut self, progress: PullProgress<'_>) {
        let model = &self.model.name;
        match progress {
            PullProgress::Waiting => self.line(&format!("{model}: another process pulls it; waiting")),
            PullProgress::Asking { file, source } => {
                self.line(&format!("{model}/{}: asking {source}", file.name));
            }
            PullProgress::Failed { file, reason, .. } => {
                self.line(&format!("{model}/{}: not available there: {reason}", file.name));
            }
            PullProgress::Completed { file } => {
                self.line(&format!("{model}/{}: done, {}", file.name, size(file.bytes)));
            }
            PullProgress::Received { bytes, of, .. } => self.redraw(bytes, of),
        }
    }

    /// Erases the redrawn line.
    pub(super) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            status!("\r\x1b[K");
        }
    }

    fn line(&mut self, text: &str) {
        self.clear();
        statusln!("{text}");
    }

    fn redraw(&mut self, bytes: u64, of: Option<u64>) {
        if !self.terminal || self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        let of = of.map(|of| format!(" of {}", size(of))).unwrap_or_default();
        status!("\r\x1b[K  {}{of}", size(bytes));
    }
}

/// A size as people write it.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_short() {
        assert_eq!(size(190), "190 bytes");
        assert_eq!(size(466_247), "467 kB");
        assert_eq!(size(34_065_777), "34.0 MB");
        assert_eq!(size(1_117_320_768), "1117.3 MB");
    }
}
