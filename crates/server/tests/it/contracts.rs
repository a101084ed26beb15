//! The published models of the chat dialects, which check whatever the server says in them: a Python process beside
//! the tests, one line asked and one answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/contracts");

/// Checks that this is what the model says.
#[track_caller]
pub(crate) fn check(model: &str, value: &Value) {
    let verdict = verdict(model, value);
    assert_eq!(verdict, "ok", "{model}: {value}");
}

/// `ok`, or what is wrong with the value.
pub(crate) fn verdict(model: &str, value: &Value) -> String {
    static CHECKER: LazyLock<Mutex<Checker>> = LazyLock::new(|| Mutex::new(Checker::start()));
    CHECKER.lock().unwrap_or_else(PoisonError::into_inner).ask(model, value)
}

/// It ends when its input does, which is when the tests end.
struct Checker {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Checker {
    fn start() -> Self {
        let mut process = Command::new(SCRIPT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not the test's own, which it would keep open for a moment longer than the test runs.
            .stderr(Stdio::piped())
            .spawn()
            .expect("the script that checks contracts can be run");
        let answers = BufReader::new(process.stdout.take().expect("its output is piped"));
        Self { process, answers }
    }

    fn ask(&mut self, model: &str, value: &Value) -> String {
        let line = format!("{}\n", json!([model, value]));
        let asking = self.process.stdin.as_mut().expect("its input is piped");
        asking.write_all(line.as_bytes()).and_then(|()| asking.flush()).expect("contracts are checked");
        let mut verdict = String::new();
        self.answers.read_line(&mut verdict).expect("contracts are checked");
        if verdict.is_empty() {
            let mut said = String::new();
            let errors = self.process.stderr.take();
            errors
                .map(|mut errors| errors.read_to_string(&mut said))
                .transpose()
                .expect("it says why it ended");
            panic!("{SCRIPT} ended: {said}");
        }
        verdict.trim_end().to_owned()
    }
}
