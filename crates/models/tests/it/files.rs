//! Model files: only what has the right hash ever lies in its place, whatever happens on the way there.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;

use models::files::{Files, Flaw, Hub, Manifest, Model, Place, Progress, PullFailure, Source, Tried};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use crate::files_hub::{Asked, LocalHub, Manners, Shelf};

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";
const WEIGHTS: &str = "weights.bin";
const CONFIG: &str = "1_Pooling/config.json";

/// A model of two files, of which the larger can be had from two repositories.
struct World {
    folder: TempDir,
    files: Files,
    model: Model,
    shelf: Shelf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path().join("models"));
        let place = |repository: &str, path: &str| {
            format!("{{ hub = {{ repository = '{repository}', revision = '{REVISION}', path = '{path}' }} }}")
        };
        let manifest = format!(
            "[[models]]\nname = 'm'\npurpose = 'embedding'\nlicence = 'MIT'\nupstream = 'a/m'\n\
             [[models.files]]\nname = '{WEIGHTS}'\nbytes = 100000\n\
             sha256 = '7da779de1eaa52d07827c90101567e1078ae7ed48cb4c9ce41e4895882115028'\nplaces = [{}, {}]\n\
             [[models.files]]\nname = '{CONFIG}'\nbytes = 2\n\
             sha256 = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'\nplaces = [{}]\n",
            place("a/m", WEIGHTS),
            place("b/m", WEIGHTS),
            place("a/m", CONFIG),
        );
        let model = Manifest::parse(&manifest).unwrap().models.remove(0);
        let shelf = Shelf::from([
            (path("a/m", WEIGHTS), weights()),
            (path("b/m", WEIGHTS), weights()),
            (path("a/m", CONFIG), b"{}".to_vec()),
        ]);
        Self { folder, files, model, shelf }
    }

    fn hub(&self, manners: Manners) -> LocalHub {
        LocalHub::start(self.shelf.clone(), manners)
    }

    async fn pull(&self, source: &Source) -> Result<usize, PullFailure> {
        self.files.pull(&self.model, source, &mut |_| {}).await
    }

    async fn pull_from(&self, hub: &LocalHub) -> Result<usize, PullFailure> {
        self.pull(&source(hub)).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("models/m").join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Both files are right, and nothing is left beside them.
    fn check_whole(&self) {
        assert_eq!(self.files.locate(&self.model), Ok(self.path("")));
        assert!(fs::read(self.path(WEIGHTS)).unwrap() == weights());
        assert!(!self.path("weights.bin.part").exists());
    }
}

/// Bytes of which no two stretches are the same.
fn weights() -> Vec<u8> {
    (0..25_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn path(repository: &str, name: &str) -> String {
    format!("/{repository}/resolve/{REVISION}/{name}")
}

fn source(hub: &LocalHub) -> Source {
    Source::Places(Hub { address: hub.address.clone(), proxy: None })
}

fn asked(repository: &str, name: &str, range: Option<&str>) -> Asked {
    Asked { path: path(repository, name), range: range.map(str::to_owned) }
}

fn tried(failure: PullFailure) -> Vec<Tried> {
    match failure {
        PullFailure::Nowhere { tried, .. } => tried,
        PullFailure::Storage { .. } => panic!("{failure}"),
    }
}

#[tokio::test]
async fn a_pull_brings_every_file_and_the_next_one_asks_nobody() {
    let world = World::new();
    let hub = world.hub(Manners::default());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_whole();
    assert_eq!(hub.asked(), [asked("a/m", WEIGHTS, None), asked("a/m", CONFIG, None)]);
    assert_eq!(world.pull_from(&hub).await.unwrap(), 0);
    assert_eq!(hub.asked().len(), 2);
}

#[tokio::test]
async fn a_wrong_hash_is_refused_and_named() {
    let mut world = World::new();
    for repository in ["a/m", "b/m"] {
        world.shelf.insert(path(repository, WEIGHTS), vec![7; 100_000]);
    }
    let hub = world.hub(Manners::default());
    let failure = world.pull_from(&hub).await.unwrap_err();
    let (expected, message) = (world.model.files[0].sha256.to_string(), failure.to_string());
    assert!(message.contains("weights.bin of m") && message.contains(&expected), "{message}");
    assert!(message.contains("models pull m --from"), "{message}");
    let tried = tried(failure);
    assert_eq!(tried.len(), 2, "each place was asked once: {tried:?}");
    for (Tried { place, reason }, repository) in tried.iter().zip(["a/m", "b/m"]) {
        assert_eq!(*place, format!("{}{}", hub.address, path(repository, WEIGHTS)));
        let found = "2c4b101169bf328cd4a882e640a8b57eb3acf76518b3d105869905cf629e791c";
        assert!(reason.contains(found) && reason.contains(&expected), "{reason}");
    }
    assert!(!world.path(WEIGHTS).exists() && !world.path("weights.bin.part").exists());
}

#[tokio::test]
async fn a_place_with_a_wrong_file_gives_way_to_the_next() {
    let mut world = World::new();
    world.shelf.insert(path("a/m", WEIGHTS), vec![7; 100_000]);
    let hub = world.hub(Manners::default());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_whole();
    assert_eq!(hub.asked()[..2], [asked("a/m", WEIGHTS, None), asked("b/m", WEIGHTS, None)]);
}

#[tokio::test]
async fn a_place_with_too_large_a_file_gives_way_to_the_next() {
    let mut world = World::new();
    world.shelf.insert(path("a/m", WEIGHTS), [weights(), weights()].concat());
    let hub = world.hub(Manners::default());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_whole();
}

#[tokio::test]
async fn an_interrupted_download_goes_on_where_it_was() {
    let world = World::new();
    let hub = world.hub(Manners { breaks: (2, 30_000), ..Manners::default() });
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_whole();
    let ranges: Vec<_> = hub.asked().into_iter().take(3).map(|asked| asked.range).collect();
    assert_eq!(ranges, [None, Some("bytes=30000-".to_owned()), Some("bytes=60000-".to_owned())]);
}

#[tokio::test]
async fn an_interrupted_download_starts_anew_where_the_hub_cannot_go_on() {
    let world = World::new();
    let hub = world.hub(Manners { breaks: (1, 30_000), ranges: false, ..Manners::default() });
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_whole();
    assert_eq!(hub.asked().len(), 3);
}

#[tokio::test]
async fn a_download_that_is_given_up_leaves_no_file_and_the_next_pull_goes_on() {
    let world = World::new();
    let broken = world.hub(Manners { breaks: (usize::MAX, 1_000), ..Manners::default() });
    let failure = world.pull_from(&broken).await.unwrap_err();
    assert_eq!(tried(failure).len(), 2);
    assert_eq!(broken.asked().len(), 10, "five times at each place");
    assert_eq!(world.files.locate(&world.model).unwrap_err().flaw, Flaw::Missing);

    let hub = world.hub(Manners::default());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_whole();
    assert_eq!(hub.asked()[0], asked("a/m", WEIGHTS, Some("bytes=10000-")));
}

#[tokio::test]
async fn a_wrong_leftover_does_not_spoil_the_next_pull() {
    let world = World::new();
    let hub = world.hub(Manners::default());
    world.write("weights.bin.part", &[7; 500]);
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_whole();
    assert_eq!(hub.asked()[..2], [asked("a/m", WEIGHTS, Some("bytes=500-")), asked("a/m", WEIGHTS, None)]);
}

#[tokio::test]
async fn a_whole_leftover_is_all_that_is_needed() {
    let world = World::new();
    let hub = world.hub(Manners::default());
    world.write("weights.bin.part", &weights());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_whole();
    assert_eq!(hub.asked(), [asked("a/m", CONFIG, None)]);
}

#[tokio::test]
async fn a_damaged_file_is_repaired_and_the_others_stay() {
    let world = World::new();
    let hub = world.hub(Manners::default());
    for damaged in [&weights()[1..], &[7; 100_000]] {
        world.write(WEIGHTS, damaged);
        world.write(CONFIG, b"{}");
        assert_eq!(world.pull_from(&hub).await.unwrap(), 1);
        world.check_whole();
    }
    assert_eq!(hub.asked().len(), 2);
}

#[tokio::test]
async fn a_folder_gives_the_files_and_nobody_else_is_asked() {
    let world = World::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let source = Source::Folder(elsewhere.path().to_owned());
    let failure = world.pull(&source).await.unwrap_err();
    let places: Vec<_> = tried(failure).into_iter().map(|tried| PathBuf::from(tried.place)).collect();
    assert_eq!(places, [elsewhere.path().join("m/weights.bin"), elsewhere.path().join("weights.bin")]);

    fs::create_dir_all(elsewhere.path().join("m/1_Pooling")).unwrap();
    fs::write(elsewhere.path().join("m/weights.bin"), &weights()[..9]).unwrap();
    fs::write(elsewhere.path().join("weights.bin"), weights()).unwrap();
    fs::write(elsewhere.path().join("m").join(CONFIG), "{}").unwrap();
    assert_eq!(world.pull(&source).await.unwrap(), 2);
    world.check_whole();
}

#[test]
fn of_two_pulls_at_once_one_waits_and_finds_the_work_done() {
    let world = World::new();
    let mut hub = world.hub(Manners { held: true, ..Manners::default() });
    let source = source(&hub);
    let (waiting, waits) = channel();
    let pull = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut tell = |progress: Progress<'_>| {
            if matches!(progress, Progress::Waiting) {
                waiting.send(()).unwrap();
            }
        };
        runtime.block_on(world.files.pull(&world.model, &source, &mut tell)).unwrap()
    };
    thread::scope(|scope| {
        let pulls = [scope.spawn(pull), scope.spawn(pull)];
        waits.recv().unwrap();
        hub.release();
        let mut fetched = pulls.map(|pull| pull.join().unwrap());
        fetched.sort_unstable();
        assert_eq!(fetched, [0, 2]);
    });
    world.check_whole();
    assert_eq!(hub.asked(), [asked("a/m", WEIGHTS, None), asked("a/m", CONFIG, None)]);
}

#[tokio::test]
async fn a_hub_that_cannot_be_reached_is_tried_once() {
    let mut world = World::new();
    let first = world.model.files[0].places[0].clone();
    world.model.files[0].places = vec![first.clone(), first];
    // Bound and not listening: nobody answers there, and nobody else gets the port.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let hub = Hub { address: format!("http://{}", closed.local_addr().unwrap()), proxy: None };
    let mut asking = 0;
    let mut count =
        |progress: Progress<'_>| asking += usize::from(matches!(progress, Progress::Asking { .. }));
    let failure = world.files.pull(&world.model, &Source::Places(hub), &mut count).await.unwrap_err();
    let tried = tried(failure);
    assert_eq!((tried.len(), asking), (2, 1));
    assert!(tried.iter().all(|tried| tried.reason.contains("refused")), "{tried:?}");
}

#[tokio::test]
async fn what_the_hub_does_not_have_is_told() {
    let mut world = World::new();
    world.shelf.clear();
    world.model.files[0].places.retain(|place| matches!(place, Place::Hub(file) if file.repository == "a/m"));
    let hub = world.hub(Manners::default());
    let tried = tried(world.pull_from(&hub).await.unwrap_err());
    assert_eq!(tried[0].reason, "it answers 404 Not Found");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_told_at_once() {
    let world = World::new();
    fs::write(world.folder.path().join("models"), "a file").unwrap();
    let hub = world.hub(Manners::default());
    let failure = world.pull_from(&hub).await.unwrap_err();
    assert!(matches!(failure, PullFailure::Storage { .. }), "{failure}");
    assert!(failure.to_string().contains("models.dir"), "{failure}");
    assert_eq!(hub.asked(), []);
}
