//! The table `sessions`.

use domain::{EndedSession, Principal, PromptId, Session, SessionEnd, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sqlite::{optional_uuid, uuid};

pub(crate) fn create(db: &Connection, who: &Principal, session: &Session) -> rusqlite::Result<()> {
    let context = serde_json::to_string(&session.context).expect("texts are JSON");
    db.prepare_cached(
        "INSERT INTO sessions (tenant, id, owner, context, created_at, last_active_at) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![
        who.tenant,
        session.id.0.as_bytes(),
        session.owner,
        context,
        session.created_at.micros(),
        session.last_active_at.micros()
    ])?;
    Ok(())
}

/// The columns that `from_row` reads.
pub(super) const COLUMNS: &str = "id, owner, context, created_at, last_active_at, ended, prompt_count, token_count, title, \
    (SELECT prompts.id FROM prompts \
     WHERE prompts.tenant = sessions.tenant AND prompts.session = sessions.id AND prompts.status = 'in-flight')";

pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Session> {
    let context: String = row.get(2)?;
    let ended: Option<String> = row.get(5)?;
    Ok(Session {
        id: SessionId(uuid(row, 0)?),
        owner: row.get(1)?,
        context: serde_json::from_str(&context).unwrap_or_default(),
        created_at: Timestamp::from_micros(row.get(3)?),
        last_active_at: Timestamp::from_micros(row.get(4)?),
        ended: ended.map(|ended| match ended.as_str() {
            "cancelled" => SessionEnd::Cancelled,
            "lost" => SessionEnd::Lost,
            _ => SessionEnd::Completed,
        }),
        prompt_count: row.get(6)?,
        token_count: row.get(7)?,
        title: row.get(8)?,
        running: optional_uuid(row, 9)?.map(PromptId),
    })
}

pub(crate) fn find(db: &Connection, who: &Principal, id: SessionId) -> rusqlite::Result<Option<Session>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE tenant = ? AND id = ?"))?
        .query_row(params![who.tenant, id.0.as_bytes()], from_row)
        .optional()
}

pub(crate) fn page(
    db: &Connection,
    who: &Principal,
    before: Option<SessionId>,
    limit: usize,
) -> rusqlite::Result<Vec<Session>> {
    let before = before.map_or([0xff; 16], |id| *id.0.as_bytes());
    db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM sessions WHERE tenant = ? AND id < ? ORDER BY id DESC LIMIT ?"
    ))?
    .query_map(params![who.tenant, before, limit], from_row)?
    .collect()
}

pub(super) fn touch(db: &Connection, who: &Principal, id: SessionId, at: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE sessions SET last_active_at = max(last_active_at, ?) WHERE tenant = ? AND id = ?",
    )?
    .execute(params![at.micros(), who.tenant, id.0.as_bytes()])?;
    Ok(())
}

pub(crate) fn touch_if_alive(
    db: &Connection,
    who: &Principal,
    id: SessionId,
    at: Timestamp,
    alive_since: Timestamp,
) -> rusqlite::Result<()> {
    match find(db, who, id)? {
        Some(session) if session.is_alive(alive_since) => touch(db, who, id, at),
        _ => Ok(()),
    }
}

pub(crate) fn end(db: &Connection, who: &Principal, id: SessionId) -> rusqlite::Result<Option<EndedSession>> {
    let Some(session) = find(db, who, id)? else { return Ok(None) };
    let end = if session.running.is_some() { "cancelled" } else { "completed" };
    db.prepare_cached("UPDATE sessions SET ended = coalesce(ended, ?) WHERE tenant = ? AND id = ?")?
        .execute(params![end, who.tenant, id.0.as_bytes()])?;
    Ok(Some(EndedSession { running: session.running, is_first: session.ended.is_none() }))
}

/// Counts the sessions that are alive: those active since `alive_since`, and those whose running prompt started before.
pub(crate) fn count_alive(db: &Connection, alive_since: Timestamp) -> rusqlite::Result<u64> {
    let active = "SELECT count(*) FROM sessions WHERE last_active_at > ? AND ended IS NULL";
    let busy = "SELECT count(*) FROM prompts JOIN sessions \
        ON sessions.tenant = prompts.tenant AND sessions.id = prompts.session \
        WHERE prompts.status = 'in-flight' AND sessions.last_active_at <= ? AND sessions.ended IS NULL";
    let mut sum = 0;
    for count in [active, busy] {
        sum += db.prepare_cached(count)?.query_row([alive_since.micros()], |row| row.get::<_, u64>(0))?;
    }
    Ok(sum)
}
