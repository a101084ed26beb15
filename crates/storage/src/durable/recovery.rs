//! Ends the prompts that ran when the last process died, with what the journal has of their logs.

use std::collections::HashMap;

use domain::{Batch, EndCause, Ended, Event, Principal, PromptId, Step, Timestamp};
use rusqlite::Connection;
use tracing::{error, info};

use super::history::finish;
use super::log_codec;

/// Events per batch of a recovered log.
const BATCH_EVENTS: usize = 64;

/// Ends the running prompts: each with its encoded first batch, and the frames that the journal has of it.
pub(super) fn end_running(
    db: &Connection,
    running: Vec<(Principal, PromptId, Vec<u8>)>,
    journal: &HashMap<PromptId, Vec<Vec<u8>>>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    for (who, prompt, beginning) in running {
        let frames = journal.get(&prompt).map_or(&[][..], Vec::as_slice);
        let Some(log) = ended_log(&beginning, frames, now) else {
            error!(%prompt, "the beginning of a prompt's log cannot be read: the prompt ends without a log, and its session with it");
            finish::finish_without_log(db, &who, prompt)?;
            continue;
        };
        finish::finish(db, &who, prompt, &log)?;
        info!(%prompt, "recovery ended a prompt that was running when the server died");
    }
    Ok(())
}

/// Joins the first batch of a log with the frames of the journal, and ends the log if it has no end. None if the
/// first batch cannot be read.
fn ended_log(beginning: &[u8], frames: &[Vec<u8>], now: Timestamp) -> Option<Vec<Batch>> {
    let beginning = log_codec::decode(beginning).ok()?;
    let mut log: Vec<Event> = beginning.iter().flat_map(|batch| batch.iter().cloned()).collect();
    let Step::Accepted(_) = log.first()?.step else { return None };
    for batch in frames.iter().flat_map(|frame| log_codec::batches(frame).map_while(Result::ok)) {
        // A batch replaces what the log has from its position on: a log that was copied forward starts again from
        // its first batch, and a retracted batch is followed by its replacement. A batch behind a gap is ignored.
        let Some(first) = batch.first().and_then(|first| usize::try_from(first.position).ok()) else {
            continue;
        };
        if (1..=log.len()).contains(&first) {
            log.truncate(first);
            log.extend(batch.iter().cloned());
        }
    }
    let last = log.last()?;
    if !matches!(last.step, Step::Ended(_)) {
        let step = Step::Ended(Box::new(Ended::interrupted(EndCause::Recovery)));
        log.push(Event { position: last.position + 1, at: last.at.max(now), step });
    }
    Some(log.chunks(BATCH_EVENTS).map(Batch::from).collect())
}

#[cfg(test)]
mod tests {
    use domain::{Accepted, MessageId, ModelId, Question, SessionId, TraceId};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000);

    fn beginning() -> Vec<u8> {
        let accepted = Accepted {
            prompt: PromptId::new(NOW),
            session: SessionId::new(NOW),
            answer: MessageId::new(NOW),
            question: Question {
                text: "why?".to_owned(),
                top_k: 5,
                scope: Default::default(),
                threshold: None,
                provider: None,
            },
            key: None,
            follows: None,
            first_choice: ModelId { provider: "p".into(), model: "m".into() },
            trace: TraceId::random(),
        };
        encoded(&[Box::new(accepted).event(Timestamp::from_micros(1))])
    }

    fn encoded(batch: &[Event]) -> Vec<u8> {
        let mut bytes = Vec::new();
        log_codec::encode(batch, &mut bytes);
        bytes
    }

    /// A batch of texts from a position on, one per character.
    fn texts(first: u64, texts: &str) -> Vec<u8> {
        let text = |(position, text): (u64, char)| Event {
            position,
            at: Timestamp::from_micros(position.cast_signed() + 1),
            step: Step::Text(text.to_string().as_str().into()),
        };
        encoded(&(first..).zip(texts.chars()).map(text).collect::<Vec<_>>())
    }

    /// Recovers a log from these frames of the journal, and returns its last event.
    fn check(journal: &[Vec<u8>], expected: &str) -> Event {
        let log = ended_log(&beginning(), journal, NOW).unwrap();
        let events: Vec<_> = log.iter().flat_map(|batch| batch.iter()).collect();
        assert!((0..).zip(&events).all(|(position, event)| event.position == position), "{events:?}");
        assert!(events.is_sorted_by_key(|event| event.at));
        assert_eq!(
            domain::Turn::of(events.iter().copied()).map_or(String::new(), |turn| turn.answer),
            expected
        );
        let is_end = |event: &&&Event| matches!(event.step, Step::Ended(_));
        assert_eq!(events.iter().filter(is_end).count(), 1);
        (**events.last().unwrap()).clone()
    }

    #[test]
    fn a_log_continues_after_the_claim_and_ends_now() {
        let ended = check(&[texts(1, "ab"), texts(3, "c")], "abc");
        let expected = Step::Ended(Box::new(Ended::interrupted(EndCause::Recovery)));
        assert_eq!(ended, Event { position: 4, at: NOW, step: expected });
        assert_eq!(check(&[], "").position, 1);
    }

    #[test]
    fn a_log_that_was_copied_forward_is_recovered_once() {
        check(&[texts(1, "ab"), texts(3, "c"), texts(1, "abc"), texts(4, "d")], "abcd");
    }

    #[test]
    fn a_retracted_batch_is_replaced_by_the_next_one() {
        check(&[texts(1, "ab"), texts(3, "lost"), texts(3, "c")], "abc");
    }

    #[test]
    fn batches_after_a_gap_are_ignored_until_the_log_is_copied_forward() {
        check(&[texts(1, "ab"), texts(5, "ef")], "ab");
        check(&[texts(1, "ab"), texts(5, "ef"), texts(1, "abcdef"), texts(7, "g")], "abcdefg");
        check(&[texts(2, "b")], "");
    }

    #[test]
    fn an_end_that_readers_have_seen_is_kept() {
        let end = Step::Ended(Box::new(Ended::interrupted(EndCause::Journal)));
        let end = Event { position: 3, at: Timestamp::from_micros(5), step: end };
        assert_eq!(check(&[texts(1, "ab"), encoded(std::slice::from_ref(&end))], "ab"), end);
    }

    #[test]
    fn an_unreadable_frame_costs_no_other() {
        check(&[texts(1, "ab"), vec![1, 2, 3]], "ab");
        check(&[texts(1, "ab"), vec![1, 2, 3], texts(3, "c")], "abc");
    }

    #[test]
    fn without_a_beginning_there_is_no_log() {
        assert_eq!(ended_log(&[], &[texts(1, "ab")], NOW), None);
        assert_eq!(ended_log(b"damaged", &[texts(1, "ab")], NOW), None);
        assert_eq!(ended_log(&texts(0, "a"), &[texts(1, "ab")], NOW), None);
    }

    #[test]
    fn a_long_log_is_split_into_batches() {
        let log = ended_log(&beginning(), &[texts(1, &"x".repeat(200))], NOW).unwrap();
        assert_eq!(log.iter().map(|batch| batch.len()).max(), Some(BATCH_EVENTS));
    }
}
