//! A git command that talks to a server: it may take only so long and so much room.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{str, thread};

use crate::sources::Limits;

/// How often a command is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How many looks there are between two that measure the room it takes.
const LOOKS_A_MEASUREMENT: u32 = 25;

/// Bytes of what it says that are read.
const SAID_BYTES: u64 = 8 << 10;

/// Runs a command that writes into `folder`, and tells what it answered; if it fails, why.
pub(super) fn run(mut command: Command, folder: &Path, limits: Limits) -> Result<String, String> {
    // What it says goes into files: its own children, which may outlive it, would keep pipes open.
    let (answer, complaint) = (folder.join("wellspring.out"), folder.join("wellspring.err"));
    let mut start = || -> io::Result<Child> {
        command.stdout(File::create(&answer)?).stderr(File::create(&complaint)?).spawn()
    };
    let ended = start().map_err(|error| error.to_string()).and_then(|child| watch(child, folder, limits));
    let said = |path: &Path| end_of(path).map_err(|error| error.to_string());
    let told = ended
        .and_then(|ended| if ended.success() { said(&answer) } else { Err(last_line(&said(&complaint)?)) });
    for path in [answer, complaint] {
        // Git may have repeated an address with its secrets. If it was not started there may be no file.
        let _ = fs::remove_file(path);
    }
    told
}

fn watch(mut child: Child, folder: &Path, limits: Limits) -> Result<ExitStatus, String> {
    let started = Instant::now();
    for look in 1_u32.. {
        match child.try_wait() {
            Ok(Some(ended)) => return Ok(ended),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        let is_too_large =
            || look.is_multiple_of(LOOKS_A_MEASUREMENT) && bytes_in(folder) > limits.fetch_bytes;
        let reason = if started.elapsed() > limits.fetch_time {
            format!("it took longer than {} seconds", limits.fetch_time.as_secs())
        } else if is_too_large() {
            too_large(limits)
        } else {
            thread::sleep(LOOK_EVERY);
            continue;
        };
        // It may have ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        return Err(reason);
    }
    Err("it never ended".to_owned())
}

/// What is said of a repository that takes more room than it may.
pub(super) fn too_large(limits: Limits) -> String {
    format!("it takes more than {} MiB on disk", limits.fetch_bytes >> 20)
}

/// The bytes of all files below a folder. What vanishes while it is counted does not count.
pub(super) fn bytes_in(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) => bytes += about.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SAID_BYTES)))?;
    let mut said = Vec::new();
    file.take(SAID_BYTES).read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Git says what is wrong first on the last line that begins so.
fn last_line(complaint: &str) -> String {
    let mut lines = complaint.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next_back().unwrap_or("git says nothing");
    lines.rfind(|line| line.starts_with("fatal: ")).unwrap_or(last).chars().take(500).collect()
}
