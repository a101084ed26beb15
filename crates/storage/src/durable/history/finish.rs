//! The end of a prompt: its log, status, turn and the counts of its session, in one transaction.

use domain::{Accepted, Batch, Ended, Event, Principal, PromptId, RetrievedPassages, Step, Timestamp, Turn};
use rusqlite::{Connection, params};

use super::conversations;
use super::prompts::status_name;
use crate::durable::log_codec;

/// Stores an ended log, and frees the prompt's session. Does nothing if the prompt was finished before.
pub(crate) fn finish(
    db: &Connection,
    who: &Principal,
    prompt: PromptId,
    log: &[Batch],
) -> rusqlite::Result<()> {
    let ended_log = EndedLog::of(log).expect("a log begins with its acceptance and ends with its end");
    let changed = db
        .prepare_cached(
            "UPDATE prompts SET status = ?, retryable = ?, token_count = ?
             WHERE tenant = ? AND id = ? AND status = 'in-flight'",
        )?
        .execute(params![
            status_name((&ended_log.ended.outcome).into()),
            ended_log.ended.may_be_retried(),
            ended_log.token_count,
            who.tenant,
            prompt.0.as_bytes()
        ])?;
    if changed == 0 {
        return Ok(());
    }
    let body = log_codec::encode_all(log);
    db.prepare_cached("INSERT INTO logs (tenant, prompt, format, checksum, body) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![who.tenant, prompt.0.as_bytes(), log_codec::FORMAT, crc32c::crc32c(&body), body])?;
    if let Some(turn) = &ended_log.turn {
        let times = (ended_log.accepted_at, ended_log.ended_at);
        conversations::insert(db, ended_log.accepted, turn, ended_log.passages, times)?;
    }
    db.prepare_cached(
        "UPDATE sessions SET token_count = token_count + ?, last_active_at = max(last_active_at, ?),
                last_turn = coalesce(?, last_turn)
         WHERE tenant = ? AND id = ?",
    )?
    .execute(params![
        ended_log.token_count,
        ended_log.ended_at.micros(),
        ended_log.turn.as_ref().map(|_| prompt.0.as_bytes()),
        who.tenant,
        ended_log.accepted.session.0.as_bytes()
    ])?;
    Ok(())
}

/// What the history stores of an ended log.
struct EndedLog<'a> {
    accepted: &'a Accepted,
    accepted_at: Timestamp,
    ended: &'a Ended,
    ended_at: Timestamp,
    token_count: u64,
    turn: Option<Turn>,
    passages: Option<&'a RetrievedPassages>,
}

impl<'a> EndedLog<'a> {
    fn of(log: &'a [Batch]) -> Option<Self> {
        let events = || log.iter().flat_map(|batch| batch.iter());
        let (first, last): (&Event, &Event) = (events().next()?, events().last()?);
        let (Step::Accepted(accepted), Step::Ended(ended)) = (&first.step, &last.step) else { return None };
        Some(Self {
            accepted,
            accepted_at: first.at,
            ended,
            ended_at: last.at,
            token_count: events().filter(|event| matches!(event.step, Step::Text(_))).count() as u64,
            turn: Turn::of(events()),
            passages: events().find_map(|event| match &event.step {
                Step::Passages(passages) => Some(&**passages),
                _ => None,
            }),
        })
    }
}

/// Ends a prompt whose log cannot be read, and its session with it, because the last turn is unknown.
pub(crate) fn finish_without_log(db: &Connection, who: &Principal, prompt: PromptId) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE prompts SET status = 'error', retryable = 1 WHERE tenant = ? AND id = ?")?
        .execute(params![who.tenant, prompt.0.as_bytes()])?;
    db.prepare_cached(
        "UPDATE sessions SET ended = coalesce(ended, 'lost')
         WHERE tenant = ?1 AND id = (SELECT session FROM prompts WHERE tenant = ?1 AND id = ?2)",
    )?
    .execute(params![who.tenant, prompt.0.as_bytes()])?;
    Ok(())
}
