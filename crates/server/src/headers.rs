//! Names of headers that have no constant in the `http` crate.

use axum::http::HeaderName;

/// The trace id of a request, on every response.
pub(crate) const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
/// The prompt that a response answers.
pub(crate) const PROMPT_ID: HeaderName = HeaderName::from_static("x-prompt-id");
/// The session of that prompt.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// Requests that an address may send in a minute.
pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// Requests that are left now.
pub(crate) const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// Seconds until all of them are left again.
pub(crate) const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
