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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Environment, Flags, Sources};

    #[test]
    fn a_limit_below_what_the_settings_need_is_told_with_what_to_do() {
        let sources = Sources { file: None, environment: &Environment::new(), flags: &Flags::default() };
        let (settings, _) = Settings::load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        let told = shortage(&settings, 1_024).unwrap();
        for words in ["open 1024 files", "may need 12400", "limits.connections = 12000", "LimitNOFILE="] {
            assert!(told.contains(words), "{told}");
        }
        assert_eq!(shortage(&settings, 12_400), None);
    }
}
