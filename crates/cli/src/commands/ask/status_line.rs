//! A status line on standard error until there is output: only on a terminal.

use std::io::{self, IsTerminal};

/// A line that is erased when output follows, or on drop.
pub(super) struct StatusLine {
    shown: bool,
}

impl StatusLine {
    pub(super) fn show(text: &str) -> Self {
        let shown = io::stderr().is_terminal();
        if shown {
            status!("{text}");
        }
        Self { shown }
    }

    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { shown: false }
    }

    /// Erases the line, if it is still there.
    pub(super) fn erase(&mut self) {
        if std::mem::take(&mut self.shown) {
            status!("\r\x1b[K");
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.erase();
    }
}
