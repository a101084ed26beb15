//! Host names on a loopback address. A page can point a DNS name of its own at 127.0.0.1 (DNS rebinding) and
//! would then be of the same origin as the server; so a server on a loopback address answers to loopback
//! names only.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dialects::ErrorReply;

use crate::api_error::ApiError;

pub(super) async fn require_loopback_name(request: Request, next: Next) -> Response {
    match host(request.uri(), request.headers()) {
        Some(host) if !is_loopback(host) => {
            let message = format!(
                "this server listens on a loopback address and does not answer to the name {host:?}: use \
                 localhost, or bind it to another address (server.bind)"
            );
            ApiError::from(misdirected(message)).into_response()
        }
        _ => next.run(request).await,
    }
}

pub(super) fn misdirected(message: impl Into<String>) -> ErrorReply {
    ErrorReply::new(421, "misdirected_request", message)
}

/// The host that a request addresses, without its port.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(Authority::as_str);
    let authority =
        authority.or_else(|| headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default()))?;
    let is_port = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    Some(authority.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(authority, |(host, _)| host))
}

fn is_loopback(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
    let is_name = |name: &str| {
        name.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.'))
    };
    host == "localhost"
        || host.strip_suffix(".localhost").is_some_and(is_name)
        || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use testing::fuzz_text;
    use url::{Host, Url};

    use super::super::is_cross_origin;
    use super::*;

    #[test]
    fn loopback_names_are_recognized() {
        for name in
            ["localhost", "LOCALHOST", "wiki.localhost", "127.0.0.1", "127.8.9.10", "[::1]", "localhost."]
        {
            assert!(is_loopback(name), "{name}");
        }
        for name in [
            "example.com",
            "localhost.example.com",
            "10.0.0.1",
            "[::2]",
            "",
            "127.0.0.1.example.com",
            "example.com#.localhost",
        ] {
            assert!(!is_loopback(name), "{name}");
        }
    }

    #[test]
    fn the_port_is_not_part_of_the_host() {
        for (authority, expected) in [
            ("localhost:8080", "localhost"),
            ("[::1]:8080", "[::1]"),
            ("[::1]", "[::1]"),
            ("example.com", "example.com"),
            ("localhost:80@example.com", "localhost:80@example.com"),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(authority))]);
            assert_eq!(host(&Uri::from_static("/"), &headers), Some(expected));
        }
    }

    /// Whether a browser that opens this URL stays on this machine.
    fn is_local(url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                name == "localhost" || name.ends_with(".localhost")
            }
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        }
    }

    #[test]
    fn fuzz_hosts_and_origins() {
        let seeds =
            ["localhost:8080", "127.0.0.1", "[::1]:80", "wiki.localhost.", "localhost:80@example.com"];
        let words =
            [":", "@", "[", "]", ".", "/", "#", "?", "::", "localhost:80@", ".localhost", "127.0.0.1"];
        fuzz_text(&seeds, &words, |text| {
            let (Ok(value), address) = (HeaderValue::from_str(text), format!("http://{text}")) else {
                return;
            };
            let (root, url) = (Uri::from_static("/"), Url::parse(&address));
            let (in_header, nothing) = (HeaderMap::from_iter([(header::HOST, value)]), HeaderMap::new());
            let in_line = address.parse::<Uri>().unwrap_or_default();
            for host in [host(&root, &in_header), host(&in_line, &nothing)].into_iter().flatten() {
                let is_local = url.as_ref().map_or(true, is_local);
                assert!(is_local || !is_loopback(host), "{host:?} of {url:?}");
            }
            let own_host = (header::HOST, HeaderValue::from_static("localhost:8080"));
            let origin =
                (header::ORIGIN, HeaderValue::try_from(&address).expect("the host alone was a header value"));
            if !is_cross_origin(&HeaderMap::from_iter([own_host, origin]), &[]) {
                let url = url.expect("the same origin is a URL");
                assert_eq!((url.host_str(), url.port()), (Some("localhost"), Some(8080)), "{url}");
            }
        });
    }
}
