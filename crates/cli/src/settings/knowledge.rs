//! `[ingest]`, `[rerank]` and `[index]`: the knowledge base.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::SecretUrl;
use super::validator::Validator;

/// How documents are ingested.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct IngestSettings {
    /// How documents are cut into chunks.
    pub(crate) chunking: Chunking,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Chunking {
    /// along headings and syntax
    #[default]
    Structure,
    /// by counting words
    Words,
}

/// How the passages found are ranked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RerankSettings {
    /// The reranker.
    pub(crate) kind: RerankKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RerankKind {
    /// a fitted weighted sum of the lexical (BM25) and dense (cosine) scores
    #[default]
    Embedded,
    /// reciprocal rank fusion of the lexical and dense lists
    None,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct IndexSettings {
    pub(crate) kind: IndexKind,
    pub(crate) url: Option<SecretUrl>,
    pub(crate) api_key_env: Option<String>,
    pub(crate) collection: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IndexKind {
    /// an index in `data_dir`
    #[default]
    Embedded,
}

/// What is searched.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct IndexTable {
    /// The index (`"qdrant"` is not built yet).
    kind: IndexKind,
    /// The address of Qdrant; unused so far.
    url: Option<String>,
    /// The environment variable with Qdrant's key; unused so far.
    api_key_env: Option<String>,
    /// The collection in Qdrant; unused so far.
    collection: String,
}

impl Default for IndexTable {
    fn default() -> Self {
        Self {
            kind: IndexKind::default(),
            url: None,
            api_key_env: None,
            collection: "rag_embedding".to_owned(),
        }
    }
}

impl IndexTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> IndexSettings {
        IndexSettings {
            kind: self.kind,
            url: validator.url("index.url", self.url, &["http", "https"]),
            api_key_env: validator.variable_name("index.api_key_env", self.api_key_env),
            collection: validator.one_line("index.collection", Some(self.collection)).unwrap_or_default(),
        }
    }
}
