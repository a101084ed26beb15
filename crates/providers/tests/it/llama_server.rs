//! Providers against a real llama.cpp server with a small model.

mod chat;
mod embedding;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testing::models_folder;

const MODEL: &str = "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf";

/// A running server; dropping it kills the process.
struct LlamaServer {
    process: Child,
    url: String,
}

impl LlamaServer {
    /// Starts a server for `embed` or `chat`.
    fn start(purpose: &str) -> Self {
        let model = models_folder().join(MODEL);
        assert!(
            model.is_file(),
            "{} is missing: get it with `cargo run --package cli -- models pull smollm2-135m-instruct`",
            model.display()
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/llama-server");
        let mut command = Command::new(script);
        command.arg(purpose).arg(model).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("scripts/llama-server can be run");
        let mut first_line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut first_line).unwrap();
        assert!(
            first_line.starts_with("http://"),
            "scripts/llama-server said {first_line:?}; see its errors above"
        );
        Self { process, url: first_line.trim().to_owned() }
    }

    /// Kills the process, as a crash would.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
