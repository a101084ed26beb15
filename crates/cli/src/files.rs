//! How many files the system lets this process open. Each connection is one.

use tracing::{debug, warn};

use crate::settings::Settings;

/// Beside connections and calls to providers: databases, the journal, the index.
const OTHERS: usize = 300;

/// Takes as many as the system allows, and says so if that is fewer than the settings need.
pub(crate) fn raise_limit(settings: &Settings) {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(allowed) => {
            debug!(allowed, "files that may be open");
            shortage(settings, allowed).into_iter().for_each(|shortage| warn!("{shortage}"));
        }
        Err(error) => warn!(%error, "how many files may be open cannot be changed"),
    }
}

/// What to say if so many open files are too few.
fn shortage(settings: &Settings, allowed: u64) -> Option<String> {
    let limits = &settings.limits;
    let needed = limits.connections + limits.concurrent_streams + OTHERS;
    let is_short = usize::try_from(allowed).is_ok_and(|allowed| allowed < needed);
    is_short.then(|| {
        format!(
            "the system lets this process open {allowed} files, and it may need {needed} \
             (limits.connections = {}, limits.concurrent_streams = {}): raise the hard limit (ulimit -Hn, or \
             LimitNOFILE= of its service), or lower limits.connections",
            limits.connections, limits.concurrent_streams
        )
    })
}
