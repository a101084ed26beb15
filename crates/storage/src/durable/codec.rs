//! How batches are written: compact and versioned by whoever stores them. Tokens are the bulk, so they are
//! binary; everything else is rare, and JSON, so that it can grow fields.
//!
//! A batch is its length, first position, first time and number of events; an event is a tag, the
//! microseconds since the event before it, and a body.

use std::ops::Range;
use std::sync::Arc;

use domain::{Batch, Event, Step, StorageError, Text, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::found::{CitationRecord, PassagesRecord, StageRecord};
use super::record::{AcceptedRecord, EndedRecord, ModelRecord, ToolCallRecord, UsageRecord};

/// The format that is written now. Older ones are read.
pub(crate) const FORMAT: u32 = 1;

const ACCEPTED: u8 = 1;
const STARTED: u8 = 2;
const TEXT: u8 = 3;
const REASONING: u8 = 4;
const TOOL_CALL: u8 = 5;
const USAGE: u8 = 6;
const ENDED: u8 = 7;
const STAGE: u8 = 8;
const PASSAGES: u8 = 9;
const CITATIONS: u8 = 10;
const REWRITTEN: u8 = 11;

/// Appends a batch to `out`.
pub(crate) fn encode(batch: &[Event], out: &mut Vec<u8>) {
    let Some(first) = batch.first() else { return };
    let start = out.len();
    out.extend([0; 4]);
    put_number(out, first.position);
    out.extend(first.at.micros().to_le_bytes());
    put_number(out, batch.len() as u64);
    let mut last_at = first.at;
    for event in batch {
        let micros = event.at.since(last_at).as_micros();
        last_at = event.at;
        encode_event(&event.step, u64::try_from(micros).unwrap_or(u64::MAX), out);
    }
    let length = u32::try_from(out.len() - start - 4).expect("a batch is far smaller than 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Batches, one after the other.
pub(crate) fn encode_all(batches: &[Batch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    batches.iter().for_each(|batch| encode(batch, &mut bytes));
    bytes
}

fn encode_event(step: &Step, micros: u64, out: &mut Vec<u8>) {
    let mut put = |tag: u8, body: &[u8]| {
        out.push(tag);
        put_number(out, micros);
        put_number(out, body.len() as u64);
        out.extend(body);
    };
    match step {
        Step::Text(text) => put(TEXT, text.as_bytes()),
        Step::Reasoning(text) => put(REASONING, text.as_bytes()),
        Step::Accepted(accepted) => put(ACCEPTED, &json(&AcceptedRecord::from(&**accepted))),
        Step::Stage(stage) => put(STAGE, &json(&StageRecord::from(stage))),
        Step::Rewritten(query) => put(REWRITTEN, query.as_bytes()),
        Step::Passages(passages) => put(PASSAGES, &json(&PassagesRecord::from(&**passages))),
        Step::Citations(citations) => {
            put(CITATIONS, &json(&citations.iter().map(CitationRecord::from).collect::<Vec<_>>()));
        }
        Step::Started(model) => put(STARTED, &json(&ModelRecord::from(model))),
        Step::ToolCall(call) => put(TOOL_CALL, &json(&ToolCallRecord::from(&**call))),
        Step::Usage(usage) => put(USAGE, &json(&UsageRecord::from(*usage))),
        Step::Ended(ended) => put(ENDED, &json(&EndedRecord::from(&**ended))),
    }
}

fn json(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record is JSON")
}

/// Reads batches, one after the other, to the end.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Batch>, StorageError> {
    batches(bytes).collect()
}

/// The batches, one after the other; the last one is an error if it is not whole and sound.
pub(crate) fn batches(mut bytes: &[u8]) -> impl Iterator<Item = Result<Batch, StorageError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let batch = decode_batch(&mut bytes);
        if batch.is_none() {
            bytes = &[];
        }
        Some(batch.ok_or_else(|| StorageError::other("a stored log cannot be read".to_owned())))
    })
}

/// Reads one batch off the front of `bytes`; none if it is not whole and sound.
fn decode_batch(bytes: &mut &[u8]) -> Option<Batch> {
    let length = u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?);
    let mut body = take(bytes, length as usize)?;
    let first = take_number(&mut body)?;
    let mut at = Timestamp::from_micros(i64::from_le_bytes(take(&mut body, 8)?.try_into().ok()?));
    let count = take_number(&mut body)?;
    let (mut drafts, mut texts) = (Vec::new(), String::new());
    for position in first..first.checked_add(count)? {
        let [tag] = *take(&mut body, 1)? else { return None };
        at = at.plus(std::time::Duration::from_micros(take_number(&mut body)?));
        let length = usize::try_from(take_number(&mut body)?).ok()?;
        drafts.push((position, at, draft(tag, take(&mut body, length)?, &mut texts)?));
    }
    if !body.is_empty() {
        return None;
    }
    let texts: Arc<str> = Arc::from(texts);
    let event = |(position, at, draft)| Event { position, at, step: step(draft, &texts) };
    Some(drafts.into_iter().map(event).collect())
}

/// An event whose text is still a part of the growing buffer.
enum Draft {
    Text(Range<usize>),
    Reasoning(Range<usize>),
    Whole(Step),
}

fn draft(tag: u8, body: &[u8], texts: &mut String) -> Option<Draft> {
    let mut text = || {
        let start = texts.len();
        texts.push_str(std::str::from_utf8(body).ok()?);
        Some(start..texts.len())
    };
    Some(match tag {
        TEXT => Draft::Text(text()?),
        REASONING => Draft::Reasoning(text()?),
        ACCEPTED => Draft::Whole(Step::Accepted(Box::new(record::<AcceptedRecord>(body)?.try_into().ok()?))),
        STARTED => Draft::Whole(Step::Started(record::<ModelRecord>(body)?.into())),
        TOOL_CALL => Draft::Whole(Step::ToolCall(Box::new(record::<ToolCallRecord>(body)?.into()))),
        USAGE => Draft::Whole(Step::Usage(record::<UsageRecord>(body)?.into())),
        STAGE => Draft::Whole(Step::Stage(record::<StageRecord>(body)?.into())),
        REWRITTEN => Draft::Whole(Step::Rewritten(str::from_utf8(body).ok()?.into())),
        PASSAGES => Draft::Whole(Step::Passages(Box::new(record::<PassagesRecord>(body)?.try_into().ok()?))),
        CITATIONS => {
            let citations = record::<Vec<CitationRecord>>(body)?.into_iter().map(Into::into).collect();
            Draft::Whole(Step::Citations(citations))
        }
        ENDED => Draft::Whole(Step::Ended(Box::new(record::<EndedRecord>(body)?.into()))),
        _ => return None,
    })
}

fn step(draft: Draft, texts: &Arc<str>) -> Step {
    match draft {
        Draft::Text(range) => Step::Text(Text::slice(texts, range)),
        Draft::Reasoning(range) => Step::Reasoning(Text::slice(texts, range)),
        Draft::Whole(step) => step,
    }
}

fn record<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

/// Seven bits a byte, the lowest first.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = *take(bytes, 1)? else { return None };
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests;
