//! The stored form of a prompt's end: its outcome and cause. A new variant needs a new name; no name may change its
//! meaning.

use std::time::Duration;

use domain::{CancelReason, EndCause, Ended, Failure, FailureKind, FinishReason, Outcome};
use serde::{Deserialize, Serialize};

use super::stored_enum::stored_enum;

#[derive(Serialize, Deserialize)]
pub(super) struct EndedRecord {
    outcome: OutcomeRecord,
    cause: CauseRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeRecord {
    Done(FinishRecord),
    Cancelled,
    Failed { kind: KindRecord, message: String, retry_after_ms: Option<u64> },
}

stored_enum! { FinishRecord is FinishReason {
    Stop = FinishReason::Stop => FinishReason::Stop,
    Length = FinishReason::Length => FinishReason::Length,
    ToolCalls = FinishReason::ToolCalls => FinishReason::ToolCalls,
    Filtered = FinishReason::Filtered => FinishReason::Filtered,
} }

stored_enum! { CauseRecord is EndCause {
    Model = EndCause::Model => EndCause::Model,
    Limit = EndCause::Limit => EndCause::Limit,
    Client = EndCause::Client(CancelReason::UserInitiated) => EndCause::Client(CancelReason::UserInitiated),
    ClientTimeout = EndCause::Client(CancelReason::Timeout) => EndCause::Client(CancelReason::Timeout),
    ClientError = EndCause::Client(CancelReason::Error) => EndCause::Client(CancelReason::Error),
    Abandoned = EndCause::Abandoned => EndCause::Abandoned,
    SessionEnded = EndCause::SessionEnded => EndCause::SessionEnded,
    Drain = EndCause::Drain => EndCause::Drain,
    Journal = EndCause::Journal => EndCause::Journal,
    Recovery = EndCause::Recovery => EndCause::Recovery,
    Bug = EndCause::Bug => EndCause::Bug,
} }

stored_enum! { KindRecord is FailureKind {
    Unavailable = FailureKind::Unavailable => FailureKind::Unavailable,
    Refused = FailureKind::Refused => FailureKind::Refused,
    SilentAtStart = FailureKind::SilentAtStart => FailureKind::SilentAtStart,
    Stalled = FailureKind::Stalled => FailureKind::Stalled,
    Died = FailureKind::Died => FailureKind::Died,
    EmptyAnswer = FailureKind::EmptyAnswer => FailureKind::EmptyAnswer,
    TooLong = FailureKind::TooLong => FailureKind::TooLong,
    Retrieval = FailureKind::Retrieval => FailureKind::Retrieval,
    Embedding = FailureKind::Embedding => FailureKind::Embedding,
    Overloaded = FailureKind::Overloaded => FailureKind::Overloaded,
    Interrupted = FailureKind::Interrupted => FailureKind::Interrupted,
    Internal = FailureKind::Internal => FailureKind::Internal,
} }

impl From<&Ended> for EndedRecord {
    fn from(ended: &Ended) -> Self {
        let outcome = match &ended.outcome {
            Outcome::Done(reason) => OutcomeRecord::Done((*reason).into()),
            Outcome::Cancelled => OutcomeRecord::Cancelled,
            Outcome::Failed(failure) => OutcomeRecord::Failed {
                kind: failure.kind.into(),
                message: failure.message.clone(),
                retry_after_ms: failure
                    .retry_after
                    .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            },
        };
        Self { outcome, cause: ended.cause.into() }
    }
}

impl From<EndedRecord> for Ended {
    fn from(record: EndedRecord) -> Self {
        let outcome = match record.outcome {
            OutcomeRecord::Done(reason) => Outcome::Done(reason.into()),
            OutcomeRecord::Cancelled => Outcome::Cancelled,
            OutcomeRecord::Failed { kind, message, retry_after_ms } => Outcome::Failed(Failure {
                kind: kind.into(),
                message,
                retry_after: retry_after_ms.map(Duration::from_millis),
            }),
        };
        Self { outcome, cause: record.cause.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ended: &Ended, stored: &str) {
        assert_eq!(serde_json::to_string(&EndedRecord::from(ended)).unwrap(), stored);
        let record: EndedRecord = serde_json::from_str(stored).unwrap();
        assert_eq!(Ended::from(record), *ended);
    }

    #[test]
    fn outcomes_and_causes_are_stored_under_these_names() {
        let done = |reason, cause| Ended { outcome: Outcome::Done(reason), cause };
        check(&done(FinishReason::Stop, EndCause::Model), r#"{"outcome":{"done":"stop"},"cause":"model"}"#);
        check(
            &done(FinishReason::Length, EndCause::Limit),
            r#"{"outcome":{"done":"length"},"cause":"limit"}"#,
        );
        let cancelled =
            Ended { outcome: Outcome::Cancelled, cause: EndCause::Client(CancelReason::UserInitiated) };
        check(&cancelled, r#"{"outcome":"cancelled","cause":"client"}"#);
        let failure = Failure {
            retry_after: Some(Duration::from_millis(1_500)),
            ..Failure::new(FailureKind::SilentAtStart, "no answer")
        };
        check(
            &Ended { outcome: Outcome::Failed(failure), cause: EndCause::Recovery },
            r#"{"outcome":{"failed":{"kind":"silent_at_start","message":"no answer","retry_after_ms":1500}},"cause":"recovery"}"#,
        );
    }
}
