//! `POST /api/query`: passages without an answer.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use domain::{Document, DocumentId, Hit, Rejection, RetrievalQuery, SearchScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::documents::metadata;
use crate::{fields, filters, json};

const K: RangeInclusive<i64> = 1..=100;
const DEFAULT_K: i64 = 10;

/// A search for passages.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "QueryRequest")]
pub struct QueryRequest {
    /// The search query. At most `limits.question_chars` characters.
    #[schemars(length(min = 1), regex(pattern = fields::NOT_BLANK))]
    query: String,
    /// Number of passages to return.
    #[serde(default, deserialize_with = "json::integer")]
    #[schemars(range(min = *K.start(), max = *K.end()), extend("default" = DEFAULT_K))]
    k: Option<i64>,
    /// Restricts the search to matching documents: all fields must match, and of a list one value. A `filePath` is a glob.
    #[serde(default)]
    #[schemars(schema_with = "filters::document_schema")]
    filters: Option<BTreeMap<String, Value>>,
    /// Return the whole document as `text` instead of the passage.
    #[serde(default)]
    include_full_text: Option<bool>,
    /// Return the ranks and scores that placed each passage.
    explain: Option<bool>,
}

/// A decoded search: the query, and what the reply contains.
#[derive(Debug, PartialEq)]
pub struct SearchRequest {
    /// The query.
    pub query: RetrievalQuery,
    /// Reply with whole documents as texts.
    pub full_text: bool,
    /// Reply with ranks and scores.
    pub explain: bool,
}

/// Decodes `POST /api/query`. The query may have `max_chars` characters.
pub fn decode_query(body: &[u8], max_chars: usize) -> Result<SearchRequest, Rejection> {
    let request: QueryRequest = json::parse(body)?;
    if request.query.trim().is_empty() {
        return Err(Rejection::Invalid("query is empty: say what to look for".to_owned()));
    }
    let chars = request.query.chars().count();
    if chars > max_chars {
        return Err(Rejection::Invalid(format!(
            "query has {chars} characters; it may have {max_chars} (limits.question_chars)"
        )));
    }
    let k = request.k.unwrap_or(DEFAULT_K);
    let limit = usize::try_from(k)
        .ok()
        .filter(|_| K.contains(&k))
        .ok_or_else(|| Rejection::Invalid(format!("k is {k}; it must be {} to {}", K.start(), K.end())))?;
    let filters = filters::decode(request.filters.unwrap_or_default(), &filters::DOCUMENT)?;
    Ok(SearchRequest {
        query: RetrievalQuery {
            text: request.query,
            scope: SearchScope::Knowledge(filters),
            threshold: None,
            limit,
        },
        full_text: request.include_full_text.unwrap_or_default(),
        explain: request.explain.unwrap_or_default(),
    })
}

/// A passage that the search found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Hit")]
pub struct HitReply<'a> {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    #[schemars(extend("format" = "uuid"))]
    document_id: String,
    repo_url: &'a str,
    file_path: &'a str,
    title: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_start: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_end: Option<u32>,
    /// Cosine similarity of the passage and the query.
    #[schemars(range(min = 0.0, max = 1.0))]
    similarity_score: f32,
    #[schemars(with = "BTreeMap<String, Value>")]
    metadata: BTreeMap<&'a str, &'a RawValue>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationWire>,
}

/// Why a passage has its place: its rank in each list, from 1, and its score there.
#[derive(Serialize, JsonSchema)]
struct ExplanationWire {
    #[serde(skip_serializing_if = "Option::is_none")]
    lexical: Option<RankWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dense: Option<RankWire>,
    fused: RankWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    reranked: Option<RankWire>,
}

/// Rank and score in one list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Standing")]
struct RankWire {
    /// From 1.
    rank: usize,
    score: f32,
}

/// The reply to `POST /api/query`. A hit whose document is missing in `documents` is left out.
pub fn hits(hits: &[Hit], documents: &BTreeMap<DocumentId, Document>, request: &SearchRequest) -> Vec<u8> {
    let replies: Vec<_> = hits
        .iter()
        .filter_map(|hit| Some((hit, documents.get(&hit.passage.document)?)))
        .map(|(hit, document)| reply(hit, document, request))
        .collect();
    json::reply(&replies)
}

fn reply<'a>(hit: &'a Hit, document: &'a Document, request: &SearchRequest) -> HitReply<'a> {
    let passage = &hit.passage;
    HitReply {
        id: passage.chunk.to_string(),
        document_id: passage.document.to_string(),
        repo_url: &document.place.repo_url,
        file_path: &document.place.file_path,
        title: &document.title,
        text: if request.full_text { &document.text } else { &passage.text },
        line_start: passage.lines.map(|(first, _)| first),
        line_end: passage.lines.map(|(_, last)| last),
        similarity_score: passage.score,
        metadata: metadata(&document.metadata),
        explanation: request.explain.then(|| explain(hit)),
    }
}

fn explain(hit: &Hit) -> ExplanationWire {
    let candidate = &hit.candidate;
    ExplanationWire {
        lexical: candidate.lexical.map(rank),
        dense: candidate.dense.zip(candidate.cosine).map(rank),
        fused: rank(hit.fused),
        reranked: hit.reranked.map(rank),
    }
}

fn rank((position, score): (usize, f32)) -> RankWire {
    RankWire { rank: position + 1, score }
}

#[cfg(test)]
mod tests {
    use domain::{Candidate, ChunkId, Passage, Timestamp};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_without_the_passage_is_left_out() {
        let found_by_meaning = hit(None, Some(2), None);
        check(&found_by_meaning, &json!({"dense": rank_and_score(3, 0.5), "fused": rank_and_score(2, 0.25)}));
        let found_by_words = hit(Some((0, 8.0)), None, Some((4, 0.75)));
        check(
            &found_by_words,
            &json!({"lexical": rank_and_score(1, 8.0), "fused": rank_and_score(2, 0.25), "reranked": rank_and_score(5, 0.75)}),
        );
    }

    fn check(hit: &Hit, expected: &Value) {
        assert_eq!(serde_json::to_value(explain(hit)).unwrap(), *expected);
    }

    fn rank_and_score(rank: usize, score: f32) -> Value {
        json!({"rank": rank, "score": score})
    }

    fn hit(lexical: Option<(usize, f32)>, dense: Option<usize>, reranked: Option<(usize, f32)>) -> Hit {
        let (chunk, document) =
            (ChunkId::new(Timestamp::from_micros(0)), DocumentId::new(Timestamp::from_micros(0)));
        let passage = Passage {
            chunk,
            document,
            title: "Pumps".to_owned(),
            repo_url: None,
            file_path: None,
            url: None,
            section: None,
            subsection: None,
            lines: None,
            chars: None,
            text: "Pumps lift water.".to_owned(),
            score: 0.5,
        };
        let candidate = Candidate { chunk, document, is_code: false, lexical, dense, cosine: Some(0.5) };
        Hit { passage, candidate, fused: (1, 0.25), reranked }
    }
}
