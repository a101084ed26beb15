//! ONNX Runtime in a Python process of its own, asked a line at a time. The scripts are in `bench/embed`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::figures::Figures;

/// ONNX Runtime in a process of its own.
pub(crate) struct Opponent {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    graphs: Option<TempDir>,
}

impl Opponent {
    /// Creates its graphs, finds its fastest configuration, and restarts it with that.
    pub(crate) fn at_its_best(python: &Path, texts: &[String]) -> Self {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("embed");
        let folder = tempfile::tempdir().expect("a folder for graphs");
        let graphs = folder.path();
        let made = Command::new(python).arg(scripts.join("graphs.py")).arg(graphs).status();
        assert!(made.is_ok_and(|status| status.success()), "the graphs are made");
        let mut tried = Self::start(python, &scripts, graphs);
        let best = tried.ask(&json!({ "ask": "calibrate", "texts": &texts[..texts.len() / 4] }));
        drop(tried);
        println!(
            "Texts of {:.0} tokens. ONNX Runtime is best with the {} graph",
            number(&best["tokens"]),
            best["graph"]
        );
        let (whole, pruned) = (number(&best["rates"]["whole"]), number(&best["rates"]["pruned"]));
        println!("Its texts per CPU-second, by graph: whole, as exported, {whole:.1}; pruned {pruned:.1}");
        let mut opponent = Self::start(python, &scripts, graphs);
        let (graph, spins, batch) = (&best["graph"], &best["spins"], &best["batch"]);
        opponent.ask(&json!({ "ask": "use", "graph": graph, "spins": spins, "batch": batch }));
        opponent.graphs = Some(folder);
        opponent
    }

    fn start(python: &Path, scripts: &Path, graphs: &Path) -> Self {
        let mut process = Command::new(python)
            .arg(scripts.join("opponent.py"))
            .arg(graphs)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let questions = process.stdin.take().expect("its standard input is a pipe");
        let answers = BufReader::new(process.stdout.take().expect("its standard output is a pipe"));
        Self { process, questions, answers, graphs: None }
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").expect("the opponent listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the opponent answers");
        serde_json::from_str(&answer).expect("the opponent answers in JSON")
    }

    pub(crate) fn bulk(&mut self, texts: &[String], figures: &mut Figures) -> Vec<Vec<f32>> {
        let mut answer = self.ask(&json!({ "ask": "embed", "texts": texts }));
        figures.add_bulk(texts.len(), number(&answer["cpu"]), number(&answer["wall"]));
        figures.megabytes = number(&answer["megabytes"]);
        serde_json::from_value(answer["vectors"].take()).expect("vectors of numbers")
    }

    pub(crate) fn queries(&mut self, queries: &[String], threads: usize) -> Vec<f64> {
        let mut answer = self.ask(&json!({ "ask": "queries", "texts": queries, "threads": threads }));
        serde_json::from_value(answer["milliseconds"].take()).expect("a list of numbers")
    }
}

impl Drop for Opponent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("the opponent answers with a number")
}
