//! The description of every call, as OpenAPI 3.1. Routes say of themselves what they take and answer, wire structs are
//! their own schemas, and refusals are described by what the door would tell: nothing is written down twice.

mod call;
mod document;
mod page;
mod refusals;
mod routes;
mod schemas;
mod stream;

pub(crate) use call::{Answer, Call};
pub(crate) use document::document;
pub(crate) use page::{STYLE, page};
pub(crate) use refusals::{
    in_flight, invalid, key_reused, no_prompt, no_session, no_usable_session, overloaded, stopping, storage,
};
pub(crate) use routes::Routes;
pub(crate) use stream::Stream;
