//! The configured embedder.

use std::sync::Arc;

use ::providers::{BatchLimits, HttpEmbedderSettings, RemoteEmbedder, RetryLimits};
use domain::Embedder;
use models::embedder::BertEmbedder;
use models::files::ModelStore;

use super::WiringError;
use crate::settings::{self, EmbeddingKind, Settings};

/// The configured embedder. A model in this process loads in the background.
pub(crate) fn embedder(settings: &Settings) -> Result<Arc<dyn Embedder>, WiringError> {
    let embedding = &settings.embedding;
    let remote = match embedding.kind {
        EmbeddingKind::Embedded => return Ok(Arc::new(embedded_model(settings))),
        EmbeddingKind::Ollama => RemoteEmbedder::ollama,
        EmbeddingKind::Openai => RemoteEmbedder::openai,
    };
    let embedder = remote(HttpEmbedderSettings {
        name: "embedding".to_owned(),
        base_url: embedding.base_url.clone().unwrap_or_default(),
        model: embedding.model.clone().unwrap_or_default(),
        api_key: embedding.api_key.as_ref().map(|key| key.expose().into()),
        connect: embedding.connect,
        proxy: embedding.proxy.as_ref().map(|proxy| proxy.expose().as_str().into()),
        dimension: embedding.dimension,
        token_limit: embedding.token_limit,
        batches: BatchLimits {
            texts: embedding.batch_texts,
            bytes: embedding.batch_bytes,
            calls: embedding.calls,
        },
        timeout: embedding.timeout,
        retries: RetryLimits::default(),
    });
    Ok(Arc::new(embedder.map_err(WiringError::Embedding)?))
}

fn embedded_model(settings: &Settings) -> BertEmbedder {
    let limits = models::embedder::WorkerLimits::default();
    match settings.embedding.embedded_model().expect("settings refuse an unknown embedding model") {
        settings::EmbeddedModel::Own(folder) => {
            BertEmbedder::open(folder.display().to_string(), folder, limits)
        }
        settings::EmbeddedModel::Known(model) => {
            let store = ModelStore::new(settings.models.dir.clone());
            BertEmbedder::open_located(&model.name, move || store.locate(model), limits)
        }
    }
}
