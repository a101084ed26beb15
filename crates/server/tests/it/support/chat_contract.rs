//! The published Pydantic models of the chat dialects. A Python process validates every response against
//! them, one line of JSON at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/contracts");

/// Checks a value against a model.
#[track_caller]
pub(crate) fn check(model: &str, value: &Value) {
    let verdict = verdict(model, value);
    assert_eq!(verdict, "ok", "{model}: {value}");
}

/// `ok`, or the validation error.
pub(crate) fn verdict(model: &str, value: &Value) -> String {
    static CHECKER: LazyLock<Mutex<Checker>> = LazyLock::new(|| Mutex::new(Checker::start()));
    CHECKER.lock().unwrap_or_else(PoisonError::into_inner).validate(model, value)
}

/// The validating process. It ends when its input closes, at the end of the tests.
struct Checker {
    process: Child,
    verdicts: BufReader<ChildStdout>,
}

impl Checker {
    fn start() -> Self {
        let mut process = Command::new(SCRIPT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An inherited one would stay open for a moment longer than the test runs.
            .stderr(Stdio::piped())
            .spawn()
            .expect("the script that checks contracts can be run");
        let verdicts = BufReader::new(process.stdout.take().expect("its output is piped"));
        Self { process, verdicts }
    }

    fn validate(&mut self, model: &str, value: &Value) -> String {
        let line = format!("{}\n", json!([model, value]));
        let input = self.process.stdin.as_mut().expect("its input is piped");
        input.write_all(line.as_bytes()).and_then(|()| input.flush()).expect("contracts are checked");
        let mut verdict = String::new();
        self.verdicts.read_line(&mut verdict).expect("contracts are checked");
        if verdict.is_empty() {
            let mut message = String::new();
            let errors = self.process.stderr.take();
            errors
                .map(|mut errors| errors.read_to_string(&mut message))
                .transpose()
                .expect("its error output can be read");
            panic!("{SCRIPT} ended: {message}");
        }
        verdict.trim_end().to_owned()
    }
}
