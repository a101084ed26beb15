//! Claims: whether a prompt may start in its session, under its idempotency key. A claim is decided and stored in one
//! transaction, so concurrent claims cannot both win.

use domain::{
    Accepted, Batch, Claim, NewPrompt, Principal, PromptId, Run, Session, SessionId, Step, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::sessions;
use crate::durable::log_codec;
use crate::sqlite::{optional_uuid, uuid};

/// Stores a claim that may start, and returns the first batch of its log with it.
pub(crate) fn claim(
    db: &Connection,
    who: &Principal,
    new: NewPrompt,
) -> rusqlite::Result<(Claim, Option<Batch>)> {
    let mut session = match check(db, who, &new)? {
        ClaimCheck::MayStart(session) => session,
        ClaimCheck::Decided(claim) => return Ok((claim, None)),
    };
    let NewPrompt { mut accepted, at, .. } = new;
    if accepted.follows.is_none() {
        accepted.follows = last_turn(db, who, accepted.session)?;
    }
    let beginning: Batch = [accepted.clone().event(at)].into();
    session.set_title_once(&accepted.question.text);
    insert(db, who, &accepted, session.title.as_deref(), at, &beginning)?;
    let run = Run { prompt: accepted.prompt, who: who.clone() };
    Ok((Claim::Started(run, accepted), Some(beginning)))
}

/// Whether a claim would start a prompt.
pub(crate) enum ClaimCheck {
    /// It would, in this session, if there is room.
    MayStart(Session),
    /// It would not.
    Decided(Claim),
}

/// Checks a claim without storing it.
pub(crate) fn check(db: &Connection, who: &Principal, new: &NewPrompt) -> rusqlite::Result<ClaimCheck> {
    let NewPrompt { accepted, alive_since, .. } = new;
    let Some(session) = sessions::find(db, who, accepted.session)? else {
        return Ok(ClaimCheck::Decided(Claim::SessionUnknown));
    };
    if let Some(key) = &accepted.key
        && let Some(holder) = key_holder(db, who, accepted.session, key)?
    {
        if holder.accepted.as_ref().is_none_or(|held| held.question != accepted.question) {
            return Ok(ClaimCheck::Decided(Claim::KeyReused));
        }
        if !holder.may_be_retried {
            return Ok(ClaimCheck::Decided(Claim::Joined(holder.id)));
        }
    }
    if !session.is_alive(*alive_since) {
        return Ok(ClaimCheck::Decided(Claim::SessionEnded));
    }
    if let Some(running) = session.running {
        return Ok(ClaimCheck::Decided(Claim::SessionBusy(running)));
    }
    Ok(ClaimCheck::MayStart(session))
}

/// The prompt that holds an idempotency key.
struct KeyHolder {
    id: PromptId,
    /// None if it cannot be decoded.
    accepted: Option<Box<Accepted>>,
    may_be_retried: bool,
}

/// The prompt under the key that may not be retried, if there is one, because no other could start after it; else
/// the latest.
fn key_holder(
    db: &Connection,
    who: &Principal,
    session: SessionId,
    key: &str,
) -> rusqlite::Result<Option<KeyHolder>> {
    db.prepare_cached(
        "SELECT id, accepted, retryable FROM prompts INDEXED BY prompts_by_key
         WHERE tenant = ? AND session = ? AND key = ? ORDER BY retryable, id DESC LIMIT 1",
    )?
    .query_row(params![who.tenant, session.0.as_bytes(), key], |row| {
        let beginning: Vec<u8> = row.get(1)?;
        Ok(KeyHolder {
            id: PromptId(uuid(row, 0)?),
            accepted: acceptance(&beginning),
            may_be_retried: row.get(2)?,
        })
    })
    .optional()
}

/// The acceptance that a log begins with; none if it cannot be decoded.
fn acceptance(beginning: &[u8]) -> Option<Box<Accepted>> {
    let log = log_codec::decode(beginning).ok()?;
    match &log.first()?.first()?.step {
        Step::Accepted(accepted) => Some(accepted.clone()),
        _ => None,
    }
}

fn last_turn(db: &Connection, who: &Principal, session: SessionId) -> rusqlite::Result<Option<PromptId>> {
    db.prepare_cached("SELECT last_turn FROM sessions WHERE tenant = ? AND id = ?")?
        .query_row(params![who.tenant, session.0.as_bytes()], |row| Ok(optional_uuid(row, 0)?.map(PromptId)))
}

fn insert(
    db: &Connection,
    who: &Principal,
    accepted: &Accepted,
    title: Option<&str>,
    at: Timestamp,
    beginning: &Batch,
) -> rusqlite::Result<()> {
    let beginning = log_codec::encode_all(std::slice::from_ref(beginning));
    db.prepare_cached(
        "INSERT INTO prompts (tenant, id, session, key, text, follows, accepted, status, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, 'in-flight', ?)",
    )?
    .execute(params![
        who.tenant,
        accepted.prompt.0.as_bytes(),
        accepted.session.0.as_bytes(),
        accepted.key,
        accepted.question.text,
        accepted.follows.as_ref().map(|prompt| prompt.0.as_bytes()),
        beginning,
        at.micros()
    ])?;
    db.prepare_cached(
        "UPDATE sessions SET prompt_count = prompt_count + 1, title = ?,
                last_active_at = max(last_active_at, ?)
         WHERE tenant = ? AND id = ?",
    )?
    .execute(params![title, at.micros(), who.tenant, accepted.session.0.as_bytes()])?;
    Ok(())
}
