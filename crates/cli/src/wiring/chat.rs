//! A chat model in this process, as the settings want it.

use std::sync::Arc;

use domain::Model;
use models::chat::LlamaProvider;
use models::files::Files;

use crate::settings::{EmbeddedModel, ProviderSettings, Settings};

/// The model, which is there at once and gets ready by itself.
pub(super) fn chat_model(name: &str, own: &ProviderSettings, settings: &Settings) -> LlamaProvider {
    let limits = models::chat::Limits {
        window: own.context_window,
        waiting: settings.limits.model_queue,
        ..models::chat::Limits::default()
    };
    let called = |model: &str| Model { provider: Arc::from(name), model: Arc::from(model) };
    match own.embedded_model().expect("settings refuse a chat model that is not known") {
        EmbeddedModel::Own(path) => {
            let file = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
            LlamaProvider::open(called(&file), path.clone(), limits)
        }
        EmbeddedModel::Known(model) => {
            let files = Files::new(settings.models.dir.clone());
            let locate = move || files.locate(model).map_err(|unusable| unusable.to_string());
            LlamaProvider::find_and_open(called(&model.name), locate, limits)
        }
    }
}
