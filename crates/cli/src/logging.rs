//! What the server tells its operator: lines on standard error, as text on a terminal and as JSON for machines.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::settings::Environment;

/// Starts logging at the level that `RUST_LOG` asks for, `info` without it.
pub(crate) fn start(environment: &Environment) -> Result<(), String> {
    let form = if io::stderr().is_terminal() { Form::Text } else { Form::Json };
    start_at("info", form, environment)
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
    let started = match form {
        Form::Text => lines.with_ansi(io::stderr().is_terminal() && !no_color).try_init(),
        // A line is an object: what happened, and in whose course.
        Form::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    };
    started.map_err(|error| format!("logging cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_filter_is_refused_by_name() {
        let environment = Environment::from([("RUST_LOG".to_owned(), "engine=loud".to_owned())]);
        let message = start(&environment).unwrap_err();
        assert!(message.contains("RUST_LOG") && message.contains("engine=loud"), "{message}");
    }
}
