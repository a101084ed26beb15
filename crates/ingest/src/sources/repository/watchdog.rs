//! Runs a git command that talks to a server, and kills it when it exceeds its time or its disk space.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::sources::{GitError, SourceLimits};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Measuring walks the folder, so it happens on every 25th poll only: twice a second.
const POLLS_PER_MEASUREMENT: u32 = 25;

/// Bytes at the end of the command's output that are read.
const OUTPUT_BYTES: u64 = 8 << 10;

/// Runs a command that writes into `folder`, and returns its output.
pub(super) fn run(mut command: Command, folder: &Path, limits: SourceLimits) -> Result<String, GitError> {
    // The output goes into files, because a child of the command may outlive it and keep a pipe open.
    let (stdout, stderr) = (folder.join("wellspring.out"), folder.join("wellspring.err"));
    let mut run = || -> Result<String, GitError> {
        command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let status = watch(command.spawn()?, folder, limits)?;
        if status.success() {
            Ok(end_of(&stdout)?)
        } else {
            Err(GitError::Failed(last_line(&end_of(&stderr)?)))
        }
    };
    let output = run();
    for path in [stdout, stderr] {
        // The files may contain the address with its secrets. They are missing if the command did not start.
        let _ = fs::remove_file(path);
    }
    output
}

fn watch(mut child: Child, folder: &Path, limits: SourceLimits) -> Result<ExitStatus, GitError> {
    let started = Instant::now();
    let mut polls = 0_u32;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        polls = polls.wrapping_add(1);
        let is_measured = polls.is_multiple_of(POLLS_PER_MEASUREMENT);
        let error = if started.elapsed() > limits.fetch_time {
            GitError::TimedOut { seconds: limits.fetch_time.as_secs() }
        } else if is_measured && bytes_in(folder) > limits.fetch_bytes {
            too_large(limits)
        } else {
            thread::sleep(POLL_INTERVAL);
            continue;
        };
        // This fails if the child has ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
}

pub(super) fn too_large(limits: SourceLimits) -> GitError {
    GitError::TooLarge { mebibytes: limits.fetch_bytes >> 20 }
}

/// Total bytes of the files below a folder. Files that vanish during the walk do not count.
pub(super) fn bytes_in(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last `fatal:` line, in which git states the cause, or else the last line; at most 500 characters.
fn last_line(stderr: &str) -> String {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next_back().unwrap_or("git says nothing");
    lines.rfind(|line| line.starts_with("fatal: ")).unwrap_or(last).chars().take(500).collect()
}
