//! The actions of a sequence, and how they are generated.

use std::time::Duration;

use domain::FailureKind;
use proptest::prelude::*;

pub(crate) const SESSIONS: usize = 4;

/// One action. Its numbers select an existing prompt, reader or session, modulo their count.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Ask { session: usize, question: u8, key: Option<u8> },
    Tokens { prompt: usize, count: usize },
    Finish { prompt: usize },
    Fail { prompt: usize, kind: FailureKind },
    Panic { prompt: usize },
    Disconnect { reader: usize },
    Reconnect { prompt: usize },
    Cancel { prompt: usize },
    EndSession { session: usize },
    AdvanceTime { time: Duration },
    Restart { crash: bool },
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    let number = 0..1_000_usize;
    let kind = prop::sample::select(vec![FailureKind::Unavailable, FailureKind::Refused, FailureKind::Died]);
    prop_oneof![
        8 => (0..SESSIONS, 0..2_u8, prop::option::of(0..2_u8))
            .prop_map(|(session, question, key)| Action::Ask { session, question, key }),
        6 => (number.clone(), 1..100_usize).prop_map(|(prompt, count)| Action::Tokens { prompt, count }),
        3 => number.clone().prop_map(|prompt| Action::Finish { prompt }),
        2 => (number.clone(), kind).prop_map(|(prompt, kind)| Action::Fail { prompt, kind }),
        1 => number.clone().prop_map(|prompt| Action::Panic { prompt }),
        5 => number.clone().prop_map(|reader| Action::Disconnect { reader }),
        4 => number.clone().prop_map(|prompt| Action::Reconnect { prompt }),
        2 => number.clone().prop_map(|prompt| Action::Cancel { prompt }),
        1 => (0..SESSIONS).prop_map(|session| Action::EndSession { session }),
        4 => (1..40_000_u64).prop_map(|millis| Action::AdvanceTime { time: Duration::from_millis(millis) }),
        1 => prop::bool::ANY.prop_map(|crash| Action::Restart { crash }),
        1 => (1..4_000_u64).prop_map(|seconds| Action::AdvanceTime { time: Duration::from_secs(seconds) }),
    ]
}
