//! A binary of this project as a process.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A process, until dropped.
pub struct Process {
    child: Child,
    /// Host and port.
    pub address: String,
}

impl Process {
    /// Starts a binary beside this one, and waits for the line with its address.
    pub async fn start(binary: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let path = std::env::current_exe().expect("this process has a file").with_file_name(binary);
        let mut command = Command::new(&path);
        command.args(arguments).envs(environment.iter().copied()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}; build it first", path.display()));
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        while let Some(line) = lines.next_line().await.expect("its output can be read") {
            if let Some((_, address)) = line.split_once("http://") {
                let address = address
                    .chars()
                    .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':'))
                    .collect::<String>();
                // Further output is dropped, so that the pipe never fills.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Self { child, address: address.trim_end_matches('.').to_owned() };
            }
        }
        panic!("{binary} ended without printing its address");
    }

    /// CPU seconds so far, user and system.
    pub fn cpu_seconds(&self) -> f64 {
        const TICKS_PER_SECOND: f64 = 100.0;
        let id = self.child.id().expect("it runs");
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
        let after_name = stat.rsplit_once(')').expect("the name is in parentheses").1;
        let ticks =
            after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().expect("ticks"));
        ticks.sum::<f64>() / TICKS_PER_SECOND
    }

    /// Resident memory in MB, now and at its peak.
    pub fn memory_mb(&self) -> (f64, f64) {
        let id = self.child.id().expect("it runs");
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let field = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).expect("the file has the field");
            line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
        };
        (field("VmRSS:"), field("VmHWM:"))
    }
}
