//! The binary as tests run it: in a home of its own, without the files and variables of the person who runs the tests, and
//! with a timeout.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Long enough for a busy machine, and short enough to see a test fail.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a test runs.
pub(crate) struct Home(Arc<TempDir>);

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A running server, killed on drop.
pub(crate) struct Server {
    /// Such as `127.0.0.1:40123`.
    pub(crate) address: String,
    /// The line it printed when it was ready.
    pub(crate) announcement: String,
    /// Its log, as far as a test has waited for it.
    pub(crate) log: String,
    process: Child,
    out: BufReader<ChildStdout>,
    /// The lines of its log. A task reads them all the time, since the server blocks at a full pipe.
    lines: UnboundedReceiver<String>,
    reading: JoinHandle<()>,
    /// Kept, since the server's data is in it.
    _home: Arc<TempDir>,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self(Arc::new(tempfile::tempdir().expect("a temporary folder can be made")))
    }

    /// The path of something in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a file into it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).expect("the home can be written to");
        path
    }

    /// Runs the binary to its end.
    pub(crate) async fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        run(&mut self.command(arguments, variables)).await
    }

    /// Starts the binary, which is gone when it is dropped.
    pub(crate) fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
        started(&mut self.command(arguments, variables))
    }

    /// Starts the binary on a terminal of its own, which its standard input types into.
    pub(crate) fn start_on_terminal(&self, arguments: &str, variables: &[(&str, &str)]) -> Child {
        let binary = env!("CARGO_BIN_EXE_wellspring");
        let mut command = Command::new("script");
        command.args(["-qec", &format!("exec {binary} {arguments}"), "/dev/null"]);
        command.env_clear().env("HOME", self.0.path()).envs(variables.iter().copied());
        command.env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh").current_dir(self.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.spawn().expect("script is part of every system that the tests run on")
    }

    /// Runs the binary to its end, with this on its standard input.
    pub(crate) async fn run_with_input(
        &self,
        arguments: &[&str],
        input: &str,
        variables: &[(&str, &str)],
    ) -> Ran {
        let path = self.write("input", input);
        let file = fs::File::open(path).expect("it was just written");
        let mut command = self.command(arguments, variables);
        ended(command.stdin(file)).await
    }

    /// Starts a server on a free port and waits until it is ready.
    pub(crate) async fn serve(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let arguments = [&["serve", "--bind", "127.0.0.1:0"], arguments].concat();
        self.ready(self.start(&arguments, variables)).await
    }

    /// The same, where no more files may be open than `ulimit` says with these flags.
    pub(crate) async fn serve_with_files(&self, flags: &str) -> Server {
        let mut command = Command::new("/bin/sh");
        let script = format!("ulimit {flags} && exec \"$0\" serve --bind 127.0.0.1:0");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_wellspring")]);
        self.ready(started(&mut self.at_home(command, &[]))).await
    }

    async fn ready(&self, mut process: Child) -> Server {
        let mut out = BufReader::new(process.stdout.take().expect("it is piped"));
        let (lines, reading) = lines(process.stderr.take().expect("it is piped"));
        let mut announcement = String::new();
        soon("the address", out.read_line(&mut announcement)).await.expect("the binary writes UTF-8");
        let (_, address) = announcement.split_once("http://").unwrap_or_default();
        let address = address.trim_end().to_owned();
        let (log, _home) = (String::new(), self.0.clone());
        Server { address, announcement, log, process, out, lines, reading, _home }
    }

    /// The binary, to be started with other standard streams.
    pub(crate) fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wellspring"));
        command.args(arguments);
        self.at_home(command, variables)
    }

    fn at_home(&self, mut command: Command, variables: &[(&str, &str)]) -> Command {
        command.env_clear().env("HOME", self.0.path()).envs(variables.iter().copied());
        command.current_dir(self.0.path());
        command
    }
}

impl Server {
    /// Its address as clients are given it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A file of its process in `/proc`.
    pub(crate) fn proc_file(&self, file: &str) -> String {
        let process = self.process.id().expect("it runs");
        fs::read_to_string(format!("/proc/{process}/{file}")).expect("it runs")
    }

    /// How many bytes of memory it has.
    pub(crate) fn memory(&self) -> u64 {
        let status = self.proc_file("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the file has it");
        let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().expect("it is a number");
        kilobytes * 1024
    }

    /// Reads its log up to a line with this in it.
    pub(crate) async fn logged(&mut self, words: &str) -> String {
        loop {
            let Some(line) = soon(words, self.lines.recv()).await else {
                panic!("it ended before it logged {words:?}; it logged:\n{}", self.log);
            };
            self.log.push_str(&line);
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Closes the pipe of its log.
    pub(crate) async fn close_log(&mut self) {
        self.reading.abort();
        let ended = (&mut self.reading).await;
        assert!(ended.is_err_and(|error| error.is_cancelled()), "the pipe was still open");
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) async fn signal(&self, name: &str) {
        signal(&self.process, name).await;
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(mut self) -> Ran {
        let status = soon("its end", self.process.wait()).await.expect("it can be waited for");
        let mut out = self.announcement;
        self.out.read_to_string(&mut out).await.expect("the binary writes UTF-8");
        while let Some(line) = soon("its log", self.lines.recv()).await {
            self.log.push_str(&line);
        }
        Ran { code: status.code(), out, err: self.log }
    }

    /// Stops it, and returns its log.
    pub(crate) async fn stopped(self) -> String {
        self.signal("TERM").await;
        self.ended().await.err
    }
}

fn started(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().expect("the binary was built for this test")
}

fn lines(log: ChildStderr) -> (UnboundedReceiver<String>, JoinHandle<()>) {
    let (sender, receiver) = unbounded_channel();
    let reading = tokio::spawn(async move {
        let mut log = BufReader::new(log);
        let mut line = String::new();
        while log.read_line(&mut line).await.expect("the binary writes UTF-8") > 0 {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    (receiver, reading)
}

/// Reads what a terminal shows until it has this.
pub(crate) async fn shown(terminal: &mut Child, words: &str) -> String {
    let out = terminal.stdout.as_mut().expect("it is piped");
    let (mut seen, mut buffer) = (String::new(), [0; 1024]);
    while !seen.contains(words) {
        let length = soon(words, out.read(&mut buffer)).await.expect("it can be read");
        assert!(length > 0, "it ended before it showed {words:?}: {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    seen
}

/// Types this.
pub(crate) async fn typed(terminal: &mut Child, text: &str) {
    let input = terminal.stdin.as_mut().expect("it is piped");
    input.write_all(text.as_bytes()).await.expect("it takes input");
    input.flush().await.expect("it takes input");
}

/// Sends a signal, such as `INT`, to a process.
pub(crate) async fn signal(process: &Child, name: &str) {
    let process = process.id().expect("it runs").to_string();
    let sent = run(Command::new("kill").args(["-s", name, &process])).await;
    assert_eq!(sent.code, Some(0), "{}", sent.err);
}

/// Runs a command to its end.
pub(crate) async fn run(command: &mut Command) -> Ran {
    ended(command.stdin(Stdio::null())).await
}

async fn ended(command: &mut Command) -> Ran {
    let name = format!("{:?}", command.as_std().get_program());
    let output = soon(&name, command.kill_on_drop(true).output()).await;
    let output = output.unwrap_or_else(|error| panic!("{name} cannot be run: {error}"));
    let text = |bytes| String::from_utf8(bytes).expect("commands write UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Waits for something that should happen soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}
