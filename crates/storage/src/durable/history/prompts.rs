//! The tables `prompts` and `logs`.

use domain::{
    Batch, Principal, Prompt, PromptFilter, PromptId, PromptStatus, SessionId, StorageError,
    StorageErrorKind, Timestamp, Turn,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::conversations;
use crate::durable::log_codec;
use crate::sqlite::{optional_uuid, uuid};

/// A log as it is stored.
pub(crate) struct StoredLog {
    format: u32,
    checksum: u32,
    pub(crate) body: Vec<u8>,
}

impl StoredLog {
    /// Decodes the batches. Fails if the checksum does not match, or a newer release has stored the log.
    pub(crate) fn decode(&self) -> Result<Vec<Batch>, StorageError> {
        if self.format > log_codec::FORMAT {
            let format = self.format;
            return Err(StorageError::other(format!(
                "a newer release has stored this log (format {format})"
            )));
        }
        if self.checksum != crc32c::crc32c(&self.body) {
            return Err(StorageError::new(StorageErrorKind::Damaged, "the stored log is damaged"));
        }
        log_codec::decode(&self.body)
    }
}

pub(crate) fn log(db: &Connection, who: &Principal, prompt: PromptId) -> rusqlite::Result<Option<StoredLog>> {
    db.prepare_cached("SELECT format, checksum, body FROM logs WHERE tenant = ? AND prompt = ?")?
        .query_row(params![who.tenant, prompt.0.as_bytes()], |row| {
            Ok(StoredLog { format: row.get(0)?, checksum: row.get(1)?, body: row.get(2)? })
        })
        .optional()
}

/// The columns that `from_row` reads.
const COLUMNS: &str = "id, session, text, key, status, created_at, token_count";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Prompt> {
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

pub(crate) fn find(db: &Connection, who: &Principal, id: PromptId) -> rusqlite::Result<Option<Prompt>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM prompts WHERE tenant = ? AND id = ?"))?
        .query_row(params![who.tenant, id.0.as_bytes()], from_row)
        .optional()
}

/// The turns that lead to `last`, the oldest first, walked along `follows`.
pub(crate) fn thread(
    db: &Connection,
    who: &Principal,
    last: PromptId,
    limit: usize,
) -> rusqlite::Result<Vec<Turn>> {
    let mut turns = Vec::new();
    let mut next = Some(last);
    let mut walk = db.prepare_cached("SELECT follows FROM prompts WHERE tenant = ? AND id = ?")?;
    while let Some(id) = next.filter(|_| turns.len() < limit) {
        let follows =
            walk.query_row(params![who.tenant, id.0.as_bytes()], |row| optional_uuid(row, 0)).optional()?;
        let Some(follows) = follows else { break };
        turns.extend(conversations::find(db, id)?);
        next = follows.map(PromptId);
    }
    turns.reverse();
    Ok(turns)
}

/// The prompts of a session's newest turns, the newest first. A prompt that ended with any text is a turn.
pub(crate) fn newest_turns(
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
pub(crate) fn newest(
    db: &Connection,
    who: &Principal,
    which: PromptFilter,
    limit: usize,
) -> rusqlite::Result<Vec<Prompt>> {
    let (session, status) = (which.session.map(|id| *id.0.as_bytes()), which.status.map(status_name));
    // SQLite would prefer to scan all prompts of the tenant, because they are in order.
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

/// The running prompts, with the encoded first batches of their logs.
pub(crate) fn in_flight(db: &Connection) -> rusqlite::Result<Vec<(Principal, PromptId, Vec<u8>)>> {
    db.prepare("SELECT tenant, id, accepted FROM prompts WHERE status = 'in-flight'")?
        .query_map([], |row| Ok((Principal { tenant: row.get(0)? }, PromptId(uuid(row, 1)?), row.get(2)?)))?
        .collect()
}
