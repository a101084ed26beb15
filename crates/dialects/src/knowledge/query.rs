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

/// What is searched for.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "QueryRequest")]
pub struct RequestWire {
    /// At most `limits.question_chars` characters.
    #[schemars(length(min = 1), regex(pattern = fields::NOT_BLANK))]
    query: String,
    /// How many passages.
    #[serde(default, deserialize_with = "json::integer")]
    #[schemars(range(min = *K.start(), max = *K.end()), extend("default" = DEFAULT_K))]
    k: Option<i64>,
    /// Where passages are looked for: all fields must match, of a list one value. A `filePath` is a glob.
    #[serde(default)]
    #[schemars(schema_with = "filters::document_schema")]
    filters: Option<BTreeMap<String, Value>>,
    /// `text` is the whole document's instead of the passage's.
    #[serde(default)]
    include_full_text: Option<bool>,
    /// Tell why each passage stands where it does.
    explain: Option<bool>,
}

/// What is searched for, and how it is to be told.
#[derive(Debug, PartialEq)]
pub struct QueryRequest {
    /// What is searched for.
    pub query: RetrievalQuery,
    /// Each passage with the whole text of its document.
    pub full_text: bool,
    /// Each passage with why it stands where it does.
    pub explain: bool,
}

/// Reads `POST /api/query`, whose query may have so many characters.
pub fn decode_query(body: &[u8], most_chars: usize) -> Result<QueryRequest, Rejection> {
    let request: RequestWire = json::parse(body)?;
    if request.query.trim().is_empty() {
        return Err(Rejection::Invalid("query is empty: say what to look for".to_owned()));
    }
    let chars = request.query.chars().count();
    if chars > most_chars {
        return Err(Rejection::Invalid(format!(
            "query has {chars} characters; it may have {most_chars} (limits.question_chars)"
        )));
    }
    let k = request.k.unwrap_or(DEFAULT_K);
    let limit = usize::try_from(k)
        .ok()
        .filter(|_| K.contains(&k))
        .ok_or_else(|| Rejection::Invalid(format!("k is {k}; it must be {} to {}", K.start(), K.end())))?;
    let filters = filters::decode(request.filters.unwrap_or_default(), &filters::DOCUMENT)?;
    Ok(QueryRequest {
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

/// A passage that was found.
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
    /// How near it is to the query: the cosine of both.
    #[schemars(range(min = 0.0, max = 1.0))]
    similarity_score: f32,
    #[schemars(with = "BTreeMap<String, Value>")]
    metadata: BTreeMap<&'a str, &'a RawValue>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
}

/// Why a passage stands where it does: its place in each list, from 1, and its score there.
#[derive(Serialize, JsonSchema)]
struct Explanation {
    #[serde(skip_serializing_if = "Option::is_none")]
    lexical: Option<Standing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dense: Option<Standing>,
    fused: Standing,
    #[serde(skip_serializing_if = "Option::is_none")]
    reranked: Option<Standing>,
}

#[derive(Serialize, JsonSchema)]
struct Standing {
    /// From 1.
    rank: usize,
    score: f32,
}

/// The answer to `POST /api/query`. Each hit's document is among the documents, with its text if that is told.
pub fn hits(hits: &[Hit], documents: &BTreeMap<DocumentId, Document>, request: &QueryRequest) -> Vec<u8> {
    let replies: Vec<_> = hits
        .iter()
        .filter_map(|hit| Some((hit, documents.get(&hit.passage.document)?)))
        .map(|(hit, document)| reply(hit, document, request))
        .collect();
    json::reply(&replies)
}

fn reply<'a>(hit: &'a Hit, document: &'a Document, request: &QueryRequest) -> HitReply<'a> {
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

fn explain(hit: &Hit) -> Explanation {
    let candidate = &hit.candidate;
    Explanation {
        lexical: candidate.lexical.map(standing),
        dense: candidate.dense.zip(candidate.cosine).map(standing),
        fused: standing(hit.fused),
        reranked: hit.reranked.map(standing),
    }
}

fn standing((place, score): (usize, f32)) -> Standing {
    Standing { rank: place + 1, score }
}

#[cfg(test)]
mod tests {
    use domain::{Candidate, ChunkId, Passage, Timestamp};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_passage_has_no_place_in_is_left_out() {
        let found_by_meaning = hit(None, Some(2), None);
        check(&found_by_meaning, &json!({"dense": place(3, 0.5), "fused": place(2, 0.25)}));
        let found_by_words = hit(Some((0, 8.0)), None, Some((4, 0.75)));
        check(
            &found_by_words,
            &json!({"lexical": place(1, 8.0), "fused": place(2, 0.25), "reranked": place(5, 0.75)}),
        );
    }

    fn check(hit: &Hit, expected: &Value) {
        assert_eq!(serde_json::to_value(explain(hit)).unwrap(), *expected);
    }

    fn place(rank: usize, score: f32) -> Value {
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
            before: String::new(),
            score: 0.5,
        };
        let candidate = Candidate { chunk, document, is_code: false, lexical, dense, cosine: Some(0.5) };
        Hit { passage, candidate, fused: (1, 0.25), reranked }
    }
}
