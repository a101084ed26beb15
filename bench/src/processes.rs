//! The server and its model server, as processes.

use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Both, until dropped.
pub(crate) struct Processes {
    /// What was started, in words.
    pub(crate) title: String,
    _data: TempDir,
    pub(crate) server: Process,
    pub(crate) model: Process,
    /// The model that the server asks for.
    pub(crate) model_name: String,
}

/// Where the server keeps its logs, and what they survive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Storage {
    Memory,
    Sqlite,
    Power,
}

pub(crate) struct Process {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
}

impl Processes {
    /// Starts a model server, and a Wellspring that asks it for this model.
    pub(crate) async fn start(kind: &str, model_name: &str, storage: Storage) -> Self {
        let model =
            Process::start("fake-model", &["--bind", "127.0.0.1:0", "--model", model_name], &[]).await;
        let path = if kind == "openai" { "/v1" } else { "" };
        let base_url = format!("http://{}{path}", model.address);
        let data = TempDir::new().expect("a folder for its data");
        let (storage_kind, durability) = match storage {
            Storage::Memory => ("memory", "process"),
            Storage::Sqlite => ("sqlite", "process"),
            Storage::Power => ("sqlite", "power"),
        };
        let settings = [
            ("WELLSPRING__DATA_DIR", data.path().to_str().expect("a plain path")),
            ("WELLSPRING__STORAGE__KIND", storage_kind),
            ("WELLSPRING__STORAGE__DURABILITY", durability),
            ("WELLSPRING__PROVIDERS__LOCAL__KIND", kind),
            ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", &base_url),
            ("WELLSPRING__PROVIDERS__LOCAL__MODEL", model_name),
            ("WELLSPRING__GENERATION__MAX_TOKENS", "1000000"),
            // Nothing is in the knowledge base, and every dialect is to ask the model all the same.
            ("WELLSPRING__GENERATION__WHEN_NOTHING_FOUND", "answer"),
            ("WELLSPRING__LIMITS__ANSWER_BYTES", "200000000"),
            ("WELLSPRING__LIMITS__CONCURRENT_STREAMS", "1000"),
            ("RUST_LOG", "warn"),
        ];
        let server = Process::start("wellspring", &["serve", "--bind", "127.0.0.1:0"], &settings).await;
        let title = format!("{kind}, storage {storage_kind} ({durability})");
        Self { title, _data: data, server, model, model_name: model_name.to_owned() }
    }
}

impl Process {
    /// Starts the binary beside this one, and waits for the line that tells its address.
    async fn start(binary: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let path = std::env::current_exe().expect("this process has a file").with_file_name(binary);
        let mut command = Command::new(&path);
        command.args(arguments).envs(environment.iter().copied()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{} cannot be started: {error}", path.display()));
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        while let Some(line) = lines.next_line().await.expect("its output can be read") {
            if let Some((_, address)) = line.split_once("http://") {
                let address = address
                    .chars()
                    .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':'))
                    .collect::<String>();
                // The rest of its output is nobody's business, but it must not block.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Self { child, address: address.trim_end_matches('.').to_owned() };
            }
        }
        panic!("{binary} ended without telling its address");
    }

    /// CPU seconds so far, user and system.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        const TICKS_PER_SECOND: f64 = 100.0;
        let id = self.child.id().expect("it runs");
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
        let after_name = stat.rsplit_once(')').expect("the name is in parentheses").1;
        let ticks =
            after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().expect("ticks"));
        ticks.sum::<f64>() / TICKS_PER_SECOND
    }

    /// Resident memory in MB, now and at its peak.
    pub(crate) fn memory_mb(&self) -> (f64, f64) {
        let id = self.child.id().expect("it runs");
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
            line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
        };
        (field("VmRSS:"), field("VmHWM:"))
    }
}
