//! The rules of the door, for every route: a trace id on everything, no more requests of an address than it may send,
//! loopback host names on a loopback address, other origins only if allowed.

mod limited;

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::uri::Authority;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use dialects::Rejected;
use domain::TraceId;
use futures::FutureExt;
use tokio::time::Instant;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tracing::{Instrument, debug, error_span, info};

use crate::client::client;
use crate::connections::Peer;
use crate::refusal::{self, Refusal};
use crate::routes;
use crate::serve::App;
use limited::{RATE_LIMIT, RATE_REMAINING, RATE_RESET, limited, rate_limited};

pub(crate) const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
pub(crate) const PROMPT_ID: HeaderName = HeaderName::from_static("x-prompt-id");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// Puts the rules around all routes.
pub(crate) fn guard(routes: Router<App>, app: &App, loopback_only: bool) -> Router<App> {
    let mut routes = routes.layer(from_fn(unbroken));
    if loopback_only {
        routes = routes.layer(from_fn(only_loopback_names));
    }
    if app.rate.is_some() {
        routes = routes.layer(from_fn_with_state(app.clone(), limited));
    }
    routes.layer(cors(&app.settings.allowed_origins)).layer(from_fn_with_state(app.clone(), traced))
}

/// Why any request may be refused.
pub(crate) fn refusals() -> Vec<Refusal> {
    let rejected = [
        broken(),
        misdirected("a server on a loopback address answers to loopback names only"),
        rate_limited(
            "this address has sent more requests in a minute than it may (limits.requests_per_minute)",
            Duration::from_secs(1),
        ),
    ];
    rejected.map(Refusal::from).to_vec()
}

/// The trace id that the door gave to a request.
pub(crate) fn trace_of(extensions: &Extensions) -> TraceId {
    extensions.get().copied().unwrap_or_else(TraceId::random)
}

/// Whether a page of another origin sent this, and is not allowed to.
pub(crate) fn is_foreign(headers: &HeaderMap, allowed_origins: &[String]) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let Ok(origin) = origin.to_str() else { return true };
    let own = headers.get(header::HOST).and_then(|host| host.to_str().ok()).is_some_and(|host| {
        origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
    });
    !own && !allowed_origins.iter().any(|allowed| allowed == "*" || allowed == origin)
}

async fn traced(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let came = Instant::now();
    let client = client(peer.ip(), request.headers(), &app.settings.trusted_proxies);
    let given = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let trace = given.and_then(TraceId::from_traceparent).unwrap_or_else(TraceId::random);
    request.extensions_mut().insert(trace);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let mut response = refusal::tell(response, routes::words(&path), trace);
    app.refused.count(&response);
    let status = response.status().as_u16();
    let milliseconds = u64::try_from(came.elapsed().as_millis()).unwrap_or(u64::MAX);
    if path.starts_with("/health") || path == "/metrics" {
        debug!(%trace, %client, %method, path, status, milliseconds, "answered");
    } else {
        info!(%trace, %client, %method, path, status, milliseconds, "answered");
    }
    response
        .headers_mut()
        .extend(HeaderValue::try_from(trace.to_string()).ok().map(|trace| (TRACE_ID, trace)));
    response
}

/// A handler that panics is a response, too. What is logged meanwhile, as a panic is, has the trace id.
async fn unbroken(request: Request, next: Next) -> Response {
    let span = error_span!("request", trace = %trace_of(request.extensions()));
    AssertUnwindSafe(next.run(request).instrument(span))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Refusal::from(broken()).into_response())
}

fn broken() -> Rejected {
    Rejected::new(500, "internal_error", "something is broken on our side; the log has this trace id")
}

/// A name that somebody else's DNS points at this machine is not ours.
async fn only_loopback_names(request: Request, next: Next) -> Response {
    match host(request.uri(), request.headers()) {
        Some(host) if !is_loopback(host) => {
            let message = format!(
                "this server listens on a loopback address and does not answer to the name {host:?}: use localhost, \
                 or bind it to another address (server.bind)"
            );
            Refusal::from(misdirected(message)).into_response()
        }
        _ => next.run(request).await,
    }
}

fn misdirected(message: impl Into<String>) -> Rejected {
    Rejected::new(421, "misdirected_request", message)
}

/// The host that a request is for, without its port.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(Authority::as_str);
    let authority =
        authority.or_else(|| headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default()))?;
    let is_port = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    Some(authority.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(authority, |(host, _)| host))
}

fn is_loopback(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
    let is_name = |name: &str| {
        name.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.'))
    };
    host == "localhost"
        || host.strip_suffix(".localhost").is_some_and(is_name)
        || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn cors(allowed_origins: &[String]) -> CorsLayer {
    let origins = if allowed_origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(allowed_origins.iter().filter_map(|origin| HeaderValue::try_from(origin).ok()))
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            PROMPT_ID,
            SESSION_ID,
            TRACE_ID,
            RATE_LIMIT,
            RATE_REMAINING,
            RATE_RESET,
            header::RETRY_AFTER,
        ])
}

#[cfg(test)]
mod tests {
    use testing::fuzz_text;
    use url::{Host, Url};

    use super::*;

    #[test]
    fn loopback_names_are_told_from_others() {
        for name in
            ["localhost", "LOCALHOST", "wiki.localhost", "127.0.0.1", "127.8.9.10", "[::1]", "localhost."]
        {
            assert!(is_loopback(name), "{name}");
        }
        for name in [
            "example.com",
            "localhost.example.com",
            "10.0.0.1",
            "[::2]",
            "",
            "127.0.0.1.example.com",
            "example.com#.localhost",
        ] {
            assert!(!is_loopback(name), "{name}");
        }
    }

    #[test]
    fn a_port_is_no_part_of_a_host() {
        for (authority, expected) in [
            ("localhost:8080", "localhost"),
            ("[::1]:8080", "[::1]"),
            ("[::1]", "[::1]"),
            ("example.com", "example.com"),
            ("localhost:80@example.com", "localhost:80@example.com"),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(authority))]);
            assert_eq!(host(&Uri::from_static("/"), &headers), Some(expected));
        }
    }

    /// Whether a browser that is told to go to this address stays on this machine.
    fn stays_here(url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                name == "localhost" || name.ends_with(".localhost")
            }
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        }
    }

    #[test]
    fn fuzz_nearly_right_hosts_and_origins() {
        let seeds = ["localhost:8080", "127.0.0.1", "[::1]:80", "wiki.localhost.", "me:word@example.com:80"];
        let words =
            [":", "@", "[", "]", ".", "/", "#", "?", "::", "localhost:80@", ".localhost", "127.0.0.1"];
        fuzz_text(&seeds, &words, |text| {
            let Ok(value) = HeaderValue::from_str(text) else { return };
            let mut headers = HeaderMap::from_iter([(header::HOST, value)]);
            let url = Url::parse(&format!("http://{text}/"));
            if host(&Uri::from_static("/"), &headers).is_some_and(is_loopback)
                && let Ok(url) = &url
            {
                assert!(stays_here(url), "{url}");
            }
            if let Ok(uri) = format!("http://{text}/").parse::<Uri>()
                && host(&uri, &HeaderMap::new()).is_some_and(is_loopback)
                && let Ok(url) = &url
            {
                assert!(stays_here(url), "{url}");
            }
            for origin in ["null", "http://example.com", text] {
                let origin = HeaderValue::from_str(origin).expect("it was one before");
                headers.insert(header::ORIGIN, origin.clone());
                let own = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
                let is_own = own.is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(text));
                assert_eq!(is_foreign(&headers, &[]), !is_own, "{origin:?}");
                assert!(!is_foreign(&headers, &["*".to_owned()]) || origin.to_str().is_err());
            }
        });
    }
}
