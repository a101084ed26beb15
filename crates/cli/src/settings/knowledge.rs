//! Settings of the knowledge base: ingest, reranking, the index.

use serde::{Deserialize, Serialize};

use super::checks::Checks;
use super::secret::SecretUrl;

/// `[ingest]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct IngestSettings {
    /// How documents are cut into chunks.
    pub(crate) chunking: Chunking,
}

/// How documents are cut into chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Chunking {
    /// By headings and syntax.
    #[default]
    Structure,
    /// By counting words.
    Words,
}

/// `[rerank]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RerankSettings {
    /// Who puts what was found in order.
    pub(crate) kind: RerankKind,
}

/// Who puts what was found in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RerankKind {
    /// A model in this process: a weighted sum, fitted, of how well words and meaning fit.
    #[default]
    Embedded,
    /// Nobody: their places among those found by words and by meaning alone.
    None,
}

/// `[index]`
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct IndexSettings {
    /// What is searched.
    pub(crate) kind: IndexKind,
    /// Where Qdrant is.
    pub(crate) url: Option<SecretUrl>,
    /// The environment variable that its key is read from.
    pub(crate) api_key_env: Option<String>,
    /// Its collection.
    pub(crate) collection: String,
}

/// What is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IndexKind {
    /// An index in this process.
    #[default]
    Embedded,
    /// A Qdrant server.
    Qdrant,
}

/// `[index]` as typed.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TypedIndex {
    kind: IndexKind,
    url: Option<String>,
    api_key_env: Option<String>,
    collection: String,
}

impl Default for TypedIndex {
    fn default() -> Self {
        Self {
            kind: IndexKind::default(),
            url: None,
            api_key_env: None,
            collection: "rag_embedding".to_owned(),
        }
    }
}

impl TypedIndex {
    pub(super) fn resolve(self, checks: &mut Checks<'_>) -> IndexSettings {
        if self.kind == IndexKind::Qdrant {
            checks.refuse("index.kind", "\"qdrant\" is not built yet; allowed is \"embedded\"");
        }
        IndexSettings {
            kind: self.kind,
            url: checks.url("index.url", self.url, &["http", "https"]),
            api_key_env: checks.variable("index.api_key_env", self.api_key_env),
            collection: checks.line("index.collection", Some(self.collection)).unwrap_or_default(),
        }
    }
}
