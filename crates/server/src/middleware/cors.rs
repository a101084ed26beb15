//! Cross-origin requests: which origins a browser may call from, and which requests come from another origin.

use axum::http::{HeaderMap, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::headers::{PROMPT_ID, RATE_LIMIT, RATE_REMAINING, RATE_RESET, SESSION_ID, TRACE_ID};

/// The CORS layer for these origins; `*` allows all.
pub(super) fn layer(allowed_origins: &[String]) -> CorsLayer {
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

/// Whether a page of another origin sent the request and that origin is not allowed.
pub(crate) fn is_cross_origin(headers: &HeaderMap, allowed_origins: &[String]) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let Ok(origin) = origin.to_str() else { return true };
    let is_same = headers.get(header::HOST).and_then(|host| host.to_str().ok()).is_some_and(|host| {
        origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
    });
    !is_same && !allowed_origins.iter().any(|allowed| allowed == "*" || allowed == origin)
}
