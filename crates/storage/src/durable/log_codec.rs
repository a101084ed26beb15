//! The stored form of batches. Tokens are the bulk and are binary; all other events are rare and JSON, so that they
//! can grow fields. The format's number is stored with the batches, not in them.
//!
//! A batch is its length, first position, first time and number of events. An event is a tag, the
//! microseconds since the event before it, and a body.

mod accepted_record;
mod ended_record;
mod generation_records;
mod retrieval_records;
mod stored_enum;

use std::ops::Range;
use std::sync::Arc;

use domain::{Batch, Event, Step, StorageError, StorageErrorKind, Text, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use accepted_record::AcceptedRecord;
use ended_record::EndedRecord;
use generation_records::{ModelRecord, ToolCallRecord, UsageRecord};
use retrieval_records::{CitationRecord, PassagesRecord, StageRecord};

/// A stored id or filter that is not valid.
struct InvalidRecord;

/// The format that this release writes. Older formats are read.
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

/// Encodes batches, one after the other.
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

/// Decodes batches, one after the other. Fails unless all of them are valid.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Batch>, StorageError> {
    batches(bytes).collect()
}

/// Decodes batches lazily. The first invalid one is an error, and the last item.
pub(crate) fn batches(mut bytes: &[u8]) -> impl Iterator<Item = Result<Batch, StorageError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let batch = decode_batch(&mut bytes);
        if batch.is_none() {
            bytes = &[];
        }
        Some(batch.ok_or_else(|| StorageError::new(StorageErrorKind::Damaged, "a stored log cannot be read")))
    })
}

/// Takes one batch off the front of `bytes`; none if it is incomplete or invalid.
fn decode_batch(bytes: &mut &[u8]) -> Option<Batch> {
    let length = u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?);
    let mut body = take(bytes, length as usize)?;
    let first = take_number(&mut body)?;
    let mut at = Timestamp::from_micros(i64::from_le_bytes(take(&mut body, 8)?.try_into().ok()?));
    let count = take_number(&mut body)?;
    let (mut partial, mut texts) = (Vec::new(), String::new());
    for position in first..first.checked_add(count)? {
        let [tag] = *take(&mut body, 1)? else { return None };
        at = at.plus(std::time::Duration::from_micros(take_number(&mut body)?));
        let length = usize::try_from(take_number(&mut body)?).ok()?;
        partial.push((position, at, decode_event(tag, take(&mut body, length)?, &mut texts)?));
    }
    if !body.is_empty() {
        return None;
    }
    let texts: Arc<str> = Arc::from(texts);
    let event =
        |(position, at, event): (_, _, DecodedEvent)| Event { position, at, step: event.into_step(&texts) };
    Some(partial.into_iter().map(event).collect())
}

/// An event before its batch is complete: texts are ranges of the batch's shared buffer.
enum DecodedEvent {
    Text(Range<usize>),
    Reasoning(Range<usize>),
    Whole(Step),
}

fn decode_event(tag: u8, body: &[u8], texts: &mut String) -> Option<DecodedEvent> {
    let mut text = || {
        let start = texts.len();
        texts.push_str(std::str::from_utf8(body).ok()?);
        Some(start..texts.len())
    };
    let step = match tag {
        TEXT => return text().map(DecodedEvent::Text),
        REASONING => return text().map(DecodedEvent::Reasoning),
        ACCEPTED => Step::Accepted(Box::new(json_record::<AcceptedRecord>(body)?.try_into().ok()?)),
        STARTED => Step::Started(json_record::<ModelRecord>(body)?.into()),
        TOOL_CALL => Step::ToolCall(Box::new(json_record::<ToolCallRecord>(body)?.into())),
        USAGE => Step::Usage(json_record::<UsageRecord>(body)?.into()),
        STAGE => Step::Stage(json_record::<StageRecord>(body)?.into()),
        REWRITTEN => Step::Rewritten(str::from_utf8(body).ok()?.into()),
        PASSAGES => Step::Passages(Box::new(json_record::<PassagesRecord>(body)?.try_into().ok()?)),
        CITATIONS => {
            let citations = json_record::<Vec<CitationRecord>>(body)?;
            Step::Citations(citations.into_iter().map(Into::into).collect())
        }
        ENDED => Step::Ended(Box::new(json_record::<EndedRecord>(body)?.into())),
        _ => return None,
    };
    Some(DecodedEvent::Whole(step))
}

impl DecodedEvent {
    fn into_step(self, texts: &Arc<str>) -> Step {
        match self {
            Self::Text(range) => Step::Text(Text::slice(texts, range)),
            Self::Reasoning(range) => Step::Reasoning(Text::slice(texts, range)),
            Self::Whole(step) => step,
        }
    }
}

fn json_record<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

/// Appends a number as LEB128: seven bits per byte, the lowest first.
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
