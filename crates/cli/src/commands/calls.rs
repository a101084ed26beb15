//! Calls of a running server, for the commands that go through it.

use std::error::Error;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use url::Url;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Why a server did not do what it was asked.
pub(super) struct Refusal {
    /// What to branch on; empty if the server gave none.
    pub(super) code: String,
    /// What to tell a person.
    pub(super) message: String,
}

/// A server's address as people type it.
pub(super) fn server_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or("an address like http://127.0.0.1:8080 is needed")?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// A client for the server at an address.
pub(super) fn client(url: &str) -> Result<Client, String> {
    // This fails when a crypto provider is installed already, and that one serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT);
    if url.starts_with("http://") {
        // Where no TLS is spoken, a machine without root certificates is good enough.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| unanswered(url, &error))
}

/// The answer, if the server did what it was asked.
pub(super) async fn accepted(url: &str, response: Response) -> Result<Response, Refusal> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.bytes().await.unwrap_or_default();
    Err(refusal(url, status, &body))
}

/// What to tell when a server cannot be reached, or breaks off.
pub(super) fn unanswered(url: &str, error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    format!("the server at {url} did not answer: {cause}")
}

fn refusal(url: &str, status: StatusCode, body: &[u8]) -> Refusal {
    #[derive(Deserialize)]
    struct Body {
        code: String,
        message: String,
    }
    let unknown = || Refusal {
        code: String::new(),
        message: format!("the server at {url} answered {status}: is it Wellspring's address?"),
    };
    serde_json::from_slice(body)
        .map_or_else(|_| unknown(), |Body { code, message }| Refusal { code, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_servers_own_words_if_it_is_ours() {
        let ours = br#"{"code":"overloaded","message":"every stream is taken","traceId":"0"}"#;
        let told = refusal("http://here", StatusCode::SERVICE_UNAVAILABLE, ours);
        assert_eq!((told.code.as_str(), told.message.as_str()), ("overloaded", "every stream is taken"));
        let told = refusal("http://here", StatusCode::NOT_FOUND, b"<html>");
        assert_eq!(
            told.message,
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
