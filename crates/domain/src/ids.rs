//! Identifiers. Those that the server makes are UUIDv7, which sort by creation time.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use uuid::{ContextV7, Uuid};

use crate::Timestamp;

macro_rules! id {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new id, created at `now`.
            pub fn new(now: Timestamp) -> Self {
                Self(uuid_v7(now))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

id! {
    /// The id of a session.
    SessionId
}
id! {
    /// The id of a prompt, and of its log.
    PromptId
}
id! {
    /// The id of an answer as a message of its conversation.
    MessageId
}
id! {
    /// The id of a document.
    DocumentId
}
id! {
    /// The id of a chunk of a document.
    ChunkId
}

/// A UUIDv7 greater than every earlier one of this process: a counter orders those of one millisecond.
fn uuid_v7(now: Timestamp) -> Uuid {
    static LAST: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    let micros = u64::try_from(now.micros()).unwrap_or(0);
    let nanos = u32::try_from(micros % 1_000_000 * 1_000).unwrap_or(0);
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    Uuid::new_v7(uuid::Timestamp::from_unix(&*last, micros / 1_000_000, nanos))
}

/// Ties a response, its log lines and its error bodies together: 32 hexadecimal digits, as in the W3C
/// `traceparent` header.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

impl TraceId {
    /// A new random trace id.
    pub fn random() -> Self {
        Self(Uuid::new_v4().as_u128())
    }

    /// The trace id of a `traceparent` header (version-trace-parent-flags); `None` if it is malformed or
    /// zero.
    pub fn from_traceparent(header: &str) -> Option<Self> {
        let digits = header.split('-').nth(1)?;
        if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(digits, 16).ok().filter(|id| *id != 0).map(Self)
    }
}

impl FromStr for TraceId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_ids_sort_after_earlier_ones() {
        let at = |millis: i64| Timestamp::from_micros(1_700_000_000_000_000 + millis * 1_000);
        let ids: Vec<_> = (0..1_000).map(|n| PromptId::new(at(n / 10))).collect();
        assert!(ids.is_sorted_by(|earlier, later| earlier < later));
    }

    #[test]
    fn a_trace_id_comes_from_a_traceparent() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = TraceId::from_traceparent(header).unwrap();
        assert_eq!(trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        for bad in [
            "",
            "00",
            "00-zz-1",
            "00-00000000000000000000000000000000-1-1",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-1",
        ] {
            assert_eq!(TraceId::from_traceparent(bad), None, "{bad}");
        }
    }
}
