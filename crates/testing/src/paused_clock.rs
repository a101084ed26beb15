//! A clock that follows tokio's clock.

use domain::{Clock, Timestamp};
use tokio::time::Instant;

/// Starts at 2026-01-01T00:00:00Z and advances with tokio's clock, which a test may pause.
#[derive(Clone, Copy, Debug)]
pub struct PausedClock {
    started: Instant,
}

impl PausedClock {
    /// The time at which the clock starts.
    pub const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

    /// A clock that starts now.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for PausedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Self::START.plus(self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_advances_only_with_tokios_clock() {
        let clock = PausedClock::new();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00.000Z");
        tokio::time::advance(Duration::from_millis(90_500)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30.500Z");
    }
}
