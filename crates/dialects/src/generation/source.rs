//! A passage of the prompt on the wire.

use domain::Passage;
use schemars::JsonSchema;
use serde::Serialize;

/// A passage in the prompt of an answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Source")]
pub(crate) struct SourceWire<'a> {
    /// Number of the passage in the prompt, from 1; `[1]` in the answer refers to it.
    #[schemars(range(min = 1))]
    index: u32,
    /// Id of the document.
    #[schemars(extend("format" = "uuid"))]
    document_id: String,
    /// Id of the chunk.
    #[schemars(extend("format" = "uuid"))]
    chunk_id: String,
    /// Title of the document.
    title: &'a str,
    /// URL of the document's repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    repo_url: Option<&'a str>,
    /// Path of the document in its repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<&'a str>,
    /// Address of the document's page.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    /// First line of the passage in the document, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_start: Option<u32>,
    /// Last line of the passage in the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_end: Option<u32>,
    /// Text of the passage in the prompt.
    excerpt: &'a str,
    /// Cosine similarity of the passage and the question.
    #[schemars(range(min = 0.0, max = 1.0))]
    score: f32,
    /// Whether the answer cites the passage. Known once the answer is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    cited: Option<bool>,
}

/// The passages in prompt order, before their citations are known.
pub(crate) fn sources(passages: &[Passage]) -> Vec<SourceWire<'_>> {
    (1..).zip(passages).map(|(index, passage)| source(index, passage)).collect()
}

/// The passages in prompt order, with the cited ones marked.
pub(crate) fn sources_of_answer<'a>(passages: &'a [Passage], cited: &[u32]) -> Vec<SourceWire<'a>> {
    let mark = |source: SourceWire<'a>| SourceWire { cited: Some(cited.contains(&source.index)), ..source };
    sources(passages).into_iter().map(mark).collect()
}

fn source(index: u32, passage: &Passage) -> SourceWire<'_> {
    SourceWire {
        index,
        document_id: passage.document.to_string(),
        chunk_id: passage.chunk.to_string(),
        title: &passage.title,
        repo_url: passage.repo_url.as_deref(),
        file_path: passage.file_path.as_deref(),
        url: passage.url.as_deref(),
        line_start: passage.lines.map(|(first, _)| first),
        line_end: passage.lines.map(|(_, last)| last),
        excerpt: &passage.text,
        score: passage.score,
        cited: None,
    }
}
