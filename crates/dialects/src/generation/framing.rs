//! The framing of deltas, as the `Accept` header asks for it.

use crate::sse;

/// The framing of deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One JSON object per line.
    Ndjson,
    /// Server-sent events: the same object as `data`, its `seq` as `id`, its type as `event`.
    Sse,
}

impl Encoding {
    /// The encoding that an `Accept` header asks for: NDJSON, unless server-sent events have a higher weight.
    pub fn from_accept(accept: Option<&str>) -> Self {
        let weight_of = |wanted: &str| {
            accept
                .unwrap_or_default()
                .split(',')
                .filter_map(|range| weight(range, wanted))
                .fold(0.0, f32::max)
        };
        let sse = weight_of("text/event-stream");
        if sse > weight_of("application/x-ndjson") { Self::Sse } else { Self::Ndjson }
    }

    /// The `Content-Type` of the stream.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Sse => sse::CONTENT_TYPE,
        }
    }
}

/// The weight (`q`) of a media range, if it is exactly this type.
fn weight(range: &str, wanted: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(wanted) {
        return None;
    }
    Some(parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse().ok()).unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_header_chooses_the_encoding() {
        for (accept, expected) in [
            (None, Encoding::Ndjson),
            (Some("*/*"), Encoding::Ndjson),
            (Some("application/json, text/plain, */*"), Encoding::Ndjson),
            (Some("application/x-ndjson"), Encoding::Ndjson),
            (Some("text/event-stream"), Encoding::Sse),
            (Some("Text/Event-Stream, */*"), Encoding::Sse),
            (Some("text/event-stream;q=0.9, application/x-ndjson;q=0.1"), Encoding::Sse),
            (Some("text/event-stream; q=0.1, application/x-ndjson"), Encoding::Ndjson),
            (Some("text/event-stream;q=0"), Encoding::Ndjson),
        ] {
            assert_eq!(Encoding::from_accept(accept), expected, "{accept:?}");
        }
    }
}
