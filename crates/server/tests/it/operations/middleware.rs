//! Middleware, over every route: trace ids, host names, origins, panics, unknown routes and methods.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::Provider;
use providers::FallbackProvider;
use serde_json::json;
use testing::{Behaviour, SwitchableProvider};

use crate::support::builder::TestServerBuilder;
use crate::support::delta_stream::{DeltaStream, Encoding};
use crate::support::http::{Request, send_raw};
use crate::support::test_server::{CANCEL, SESSION, STREAM, TestServer, question};

const WIKI: &str = "https://wiki.example";

async fn with_allowed_origins(origins: &[&str]) -> TestServer {
    let origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    TestServerBuilder::with_model("fake")
        .settings(|settings| settings.allowed_origins = origins)
        .start()
        .await
}

fn preflight(origin: &str, wants: &'static str) -> Request {
    Request::new("OPTIONS", STREAM)
        .header("Origin", origin)
        .header("Access-Control-Request-Method", wants)
        .header("Access-Control-Request-Headers", "content-type,idempotency-key,last-event-id")
}

#[tokio::test]
async fn every_response_has_a_trace_id_from_its_request_if_given() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let session = server.session().await;
    let calls = [
        Request::get("/health/live"),
        Request::get("/nowhere"),
        Request::new("PUT", SESSION),
        Request::post(SESSION, "{}"),
        Request::post(SESSION, "{"),
        Request::post_json(STREAM, &question(&session)),
        Request::delete(format!("{SESSION}/{session}")),
        Request::get("/health/live").header("Host", "evil.example"),
        preflight(WIKI, "POST"),
    ];
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for request in calls {
        let traced = request.clone().header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
        assert_eq!(server.call(traced).await.header("x-trace-id"), Some(trace));
        let answer = server.call(request.header("traceparent", "nonsense")).await;
        let own = answer.header("x-trace-id").expect("every response has a trace id");
        assert!(own.len() == 32 && own.bytes().all(|digit| digit.is_ascii_hexdigit()), "{own}");
        assert_ne!(own, trace);
    }
}

#[tokio::test]
async fn the_trace_id_of_a_response_is_in_its_log_lines() {
    let log = LogLines::of_this_process();
    let server = TestServerBuilder::with_model("fake,status=401").start().await;
    let stream = server.ask(&server.session().await).await;
    let trace = stream.header("x-trace-id").to_owned();
    stream.all().await.error("provider_unavailable", false);
    server.settle().await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let ended = |line: &&str| line.contains("prompt ended") && line.contains(&trace);
    assert!(text.lines().any(|line| ended(&line)), "{trace} is not in {text}");
}

/// Collects log lines.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    /// Collects what this process logs from now on. A subscriber of one thread would miss events whose
    /// callsites other threads have registered as disabled.
    fn of_this_process() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        subscriber.try_init().expect("no other subscriber is set");
        log
    }
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_handler_that_panics_returns_an_error_and_the_server_goes_on() {
    let panicking: Arc<dyn Provider> = SwitchableProvider::new("local", Behaviour::panics());
    let broken = FallbackProvider::new(vec![panicking], Duration::from_secs(60));
    let server = TestServerBuilder::new().custom_provider("local", broken).start().await;
    for _ in 0..2 {
        server.get("/api/generation/health").await.error(500, "internal_error").await;
    }
    server.session().await;
}

#[tokio::test]
async fn a_loopback_address_answers_to_loopback_names_only() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let port = server.address.port();
    for host in ["localhost", "LocalHost", "wiki.localhost", "127.0.0.1", "127.1.2.3", "[::1]", "localhost."]
    {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            server.call(Request::get("/health/live").header("Host", host)).await.json(200).await;
        }
    }
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.evil.example", "[::2]"]
    {
        for request in [Request::get("/health/live"), Request::post(SESSION, "{}"), Request::get("/nowhere")]
        {
            server.call(request.header("Host", host)).await.error(421, "misdirected_request").await;
        }
    }
    let absolute = "GET http://evil.example/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = send_raw(server.address, absolute.into()).await;
    answer.error(421, "misdirected_request").await;
}

#[tokio::test]
async fn an_unknown_route_is_not_found() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for path in
        ["/nowhere", "/api/generation", "/api/generation/session/a/b", "/api/generation/STREAM", "//", "/%FF"]
    {
        for request in [Request::get(path), Request::post(path, "{}"), Request::delete(path)] {
            server.call(request).await.error(404, "not_found").await;
        }
    }
}

#[tokio::test]
async fn an_unknown_method_gets_the_allowed_ones() {
    let server = TestServerBuilder::with_model("fake").start().await;
    for (request, allowed) in [
        (Request::get(SESSION), "POST"),
        (Request::get(STREAM), "POST"),
        (Request::get(CANCEL), "POST"),
        (Request::post("/api/generation/health", ""), "GET,HEAD"),
        (Request::new("PATCH", "/api/generation/session/x"), "GET,HEAD,DELETE"),
        (Request::delete("/api/generation/prompts/x"), "GET,HEAD"),
        (Request::post("/api/generation/prompts/x/stream", ""), "GET,HEAD"),
    ] {
        let answer = server.call(request).await;
        assert_eq!(answer.header("allow"), Some(allowed));
        answer.error(405, "method_not_allowed").await;
    }
}

#[tokio::test]
async fn browsers_on_other_origins_are_not_allowed_by_default() {
    let server = with_allowed_origins(&[]).await;
    let answer = server.call(preflight(WIKI, "POST")).await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let answer = server.call(Request::post(SESSION, "{}").header("Origin", WIKI)).await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn browsers_on_allowed_origins_may_call_and_see_the_ids() {
    for (allowed, expected) in [(WIKI, WIKI), ("*", "*")] {
        let server = with_allowed_origins(&["https://first.example", allowed]).await;
        for method in ["GET", "POST", "DELETE"] {
            let answer = server.call(preflight(WIKI, method)).await;
            assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(expected)));
            assert!(answer.header("access-control-allow-methods").unwrap().contains(method));
            let headers = answer.header("access-control-allow-headers").unwrap();
            assert!(headers.contains("idempotency-key") && headers.contains("last-event-id"), "{headers}");
        }
        let body = question(&server.session().await);
        let answer = server.call(Request::post_json(STREAM, &body).header("Origin", WIKI)).await;
        assert_eq!(answer.header("access-control-allow-origin"), Some(expected));
        let exposed = answer.header("access-control-expose-headers").unwrap().to_ascii_lowercase();
        for name in ["x-prompt-id", "x-trace-id", "x-session-id"] {
            assert!(exposed.contains(name), "{exposed}");
        }
        let refused = server.call(Request::post(STREAM, "{").header("Origin", WIKI)).await;
        assert_eq!(
            refused.header("access-control-allow-origin"),
            Some(expected),
            "a page can read the error"
        );
    }
}

#[tokio::test]
async fn an_origin_that_is_not_listed_is_not_allowed() {
    let server = with_allowed_origins(&[WIKI]).await;
    for origin in ["https://evil.example", "http://wiki.example", "https://wiki.example:8443", "null"] {
        let answer = server.call(preflight(origin, "POST")).await;
        assert_ne!(answer.header("access-control-allow-origin"), Some(origin));
        assert_ne!(answer.header("access-control-allow-origin"), Some("*"));
    }
}

#[tokio::test]
async fn a_page_of_another_origin_must_declare_its_json() {
    let server = with_allowed_origins(&[WIKI]).await;
    let session = server.session().await;
    let request = |path: &str, content_type: Option<&str>, origin: &str| {
        let request = Request::post_json(path, &question(&session)).header("Origin", origin);
        content_type.map_or(request.clone(), |content_type| request.header("Content-Type", content_type))
    };
    for origin in ["https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1:1"] {
        for content_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
            for path in [STREAM, SESSION, CANCEL] {
                let answer = server.call(request(path, content_type, origin)).await;
                answer.error(415, "unsupported_media_type").await;
            }
        }
        server.call(request(SESSION, Some("Application/JSON; charset=utf-8"), origin)).await.json(201).await;
    }
    let own = format!("http://{}", server.address);
    for origin in [WIKI, own.as_str()] {
        let answer = server.call(request(STREAM, Some("text/plain"), origin)).await;
        DeltaStream::new(answer, Encoding::Ndjson).await.all().await.done("stop");
    }
    assert_eq!(server.get_session(&session).await["promptCount"], json!(2));
}
