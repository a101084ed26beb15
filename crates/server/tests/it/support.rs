//! A running test server, clients of each dialect, and the published contracts that every response is checked
//! against.

pub(crate) mod api_description;
pub(crate) mod builder;
pub(crate) mod chat_client;
pub(crate) mod chat_contract;
pub(crate) mod delta_contract;
pub(crate) mod delta_stream;
pub(crate) mod http;
pub(crate) mod seeded_random;
pub(crate) mod storage;
pub(crate) mod test_server;
