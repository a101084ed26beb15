//! The API's description: `/openapi.json` for programs, `/docs` for people.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::{all, json_response};
use crate::openapi::{Operation, ResponseDoc, Routes, STYLE, docs_page, document};

pub(crate) fn routes() -> Routes {
    let mut routes = Routes::tagged("Operations");
    routes.get("/openapi.json", openapi, openapi_doc());
    routes.get("/docs", docs, docs_doc());
    routes.get("/docs/style.css", style, style_doc());
    routes
}

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&all()));
static PAGE: LazyLock<Bytes> = LazyLock::new(|| docs_page(&DOCUMENT, &all()).into());

/// The content security policy of the page: no script, and the style of this server only.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn openapi_doc() -> Operation {
    Operation::new("openapi", "Describes the API")
        .response(200, ResponseDoc::json::<Map<String, Value>>("The OpenAPI document."))
}

async fn openapi() -> Response {
    json_response(StatusCode::OK, format!("{:#}\n", *DOCUMENT).into_bytes())
}

fn docs_doc() -> Operation {
    Operation::new("docs", "Describes the API, for people")
        .response(200, ResponseDoc::text("text/html", "An HTML page that loads nothing from elsewhere."))
}

async fn docs() -> Response {
    (page_headers("text/html; charset=utf-8"), PAGE.clone()).into_response()
}

fn style_doc() -> Operation {
    Operation::new("docsStyle", "The style of that page")
        .response(200, ResponseDoc::text("text/css", "A style sheet."))
}

async fn style() -> Response {
    (page_headers("text/css; charset=utf-8"), STYLE).into_response()
}

fn page_headers(content_type: &'static str) -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]
}
