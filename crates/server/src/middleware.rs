//! Middleware around every route. From the outermost to the innermost layer:
//!
//! 1. `trace`: the trace id, the access log, and the rendering of errors.
//! 2. `rate_limit`: counts requests per client address.
//! 3. `cors`: which origins may call from a browser. It is outside of the refusals below, so that pages can
//!    read them.
//! 4. `rate_limit`: refuses requests beyond the limit.
//! 5. `hosts`: on a loopback address, refuses host names that are not loopback names.
//! 6. `panics`: turns a panic into an error response.

mod cors;
mod hosts;
mod panics;
mod rate_limit;
mod trace;

use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

use crate::api_error::ApiError;
use crate::app::AppState;
pub(crate) use cors::is_cross_origin;
pub(crate) use rate_limit::RateLimiter;
pub(crate) use trace::trace_of;

/// Wraps all routes in the middleware.
pub(crate) fn wrap(routes: Router<AppState>, app: &AppState, loopback_only: bool) -> Router<AppState> {
    let mut routes = routes.layer(from_fn(panics::catch_panic));
    if loopback_only {
        routes = routes.layer(from_fn(hosts::require_loopback_name));
    }
    routes = routes.layer(from_fn(rate_limit::enforce)).layer(cors::layer(&app.settings.allowed_origins));
    if app.rate_limiter.is_some() {
        routes = routes.layer(from_fn_with_state(app.clone(), rate_limit::count));
    }
    routes.layer(from_fn_with_state(app.clone(), trace::trace))
}

/// The errors that any request can return.
pub(crate) fn errors() -> Vec<ApiError> {
    let errors = [
        panics::internal_error(),
        hosts::misdirected("a server on a loopback address answers to loopback names only"),
        rate_limit::rate_limited(
            "this address has sent more requests in a minute than limits.requests_per_minute allows",
            Duration::from_secs(1),
        ),
    ];
    errors.map(ApiError::from).to_vec()
}
