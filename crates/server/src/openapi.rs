//! The description of every route, as OpenAPI 3.1. Nothing is written down twice: a route registers its
//! handler together with its description, wire structs are their own schemas, and an error is described by
//! what the middleware would render.

mod docs_page;
mod document;
mod errors;
mod operation;
mod routes;
mod schemas;
mod stream;

pub(crate) use docs_page::{STYLE, docs_page};
pub(crate) use document::document;
pub(crate) use errors::{
    in_flight, invalid, key_reused, no_prompt, no_session, no_usable_session, overloaded, stopping, storage,
};
pub(crate) use operation::{Operation, ResponseDoc};
pub(crate) use routes::Routes;
pub(crate) use stream::StreamDoc;
