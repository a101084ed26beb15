//! What calls there are, for programs.

use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};

use super::all;
use crate::openapi::{Answer, Call, Routes, document};
use crate::refusal::json;

pub(crate) fn routes() -> Routes {
    Routes::of("Operations").get(
        "/openapi.json",
        openapi,
        Call::new("openapi", "Describes every call")
            .answers(200, Answer::json::<Map<String, Value>>("This description.")),
    )
}

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&all()));

async fn openapi() -> Response {
    json(StatusCode::OK, format!("{:#}", *DOCUMENT).into_bytes())
}
