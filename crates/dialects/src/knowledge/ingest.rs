//! `POST /api/documents/ingest`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use domain::{
    DocumentLocation, IngestFailure, IngestStage, IngestedDocument, RawDocument, Rejection, SourceKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json;

/// The collection of documents without one.
const DEFAULT_COLLECTION: &str = "default";

/// Pattern of a name: at least one character that is not white space, and no control characters.
const NAME: &str =
    r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$";

const DOCUMENTS: RangeInclusive<usize> = 1..=1_000;

/// Documents to ingest.
#[derive(Deserialize, JsonSchema)]
pub struct IngestRequest {
    #[schemars(length(min = *DOCUMENTS.start(), max = *DOCUMENTS.end()))]
    documents: Vec<DocumentRequest>,
    /// Collection of the documents.
    #[schemars(regex(pattern = NAME), extend("default" = DEFAULT_COLLECTION))]
    collection: Option<String>,
}

/// A document. It replaces a document with the same collection, `repoUrl` and `filePath`.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NewDocument")]
struct DocumentRequest {
    #[schemars(regex(pattern = NAME), extend("examples" = ["https://github.com/example/repo"]))]
    repo_url: String,
    #[schemars(regex(pattern = NAME), extend("examples" = ["docs/intro.md"]))]
    file_path: String,
    /// Without it the title comes from the front matter, the first heading or the file name.
    title: Option<String>,
    text: String,
    metadata: Option<BTreeMap<String, Value>>,
}

/// Decodes `POST /api/documents/ingest`.
pub fn decode_ingest(body: &[u8]) -> Result<Vec<RawDocument>, Rejection> {
    let request: IngestRequest = json::parse(body)?;
    let count = request.documents.len();
    if !DOCUMENTS.contains(&count) {
        let (least, most) = (DOCUMENTS.start(), DOCUMENTS.end());
        return Err(Rejection::Invalid(format!("documents has {count}; it must have {least} to {most}")));
    }
    let collection = request.collection.unwrap_or_else(|| DEFAULT_COLLECTION.to_owned());
    check_name("collection", &collection)?;
    let decode = |(index, document): (usize, DocumentRequest)| {
        check_name(&format!("documents[{index}].repoUrl"), &document.repo_url)?;
        check_name(&format!("documents[{index}].filePath"), &document.file_path)?;
        Ok(decode_document(document, &collection))
    };
    request.documents.into_iter().enumerate().map(decode).collect()
}

fn decode_document(document: DocumentRequest, collection: &str) -> RawDocument {
    let metadata = document.metadata.unwrap_or_default();
    RawDocument {
        place: DocumentLocation {
            collection: collection.to_owned(),
            repo_url: document.repo_url,
            file_path: document.file_path,
        },
        source: SourceKind::Api,
        title: document.title.filter(|title| !title.trim().is_empty()),
        text: document.text,
        metadata: metadata.into_iter().map(|(name, value)| (name, value.to_string())).collect(),
    }
}

fn check_name(field: &str, name: &str) -> Result<(), Rejection> {
    if name.trim().is_empty() {
        return Err(Rejection::Invalid(format!("{field} is empty: give it a name")));
    }
    if name.chars().any(char::is_control) {
        return Err(Rejection::Invalid(format!("{field} has a control character in it")));
    }
    Ok(())
}

/// Result of an ingestion.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IngestResult")]
pub struct IngestReply<'a> {
    success_count: usize,
    failure_count: usize,
    total_chunks: usize,
    #[schemars(with = "u64")]
    duration_ms: u128,
    ingested_document_ids: Vec<String>,
    errors: Vec<IngestErrorWire<'a>>,
}

/// Why a document was not ingested.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IngestError")]
struct IngestErrorWire<'a> {
    document_identifier: String,
    message: &'a str,
    stage: IngestStageWire,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum IngestStageWire {
    Reading,
    Parsing,
    Filing,
    Embedding,
    Indexing,
}

/// The reply to `POST /api/documents/ingest`.
pub fn ingested(documents: &[Result<IngestedDocument, IngestFailure>], took: Duration) -> Vec<u8> {
    let ingested = || documents.iter().filter_map(|document| document.as_ref().ok());
    let errors: Vec<_> = documents.iter().filter_map(|document| document.as_ref().err()).collect();
    json::reply(&IngestReply {
        success_count: ingested().count(),
        failure_count: errors.len(),
        total_chunks: ingested().map(|ingested| ingested.chunks).sum(),
        duration_ms: took.as_millis(),
        ingested_document_ids: ingested().map(|ingested| ingested.document.to_string()).collect(),
        errors: errors.into_iter().map(error).collect(),
    })
}

fn error(failure: &IngestFailure) -> IngestErrorWire<'_> {
    IngestErrorWire {
        document_identifier: format!("{}/{}", failure.place.repo_url, failure.place.file_path),
        message: &failure.message,
        stage: match failure.stage {
            IngestStage::Reading => IngestStageWire::Reading,
            IngestStage::Parsing => IngestStageWire::Parsing,
            IngestStage::Filing => IngestStageWire::Filing,
            IngestStage::Embedding => IngestStageWire::Embedding,
            IngestStage::Indexing => IngestStageWire::Indexing,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(body: &str) -> String {
        match decode_ingest(body.as_bytes()) {
            Err(Rejection::Invalid(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn documents_are_decoded_with_metadata_of_any_type() {
        let body = br#"{"documents":[{"repoUrl":"r","filePath":"a.md","text":"hi","title":" ",
            "metadata":{"team":"core","level":3,"draft":true}}]}"#;
        let [document] = &decode_ingest(body).unwrap()[..] else { panic!() };
        assert_eq!(document.place.collection, "default");
        assert_eq!((document.title.as_deref(), document.text.as_str()), (None, "hi"));
        let metadata: Vec<_> = document.metadata.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(metadata, [("draft", "true"), ("level", "3"), ("team", "\"core\"")]);
    }

    #[test]
    fn a_wrong_field_is_named() {
        let one = |fields: &str| rejection(&format!(r#"{{"documents":[{{"text":"t",{fields}}}]}}"#));
        assert!(rejection(r#"{"documents":[]}"#).contains("must have 1 to 1000"));
        assert!(
            rejection(r#"{"documents":[{"repoUrl":"r","filePath":"f"}]}"#)
                .starts_with("documents[0]: missing")
        );
        assert!(one(r#""repoUrl":" ","filePath":"f""#).starts_with("documents[0].repoUrl is empty"));
        assert!(one(r#""repoUrl":"r","filePath":"a\nb""#).starts_with("documents[0].filePath has a control"));
        assert!(
            rejection(r#"{"collection":"","documents":[{"repoUrl":"r","filePath":"f","text":""}]}"#)
                .starts_with("collection is empty")
        );
    }

    #[test]
    fn the_reply_counts_documents_and_lists_errors() {
        let place = DocumentLocation {
            collection: "c".to_owned(),
            repo_url: "https://r".to_owned(),
            file_path: "a.md".to_owned(),
        };
        let document = place.document();
        let failed =
            IngestFailure { place, stage: IngestStage::Parsing, message: "it is not text".to_owned() };
        let reply =
            ingested(&[Ok(IngestedDocument { document, chunks: 3 }), Err(failed)], Duration::from_millis(7));
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        assert_eq!((&reply["successCount"], &reply["failureCount"]), (&1.into(), &1.into()));
        assert_eq!((&reply["totalChunks"], &reply["durationMs"]), (&3.into(), &7.into()));
        assert_eq!(reply["ingestedDocumentIds"][0], document.to_string());
        assert_eq!(
            reply["errors"][0],
            serde_json::json!({"documentIdentifier": "https://r/a.md", "message": "it is not text", "stage": "parsing"})
        );
    }
}
