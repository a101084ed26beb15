//! What calls there are: for programs, and as a page for people.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::all;
use crate::openapi::{Answer, Call, Routes, STYLE, document, page};
use crate::refusal::json;

pub(crate) fn routes() -> Routes {
    Routes::of("Operations")
        .get(
            "/openapi.json",
            openapi,
            Call::new("openapi", "Describes every call")
                .answers(200, Answer::json::<Map<String, Value>>("This description.")),
        )
        .get(
            "/docs",
            docs,
            Call::new("docs", "Describes every call, for people")
                .answers(200, Answer::text("text/html", "A page that needs nothing from anywhere else.")),
        )
        .get(
            "/docs/style.css",
            style,
            Call::new("docsStyle", "Tells how that page looks")
                .answers(200, Answer::text("text/css", "A style sheet.")),
        )
}

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&all()));
static PAGE: LazyLock<Bytes> = LazyLock::new(|| page(&DOCUMENT, &all()).into());

/// The page has no script, and its style is our own.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async fn openapi() -> Response {
    json(StatusCode::OK, format!("{:#}\n", *DOCUMENT).into_bytes())
}

async fn docs() -> Response {
    (plain("text/html; charset=utf-8"), PAGE.clone()).into_response()
}

async fn style() -> Response {
    (plain("text/css; charset=utf-8"), STYLE).into_response()
}

fn plain(content_type: &'static str) -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]
}
