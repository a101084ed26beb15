//! A chat model in this process, as configured.

use std::sync::Arc;

use domain::ModelId;
use models::chat::{LlamaProvider, ModelFile, PrefixCacheLimits};
use models::files::ModelStore;

use super::ProcessLifetime;
use crate::settings::{EmbeddedModel, ProviderSettings, Reading, Settings};

/// The model, which loads in the background.
pub(crate) fn chat_model(
    name: &str,
    own: &ProviderSettings,
    settings: &Settings,
    lifetime: ProcessLifetime,
) -> LlamaProvider {
    let prefix_cache = PrefixCacheLimits {
        memory_bytes: settings.models.prefix_cache_memory_bytes / 2,
        disk_bytes: settings.models.prefix_cache_disk_bytes,
        pending: match lifetime {
            ProcessLifetime::OneCommand => 0,
            ProcessLifetime::Server => PrefixCacheLimits::default().pending,
        },
    };
    let limits = models::chat::Limits {
        window: own.context_window,
        waiting: settings.limits.model_queue,
        seed: own.seed,
        conversation_bytes: settings.models.prefix_cache_memory_bytes / 2,
        prefix_cache: (own.reading == Some(Reading::Kept)).then_some(prefix_cache),
        ..models::chat::Limits::default()
    };
    let cache = Some(settings.models.dir.join("cache"));
    let called = |model: &str| ModelId { provider: Arc::from(name), model: Arc::from(model) };
    match own.embedded_model().expect("settings refuse an unknown chat model") {
        EmbeddedModel::Own(path) => {
            let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
            let file = ModelFile { path: path.clone(), sha256: None };
            LlamaProvider::find_and_open(called(&name), || Ok(file), cache, limits)
        }
        EmbeddedModel::Known(model) => {
            let files = ModelStore::new(settings.models.dir.clone());
            let locate = move || {
                let path = files.locate(model)?;
                Ok(ModelFile { path, sha256: model.files.first().map(|file| file.sha256) })
            };
            LlamaProvider::find_and_open(called(&model.name), locate, cache, limits)
        }
    }
}
