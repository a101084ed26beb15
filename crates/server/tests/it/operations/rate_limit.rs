//! The rate limit and its headers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::json;
use server::IpNetwork;

use crate::support::builder::TestServerBuilder;
use crate::support::http::{Request, Response};
use crate::support::test_server::{STREAM, TestServer, advance_time, question};

async fn server(per_minute: u32, trusted: &[IpAddr]) -> TestServer {
    let trusted = trusted.iter().map(|address| IpNetwork { address: *address, prefix: 32 }).collect();
    let builder = TestServerBuilder::with_model("fake").settings(|settings| {
        settings.requests_per_minute = per_minute;
        settings.trusted_proxies = trusted;
    });
    builder.start().await
}

/// The limit, the remaining requests, and the seconds until all of them are left again.
fn rate_headers(answer: &Response) -> [Option<u64>; 3] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
        .map(|name| answer.header(name).map(|value| value.parse().expect("it is a number")))
}

#[tokio::test]
async fn a_limited_address_gets_the_time_to_retry() {
    let server = server(3, &[]).await;
    let answer = server.get("/api/sessions").await;
    assert_eq!((answer.status, rate_headers(&answer)), (200, [Some(3), Some(2), Some(20)]));
    let answer = server.get("/nowhere").await;
    assert_eq!(
        (answer.status, rate_headers(&answer)[1]),
        (404, Some(1)),
        "every request counts, and every response has the headers"
    );
    let session = server.session().await;
    let answer = server.call(Request::post_json(STREAM, &question(&session))).await;
    assert_eq!(rate_headers(&answer)[..2], [Some(3), Some(0)]);
    let wait: u64 = answer.header("retry-after").expect("a time to retry").parse().expect("in seconds");
    assert!((18..=20).contains(&wait), "{wait}");
    let error = answer.error(429, "rate_limited").await;
    assert!(error["message"].as_str().unwrap().contains("limits.requests_per_minute"), "{error}");

    advance_time(Duration::from_secs(wait)).await;
    assert_eq!(server.get("/api/sessions").await.status, 200);
    assert_eq!(server.get("/api/sessions").await.status, 429);
}

#[tokio::test]
async fn the_rate_limit_error_has_the_dialect_of_its_path() {
    let server = server(1, &[]).await;
    server.get("/api/sessions").await;
    let refused = server.call(Request::post("/chat", "{}")).await.json(429).await;
    assert_eq!(
        (&refused["error_code"], &refused["code"]),
        (&json!("rate_limited"), &json!(null)),
        "{refused}"
    );
}

#[tokio::test]
async fn health_checks_and_scrapes_are_not_counted() {
    let server = server(1, &[]).await;
    server.get("/api/sessions").await;
    for path in ["/health/live", "/health/ready", "/metrics"] {
        let answer = server.get(path).await;
        assert_eq!(
            (answer.status, rate_headers(&answer)[..2].to_vec()),
            (200, vec![Some(1), Some(0)]),
            "{path}"
        );
    }
    assert_eq!(server.get("/health").await.status, 429);
}

#[tokio::test]
async fn preflights_are_not_counted_and_pages_can_read_the_error() {
    const PAGE: &str = "https://wiki.example";
    let builder = TestServerBuilder::with_model("fake").settings(|settings| {
        settings.requests_per_minute = 1;
        settings.allowed_origins = vec![PAGE.to_owned()];
    });
    let server = builder.start().await;
    let preflight = || {
        let request = Request::new("OPTIONS", "/api/sessions").header("Origin", PAGE);
        server.call(request.header("Access-Control-Request-Method", "GET"))
    };
    for _ in 0..2 {
        let answer = preflight().await;
        assert_eq!((answer.status, rate_headers(&answer)), (200, [Some(1), Some(1), Some(0)]));
    }
    let page = || server.call(Request::get("/api/sessions").header("Origin", PAGE));
    assert_eq!(page().await.status, 200);
    assert_eq!((preflight().await.status, page().await.status), (200, 429));
    let refused = page().await;
    assert_eq!(refused.header("access-control-allow-origin"), Some(PAGE));
    assert_eq!(rate_headers(&refused)[..2], [Some(1), Some(0)]);
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_has_its_own_limit() {
    let behind = |client: &str| Request::get("/api/sessions").header("X-Forwarded-For", client);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for (trusted, expected) in [(&[loopback][..], [200, 200, 429]), (&[], [200, 429, 429])] {
        let server = server(1, trusted).await;
        let mut statuses = Vec::new();
        for client in ["198.51.100.1", "198.51.100.2", "203.0.113.9, 198.51.100.2"] {
            statuses.push(server.call(behind(client)).await.status);
        }
        assert_eq!(statuses, expected, "{trusted:?}");
    }
}

#[tokio::test]
async fn without_a_limit_there_are_no_rate_headers() {
    let server = server(0, &[]).await;
    for _ in 0..50 {
        let answer = server.get("/health/live").await;
        assert_eq!((answer.status, rate_headers(&answer)), (200, [None; 3]));
    }
}
