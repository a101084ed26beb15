//! A passage as this dialect tells of it.

use domain::Passage;
use schemars::JsonSchema;
use serde::Serialize;

/// A passage that was in the prompt.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Source<'a> {
    /// Its number in the prompt, from 1: what `[1]` in the answer refers to.
    #[schemars(range(min = 1))]
    index: u32,
    #[schemars(extend("format" = "uuid"))]
    document_id: String,
    #[schemars(extend("format" = "uuid"))]
    chunk_id: String,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_start: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_end: Option<u32>,
    /// Its text, as the model has got it.
    excerpt: &'a str,
    /// How near it is to the question: the cosine of both.
    #[schemars(range(min = 0.0, max = 1.0))]
    score: f32,
    /// Whether the answer rests on it, which nobody knows before the answer is whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    cited: Option<bool>,
}

/// Passages in the order of the prompt, before anybody knows which of them the answer rests on.
pub(crate) fn sources(passages: &[Passage]) -> Vec<Source<'_>> {
    (1..).zip(passages).map(|(index, passage)| source(index, passage)).collect()
}

/// The same, with those marked that the answer rests on.
pub(crate) fn sources_of_answer<'a>(passages: &'a [Passage], cited: &[u32]) -> Vec<Source<'a>> {
    let mark = |source: Source<'a>| Source { cited: Some(cited.contains(&source.index)), ..source };
    sources(passages).into_iter().map(mark).collect()
}

fn source(index: u32, passage: &Passage) -> Source<'_> {
    Source {
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
