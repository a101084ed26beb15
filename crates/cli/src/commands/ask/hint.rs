//! A word on standard error while there is nothing to read yet: on a terminal one line, elsewhere nothing.

use std::io::{self, IsTerminal, Write};

/// A line that is wiped as soon as there is something better to show.
pub(super) struct Hint {
    shown: bool,
}

impl Hint {
    /// Shows it.
    pub(super) fn show(text: &str) -> Self {
        let shown = io::stderr().is_terminal();
        if shown {
            eprint!("{text}");
            // Whoever closed standard error does not want to see it.
            let _ = io::stderr().flush();
        }
        Self { shown }
    }

    /// Shows nothing.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { shown: false }
    }

    /// Wipes it, if it is still there.
    pub(super) fn wipe(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Hint {
    fn drop(&mut self) {
        self.wipe();
    }
}
