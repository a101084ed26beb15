//! Claims: who may start a prompt. A claim is decided in one transaction, so keys and sessions have one answer.

use domain::{
    Accepted, Batch, Claim, NewPrompt, Principal, PromptId, Run, Session, SessionId, Step, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::codec;
use super::sessions;
use crate::sqlite::{optional_uuid, uuid};

/// Starts a prompt and gives out what its log begins with, or says why not.
pub(super) fn claim(
    db: &Connection,
    who: &Principal,
    new: NewPrompt,
) -> rusqlite::Result<(Claim, Option<Batch>)> {
    let mut session = match look(db, who, &new)? {
        Looked::MayStart(session) => session,
        Looked::MayNot(claim) => return Ok((claim, None)),
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

/// What would become of a claim.
pub(super) enum Looked {
    /// It may start in its session.
    MayStart(Session),
    MayNot(Claim),
}

/// Looks whether a prompt may start, and changes nothing.
pub(super) fn look(db: &Connection, who: &Principal, new: &NewPrompt) -> rusqlite::Result<Looked> {
    let NewPrompt { accepted, alive_since, .. } = new;
    let Some(session) = sessions::find(db, who, accepted.session)? else {
        return Ok(Looked::MayNot(Claim::SessionUnknown));
    };
    if let Some(key) = &accepted.key
        && let Some(earlier) = holder_of(db, who, accepted.session, key)?
    {
        if earlier.accepted.as_ref().is_none_or(|earlier| earlier.question != accepted.question) {
            return Ok(Looked::MayNot(Claim::KeyReused));
        }
        if !earlier.may_be_retried {
            return Ok(Looked::MayNot(Claim::Joined(earlier.id)));
        }
    }
    if !session.is_alive(*alive_since) {
        return Ok(Looked::MayNot(Claim::SessionEnded));
    }
    if let Some(running) = session.running {
        return Ok(Looked::MayNot(Claim::SessionBusy(running)));
    }
    Ok(Looked::MayStart(session))
}

/// The prompt that holds a key.
struct Earlier {
    id: PromptId,
    /// None if it cannot be read.
    accepted: Option<Box<Accepted>>,
    may_be_retried: bool,
}

/// The one that may not be retried, if there is one: after it, no other could start. Else the latest.
fn holder_of(
    db: &Connection,
    who: &Principal,
    session: SessionId,
    key: &str,
) -> rusqlite::Result<Option<Earlier>> {
    db.prepare_cached(
        "SELECT id, accepted, retryable FROM prompts INDEXED BY prompts_by_key
         WHERE tenant = ? AND session = ? AND key = ? ORDER BY retryable, id DESC LIMIT 1",
    )?
    .query_row(params![who.tenant, session.0.as_bytes(), key], |row| {
        let beginning: Vec<u8> = row.get(1)?;
        Ok(Earlier {
            id: PromptId(uuid(row, 0)?),
            accepted: acceptance(&beginning),
            may_be_retried: row.get(2)?,
        })
    })
    .optional()
}

/// The acceptance that a log begins with.
fn acceptance(beginning: &[u8]) -> Option<Box<Accepted>> {
    let log = codec::decode(beginning).ok()?;
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
    let beginning = codec::encode_all(std::slice::from_ref(beginning));
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
