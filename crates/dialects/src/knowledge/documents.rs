//! Lists of documents and collections.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use domain::{Metadata, Rejection, SourceKind, StoredDocument};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json as value};

use crate::json;

const PAGE_SIZE: RangeInclusive<u64> = 1..=100;
const PAGES: RangeInclusive<u64> = 1..=1_000_000_000;
const DEFAULT_PAGE_SIZE: u64 = 20;

/// A page of documents.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// Number of the page, from 1.
    pub page: u64,
    /// Documents per page.
    pub size: u64,
}

impl Page {
    /// The offset of the first document, and the number of documents.
    pub fn range(&self) -> (u64, usize) {
        ((self.page - 1) * self.size, usize::try_from(self.size).unwrap_or(usize::MAX))
    }
}

/// Decodes the query of `GET /api/documents`.
pub fn decode_page(page: Option<&str>, size: Option<&str>) -> Result<Page, Rejection> {
    let number = |name: &str, text: Option<&str>, default: u64, allowed: RangeInclusive<u64>| {
        let Some(text) = text else { return Ok(default) };
        text.parse().ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            Rejection::Invalid(format!("{name} is {text:?}; it must be {least} to {most}"))
        })
    };
    Ok(Page {
        page: number("page", page, 1, PAGES)?,
        size: number("pageSize", size, DEFAULT_PAGE_SIZE, PAGE_SIZE)?,
    })
}

/// The JSON Schemas of `page` and `pageSize`.
pub fn page_schemas() -> [Value; 2] {
    let schema = |allowed: RangeInclusive<u64>, default: u64| value!({"type": "integer", "minimum": allowed.start(), "maximum": allowed.end(), "default": default});
    [schema(PAGES, 1), schema(PAGE_SIZE, DEFAULT_PAGE_SIZE)]
}

/// A document.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Document")]
pub struct DocumentReply<'a> {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    source: SourceKindWire,
    repo_url: &'a str,
    file_path: &'a str,
    title: &'a str,
    /// The whole text, where a single document is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// Metadata as it was ingested.
    #[schemars(with = "BTreeMap<String, Value>")]
    metadata: BTreeMap<&'a str, &'a RawValue>,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
    chunk_count: u64,
}

impl<'a> DocumentReply<'a> {
    fn new(stored: &'a StoredDocument, text: Option<&'a str>) -> Self {
        let document = &stored.document;
        Self {
            id: document.id.to_string(),
            source: source(document.source),
            repo_url: &document.place.repo_url,
            file_path: &document.place.file_path,
            title: &document.title,
            text,
            metadata: metadata(&document.metadata),
            created_at: stored.created_at.to_string(),
            updated_at: stored.updated_at.to_string(),
            chunk_count: stored.chunk_count,
        }
    }
}

/// Origin of a document.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum SourceKindWire {
    Api,
    Folder,
    Git,
    Web,
}

fn source(source: SourceKind) -> SourceKindWire {
    match source {
        SourceKind::Api => SourceKindWire::Api,
        SourceKind::Folder => SourceKindWire::Folder,
        SourceKind::Git => SourceKindWire::Git,
        SourceKind::Web => SourceKindWire::Web,
    }
}

/// Metadata as it was ingested; values that are not JSON are left out.
pub(super) fn metadata(metadata: &Metadata) -> BTreeMap<&str, &RawValue> {
    let parsed = |value| serde_json::from_str::<&RawValue>(value).ok();
    metadata.iter().filter_map(|(name, value)| Some((name.as_str(), parsed(value)?))).collect()
}

/// The reply to `GET /api/documents/{id}`.
pub fn document(stored: &StoredDocument) -> Vec<u8> {
    json::reply(&DocumentReply::new(stored, Some(&stored.document.text)))
}

/// A page of documents, without their texts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Documents")]
pub struct DocumentsReply<'a> {
    documents: Vec<DocumentReply<'a>>,
    page: u64,
    page_size: u64,
    total_count: u64,
}

/// The reply to `GET /api/documents`.
pub fn documents(documents: &[StoredDocument], page: &Page, total_count: u64) -> Vec<u8> {
    let documents = documents.iter().map(|stored| DocumentReply::new(stored, None)).collect();
    json::reply(&DocumentsReply { documents, page: page.page, page_size: page.size, total_count })
}

/// All collections.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Collections")]
pub struct CollectionsReply<'a> {
    collections: Vec<CollectionReply<'a>>,
    total_count: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Collection")]
struct CollectionReply<'a> {
    id: &'a str,
    name: &'a str,
    document_count: u64,
}

/// The reply to `GET /api/documents/collections`. A collection's id is its name.
pub fn collections(collections: &[(String, u64)]) -> Vec<u8> {
    json::reply(&CollectionsReply {
        collections: collections
            .iter()
            .map(|(name, count)| CollectionReply { id: name, name, document_count: *count })
            .collect(),
        total_count: collections.len(),
    })
}
