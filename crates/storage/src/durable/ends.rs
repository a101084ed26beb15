//! Ends: a log that has come to its end is folded into the history.

use domain::{
    Accepted, Batch, Ended, Event, Principal, PromptId, RetrievedPassages, SearchScope, Step, Timestamp, Turn,
};
use rusqlite::{Connection, params};

use super::codec;
use super::found::SourceRecord;
use super::prompts::status_name;

/// Folds an ended log: status, counts, log and turn are kept, and the session is free. Folding what was
/// folded before changes nothing.
pub(super) fn fold(
    db: &Connection,
    who: &Principal,
    prompt: PromptId,
    log: &[Batch],
) -> rusqlite::Result<()> {
    let folded = Folded::of(log).expect("a log begins with its acceptance and ends with its end");
    let changed = db
        .prepare_cached(
            "UPDATE prompts SET status = ?, retryable = ?, token_count = ?
             WHERE tenant = ? AND id = ? AND status = 'in-flight'",
        )?
        .execute(params![
            status_name((&folded.ended.outcome).into()),
            folded.ended.may_be_retried(),
            folded.token_count,
            who.tenant,
            prompt.0.as_bytes()
        ])?;
    if changed == 0 {
        return Ok(());
    }
    let body = codec::encode_all(log);
    db.prepare_cached("INSERT INTO logs (tenant, prompt, format, checksum, body) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![who.tenant, prompt.0.as_bytes(), codec::FORMAT, crc32c::crc32c(&body), body])?;
    if let Some(turn) = &folded.turn {
        insert_turn(db, &folded, turn)?;
    }
    db.prepare_cached(
        "UPDATE sessions SET token_count = token_count + ?, last_active_at = max(last_active_at, ?),
                last_turn = coalesce(?, last_turn)
         WHERE tenant = ? AND id = ?",
    )?
    .execute(params![
        folded.token_count,
        folded.ended_at.micros(),
        folded.turn.as_ref().map(|_| prompt.0.as_bytes()),
        who.tenant,
        folded.accepted.session.0.as_bytes()
    ])?;
    Ok(())
}

/// What an ended log tells.
struct Folded {
    accepted: Box<Accepted>,
    accepted_at: Timestamp,
    ended: Box<Ended>,
    ended_at: Timestamp,
    token_count: u64,
    turn: Option<Turn>,
    passages: Option<Box<RetrievedPassages>>,
}

impl Folded {
    fn of(log: &[Batch]) -> Option<Self> {
        let events = || log.iter().flat_map(|batch| batch.iter());
        let (first, last): (&Event, &Event) = (events().next()?, events().last()?);
        let (Step::Accepted(accepted), Step::Ended(ended)) = (&first.step, &last.step) else { return None };
        Some(Self {
            accepted: accepted.clone(),
            accepted_at: first.at,
            ended: ended.clone(),
            ended_at: last.at,
            token_count: events().filter(|event| matches!(event.step, Step::Text(_))).count() as u64,
            turn: Turn::of(events()),
            passages: events().find_map(|event| match &event.step {
                Step::Passages(passages) => Some(passages.clone()),
                _ => None,
            }),
        })
    }
}

/// Writes a turn, with the passages that the model was given as its sources.
fn insert_turn(db: &Connection, folded: &Folded, turn: &Turn) -> rusqlite::Result<()> {
    let passages = folded.passages.as_deref();
    let sources: Vec<SourceRecord> =
        passages.into_iter().flat_map(|passages| &passages.in_prompt).map(SourceRecord::from).collect();
    let (mode, selected_text) = match &folded.accepted.question.scope {
        SearchScope::Knowledge(_) => ("general", None),
        SearchScope::Selection(text) => ("selected_text", Some(&**text)),
    };
    db.prepare_cached(
        "INSERT INTO conversations
            (id, session_id, query, response, sources, mode, selected_text, chunks_retrieved, latency_ms, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        folded.accepted.prompt.to_string(),
        folded.accepted.session.to_string(),
        turn.question,
        turn.answer,
        serde_json::to_string(&sources).expect("texts and numbers are JSON"),
        mode,
        selected_text,
        passages.map_or(0, |passages| passages.found),
        folded.ended_at.since(folded.accepted_at).as_secs_f64() * 1e3,
        folded.accepted_at.to_string()
    ])?;
    Ok(())
}

/// Ends a prompt whose log cannot be read, and its session with it: nobody knows what was said last.
pub(super) fn give_up(db: &Connection, who: &Principal, prompt: PromptId) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE prompts SET status = 'error', retryable = 1 WHERE tenant = ? AND id = ?")?
        .execute(params![who.tenant, prompt.0.as_bytes()])?;
    db.prepare_cached(
        "UPDATE sessions SET ended = coalesce(ended, 'lost')
         WHERE tenant = ?1 AND id = (SELECT session FROM prompts WHERE tenant = ?1 AND id = ?2)",
    )?
    .execute(params![who.tenant, prompt.0.as_bytes()])?;
    Ok(())
}
