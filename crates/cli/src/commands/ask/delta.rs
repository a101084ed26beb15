//! The deltas of the generation dialect, as far as they are printed.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Delta {
    Token { text: String },
    Done { metadata: DoneMetadata },
    Error { metadata: ErrorMetadata },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DoneMetadata {
    pub(super) finish_reason: String,
    pub(super) sources: Vec<DeltaSource>,
}

#[derive(Deserialize)]
pub(super) struct ErrorMetadata {
    pub(super) message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeltaSource {
    pub(super) index: u32,
    pub(super) title: String,
    pub(super) cited: bool,
    file_path: Option<String>,
    url: Option<String>,
    line_start: Option<u32>,
    line_end: Option<u32>,
}

impl DeltaSource {
    /// A file with its lines, otherwise a URL.
    pub(super) fn place(&self) -> String {
        let Some(path) = &self.file_path else { return self.url.clone().unwrap_or_default() };
        match (self.line_start, self.line_end) {
            (Some(first), Some(last)) if first != last => format!("{path}:{first}-{last}"),
            (Some(line), _) => format!("{path}:{line}"),
            _ => path.clone(),
        }
    }
}
