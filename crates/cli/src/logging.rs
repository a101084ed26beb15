//! The log on standard error: text on a terminal, JSON lines elsewhere.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error;
use std::io::{self, IsTerminal};
use std::panic::{self, PanicHookInfo};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::settings::Environment;

/// Why logging could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoggingError {
    #[error(
        "RUST_LOG (environment variable): {filter:?} is not a log filter: {source}; allowed are a level such as \
         \"debug\" and pairs such as \"engine=debug,info\""
    )]
    InvalidFilter { filter: String, source: ParseError },
    #[error("logging cannot be started: {0}")]
    Start(Box<dyn Error + Send + Sync>),
}

/// Starts the log of a server, at the level in `RUST_LOG`, by default `info`. A panic is logged like everything else, with
/// the spans it happened in.
pub(crate) fn start(environment: &Environment) -> Result<(), LoggingError> {
    let format = if io::stderr().is_terminal() { Format::Text } else { Format::Json };
    start_at("info", format, environment)?;
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Starts the log of a command for a person: text, and by default errors only.
pub(crate) fn start_quietly(environment: &Environment) -> Result<(), LoggingError> {
    start_at("error", Format::Text, environment)
}

#[derive(Clone, Copy)]
enum Format {
    Text,
    Json,
}

fn start_at(level: &str, format: Format, environment: &Environment) -> Result<(), LoggingError> {
    let filter = environment.get("RUST_LOG").filter(|text| !text.is_empty()).map_or(level, String::as_str);
    let filter = EnvFilter::try_new(filter)
        .map_err(|source| LoggingError::InvalidFilter { filter: filter.to_owned(), source })?;
    let no_color = environment.get("NO_COLOR").is_some_and(|text| !text.is_empty());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // When standard error is closed, reporting that on standard error would panic, and logging the panic abort.
    let lines = lines.log_internal_errors(false);
    let started = match format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal() && !no_color).try_init(),
        // One object a line, with the current span.
        Format::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    };
    started.map_err(LoggingError::Start)
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("no message");
    let place = panic.location().map(ToString::to_string);
    // Captured only with RUST_BACKTRACE.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(panic = text, place, backtrace, "something is broken on our side");
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_bad_filter_is_refused_by_name() {
        let environment = Environment::from([("RUST_LOG".to_owned(), "engine=loud".to_owned())]);
        let message = start(&environment).unwrap_err().to_string();
        assert!(message.contains("RUST_LOG") && message.contains("engine=loud"), "{message}");
    }

    #[test]
    fn a_panic_is_logged_with_its_span() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().json().flatten_event(true).with_span_list(false);
        let lines = lines.with_writer(move || Line(writer.clone())).finish();
        let before = panic::take_hook();
        panic::set_hook(Box::new(log_panic));
        tracing::subscriber::with_default(lines, || {
            let _span = tracing::error_span!("request", trace = "4bf9").entered();
            panic::catch_unwind(|| panic!("no {}", "way")).unwrap_err();
        });
        panic::set_hook(before);
        let line: serde_json::Value = serde_json::from_slice(&log.lock().unwrap()).expect("one line of JSON");
        assert_eq!((&line["level"], &line["panic"]), (&"ERROR".into(), &"no way".into()), "{line}");
        assert_eq!(line["span"]["trace"], "4bf9", "{line}");
        assert!(line["place"].as_str().is_some_and(|place| place.contains("logging.rs:")), "{line}");
    }

    struct Line(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Line {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panics").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
