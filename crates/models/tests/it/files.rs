//! Pulls of model files from a local hub and from folders: whatever fails on the way, only a file with the
//! right hash gets its final name.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;

use models::files::{
    FailedSource, FileDefect, FileSource, Hub, Manifest, Model, ModelStore, PullError, PullProgress,
    PullSource,
};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use crate::files_hub::{HubBehaviour, HubFiles, HubRequest, LocalHub};

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";
const WEIGHTS: &str = "weights.bin";
const CONFIG: &str = "1_Pooling/config.json";

/// A model of two files; the larger one is in two repositories.
struct World {
    folder: TempDir,
    store: ModelStore,
    model: Model,
    hub_files: HubFiles,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = ModelStore::new(folder.path().join("models"));
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
        let hub_files = HubFiles::from([
            (path("a/m", WEIGHTS), weights()),
            (path("b/m", WEIGHTS), weights()),
            (path("a/m", CONFIG), b"{}".to_vec()),
        ]);
        Self { folder, store, model, hub_files }
    }

    fn hub(&self, behaviour: HubBehaviour) -> LocalHub {
        LocalHub::start(self.hub_files.clone(), behaviour)
    }

    async fn pull(&self, source: &PullSource) -> Result<usize, PullError> {
        self.store.pull(&self.model, source, &mut |_| {}).await
    }

    async fn pull_from(&self, hub: &LocalHub) -> Result<usize, PullError> {
        self.pull(&hub_source(hub)).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("models/m").join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Both files are verified, and no partial file is left.
    fn check_complete(&self) {
        assert_eq!(self.store.locate(&self.model).unwrap(), self.path(""));
        assert!(fs::read(self.path(WEIGHTS)).unwrap() == weights());
        assert!(!self.path("weights.bin.part").exists());
    }
}

/// Bytes without repetitions.
fn weights() -> Vec<u8> {
    (0..25_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn path(repository: &str, name: &str) -> String {
    format!("/{repository}/resolve/{REVISION}/{name}")
}

fn hub_source(hub: &LocalHub) -> PullSource {
    PullSource::Manifest(Hub { address: hub.address.clone(), proxy: None })
}

fn request(repository: &str, name: &str, range: Option<&str>) -> HubRequest {
    HubRequest { path: path(repository, name), range: range.map(str::to_owned) }
}

fn failed_sources(error: PullError) -> Vec<FailedSource> {
    match error {
        PullError::AllSourcesFailed { failed, .. } => failed,
        PullError::Storage { .. } => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_pull_downloads_every_file_and_the_next_pull_sends_no_request() {
    let world = World::new();
    let hub = world.hub(HubBehaviour::default());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_complete();
    assert_eq!(hub.requests(), [request("a/m", WEIGHTS, None), request("a/m", CONFIG, None)]);
    assert_eq!(world.pull_from(&hub).await.unwrap(), 0);
    assert_eq!(hub.requests().len(), 2);
}

#[tokio::test]
async fn a_file_with_a_wrong_hash_is_rejected_and_both_hashes_are_named() {
    let mut world = World::new();
    for repository in ["a/m", "b/m"] {
        world.hub_files.insert(path(repository, WEIGHTS), vec![7; 100_000]);
    }
    let hub = world.hub(HubBehaviour::default());
    let error = world.pull_from(&hub).await.unwrap_err();
    let (expected, message) = (world.model.files[0].sha256.to_string(), error.to_string());
    assert!(message.contains("weights.bin of m") && message.contains(&expected), "{message}");
    assert!(message.contains("models pull m --from"), "{message}");
    let failed = failed_sources(error);
    assert_eq!(failed.len(), 2, "each source was asked once: {failed:?}");
    for (FailedSource { source, reason }, repository) in failed.iter().zip(["a/m", "b/m"]) {
        assert_eq!(*source, format!("{}{}", hub.address, path(repository, WEIGHTS)));
        let found = "2c4b101169bf328cd4a882e640a8b57eb3acf76518b3d105869905cf629e791c";
        assert!(reason.contains(found) && reason.contains(&expected), "{reason}");
    }
    assert!(!world.path(WEIGHTS).exists() && !world.path("weights.bin.part").exists());
}

#[tokio::test]
async fn after_a_source_with_a_wrong_file_the_next_one_is_asked() {
    let mut world = World::new();
    world.hub_files.insert(path("a/m", WEIGHTS), vec![7; 100_000]);
    let hub = world.hub(HubBehaviour::default());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_complete();
    assert_eq!(hub.requests()[..2], [request("a/m", WEIGHTS, None), request("b/m", WEIGHTS, None)]);
}

#[tokio::test]
async fn after_a_source_with_too_large_a_file_the_next_one_is_asked() {
    let mut world = World::new();
    world.hub_files.insert(path("a/m", WEIGHTS), [weights(), weights()].concat());
    let hub = world.hub(HubBehaviour::default());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_complete();
}

#[tokio::test]
async fn an_interrupted_download_resumes() {
    let world = World::new();
    let hub = world.hub(HubBehaviour { interrupted: (2, 30_000), ..HubBehaviour::default() });
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_complete();
    let ranges: Vec<_> = hub.requests().into_iter().take(3).map(|request| request.range).collect();
    assert_eq!(ranges, [None, Some("bytes=30000-".to_owned()), Some("bytes=60000-".to_owned())]);
}

#[tokio::test]
async fn an_interrupted_download_restarts_if_the_hub_has_no_range_requests() {
    let world = World::new();
    let hub = world.hub(HubBehaviour { interrupted: (1, 30_000), ranges: false, ..HubBehaviour::default() });
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_complete();
    assert_eq!(hub.requests().len(), 3);
}

#[tokio::test]
async fn a_failed_download_leaves_no_file_and_the_next_pull_resumes() {
    let world = World::new();
    let broken = world.hub(HubBehaviour { interrupted: (usize::MAX, 1_000), ..HubBehaviour::default() });
    let error = world.pull_from(&broken).await.unwrap_err();
    assert_eq!(failed_sources(error).len(), 2);
    assert_eq!(broken.requests().len(), 10, "five requests to each source");
    assert!(matches!(world.store.locate(&world.model).unwrap_err().defect, FileDefect::Missing));

    let hub = world.hub(HubBehaviour::default());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_complete();
    assert_eq!(hub.requests()[0], request("a/m", WEIGHTS, Some("bytes=10000-")));
}

#[tokio::test]
async fn a_wrong_partial_file_is_replaced_by_the_next_pull() {
    let world = World::new();
    let hub = world.hub(HubBehaviour::default());
    world.write("weights.bin.part", &[7; 500]);
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_complete();
    assert_eq!(
        hub.requests()[..2],
        [request("a/m", WEIGHTS, Some("bytes=500-")), request("a/m", WEIGHTS, None)]
    );
}

#[tokio::test]
async fn a_complete_partial_file_is_not_downloaded_again() {
    let world = World::new();
    let hub = world.hub(HubBehaviour::default());
    world.write("weights.bin.part", &weights());
    assert_eq!(world.pull_from(&hub).await.unwrap(), 2);
    world.check_complete();
    assert_eq!(hub.requests(), [request("a/m", CONFIG, None)]);
}

#[tokio::test]
async fn a_damaged_file_is_replaced_and_the_others_are_kept() {
    let world = World::new();
    let hub = world.hub(HubBehaviour::default());
    for damaged in [&weights()[1..], &[7; 100_000]] {
        world.write(WEIGHTS, damaged);
        world.write(CONFIG, b"{}");
        assert_eq!(world.pull_from(&hub).await.unwrap(), 1);
        world.check_complete();
    }
    assert_eq!(hub.requests().len(), 2);
}

#[tokio::test]
async fn a_pull_from_a_folder_copies_the_files() {
    let world = World::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let source = PullSource::Folder(elsewhere.path().to_owned());
    let error = world.pull(&source).await.unwrap_err();
    let sources = failed_sources(error).into_iter().map(|failed| PathBuf::from(failed.source));
    assert_eq!(
        sources.collect::<Vec<_>>(),
        [elsewhere.path().join("m/weights.bin"), elsewhere.path().join("weights.bin")]
    );

    fs::create_dir_all(elsewhere.path().join("m/1_Pooling")).unwrap();
    fs::write(elsewhere.path().join("m/weights.bin"), &weights()[..9]).unwrap();
    fs::write(elsewhere.path().join("weights.bin"), weights()).unwrap();
    fs::write(elsewhere.path().join("m").join(CONFIG), "{}").unwrap();
    assert_eq!(world.pull(&source).await.unwrap(), 2);
    world.check_complete();
}

#[test]
fn of_two_concurrent_pulls_one_waits_and_downloads_nothing() {
    let world = World::new();
    let mut hub = world.hub(HubBehaviour { held: true, ..HubBehaviour::default() });
    let source = hub_source(&hub);
    let (waiting, waits) = channel();
    let pull = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut on_progress = |progress: PullProgress<'_>| {
            if matches!(progress, PullProgress::Waiting) {
                waiting.send(()).unwrap();
            }
        };
        runtime.block_on(world.store.pull(&world.model, &source, &mut on_progress)).unwrap()
    };
    thread::scope(|scope| {
        let pulls = [scope.spawn(pull), scope.spawn(pull)];
        waits.recv().unwrap();
        hub.release();
        let mut fetched = pulls.map(|pull| pull.join().unwrap());
        fetched.sort_unstable();
        assert_eq!(fetched, [0, 2]);
    });
    world.check_complete();
    assert_eq!(hub.requests(), [request("a/m", WEIGHTS, None), request("a/m", CONFIG, None)]);
}

#[tokio::test]
async fn an_unreachable_hub_is_asked_once() {
    let mut world = World::new();
    let first = world.model.files[0].sources[0].clone();
    world.model.files[0].sources = vec![first.clone(), first];
    // A port that is bound and not listening refuses connections and is not given to another process.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let hub = Hub { address: format!("http://{}", closed.local_addr().unwrap()), proxy: None };
    let mut asking = 0;
    let mut count =
        |progress: PullProgress<'_>| asking += usize::from(matches!(progress, PullProgress::Asking { .. }));
    let error = world.store.pull(&world.model, &PullSource::Manifest(hub), &mut count).await.unwrap_err();
    let failed = failed_sources(error);
    assert_eq!((failed.len(), asking), (2, 1));
    assert!(failed.iter().all(|failed| failed.reason.contains("refused")), "{failed:?}");
}

#[tokio::test]
async fn a_file_that_the_hub_does_not_have_fails_with_its_status() {
    let mut world = World::new();
    world.hub_files.clear();
    world.model.files[0]
        .sources
        .retain(|source| matches!(source, FileSource::Hub(file) if file.repository == "a/m"));
    let hub = world.hub(HubBehaviour::default());
    let failed = failed_sources(world.pull_from(&hub).await.unwrap_err());
    assert_eq!(failed[0].reason, "it answers 404 Not Found");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_fails_before_any_request() {
    let world = World::new();
    fs::write(world.folder.path().join("models"), "a file").unwrap();
    let hub = world.hub(HubBehaviour::default());
    let error = world.pull_from(&hub).await.unwrap_err();
    assert!(matches!(error, PullError::Storage { .. }), "{error}");
    assert!(error.to_string().contains("models.dir"), "{error}");
    assert_eq!(hub.requests(), []);
}
