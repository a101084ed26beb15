//! Prompts, their logs and their turns, as the history has them.

use domain::{
    Batch, Principal, Prompt, PromptFilter, PromptId, PromptStatus, SessionId, StorageError, Timestamp, Turn,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec;
use crate::sqlite::{optional_uuid, uuid};

/// A log as it is stored.
pub(super) struct StoredLog {
    format: u32,
    checksum: u32,
    pub(super) body: Vec<u8>,
}

impl StoredLog {
    pub(super) fn decode(&self) -> Result<Vec<Batch>, StorageError> {
        if self.format > codec::FORMAT {
            let format = self.format;
            return Err(StorageError::other(format!(
                "a newer release has stored this log (format {format})"
            )));
        }
        if self.checksum != crc32c::crc32c(&self.body) {
            return Err(StorageError::other("the stored log is damaged".to_owned()));
        }
        codec::decode(&self.body)
    }
}

pub(super) fn log(db: &Connection, who: &Principal, prompt: PromptId) -> rusqlite::Result<Option<StoredLog>> {
    db.prepare_cached("SELECT format, checksum, body FROM logs WHERE tenant = ? AND prompt = ?")?
        .query_row(params![who.tenant, prompt.0.as_bytes()], |row| {
            Ok(StoredLog { format: row.get(0)?, checksum: row.get(1)?, body: row.get(2)? })
        })
        .optional()
}

/// The columns of a prompt, as `from_row` reads them.
pub(super) const COLUMNS: &str = "id, session, text, key, status, created_at, token_count";

pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Prompt> {
    let status: String = row.get(4)?;
    Ok(Prompt {
        id: PromptId(uuid(row, 0)?),
        session: SessionId(uuid(row, 1)?),
        text: row.get(2)?,
        key: row.get(3)?,
        status: match status.as_str() {
            "in-flight" => PromptStatus::InFlight,
            "done" => PromptStatus::Done,
            "cancelled" => PromptStatus::Cancelled,
            _ => PromptStatus::Error,
        },
        created_at: Timestamp::from_micros(row.get(5)?),
        token_count: row.get(6)?,
    })
}

pub(super) fn status_name(status: PromptStatus) -> &'static str {
    match status {
        PromptStatus::InFlight => "in-flight",
        PromptStatus::Done => "done",
        PromptStatus::Cancelled => "cancelled",
        PromptStatus::Error => "error",
    }
}

pub(super) fn find(db: &Connection, who: &Principal, id: PromptId) -> rusqlite::Result<Option<Prompt>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM prompts WHERE tenant = ? AND id = ?"))?
        .query_row(params![who.tenant, id.0.as_bytes()], from_row)
        .optional()
}

/// The turns that lead to `last`, the oldest first. Only prompts with a turn are followed.
pub(super) fn thread(
    db: &Connection,
    who: &Principal,
    last: PromptId,
    limit: usize,
) -> rusqlite::Result<Vec<Turn>> {
    let mut turns = Vec::new();
    let mut next = Some(last);
    let mut walk = db.prepare_cached("SELECT follows FROM prompts WHERE tenant = ? AND id = ?")?;
    let mut read = db.prepare_cached("SELECT query, response FROM conversations WHERE id = ?")?;
    while let Some(id) = next.filter(|_| turns.len() < limit) {
        let found =
            walk.query_row(params![who.tenant, id.0.as_bytes()], |row| optional_uuid(row, 0)).optional()?;
        let Some(follows) = found else { break };
        let turn =
            read.query_row([id.to_string()], |row| Ok(Turn { question: row.get(0)?, answer: row.get(1)? }));
        turns.extend(turn.optional()?);
        next = follows.map(PromptId);
    }
    turns.reverse();
    Ok(turns)
}

/// The prompts of a session's newest turns, the newest first. Those that ended with any text are turns.
pub(super) fn newest_turns(
    db: &Connection,
    who: &Principal,
    session: SessionId,
    limit: usize,
) -> rusqlite::Result<Vec<PromptId>> {
    db.prepare_cached(
        "SELECT id FROM prompts INDEXED BY prompts_of_session
         WHERE tenant = ? AND session = ? AND status <> 'in-flight' AND token_count > 0 ORDER BY id DESC LIMIT ?",
    )?
    .query_map(params![who.tenant, session.0.as_bytes(), limit], |row| Ok(PromptId(uuid(row, 0)?)))?
    .collect()
}

/// The newest prompts, the newest first.
pub(super) fn newest(
    db: &Connection,
    who: &Principal,
    which: PromptFilter,
    limit: usize,
) -> rusqlite::Result<Vec<Prompt>> {
    let (session, status) = (which.session.map(|id| *id.0.as_bytes()), which.status.map(status_name));
    // Left to itself, SQLite would walk through all prompts of the tenant, because they are in order.
    let index = match which {
        PromptFilter { session: Some(_), .. } => "INDEXED BY prompts_of_session",
        PromptFilter { status: Some(_), .. } => "INDEXED BY prompts_by_status",
        PromptFilter { session: None, status: None } => "",
    };
    let of_session = if session.is_some() { "session = ?2" } else { "?2 IS NULL" };
    let with_status = if status.is_some() { "status = ?3" } else { "?3 IS NULL" };
    db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM prompts {index} WHERE tenant = ?1 AND {of_session} AND {with_status}
         ORDER BY id DESC LIMIT ?4"
    ))?
    .query_map(params![who.tenant, session, status, limit], from_row)?
    .collect()
}

/// The prompts that are running, and the beginnings of their logs.
pub(super) fn in_flight(db: &Connection) -> rusqlite::Result<Vec<(Principal, PromptId, Vec<u8>)>> {
    db.prepare("SELECT tenant, id, accepted FROM prompts WHERE status = 'in-flight'")?
        .query_map([], |row| Ok((Principal { tenant: row.get(0)? }, PromptId(uuid(row, 1)?), row.get(2)?)))?
        .collect()
}
