//! The table `conversations`: the questions and answers, for others to read with SQL.

use domain::{Accepted, Passage, PromptId, RetrievedPassages, SearchScope, Timestamp, Turn};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

/// How much of a passage its source quotes, in characters.
const SOURCE_CHARS: usize = 500;

/// Inserts a turn, with the passages that the model was given as its sources.
pub(super) fn insert(
    db: &Connection,
    accepted: &Accepted,
    turn: &Turn,
    passages: Option<&RetrievedPassages>,
    (accepted_at, ended_at): (Timestamp, Timestamp),
) -> rusqlite::Result<()> {
    let sources: Vec<SourceRecord> =
        passages.into_iter().flat_map(|passages| &passages.in_prompt).map(SourceRecord::from).collect();
    let (mode, selected_text) = match &accepted.question.scope {
        SearchScope::Knowledge(_) => ("general", None),
        SearchScope::Selection(text) => ("selected_text", Some(&**text)),
    };
    db.prepare_cached(
        "INSERT INTO conversations
            (id, session_id, query, response, sources, mode, selected_text, chunks_retrieved, latency_ms, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        accepted.prompt.to_string(),
        accepted.session.to_string(),
        turn.question,
        turn.answer,
        serde_json::to_string(&sources).expect("texts and numbers are JSON"),
        mode,
        selected_text,
        passages.map_or(0, |passages| passages.found),
        ended_at.since(accepted_at).as_secs_f64() * 1e3,
        accepted_at.to_string()
    ])?;
    Ok(())
}

/// Reads the turn of a prompt; none if it has no text.
pub(super) fn find(db: &Connection, prompt: PromptId) -> rusqlite::Result<Option<Turn>> {
    db.prepare_cached("SELECT query, response FROM conversations WHERE id = ?")?
        .query_row([prompt.to_string()], |row| Ok(Turn { question: row.get(0)?, answer: row.get(1)? }))
        .optional()
}

pub(super) fn delete(db: &Connection, prompt: PromptId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM conversations WHERE id = ?")?.execute([prompt.to_string()])?;
    Ok(())
}

/// A passage that the model was given, as the `sources` column has it. A passage of a selection has its range there.
#[derive(Serialize)]
struct SourceRecord {
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
