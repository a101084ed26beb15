//! The calls of the knowledge base.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use dialects::knowledge::wire::{
    CollectionsReply, DocumentReply, DocumentsReply, HitReply, IngestReply, IngestRequest, RequestWire,
};
use dialects::knowledge::{self, QueryRequest};
use dialects::{Rejected, failure_meaning};
use domain::{Document, DocumentId, Failure, FailureKind, Hit, Principal, Rejection};
use serde_json::json as schema;

use super::{InPath, named, query_value};
use crate::body::{DocumentsBody, JsonBody};
use crate::openapi::{Answer, Call, Routes, invalid, overloaded, stopping, storage};
use crate::refusal::{Refusal, json};
use crate::serve::App;

pub(crate) fn routes() -> Routes {
    let [page, page_size] = knowledge::page_schemas();
    Routes::of("Knowledge")
        .get(
            "/api/documents",
            documents,
            Call::new("documents", "Lists documents, without their texts")
                .query("page", page, "Which page, from 1.")
                .query("pageSize", page_size, "How many documents a page has.")
                .query("repoUrl", schema!({"type": "string"}), "Only those of this repository or folder.")
                .answers(200, Answer::json::<DocumentsReply<'_>>("A page of them."))
                .refuses([invalid(), storage()]),
        )
        .post(
            "/api/documents/ingest",
            ingest,
            Call::new("ingest", "Takes documents in")
                .more(
                    "It answers when they are searchable, vectors included. A document with the same collection, \
                     `repoUrl` and `filePath` is replaced; what did not change is not embedded again.",
                )
                .takes::<IngestRequest>()
                .answers(
                    200,
                    Answer::json::<IngestReply<'_>>("What became of each of them.")
                        .link("document", "document", &[("id", "$response.body#/ingestedDocumentIds/0")])
                        .link("remove", "removeDocument", &[("id", "$response.body#/ingestedDocumentIds/0")]),
                )
                .refuses([invalid(), overloaded(), stopping(), storage()]),
        )
        .get(
            "/api/documents/collections",
            collections,
            Call::new("collections", "Lists the collections")
                .answers(200, Answer::json::<CollectionsReply<'_>>("All of them."))
                .refuses([storage()]),
        )
        .get(
            "/api/documents/{id}",
            document,
            Call::new("document", "Shows a document with its text")
                .answers(200, Answer::json::<DocumentReply<'_>>("The document."))
                .refuses([knowledge::no_such_document()])
                .refuses([storage()]),
        )
        .delete(
            "/api/documents/{id}",
            remove,
            Call::new("removeDocument", "Removes a document")
                .answers(204, Answer::empty("It is gone."))
                .refuses([knowledge::no_such_document()])
                .refuses([storage()]),
        )
        .post(
            "/api/query",
            query,
            Call::new("query", "Finds passages, without an answer")
                .takes::<RequestWire>()
                .answers(200, Answer::json::<Vec<HitReply<'_>>>("Passages, the best first."))
                .refuses([invalid(), storage()])
                .refuses([FailureKind::Retrieval, FailureKind::Overloaded].map(not_retrieved)),
        )
}

/// Why nothing may be found, where that is described.
fn not_retrieved(kind: FailureKind) -> Rejected {
    knowledge::not_retrieved(Failure::new(kind, failure_meaning(kind)))
}

async fn ingest(
    State(app): State<App>,
    DocumentsBody { bytes, place }: DocumentsBody,
) -> Result<Response, Refusal> {
    let began = Instant::now();
    let documents = knowledge::decode_ingest(&bytes)?;
    drop(bytes);
    let ingested = app.ingests.run(place, Principal::local(), documents).await?;
    Ok(json(StatusCode::OK, knowledge::ingested(&ingested, began.elapsed())))
}

async fn documents(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let value = |name| query_value(query.as_deref(), name);
    let page = knowledge::decode_page(value("page").as_deref(), value("pageSize").as_deref());
    let page = page?;
    let (skip, limit) = page.range();
    let repo_url = value("repoUrl");
    let found = app.catalog.documents(&Principal::local(), repo_url.as_deref(), skip, limit).await;
    let (documents, total_count) = found?;
    Ok(json(StatusCode::OK, knowledge::documents(&documents, &page, total_count)))
}

async fn document(State(app): State<App>, id: InPath) -> Result<Response, Refusal> {
    let unknown = || Refusal::from(knowledge::no_such_document());
    let id: DocumentId = named(id).ok_or_else(unknown)?;
    let found = app.catalog.document(&Principal::local(), id).await?;
    Ok(json(StatusCode::OK, knowledge::document(&found.ok_or_else(unknown)?)))
}

async fn remove(State(app): State<App>, id: InPath) -> Result<StatusCode, Refusal> {
    let unknown = || Refusal::from(knowledge::no_such_document());
    let id: DocumentId = named(id).ok_or_else(unknown)?;
    match app.catalog.remove(&Principal::local(), &[id]).await? {
        0 => Err(unknown()),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

async fn collections(State(app): State<App>) -> Result<Response, Refusal> {
    let collections = app.catalog.collections(&Principal::local()).await?;
    Ok(json(StatusCode::OK, knowledge::collections(&collections)))
}

async fn query(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, Refusal> {
    let request = knowledge::decode_query(&body, app.settings.question_chars)?;
    let measure = |stage| app.engine.record_stage(&stage);
    let found = app.retriever.retrieve(&Principal::local(), request.query.clone(), &measure).await;
    let found = found.map_err(knowledge::not_retrieved)?;
    let documents = documents_of(&app, &found.passages, &request).await?;
    Ok(json(StatusCode::OK, knowledge::hits(&found.passages, &documents, &request)))
}

/// The documents of hits, with their texts only if those are told. Each hit is told with the whole text of its
/// document, so the texts are counted once for each: a reply has no more of them than the server takes in at once.
async fn documents_of(
    app: &App,
    hits: &[Hit],
    request: &QueryRequest,
) -> Result<BTreeMap<DocumentId, Document>, Rejection> {
    let who = Principal::local();
    let mut documents = BTreeMap::new();
    if request.full_text {
        let most = app.settings.ingest_body_bytes;
        let mut bytes = 0;
        for hit in hits {
            let id = hit.passage.document;
            if !documents.contains_key(&id) {
                documents.extend(app.catalog.document(&who, id).await?.map(|filed| (id, filed.document)));
            }
            bytes += documents.get(&id).map_or(0, |document: &Document| document.text.len());
            if bytes > most {
                return Err(Rejection::Invalid(format!(
                    "the whole texts of what was found have more than {most} bytes (limits.ingest_body_bytes): \
                     ask for fewer (k) or without includeFullText"
                )));
            }
        }
    } else {
        let chunks: Vec<_> = hits.iter().map(|hit| hit.passage.chunk).collect();
        let pieces = app.catalog.pieces(&who, &chunks).await?;
        documents.extend(pieces.into_iter().map(|piece| (piece.document.id, piece.document)));
    }
    Ok(documents)
}
