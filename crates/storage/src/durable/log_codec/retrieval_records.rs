//! Stored forms of retrieval stages, passages and citations. A new field needs a default; no field may change its
//! meaning.

use std::time::Duration;

use domain::{Citation, Passage, RetrievedPassages, Stage, StageName};
use serde::{Deserialize, Serialize};

use super::InvalidRecord;
use super::stored_enum::stored_enum;

#[derive(Serialize, Deserialize)]
pub(super) struct StageRecord {
    name: StageNameRecord,
    /// None in the event that begins the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<StageEndRecord>,
}

#[derive(Serialize, Deserialize)]
struct StageEndRecord {
    count: usize,
    micros: u64,
}

stored_enum! { StageNameRecord is StageName {
    Rewriting = StageName::Rewriting => StageName::Rewriting,
    Retrieval = StageName::Retrieval => StageName::Retrieval,
    Reranking = StageName::Reranking => StageName::Reranking,
} }

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

impl From<&RetrievedPassages> for PassagesRecord {
    fn from(passages: &RetrievedPassages) -> Self {
        Self { found: passages.found, in_prompt: passages.in_prompt.iter().map(Into::into).collect() }
    }
}

impl TryFrom<PassagesRecord> for RetrievedPassages {
    type Error = InvalidRecord;

    fn try_from(record: PassagesRecord) -> Result<Self, InvalidRecord> {
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
    type Error = InvalidRecord;

    fn try_from(record: PassageRecord) -> Result<Self, InvalidRecord> {
        Ok(Self {
            chunk: record.chunk.parse().map_err(|_| InvalidRecord)?,
            document: record.document.parse().map_err(|_| InvalidRecord)?,
            title: record.title,
            repo_url: record.repo_url,
            file_path: record.file_path,
            url: record.url,
            section: record.section,
            subsection: record.subsection,
            lines: record.lines,
            chars: record.chars,
            text: record.text,
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
