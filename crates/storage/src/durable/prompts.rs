//! Prompts in the history: claims, ends, logs and turns.

use domain::{
    Accepted, Batch, Claim, Ended, Event, NewPrompt, Principal, Prompt, PromptId, PromptStatus, Run,
    SessionId, Step, StorageError, Timestamp, Turn, Which,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec;
use super::sessions::{self, optional_uuid, uuid};

/// What became of a claim.
pub(super) enum Claimed {
    /// It runs, and its log begins with this.
    Started {
        run: Run,
        accepted: Box<Accepted>,
        beginning: Vec<u8>,
    },
    Not(Claim),
}

impl From<Claimed> for Claim {
    fn from(claimed: Claimed) -> Self {
        match claimed {
            Claimed::Started { run, accepted, .. } => Self::Started(run, accepted),
            Claimed::Not(claim) => claim,
        }
    }
}

pub(super) fn claim(db: &Connection, who: &Principal, new: NewPrompt) -> rusqlite::Result<Claimed> {
    let NewPrompt { mut accepted, at, alive_since, room } = new;
    let Some(mut session) = sessions::find(db, who, accepted.session)? else {
        return Ok(Claimed::Not(Claim::SessionUnknown));
    };
    if let Some(key) = &accepted.key
        && let Some(earlier) = latest_under(db, who, accepted.session, key)?
    {
        if earlier.accepted.as_ref().is_none_or(|earlier| earlier.question != accepted.question) {
            return Ok(Claimed::Not(Claim::KeyReused));
        }
        if !earlier.may_be_retried {
            return Ok(Claimed::Not(Claim::Joined(earlier.id)));
        }
    }
    if !session.is_alive(alive_since) {
        return Ok(Claimed::Not(Claim::SessionEnded));
    }
    if let Some(running) = session.running {
        return Ok(Claimed::Not(Claim::SessionBusy(running)));
    }
    if !room {
        return Ok(Claimed::Not(Claim::NoRoom));
    }
    if accepted.follows.is_none() {
        accepted.follows = last_turn(db, who, accepted.session)?;
    }
    let mut beginning = Vec::new();
    codec::encode(&[accepted.clone().event(at)], &mut beginning);
    session.entitle(&accepted.question.text);
    insert(db, who, &accepted, session.title.as_deref(), at, &beginning)?;
    let run = Run { prompt: accepted.prompt, who: who.clone() };
    Ok(Claimed::Started { run, accepted, beginning })
}

/// The latest prompt under a key.
struct Earlier {
    id: PromptId,
    /// None if it cannot be read.
    accepted: Option<Box<Accepted>>,
    may_be_retried: bool,
}

fn latest_under(
    db: &Connection,
    who: &Principal,
    session: SessionId,
    key: &str,
) -> rusqlite::Result<Option<Earlier>> {
    db.prepare_cached(
        "SELECT id, accepted, retryable FROM prompts INDEXED BY prompts_by_key
         WHERE tenant = ? AND session = ? AND key = ? ORDER BY id DESC LIMIT 1",
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
    beginning: &[u8],
) -> rusqlite::Result<()> {
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

/// Folds an ended log: status, counts, log and turn are kept, and the session is free. Folding what was
/// folded before changes nothing.
pub(super) fn fold(db: &Connection, who: &Principal, prompt: PromptId, log: &[u8]) -> rusqlite::Result<()> {
    let Some(folded) = Folded::of(log) else {
        // Every log was encoded by this process, or passed its checksum.
        return Err(rusqlite::Error::InvalidParameterName(format!(
            "the log of prompt {prompt} cannot be read"
        )));
    };
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
    db.prepare_cached("INSERT INTO logs (tenant, prompt, format, checksum, body) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![who.tenant, prompt.0.as_bytes(), codec::FORMAT, crc32c::crc32c(log), log])?;
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
}

impl Folded {
    fn of(log: &[u8]) -> Option<Self> {
        let batches = codec::decode(log).ok()?;
        let events = || batches.iter().flat_map(|batch| batch.iter());
        let (first, last): (&Event, &Event) = (events().next()?, events().last()?);
        let (Step::Accepted(accepted), Step::Ended(ended)) = (&first.step, &last.step) else { return None };
        Some(Self {
            accepted: accepted.clone(),
            accepted_at: first.at,
            ended: ended.clone(),
            ended_at: last.at,
            token_count: events().filter(|event| matches!(event.step, Step::Text(_))).count() as u64,
            turn: Turn::of(events()),
        })
    }
}

/// Writes a turn. No passages go into a prompt yet, so it has no sources.
fn insert_turn(db: &Connection, folded: &Folded, turn: &Turn) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO conversations
            (id, session_id, query, response, sources, mode, selected_text, chunks_retrieved, latency_ms, created_at)
         VALUES (?, ?, ?, ?, '[]', 'general', NULL, 0, ?, ?)",
    )?
    .execute(params![
        folded.accepted.prompt.to_string(),
        folded.accepted.session.to_string(),
        turn.question,
        turn.answer,
        folded.ended_at.since(folded.accepted_at).as_secs_f64() * 1e3,
        folded.accepted_at.to_string()
    ])?;
    Ok(())
}

/// Ends a prompt whose log cannot be read, so that its session is free.
pub(super) fn give_up(db: &Connection, who: &Principal, prompt: PromptId) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE prompts SET status = 'error', retryable = 1 WHERE tenant = ? AND id = ?")?
        .execute(params![who.tenant, prompt.0.as_bytes()])?;
    Ok(())
}

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
            return Err(StorageError(format!("a newer release has stored this log (format {format})")));
        }
        if self.checksum != crc32c::crc32c(&self.body) {
            return Err(StorageError("the stored log is damaged".to_owned()));
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

/// The newest prompts, the newest first.
pub(super) fn newest(
    db: &Connection,
    who: &Principal,
    which: Which,
    limit: usize,
) -> rusqlite::Result<Vec<Prompt>> {
    let (session, status) = (which.session.map(|id| *id.0.as_bytes()), which.status.map(status_name));
    // Left to itself, SQLite would walk through all prompts of the tenant, because they are in order.
    let index = match which {
        Which { session: Some(_), .. } => "INDEXED BY prompts_of_session",
        Which { status: Some(_), .. } => "INDEXED BY prompts_by_status",
        Which { session: None, status: None } => "",
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
