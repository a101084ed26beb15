//! Calls to a model server over HTTP: the [`connection`], the [`model_server`] with its address, key and model, the
//! stream of a response's events, and the failure that an error response means.

mod connection;
mod error_body;
mod error_response;
mod model_server;
mod response_stream;

pub(crate) use error_body::ErrorBody;
pub(crate) use error_response::ErrorResponse;
pub(crate) use model_server::{Advice, ModelServer};
pub(crate) use response_stream::response_stream;
