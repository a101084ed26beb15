//! Errors in the description. Status, code and message of each are those that the middleware would render on
//! the path.

use std::collections::BTreeMap;
use std::time::Duration;

use dialects::ErrorFormat;
use domain::{PromptId, Rejection};

use crate::api_error::ApiError;

/// The errors that share a status on a path.
#[derive(Default)]
pub(super) struct ErrorDoc {
    /// Messages by code.
    pub(super) messages: BTreeMap<&'static str, String>,
    /// Whether the response may have a `Retry-After` header.
    pub(super) retry_after: bool,
}

/// Errors by status, as a dialect renders them.
pub(super) fn by_status<'a>(
    format: ErrorFormat,
    errors: impl IntoIterator<Item = &'a ApiError>,
) -> BTreeMap<u16, ErrorDoc> {
    let mut statuses: BTreeMap<u16, ErrorDoc> = BTreeMap::new();
    for error in errors {
        let reply = error.in_format(format);
        let status = statuses.entry(reply.status).or_default();
        status.retry_after |= reply.retry_after.is_some();
        status.messages.entry(reply.code).or_insert_with(|| match error {
            // The rendered message names a prompt.
            ApiError::Domain(Rejection::PromptInFlight(_)) => {
                "a prompt of this session is still running; `details` has its id".to_owned()
            }
            _ => reply.message,
        });
    }
    statuses
}

pub(crate) fn invalid() -> Rejection {
    Rejection::Invalid(
        "something in the request is wrong; the message says what, and what is allowed".to_owned(),
    )
}

pub(crate) fn no_session() -> Rejection {
    Rejection::SessionNotFound
}

pub(crate) fn no_usable_session() -> Rejection {
    Rejection::SessionNotUsable
}

pub(crate) fn no_prompt() -> Rejection {
    Rejection::PromptNotFound
}

pub(crate) fn in_flight() -> Rejection {
    let any: PromptId = "00000000-0000-7000-8000-000000000000".parse().expect("it is a UUID");
    Rejection::PromptInFlight(any)
}

pub(crate) fn key_reused() -> Rejection {
    Rejection::KeyReused
}

pub(crate) fn overloaded() -> Rejection {
    Rejection::Overloaded { message: "there is no room".to_owned(), retry_after: Duration::from_secs(1) }
}

pub(crate) fn stopping() -> Rejection {
    Rejection::Stopping
}

pub(crate) fn storage() -> Rejection {
    Rejection::StorageUnavailable("it takes no new work".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use domain::TraceId;

    use crate::api_error::ApiError;
    use crate::{middleware, request_body, routes};

    /// Every error that the description of a route names, rendered in the dialect of its path.
    #[test]
    fn the_error_bodies_of_each_dialect() {
        let trace = TraceId::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let trace = trace.expect("it is a trace context");
        let mut rows = BTreeMap::new();
        for route in routes::all().described {
            let format = routes::error_format_of(route.path);
            let body_errors = route.operation.body.map(|_| request_body::errors()).unwrap_or_default();
            let errors = route.operation.errors.into_iter().chain(body_errors).chain(middleware::errors());
            for reply in errors.map(|error: ApiError| error.in_format(format)) {
                let body = String::from_utf8(format.body(&reply, trace)).expect("JSON is UTF-8");
                let retry = if reply.retry_after.is_some() { "retry" } else { "-" };
                let key = (format!("{format:?}"), reply.status, reply.code);
                rows.entry(key).or_insert(format!("{retry:5}  {body}"));
            }
        }
        let mut table = String::new();
        for ((dialect, status, _), row) in rows {
            writeln!(table, "{dialect:10}  {status}  {row}").expect("writing to a string cannot fail");
        }
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!("error_bodies", table);
        });
    }
}
