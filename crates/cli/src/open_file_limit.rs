//! The limit of open files (`RLIMIT_NOFILE`). Each connection is one.

use tracing::{debug, warn};

use crate::settings::Settings;

/// Files beside connections and calls to providers: databases, the journal, the index.
const OTHER_FILES: usize = 300;

/// Raises the soft limit to the hard one, and warns if the settings need more.
pub(crate) fn raise(settings: &Settings) {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => {
            debug!(limit, "limit of open files");
            shortage(settings, limit).into_iter().for_each(|shortage| warn!("{shortage}"));
        }
        Err(error) => warn!(%error, "the limit of open files cannot be raised"),
    }
}

/// The warning, if the settings need more open files than the limit.
fn shortage(settings: &Settings, limit: u64) -> Option<String> {
    let limits = &settings.limits;
    let needed = limits.connections + limits.concurrent_streams + OTHER_FILES;
    let is_short = usize::try_from(limit).is_ok_and(|limit| limit < needed);
    is_short.then(|| {
        format!(
            "the system lets this process open {limit} files, and it may need {needed} \
             (limits.connections = {}, limits.concurrent_streams = {}): raise the hard limit (ulimit -Hn, or \
             LimitNOFILE= of its service), or lower limits.connections",
            limits.connections, limits.concurrent_streams
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Environment, Flags, SettingsSources};

    #[test]
    fn a_limit_below_what_the_settings_need_is_reported_with_what_to_do() {
        let environment = Environment::new();
        let sources = SettingsSources { file: None, environment: &environment, flags: &Flags::default() };
        let (settings, _) = Settings::load(&sources).unwrap_or_else(|error| panic!("{error}"));
        let warning = shortage(&settings, 1_024).unwrap();
        for words in ["open 1024 files", "may need 12400", "limits.connections = 12000", "LimitNOFILE="] {
            assert!(warning.contains(words), "{warning}");
        }
        assert_eq!(shortage(&settings, 12_400), None);
    }
}
