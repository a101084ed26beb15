//! What the server tells its operator: lines on standard error, as text on a terminal and as JSON for machines.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal};
use std::panic::{self, PanicHookInfo};

use tracing_subscriber::EnvFilter;

use crate::settings::Environment;

/// Starts logging at the level that `RUST_LOG` asks for, `info` without it. A panic is a line of the log as well, and
/// has what its course is known by.
pub(crate) fn start(environment: &Environment) -> Result<(), String> {
    let form = if io::stderr().is_terminal() { Form::Text } else { Form::Json };
    start_at("info", form, environment)?;
    panic::set_hook(Box::new(tell));
    Ok(())
}

/// The same for a command that talks to a person: always text, and without `RUST_LOG` only what is amiss.
pub(crate) fn start_quietly(environment: &Environment) -> Result<(), String> {
    start_at("error", Form::Text, environment)
}

#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
}

fn start_at(level: &str, form: Form, environment: &Environment) -> Result<(), String> {
    let filter = environment.get("RUST_LOG").filter(|text| !text.is_empty()).map_or(level, String::as_str);
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        format!(
            "RUST_LOG (environment variable): {filter:?} is not a log filter: {error}; \
             allowed are a level such as \"debug\" and pairs such as \"engine=debug,info\""
        )
    })?;
    let no_color = environment.get("NO_COLOR").is_some_and(|text| !text.is_empty());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Where nobody reads the log any more, telling so there would panic, and telling of the panic abort.
    let lines = lines.log_internal_errors(false);
    let started = match form {
        Form::Text => lines.with_ansi(io::stderr().is_terminal() && !no_color).try_init(),
        // A line is an object: what happened, and in whose course.
        Form::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    };
    started.map_err(|error| format!("logging cannot be started: {error}"))
}

fn tell(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("no message");
    let place = panic.location().map(ToString::to_string);
    // Only if it is asked for, with RUST_BACKTRACE.
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
        let message = start(&environment).unwrap_err();
        assert!(message.contains("RUST_LOG") && message.contains("engine=loud"), "{message}");
    }

    #[test]
    fn a_panic_is_a_line_like_any_other() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().json().flatten_event(true).with_span_list(false);
        let lines = lines.with_writer(move || Line(writer.clone())).finish();
        let before = panic::take_hook();
        panic::set_hook(Box::new(tell));
        tracing::subscriber::with_default(lines, || {
            let _course = tracing::error_span!("request", trace = "4bf9").entered();
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
