//! The rules of the door, for every route: trace ids, host names, origins, unknown routes and methods.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::Provider;
use providers::FallbackProvider;
use serde_json::json;
use testing::{Behaviour, SwitchableProvider};

use crate::client::{Call, send_raw};
use crate::deltas::{Encoding, Stream};
use crate::harness::Setup;
use crate::world::{CANCEL, SESSION, STREAM, World, question};

const WIKI: &str = "https://wiki.example";

async fn with_allowed_origins(origins: &[&str]) -> World {
    let origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    Setup::of("fake").settings(|settings| settings.allowed_origins = origins).start().await
}

fn preflight(origin: &str, wants: &'static str) -> Call {
    Call::new("OPTIONS", STREAM)
        .header("Origin", origin)
        .header("Access-Control-Request-Method", wants)
        .header("Access-Control-Request-Headers", "content-type,idempotency-key,last-event-id")
}

#[tokio::test]
async fn every_answer_has_a_trace_id_and_takes_the_callers() {
    let world = Setup::of("fake").start().await;
    let session = world.session().await;
    let calls = [
        Call::get("/health/live"),
        Call::get("/nowhere"),
        Call::new("PUT", SESSION),
        Call::post(SESSION, "{}"),
        Call::post(SESSION, "{"),
        Call::post_json(STREAM, &question(&session)),
        Call::delete(format!("{SESSION}/{session}")),
        Call::get("/health/live").header("Host", "evil.example"),
        preflight(WIKI, "POST"),
    ];
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for call in calls {
        let traced = call.clone().header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
        assert_eq!(world.call(traced).await.header("x-trace-id"), Some(trace));
        let answer = world.call(call.header("traceparent", "nonsense")).await;
        let own = answer.header("x-trace-id").expect("every answer has a trace id");
        assert!(own.len() == 32 && own.bytes().all(|digit| digit.is_ascii_hexdigit()), "{own}");
        assert_ne!(own, trace);
    }
}

#[tokio::test]
async fn the_trace_id_of_an_answer_is_in_its_log_lines() {
    let log = LogLines::of_this_process();
    let world = Setup::of("fake,status=401").start().await;
    let stream = world.ask(&world.session().await).await;
    let trace = stream.header("x-trace-id").to_owned();
    stream.all().await.error("provider_unavailable", false);
    world.settle().await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let ended = |line: &&str| line.contains("prompt ended") && line.contains(&trace);
    assert!(text.lines().any(|line| ended(&line)), "{trace} is not in {text}");
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    /// What this process logs from now on. Not of one thread: what others have found to be logged by nobody,
    /// tracing would not log there either.
    fn of_this_process() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        subscriber.try_init().expect("nobody else listens");
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
async fn a_handler_that_panics_is_answered_and_the_server_goes_on() {
    let broken: Arc<dyn Provider> = SwitchableProvider::new("local", Behaviour::panics());
    let broken = FallbackProvider::new(vec![broken], Duration::from_secs(60));
    let world = Setup::new().given("local", broken).start().await;
    for _ in 0..2 {
        world.get("/api/generation/health").await.refusal(500, "internal_error").await;
    }
    world.session().await;
}

#[tokio::test]
async fn a_loopback_address_answers_to_loopback_names_only() {
    let world = Setup::of("fake").start().await;
    let port = world.address.port();
    for host in ["localhost", "LocalHost", "wiki.localhost", "127.0.0.1", "127.1.2.3", "[::1]", "localhost."]
    {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            world.call(Call::get("/health/live").header("Host", host)).await.json(200).await;
        }
    }
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.evil.example", "[::2]"]
    {
        for call in [Call::get("/health/live"), Call::post(SESSION, "{}"), Call::get("/nowhere")] {
            world.call(call.header("Host", host)).await.refusal(421, "misdirected_request").await;
        }
    }
    let absolute = "GET http://evil.example/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = send_raw(world.address, absolute.into()).await;
    answer.refusal(421, "misdirected_request").await;
}

#[tokio::test]
async fn there_is_nothing_at_an_unknown_route() {
    let world = Setup::of("fake").start().await;
    for path in
        ["/nowhere", "/api/generation", "/api/generation/session/a/b", "/api/generation/STREAM", "//", "/%FF"]
    {
        for call in [Call::get(path), Call::post(path, "{}"), Call::delete(path)] {
            world.call(call).await.refusal(404, "not_found").await;
        }
    }
}

#[tokio::test]
async fn a_route_says_which_methods_it_takes() {
    let world = Setup::of("fake").start().await;
    for (call, allowed) in [
        (Call::get(SESSION), "POST"),
        (Call::get(STREAM), "POST"),
        (Call::get(CANCEL), "POST"),
        (Call::post("/api/generation/health", ""), "GET,HEAD"),
        (Call::new("PATCH", "/api/generation/session/x"), "GET,HEAD,DELETE"),
        (Call::delete("/api/generation/prompts/x"), "GET,HEAD"),
        (Call::post("/api/generation/prompts/x/stream", ""), "GET,HEAD"),
    ] {
        let answer = world.call(call).await;
        assert_eq!(answer.header("allow"), Some(allowed));
        answer.refusal(405, "method_not_allowed").await;
    }
}

#[tokio::test]
async fn browsers_on_other_origins_are_not_allowed_by_default() {
    let world = with_allowed_origins(&[]).await;
    let answer = world.call(preflight(WIKI, "POST")).await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let answer = world.call(Call::post(SESSION, "{}").header("Origin", WIKI)).await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn browsers_on_allowed_origins_may_call_and_see_the_ids() {
    for (allowed, told) in [(WIKI, WIKI), ("*", "*")] {
        let world = with_allowed_origins(&["https://first.example", allowed]).await;
        for method in ["GET", "POST", "DELETE"] {
            let answer = world.call(preflight(WIKI, method)).await;
            assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(told)));
            assert!(answer.header("access-control-allow-methods").unwrap().contains(method));
            let headers = answer.header("access-control-allow-headers").unwrap();
            assert!(headers.contains("idempotency-key") && headers.contains("last-event-id"), "{headers}");
        }
        let body = question(&world.session().await);
        let answer = world.call(Call::post_json(STREAM, &body).header("Origin", WIKI)).await;
        assert_eq!(answer.header("access-control-allow-origin"), Some(told));
        let exposed = answer.header("access-control-expose-headers").unwrap().to_ascii_lowercase();
        for name in ["x-prompt-id", "x-trace-id", "x-session-id"] {
            assert!(exposed.contains(name), "{exposed}");
        }
        let refused = world.call(Call::post(STREAM, "{").header("Origin", WIKI)).await;
        assert_eq!(refused.header("access-control-allow-origin"), Some(told), "a page can read why");
    }
}

#[tokio::test]
async fn an_origin_that_is_not_on_the_list_is_not_allowed() {
    let world = with_allowed_origins(&[WIKI]).await;
    for origin in ["https://evil.example", "http://wiki.example", "https://wiki.example:8443", "null"] {
        let answer = world.call(preflight(origin, "POST")).await;
        assert_ne!(answer.header("access-control-allow-origin"), Some(origin));
        assert_ne!(answer.header("access-control-allow-origin"), Some("*"));
    }
}

#[tokio::test]
async fn a_page_of_a_foreign_origin_must_send_json_as_such() {
    let world = with_allowed_origins(&[WIKI]).await;
    let session = world.session().await;
    let call = |path: &str, content_type: Option<&str>, origin: &str| {
        let call = Call::post_json(path, &question(&session)).header("Origin", origin);
        content_type.map_or(call.clone(), |content_type| call.header("Content-Type", content_type))
    };
    for origin in ["https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1:1"] {
        for content_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
            for path in [STREAM, SESSION, CANCEL] {
                let answer = world.call(call(path, content_type, origin)).await;
                answer.refusal(415, "unsupported_media_type").await;
            }
        }
        world.call(call(SESSION, Some("Application/JSON; charset=utf-8"), origin)).await.json(201).await;
    }
    let own = format!("http://{}", world.address);
    for origin in [WIKI, own.as_str()] {
        let answer = world.call(call(STREAM, Some("text/plain"), origin)).await;
        Stream::new(answer, Encoding::Ndjson).await.all().await.done("stop");
    }
    assert_eq!(world.look_at_session(&session).await["promptCount"], json!(2));
}
