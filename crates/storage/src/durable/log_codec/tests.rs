//! Logs round-trip, and any bytes decode without a panic.

use std::time::Duration;

use domain::{
    Accepted, CancelReason, ChunkId, Citation, DocumentId, EndCause, Ended, Failure, FailureKind,
    FilterField, FinishReason, MessageId, ModelId, Outcome, Passage, PromptId, Question, RetrievedPassages,
    SearchScope, SessionId, Stage, StageName, ToolCall, TraceId, Usage,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use uuid::Uuid;

use super::*;

fn model() -> impl Strategy<Value = ModelId> {
    (".{0,10}", ".{0,10}")
        .prop_map(|(provider, model)| ModelId { provider: provider.into(), model: model.into() })
}

fn question() -> impl Strategy<Value = Question> {
    let field = prop_oneof![
        Just(FilterField::RepoUrl),
        Just(FilterField::FilePath),
        Just(FilterField::Language),
        Just(FilterField::Collection),
        Just(FilterField::Title),
        Just(FilterField::SourceUrl),
        Just(FilterField::SectionHeading),
        ".{0,5}".prop_map(FilterField::Metadata),
    ];
    let filters = btree_map(field, btree_set(".{0,5}", 0..3), 0..4);
    let scope = prop_oneof![
        filters.prop_map(SearchScope::Knowledge),
        ".{0,50}".prop_map(|text| SearchScope::Selection(text.into())),
    ];
    (".{0,50}", any::<u32>(), scope, option::of(0.0_f32..=1.0), option::of(".{0,10}")).prop_map(
        |(text, top_k, scope, threshold, provider)| Question { text, top_k, scope, threshold, provider },
    )
}

fn accepted() -> impl Strategy<Value = Step> {
    let ids = any::<[u128; 3]>();
    let rest = (option::of(".{1,20}"), option::of(any::<u128>()), any::<u128>());
    (ids, question(), model(), rest).prop_map(|([prompt, session, answer], question, first_choice, rest)| {
        let (key, follows, trace) = rest;
        Step::Accepted(Box::new(Accepted {
            prompt: PromptId(Uuid::from_u128(prompt)),
            session: SessionId(Uuid::from_u128(session)),
            answer: MessageId(Uuid::from_u128(answer)),
            question,
            key,
            follows: follows.map(|id| PromptId(Uuid::from_u128(id))),
            first_choice,
            trace: format!("{trace:x}").parse::<TraceId>().expect("hexadecimal digits"),
        }))
    })
}

fn ended() -> impl Strategy<Value = Step> {
    let reason = select(vec![
        FinishReason::Stop,
        FinishReason::Length,
        FinishReason::ToolCalls,
        FinishReason::Filtered,
    ]);
    let kind = select(vec![
        FailureKind::Unavailable,
        FailureKind::Refused,
        FailureKind::SilentAtStart,
        FailureKind::Stalled,
        FailureKind::Died,
        FailureKind::EmptyAnswer,
        FailureKind::TooLong,
        FailureKind::Retrieval,
        FailureKind::Overloaded,
        FailureKind::Interrupted,
        FailureKind::Internal,
    ]);
    let cause = select(vec![
        EndCause::Model,
        EndCause::Limit,
        EndCause::Client(CancelReason::UserInitiated),
        EndCause::Client(CancelReason::Timeout),
        EndCause::Client(CancelReason::Error),
        EndCause::Abandoned,
        EndCause::SessionEnded,
        EndCause::Drain,
        EndCause::Journal,
        EndCause::Recovery,
        EndCause::Bug,
    ]);
    let wait = option::of(any::<u32>().prop_map(|millis| Duration::from_millis(millis.into())));
    let failure = (kind, ".{0,30}", wait).prop_map(|(kind, message, retry_after)| Failure {
        kind,
        message,
        retry_after,
    });
    let outcome = prop_oneof![
        reason.prop_map(Outcome::Done),
        Just(Outcome::Cancelled),
        failure.prop_map(Outcome::Failed)
    ];
    (outcome, cause).prop_map(|(outcome, cause)| Step::Ended(Box::new(Ended { outcome, cause })))
}

fn tool_call() -> impl Strategy<Value = Step> {
    (".{0,10}", ".{0,10}", ".{0,50}")
        .prop_map(|(id, name, arguments)| Step::ToolCall(Box::new(ToolCall { id, name, arguments })))
}

fn usage() -> impl Strategy<Value = Step> {
    any::<[Option<u64>; 3]>().prop_map(|[input, output, cached]| Step::Usage(Usage { input, output, cached }))
}

fn stage() -> impl Strategy<Value = Step> {
    let name = select(vec![StageName::Rewriting, StageName::Retrieval, StageName::Reranking]);
    let end = option::of((any::<usize>(), any::<u32>()));
    (name, end).prop_map(|(name, end)| {
        Step::Stage(match end {
            None => Stage::Began(name),
            Some((count, micros)) => Stage::Ended { name, count, took: Duration::from_micros(micros.into()) },
        })
    })
}

fn passage() -> impl Strategy<Value = Passage> {
    let name = || option::of(".{0,10}");
    let names = (name(), name(), name(), name(), name());
    let range = || option::of(any::<(u32, u32)>());
    (any::<[u128; 2]>(), ".{0,10}", names, (range(), range()), ".{0,50}", 0.0..1.0_f32).prop_map(
        |([chunk, document], title, names, (lines, chars), text, score)| {
            let (repo_url, file_path, url, section, subsection) = names;
            let (chunk, document) = (ChunkId(Uuid::from_u128(chunk)), DocumentId(Uuid::from_u128(document)));
            Passage {
                chunk,
                document,
                title,
                repo_url,
                file_path,
                url,
                section,
                subsection,
                lines,
                chars,
                text,
                score,
            }
        },
    )
}

fn passages() -> impl Strategy<Value = Step> {
    (any::<u32>(), vec(passage(), 0..4))
        .prop_map(|(found, in_prompt)| Step::Passages(Box::new(RetrievedPassages { found, in_prompt })))
}

fn citations() -> impl Strategy<Value = Step> {
    let citation =
        (any::<u32>(), option::of(".{0,30}")).prop_map(|(number, quote)| Citation { number, quote });
    vec(citation, 0..4).prop_map(|citations| Step::Citations(citations.into()))
}

/// Batches of a log: positions without a gap, times that never go back.
fn log() -> impl Strategy<Value = Vec<Batch>> {
    let step = prop_oneof![
        4 => ".{1,20}".prop_map(|text| Step::Text(text.as_str().into())),
        2 => ".{1,20}".prop_map(|text| Step::Reasoning(text.as_str().into())),
        1 => accepted(),
        1 => model().prop_map(Step::Started),
        1 => tool_call(),
        1 => usage(),
        1 => stage(),
        1 => passages(),
        1 => citations(),
        1 => ".{0,50}".prop_map(|query| Step::Rewritten(query.into())),
        1 => ended(),
    ];
    let event = (step, 0..u64::from(u32::MAX));
    (any::<u32>(), 0..4_000_000_000_000_000_i64, vec(vec(event, 1..6), 0..6)).prop_map(
        |(first, at, batches)| {
            let (mut positions, mut at) = (u64::from(first).., Timestamp::from_micros(at));
            let mut event = |(step, micros)| {
                at = at.plus(Duration::from_micros(micros));
                Event { position: positions.next().expect("endless"), at, step }
            };
            batches.into_iter().map(|batch| batch.into_iter().map(&mut event).collect()).collect()
        },
    )
}

fn encoded(log: &[Batch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    log.iter().for_each(|batch| encode(batch, &mut bytes));
    bytes
}

proptest! {
    #[test]
    fn any_log_round_trips(log in log()) {
        prop_assert_eq!(decode(&encoded(&log)), Ok(log));
    }

    #[test]
    fn a_truncated_log_yields_its_complete_batches_and_then_an_error(log in log(), cut in any::<Index>()) {
        let mut bytes = encoded(&log);
        bytes.truncate(cut.index(bytes.len() + 1));
        let whole: Vec<_> = batches(&bytes).map_while(Result::ok).collect();
        prop_assert!(log.starts_with(&whole));
        prop_assert_eq!(decode(&bytes).is_ok(), encoded(&whole) == bytes);
    }

    #[test]
    fn a_log_with_flipped_bits_keeps_the_batches_before_them(
        log in log(),
        flips in vec((any::<Index>(), 0..8_u8), 1..4),
    ) {
        let mut bytes = encoded(&log);
        prop_assume!(!bytes.is_empty());
        let mut first = bytes.len();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            first = first.min(at);
        }
        let before: Vec<_> = batches(&encoded(&log)[..first]).map_while(Result::ok).collect();
        let read: Vec<_> = batches(&bytes).map_while(Result::ok).collect();
        prop_assert!(read.starts_with(&before));
    }

    #[test]
    fn any_bytes_decode_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }
}

#[test]
fn a_batch_with_fewer_events_than_it_declares_is_refused() {
    for count in [1_u64, 1_000_000, u64::MAX] {
        let mut body = vec![1];
        body.extend([0; 8]);
        put_number(&mut body, count);
        let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
        bytes.extend(body);
        assert!(decode(&bytes).is_err());
    }
}

#[test]
fn numbers_of_every_size_round_trip() {
    let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]).chain([u64::MAX]);
    for number in edges {
        let mut bytes = Vec::new();
        put_number(&mut bytes, number);
        let mut rest = bytes.as_slice();
        assert_eq!((take_number(&mut rest), rest), (Some(number), &[][..]));
    }
    assert_eq!(take_number(&mut [0x80; 11].as_slice()), None, "a number ends after ten bytes");
}

#[test]
fn the_texts_of_a_decoded_batch_share_one_buffer() {
    let text = |position, text: &str| Event {
        position,
        at: Timestamp::from_micros(7),
        step: Step::Text(text.into()),
    };
    let bytes = encoded(&[[text(1, "naïve "), text(2, "🙂")].into()]);
    let batch = decode(&bytes).unwrap().remove(0);
    let (Step::Text(first), Step::Text(second)) = (&batch[0].step, &batch[1].step) else { panic!("texts") };
    assert_eq!(first.as_ptr().wrapping_add(first.len()), second.as_ptr());
}

#[test]
fn fuzz_nearly_valid_logs() {
    let texts = ["{\"prompt\":", "null", "\u{3}", "\u{7}", "\u{9}", "\u{a}", "\u{b}"];
    let mut runner = TestRunner::deterministic();
    let logs: Vec<_> = (0..8).map(|_| encoded(&log().new_tree(&mut runner).unwrap().current())).collect();
    let logs: Vec<_> = logs.iter().map(Vec::as_slice).collect();
    testing::fuzz(&logs, &texts, |bytes| {
        let read: Vec<_> = batches(bytes).map_while(Result::ok).collect();
        // What was decoded encodes to the same batches again.
        assert_eq!(decode(&encoded(&read)), Ok(read));
    });
}
