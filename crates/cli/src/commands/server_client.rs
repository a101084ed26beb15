//! HTTP calls to a running server, for the commands that go through it.

use std::error::Error;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use url::Url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a call to a server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// It cannot be reached, or its response broke off.
    #[error("the server at {url} did not answer: {}", root_cause(source))]
    Unreachable { url: String, source: reqwest::Error },
    /// It refused, in our own error body.
    #[error("{message}")]
    Refused { code: String, message: String },
    /// It answered in a way that ours does not.
    #[error("the server at {url} {what}: is it Wellspring's address?")]
    NotOurs { url: String, what: String },
    /// The answer's stream ended before its last delta.
    #[error("the server at {url} broke off in the middle of the answer")]
    BrokeOff { url: String, source: reqwest::Error },
}

/// A server and the client to call it with.
#[derive(Clone)]
pub(super) struct ServerClient {
    url: String,
    client: Client,
}

impl ServerClient {
    pub(super) fn new(url: &str) -> Result<Self, ServerError> {
        // This fails when a crypto provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder =
            Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        if url.starts_with("http://") {
            // Without TLS, a machine without root certificates will do.
            builder = builder.tls_certs_only([]);
        }
        match builder.build() {
            Ok(client) => Ok(Self { url: url.to_owned(), client }),
            Err(source) => Err(ServerError::Unreachable { url: url.to_owned(), source }),
        }
    }

    pub(super) fn get(&self, path: &str) -> RequestBuilder {
        self.client.request(Method::GET, format!("{}{path}", self.url))
    }

    pub(super) fn post(&self, path: &str) -> RequestBuilder {
        self.client.request(Method::POST, format!("{}{path}", self.url))
    }

    /// Sends a request; the response has any status.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, ServerError> {
        request.send().await.map_err(|source| self.unreachable(source))
    }

    /// Sends a request; a status that is not a success is an error.
    pub(super) async fn call(&self, request: RequestBuilder) -> Result<Response, ServerError> {
        let response = self.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.unwrap_or_default();
        Err(self.refusal(status, &body))
    }

    pub(super) async fn body(&self, response: Response) -> Result<Vec<u8>, ServerError> {
        let body = response.bytes().await.map_err(|source| self.unreachable(source))?;
        Ok(body.into())
    }

    pub(super) fn broke_off(&self, source: reqwest::Error) -> ServerError {
        ServerError::BrokeOff { url: self.url.clone(), source }
    }

    pub(super) fn not_ours(&self, what: impl Into<String>) -> ServerError {
        ServerError::NotOurs { url: self.url.clone(), what: what.into() }
    }

    fn unreachable(&self, source: reqwest::Error) -> ServerError {
        ServerError::Unreachable { url: self.url.clone(), source }
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> ServerError {
        #[derive(Deserialize)]
        struct Body {
            code: String,
            message: String,
        }
        match serde_json::from_slice(body) {
            Ok(Body { code, message }) => ServerError::Refused { code, message },
            Err(_) => self.not_ours(format!("answered {status}")),
        }
    }
}

/// A server's address as typed on the command line.
pub(super) fn server_url(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or("an address like http://127.0.0.1:8080 is needed")?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// The innermost cause, which is the one that a person can act on ("Connection refused").
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_servers_message_if_the_body_is_ours() {
        let server = ServerClient::new("http://here").unwrap();
        let ours = br#"{"code":"overloaded","message":"every stream is taken","traceId":"0"}"#;
        let refusal = server.refusal(StatusCode::SERVICE_UNAVAILABLE, ours);
        assert!(matches!(&refusal, ServerError::Refused { code, .. } if code == "overloaded"));
        assert_eq!(refusal.to_string(), "every stream is taken");
        assert_eq!(
            server.refusal(StatusCode::NOT_FOUND, b"<html>").to_string(),
            "the server at http://here answered 404 Not Found: is it Wellspring's address?"
        );
    }

    #[test]
    fn a_server_is_named_by_an_address_with_its_scheme() {
        assert_eq!(server_url("http://localhost:8080/").as_deref(), Ok("http://localhost:8080"));
        assert_eq!(server_url("https://here/behind/a/proxy").as_deref(), Ok("https://here/behind/a/proxy"));
        for wrong in ["localhost:8080", "127.0.0.1:8080", "ftp://here", ""] {
            assert!(server_url(wrong).is_err(), "{wrong}");
        }
    }
}
