//! Stored forms of what was found for a question, and of what its answer rests on. Fields may be added with a
//! default; none may change its meaning.

use std::time::Duration;

use domain::{Citation, Passage, RetrievedPassages, Stage, StageName};
use serde::{Deserialize, Serialize};

use super::record::Unreadable;

/// How much of a passage a turn's source quotes, in characters.
const SOURCE_CHARS: usize = 500;

#[derive(Serialize, Deserialize)]
pub(super) struct StageRecord {
    name: StageNameRecord,
    /// None while it has only begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<StageEndRecord>,
}

#[derive(Serialize, Deserialize)]
struct StageEndRecord {
    count: usize,
    micros: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StageNameRecord {
    Rewriting,
    Retrieval,
    Reranking,
}

#[derive(Serialize, Deserialize)]
pub(super) struct PassagesRecord {
    found: u32,
    in_prompt: Vec<PassageRecord>,
}

#[derive(Serialize, Deserialize)]
struct PassageRecord {
    chunk: String,
    document: String,
    title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repo_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subsection: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lines: Option<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chars: Option<(u32, u32)>,
    text: String,
    score: f32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct CitationRecord {
    number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quote: Option<String>,
}

/// A passage among a turn's sources. One of a selection tells where in it it is.
#[derive(Serialize)]
pub(super) struct SourceRecord {
    source_url: String,
    page_title: String,
    section_heading: String,
    chunk_text: String,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    char_start: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    char_end: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_start: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_end: Option<u32>,
}

impl From<&Passage> for SourceRecord {
    fn from(passage: &Passage) -> Self {
        let shown = passage.beginning(SOURCE_CHARS);
        let lines = shown.chars.and(shown.lines);
        Self {
            source_url: shown.source_url(),
            section_heading: shown.heading().unwrap_or(Passage::NO_HEADING).to_owned(),
            page_title: shown.title,
            chunk_text: shown.text,
            relevance_score: shown.score,
            char_start: shown.chars.map(|(start, _)| start),
            char_end: shown.chars.map(|(_, end)| end),
            line_start: lines.map(|(first, _)| first),
            line_end: lines.map(|(_, last)| last),
        }
    }
}

impl From<&Stage> for StageRecord {
    fn from(stage: &Stage) -> Self {
        match *stage {
            Stage::Began(name) => Self { name: name.into(), ended: None },
            Stage::Ended { name, count, took } => {
                let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                Self { name: name.into(), ended: Some(StageEndRecord { count, micros }) }
            }
        }
    }
}

impl From<StageRecord> for Stage {
    fn from(record: StageRecord) -> Self {
        let name = record.name.into();
        match record.ended {
            None => Self::Began(name),
            Some(StageEndRecord { count, micros }) => {
                Self::Ended { name, count, took: Duration::from_micros(micros) }
            }
        }
    }
}

impl From<StageName> for StageNameRecord {
    fn from(name: StageName) -> Self {
        match name {
            StageName::Rewriting => Self::Rewriting,
            StageName::Retrieval => Self::Retrieval,
            StageName::Reranking => Self::Reranking,
        }
    }
}

impl From<StageNameRecord> for StageName {
    fn from(record: StageNameRecord) -> Self {
        match record {
            StageNameRecord::Rewriting => Self::Rewriting,
            StageNameRecord::Retrieval => Self::Retrieval,
            StageNameRecord::Reranking => Self::Reranking,
        }
    }
}

impl From<&RetrievedPassages> for PassagesRecord {
    fn from(passages: &RetrievedPassages) -> Self {
        Self { found: passages.found, in_prompt: passages.in_prompt.iter().map(Into::into).collect() }
    }
}

impl TryFrom<PassagesRecord> for RetrievedPassages {
    type Error = Unreadable;

    fn try_from(record: PassagesRecord) -> Result<Self, Unreadable> {
        let in_prompt = record.in_prompt.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(Self { found: record.found, in_prompt })
    }
}

impl From<&Passage> for PassageRecord {
    fn from(passage: &Passage) -> Self {
        Self {
            chunk: passage.chunk.to_string(),
            document: passage.document.to_string(),
            title: passage.title.clone(),
            repo_url: passage.repo_url.clone(),
            file_path: passage.file_path.clone(),
            url: passage.url.clone(),
            section: passage.section.clone(),
            subsection: passage.subsection.clone(),
            lines: passage.lines,
            chars: passage.chars,
            text: passage.text.clone(),
            score: passage.score,
        }
    }
}

impl TryFrom<PassageRecord> for Passage {
    type Error = Unreadable;

    fn try_from(record: PassageRecord) -> Result<Self, Unreadable> {
        Ok(Self {
            chunk: record.chunk.parse().map_err(|_| Unreadable)?,
            document: record.document.parse().map_err(|_| Unreadable)?,
            title: record.title,
            repo_url: record.repo_url,
            file_path: record.file_path,
            url: record.url,
            section: record.section,
            subsection: record.subsection,
            lines: record.lines,
            chars: record.chars,
            text: record.text,
            before: String::new(),
            score: record.score,
        })
    }
}

impl From<&Citation> for CitationRecord {
    fn from(citation: &Citation) -> Self {
        Self { number: citation.number, quote: citation.quote.clone() }
    }
}

impl From<CitationRecord> for Citation {
    fn from(record: CitationRecord) -> Self {
        Self { number: record.number, quote: record.quote }
    }
}
