//! Deletion: one session at a client's request, and old prompts and sessions in slices short enough that they delay
//! no other write.

use std::time::{Duration, Instant};

use domain::{Principal, PromptId, RetentionProgress, SessionId, Timestamp};
use rusqlite::{Connection, params};

use super::conversations;
use crate::sqlite::uuid;

/// A slice stops after this time. With its commit it takes a few milliseconds.
const SLICE_TIME: Duration = Duration::from_millis(3);
const SLICE_ROWS: usize = 32;

/// Deletes a session with everything in it, and returns its prompts. None if there is no such session, or a
/// prompt runs in it.
pub(crate) fn delete_session(
    db: &Connection,
    who: &Principal,
    id: SessionId,
) -> rusqlite::Result<Option<Vec<PromptId>>> {
    let session = params![who.tenant, id.0.as_bytes()];
    let known = db.prepare_cached("SELECT 1 FROM sessions WHERE tenant = ? AND id = ?")?.exists(session)?;
    let busy = "SELECT 1 FROM prompts WHERE tenant = ? AND session = ? AND status = 'in-flight'";
    if !known || db.prepare_cached(busy)?.exists(session)? {
        return Ok(None);
    }
    let prompts: Vec<_> = db
        .prepare_cached("SELECT id FROM prompts WHERE tenant = ? AND session = ?")?
        .query_map(session, |row| Ok(PromptId(uuid(row, 0)?)))?
        .collect::<Result<_, _>>()?;
    for prompt in &prompts {
        delete_prompt(db, &who.tenant, *prompt)?;
    }
    db.prepare_cached("DELETE FROM sessions WHERE tenant = ? AND id = ?")?.execute(session)?;
    Ok(Some(prompts))
}

/// Deletes some prompts that were accepted before a time and have ended; once there are none, some empty sessions that
/// were idle since. Returns the deleted prompts.
pub(crate) fn delete_slice(
    db: &Connection,
    before: Timestamp,
) -> rusqlite::Result<(Vec<PromptId>, RetentionProgress)> {
    let started = Instant::now();
    let old: Vec<(String, PromptId)> = db
        .prepare_cached(
            "SELECT tenant, id FROM prompts WHERE created_at < ? AND status <> 'in-flight' ORDER BY created_at LIMIT ?",
        )?
        .query_map(params![before.micros(), SLICE_ROWS], |row| Ok((row.get(0)?, PromptId(uuid(row, 1)?))))?
        .collect::<Result<_, _>>()?;
    let mut prompts = Vec::new();
    for (tenant, prompt) in &old {
        if started.elapsed() > SLICE_TIME {
            break;
        }
        delete_prompt(db, tenant, *prompt)?;
        prompts.push(*prompt);
    }
    if !old.is_empty() {
        return Ok((prompts, RetentionProgress { expired: Vec::new(), more: true }));
    }
    let sessions: Vec<(u64, bool)> = db
        .prepare_cached(
            "DELETE FROM sessions WHERE (tenant, id) IN (
                SELECT tenant, id FROM sessions WHERE last_active_at < ?1 AND NOT EXISTS (
                    SELECT 1 FROM prompts WHERE prompts.tenant = sessions.tenant AND prompts.session = sessions.id)
                LIMIT ?2) RETURNING token_count, ended IS NULL",
        )?
        .query_map(params![before.micros(), SLICE_ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let more = !sessions.is_empty();
    let expired = sessions.into_iter().filter_map(|(tokens, expired)| expired.then_some(tokens)).collect();
    Ok((prompts, RetentionProgress { expired, more }))
}

fn delete_prompt(db: &Connection, tenant: &str, prompt: PromptId) -> rusqlite::Result<()> {
    let key = params![tenant, prompt.0.as_bytes()];
    conversations::delete(db, prompt)?;
    db.prepare_cached("DELETE FROM logs WHERE tenant = ? AND prompt = ?")?.execute(key)?;
    db.prepare_cached("DELETE FROM prompts WHERE tenant = ? AND id = ?")?.execute(key)?;
    Ok(())
}
