//! What a crowd leaves behind is given back to the system. The C library's allocator keeps freed memory for whoever asks
//! next, and would keep that of the largest crowd there ever was.

use std::time::Duration;

use engine::Engine;
use tokio::time::sleep;
use tracing::debug;

/// How often the crowd is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Fewer prompts than this leave nothing behind that is worth the while.
const CROWD: usize = 50;

/// Gives memory back whenever a crowd has left, for good.
pub(crate) async fn keep_giving_back(engine: Engine) {
    let mut most = 0;
    loop {
        sleep(LOOK).await;
        let running = engine.running_prompts();
        most = most.max(running);
        if has_left(most, running) {
            debug!(prompts = most - running, "memory is given back");
            // It holds the allocator's locks in turn, so it is no task of those who answer.
            let _ = tokio::task::spawn_blocking(give_back).await;
            most = running;
        }
    }
}

fn has_left(most: usize, running: usize) -> bool {
    most - running >= CROWD && running <= most / 2
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_back() {
    #[expect(unsafe_code, reason = "a function of the C library, which is safe to call whenever")]
    unsafe extern "C" {
        safe fn malloc_trim(pad: usize) -> i32;
    }
    malloc_trim(0);
}

/// Other allocators do it by themselves, or cannot be told to.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_has_left_when_most_of_it_has() {
        assert!(has_left(100, 0) && has_left(100, 50) && has_left(1_000, 500));
        assert!(!has_left(100, 51) && !has_left(49, 0) && !has_left(0, 0));
        give_back();
    }
}
