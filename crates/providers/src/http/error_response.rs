//! Responses with an error status, and the failures they mean.

use std::time::{Duration, SystemTime};

use domain::{Failure, FailureKind};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::error_body::ErrorBody;

/// Upper bound in bytes on the part of an error body that is read.
const MAX_BODY_BYTES: usize = 8 * 1024;

/// Upper bound on the time for reading the body: the status is enough to ask another provider.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Upper bound on `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A response with an error status.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: ErrorBody,
    retry_after: Option<Duration>,
}

impl ErrorResponse {
    /// Reads the beginning of the body.
    pub(crate) async fn read(response: Response) -> Self {
        let status = response.status();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let body = read_bounded(response).await;
        Self { status, body: ErrorBody::parse(&body), retry_after }
    }

    /// The failure that the response means. `not_found` says what to do about a 404.
    pub(crate) fn failure(&self, not_found: &str) -> Failure {
        let mut message = format!("answered {}", self.status);
        if !self.body.message.is_empty() {
            message = format!("{message}: {}", self.body.message);
        }
        let advice = match self.status.as_u16() {
            300..=399 => "set base_url to the address it redirects to",
            401 | 403 => "check the key in api_key_env",
            404 => not_found,
            _ => "",
        };
        if !advice.is_empty() {
            message = format!("{message}; {advice}");
        }
        Failure { kind: self.kind(), message, retry_after: self.retry_after }
    }

    fn kind(&self) -> FailureKind {
        if matches!(self.status.as_u16(), 408 | 429) {
            FailureKind::Unavailable
        } else if self.body.is_too_long() {
            // Some servers send a 500 for it; a retry would fail again.
            FailureKind::TooLong
        } else if self.status.is_server_error() {
            FailureKind::Unavailable
        } else {
            FailureKind::Refused
        }
    }
}

/// The first bytes of a body, as many as arrive in time.
async fn read_bounded(mut response: Response) -> Vec<u8> {
    let (mut body, until) = (Vec::new(), Instant::now() + READ_TIMEOUT);
    while body.len() < MAX_BODY_BYTES
        && let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await
    {
        body.extend_from_slice(&chunk);
    }
    body.truncate(MAX_BODY_BYTES);
    body
}

/// The `Retry-After` header: a number of seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use testing::fuzz_text;

    use super::*;

    fn response(status: u16, message: &str) -> ErrorResponse {
        ErrorResponse {
            status: StatusCode::from_u16(status).unwrap(),
            body: ErrorBody { message: message.to_owned(), ..ErrorBody::default() },
            retry_after: None,
        }
    }

    #[test]
    fn each_status_has_its_row_in_the_failure_table() {
        for (status, kind) in [
            (308, FailureKind::Refused),
            (400, FailureKind::Refused),
            (401, FailureKind::Refused),
            (404, FailureKind::Refused),
            (408, FailureKind::Unavailable),
            (429, FailureKind::Unavailable),
            (500, FailureKind::Unavailable),
            (503, FailureKind::Unavailable),
        ] {
            assert_eq!(response(status, "no").failure("").kind, kind, "{status}");
        }
        assert_eq!(response(400, "maximum context length is 9").failure("").kind, FailureKind::TooLong);
        assert_eq!(response(500, "input is too large to process").failure("").kind, FailureKind::TooLong);
    }

    #[test]
    fn the_message_says_what_to_do() {
        let message_of = |status, message| response(status, message).failure("pull it").message;
        assert_eq!(
            message_of(401, "bad key"),
            "answered 401 Unauthorized: bad key; check the key in api_key_env"
        );
        assert_eq!(message_of(404, "no model"), "answered 404 Not Found: no model; pull it");
        assert_eq!(message_of(502, ""), "answered 502 Bad Gateway");
    }

    #[test]
    fn retry_after_is_in_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, expected) in [
            ("30", Some(30)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:40:00 GMT", Some(0)),
            ("99999999999", Some(24 * 60 * 60)),
            ("soon", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn fuzz_nearly_right_retry_after_headers() {
        let seeds = ["120", "0", "Fri, 31 Dec 1999 23:59:59 GMT", "Wed, 21 Oct 2099 07:28:00 GMT"];
        fuzz_text(&seeds, &["-", "+", "GMT", "99999999999999999999", ", "], |text| {
            let Ok(value) = HeaderValue::from_str(text) else { return };
            let wait = retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]), SystemTime::now());
            assert!(wait.is_none_or(|wait| wait <= MAX_RETRY_AFTER), "{wait:?}");
        });
    }
}
