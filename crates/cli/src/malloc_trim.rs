//! Returns freed memory to the operating system after a burst of prompts. glibc's allocator keeps freed memory for later
//! allocations, so the process would stay as large as its largest burst.

use std::time::Duration;

use engine::Engine;
use tokio::time::sleep;
use tracing::debug;

/// How often the number of running prompts is sampled.
const INTERVAL: Duration = Duration::from_secs(1);

/// The smallest burst that is worth a trim, in prompts.
const LEAST_BURST: usize = 50;

/// Trims the allocator whenever most prompts of a burst have ended. Runs until it is dropped.
pub(crate) async fn trim_after_bursts(engine: Engine) {
    let mut peak = 0;
    loop {
        sleep(INTERVAL).await;
        let running = engine.running_prompts();
        peak = peak.max(running);
        if is_burst_over(peak, running) {
            debug!(prompts = peak - running, "returning freed memory to the system");
            // A trim takes the allocator's locks in turn, which would stall a worker thread.
            let _ = tokio::task::spawn_blocking(trim).await;
            peak = running;
        }
    }
}

fn is_burst_over(peak: usize, running: usize) -> bool {
    peak - running >= LEAST_BURST && running <= peak / 2
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    #[expect(unsafe_code, reason = "a function of the C library, which is safe to call at any time")]
    unsafe extern "C" {
        safe fn malloc_trim(pad: usize) -> i32;
    }
    malloc_trim(0);
}

/// Other allocators return memory by themselves, or have no such call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_over_when_half_of_its_prompts_have_ended() {
        assert!(is_burst_over(100, 0) && is_burst_over(100, 50) && is_burst_over(1_000, 500));
        assert!(!is_burst_over(100, 51) && !is_burst_over(49, 0) && !is_burst_over(0, 0));
        trim();
    }
}
