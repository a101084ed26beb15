//! The server and its model server, as processes.

use bench::process::Process;
use tempfile::TempDir;

/// Both, until dropped.
pub(crate) struct Processes {
    pub(crate) title: String,
    _data: TempDir,
    pub(crate) server: Process,
    pub(crate) model: Process,
    /// The model that the server asks for.
    pub(crate) model_name: String,
}

/// The storage and durability of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Storage {
    Memory,
    Sqlite,
    Power,
}

impl Processes {
    /// Starts a model server, and a Wellspring that asks it for this model.
    pub(crate) async fn start(kind: &str, model_name: &str, storage: Storage) -> Self {
        let model =
            Process::start("fake-model", &["--bind", "127.0.0.1:0", "--model", model_name], &[]).await;
        let path = if kind == "openai" { "/v1" } else { "" };
        let base_url = format!("http://{}{path}", model.address);
        let data = TempDir::new().expect("a folder for its data");
        let (storage_kind, durability) = match storage {
            Storage::Memory => ("memory", "process"),
            Storage::Sqlite => ("sqlite", "process"),
            Storage::Power => ("sqlite", "power"),
        };
        let settings = [
            ("WELLSPRING__DATA_DIR", data.path().to_str().expect("a plain path")),
            ("WELLSPRING__STORAGE__KIND", storage_kind),
            ("WELLSPRING__STORAGE__DURABILITY", durability),
            ("WELLSPRING__PROVIDERS__LOCAL__KIND", kind),
            ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", &base_url),
            ("WELLSPRING__PROVIDERS__LOCAL__MODEL", model_name),
            ("WELLSPRING__GENERATION__MAX_TOKENS", "1000000"),
            // The knowledge base is empty, and every dialect must call the model all the same.
            ("WELLSPRING__GENERATION__WHEN_NOTHING_FOUND", "answer"),
            ("WELLSPRING__LIMITS__ANSWER_BYTES", "200000000"),
            ("WELLSPRING__LIMITS__CONCURRENT_STREAMS", "1000"),
            ("RUST_LOG", "warn"),
        ];
        let server = Process::start("wellspring", &["serve", "--bind", "127.0.0.1:0"], &settings).await;
        let title = format!("{kind}, storage {storage_kind} ({durability})");
        Self { title, _data: data, server, model, model_name: model_name.to_owned() }
    }
}
