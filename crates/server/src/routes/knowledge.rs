//! The knowledge base: `/api/documents` and `/api/query`.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use dialects::knowledge::wire::{
    CollectionsReply, DocumentReply, DocumentsReply, HitReply, IngestReply, IngestRequest, QueryRequest,
};
use dialects::knowledge::{self, SearchRequest};
use dialects::{ErrorReply, failure_meaning};
use domain::{Document, DocumentId, Failure, FailureKind, Hit, Principal, Rejection};
use serde_json::json as schema;

use super::{PathId, json_response, parse_id, query_value};
use crate::api_error::ApiError;
use crate::app::AppState;
use crate::openapi::{Operation, ResponseDoc, Routes, invalid, overloaded, stopping, storage};
use crate::request_body::{DocumentsBody, JsonBody};

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::tagged("Knowledge");
    routes.get("/api/documents", documents, documents_doc());
    routes.post("/api/documents/ingest", ingest, ingest_doc());
    routes.get("/api/documents/collections", collections, collections_doc());
    routes.get("/api/documents/{id}", document, document_doc());
    routes.delete("/api/documents/{id}", remove, remove_doc());
    routes.post("/api/query", query, query_doc());
    routes
}

/// The error of a failed retrieval, for the description.
fn retrieval_error(kind: FailureKind) -> ErrorReply {
    knowledge::search_failed(Failure::new(kind, failure_meaning(kind)))
}

fn ingest_doc() -> Operation {
    Operation::new("ingest", "Ingests documents")
        .description(
            "The response comes once the documents are searchable, embeddings included. A document with \
             the same collection, `repoUrl` and `filePath` is replaced; unchanged chunks are not embedded \
             again.",
        )
        .body::<IngestRequest>()
        .response(
            200,
            ResponseDoc::json::<IngestReply<'_>>("The outcome, with the failed documents.")
                .link("document", "document", &[("id", "$response.body#/ingestedDocumentIds/0")])
                .link("remove", "removeDocument", &[("id", "$response.body#/ingestedDocumentIds/0")]),
        )
        .errors([invalid(), overloaded(), stopping(), storage()])
}

async fn ingest(
    State(app): State<AppState>,
    DocumentsBody { bytes, permit }: DocumentsBody,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let documents = knowledge::decode_ingest(&bytes)?;
    drop(bytes);
    let ingested = app.ingest_tasks.run(permit, Principal::local(), documents).await?;
    Ok(json_response(StatusCode::OK, knowledge::ingested(&ingested, began.elapsed())))
}

fn documents_doc() -> Operation {
    let [page, page_size] = knowledge::page_schemas();
    Operation::new("documents", "Lists documents without their texts")
        .query("page", page, "The number of the page, from 1.")
        .query("pageSize", page_size, "Documents per page.")
        .query("repoUrl", schema!({"type": "string"}), "Only documents of this repository or folder.")
        .response(200, ResponseDoc::json::<DocumentsReply<'_>>("A page of documents."))
        .errors([invalid(), storage()])
}

async fn documents(State(app): State<AppState>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let value = |name| query_value(query.as_deref(), name);
    let page = knowledge::decode_page(value("page").as_deref(), value("pageSize").as_deref());
    let page = page?;
    let (skip, limit) = page.range();
    let repo_url = value("repoUrl");
    let found = app.catalog.documents(&Principal::local(), repo_url.as_deref(), skip, limit).await;
    let (documents, total_count) = found?;
    Ok(json_response(StatusCode::OK, knowledge::documents(&documents, &page, total_count)))
}

fn document_doc() -> Operation {
    Operation::new("document", "Shows a document with its text")
        .response(200, ResponseDoc::json::<DocumentReply<'_>>("The document."))
        .errors([knowledge::document_not_found()])
        .errors([storage()])
}

async fn document(State(app): State<AppState>, id: PathId) -> Result<Response, ApiError> {
    let unknown = || ApiError::from(knowledge::document_not_found());
    let id: DocumentId = parse_id(id).ok_or_else(unknown)?;
    let found = app.catalog.document(&Principal::local(), id).await?;
    Ok(json_response(StatusCode::OK, knowledge::document(&found.ok_or_else(unknown)?)))
}

fn remove_doc() -> Operation {
    Operation::new("removeDocument", "Removes a document")
        .response(204, ResponseDoc::empty("The document was removed."))
        .errors([knowledge::document_not_found()])
        .errors([storage()])
}

async fn remove(State(app): State<AppState>, id: PathId) -> Result<StatusCode, ApiError> {
    let unknown = || ApiError::from(knowledge::document_not_found());
    let id: DocumentId = parse_id(id).ok_or_else(unknown)?;
    match app.catalog.remove(&Principal::local(), &[id]).await? {
        0 => Err(unknown()),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

fn collections_doc() -> Operation {
    Operation::new("collections", "Lists the collections")
        .response(200, ResponseDoc::json::<CollectionsReply<'_>>("The collections."))
        .errors([storage()])
}

async fn collections(State(app): State<AppState>) -> Result<Response, ApiError> {
    let collections = app.catalog.collections(&Principal::local()).await?;
    Ok(json_response(StatusCode::OK, knowledge::collections(&collections)))
}

fn query_doc() -> Operation {
    Operation::new("query", "Retrieves passages without generating an answer")
        .body::<QueryRequest>()
        .response(200, ResponseDoc::json::<Vec<HitReply<'_>>>("The passages, best first."))
        .errors([invalid(), storage()])
        .errors([FailureKind::Retrieval, FailureKind::Overloaded].map(retrieval_error))
}

async fn query(State(app): State<AppState>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let request = knowledge::decode_query(&body, app.settings.question_chars)?;
    let measure = |stage| app.engine.record_stage(&stage);
    let found = app.retriever.retrieve(&Principal::local(), request.query.clone(), &measure).await;
    let found = found.map_err(knowledge::search_failed)?;
    let documents = documents_of(&app, &found.passages, &request).await?;
    Ok(json_response(StatusCode::OK, knowledge::hits(&found.passages, &documents, &request)))
}

/// The documents of these hits, with their texts only if the request wants them. A response repeats a
/// document's whole text for each hit in it, so the texts are counted once a hit, and bounded like the body
/// of an ingest request.
async fn documents_of(
    app: &AppState,
    hits: &[Hit],
    request: &SearchRequest,
) -> Result<BTreeMap<DocumentId, Document>, Rejection> {
    let who = Principal::local();
    let mut documents = BTreeMap::new();
    if request.full_text {
        let max_bytes = app.settings.ingest_body_bytes;
        let mut bytes = 0;
        for hit in hits {
            let id = hit.passage.document;
            if !documents.contains_key(&id) {
                documents.extend(app.catalog.document(&who, id).await?.map(|stored| (id, stored.document)));
            }
            bytes += documents.get(&id).map_or(0, |document: &Document| document.text.len());
            if bytes > max_bytes {
                return Err(Rejection::Invalid(format!(
                    "the whole texts of the documents found exceed {max_bytes} bytes \
                     (limits.ingest_body_bytes): ask for fewer (k) or without includeFullText"
                )));
            }
        }
    } else {
        let chunks: Vec<_> = hits.iter().map(|hit| hit.passage.chunk).collect();
        let chunks = app.catalog.chunks(&who, &chunks).await?;
        documents.extend(chunks.into_iter().map(|chunk| (chunk.document.id, chunk.document)));
    }
    Ok(documents)
}
