//! Shutdown: the server takes no new prompts, drains running ones, sends every client an end, and waits for no client that
//! has read it.

use std::time::{Duration, Instant};

use serde_json::json;
use testing::{FakeModel, RequestEnding};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::binary::{Home, Server, soon};
use crate::client::{ask, get, post};

/// A server over the fake model with this drain time.
async fn server(fake: &FakeModel, model: &str, grace: &str) -> Server {
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", model),
        ("WELLSPRING__SERVER__DRAIN_SECONDS", grace),
        ("MAX_CONCURRENT_STREAMS", "200"),
    ];
    Home::new().serve(&[], &variables).await
}

/// Waits until it has ended, and checks that it ended well and without a timeout.
async fn check_end(server: Server) {
    let ran = server.ended().await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.lines().last().unwrap_or_default().contains("\"message\":\"stopped\""), "{}", ran.err);
    assert!(!ran.err.contains("in time"), "a wait timed out: {}", ran.err);
}

async fn check_that_it_stops_on(signal: &str) {
    let fake = FakeModel::start().await;
    let server = server(&fake, "fake,stall=3", "0").await;
    let mut response = ask(&server, "why?").await;
    assert_eq!(response.delta().await.expect("the answer has begun")["type"], "token");

    server.signal(signal).await;
    let (_, error) = response.answer().await;
    assert_eq!((&error["type"], &error["seq"]), (&"error".into(), &3.into()));
    assert_eq!(error["metadata"]["code"], "interrupted");
    assert_eq!(error["metadata"]["retryable"], true);
    let ready = get(&server, "/health/ready").await.map(|response| response.status);
    assert!(ready.as_ref().is_ok_and(|status| *status == 503) || ready.is_err(), "{ready:?}");
    check_end(server).await;
    fake.wait_until(|requests| requests.iter().all(|seen| seen.ending != RequestEnding::Running)).await;
}

#[tokio::test]
async fn sigterm_stops_the_server() {
    check_that_it_stops_on("TERM").await;
}

#[tokio::test]
async fn ctrl_c_stops_the_server() {
    check_that_it_stops_on("INT").await;
}

#[tokio::test]
async fn a_running_prompt_is_drained_and_new_ones_are_refused() {
    let fake = FakeModel::start().await;
    let mut server = server(&fake, "fake,tokens=30,pace=50ms", "600").await;
    let session = post(&server, "/api/generation/session", "", &json!({})).await.json().await;
    let asking = post(&server, "/api/generation/session", "", &json!({})).await.json().await;
    let keyed = json!({"sessionId": asking["sessionId"], "prompt": "why?", "idempotencyKey": "once"});
    let mut response = post(&server, "/api/generation/stream", "", &keyed).await;
    response.delta().await.expect("the answer has begun");

    server.signal("TERM").await;
    server.logged("new prompts are refused").await;
    assert_eq!(get(&server, "/health/ready").await.unwrap().status, 503);
    assert_eq!(get(&server, "/health/live").await.unwrap().status, 200);
    let health = get(&server, "/health").await.unwrap();
    assert_eq!((health.status, &health.json().await["status"]), (503, &"unhealthy".into()));
    let prompt = json!({"sessionId": session["sessionId"], "prompt": "and why?"});
    let refused = post(&server, "/api/generation/stream", "", &prompt).await;
    assert_eq!((refused.status, &refused.json().await["code"]), (503, &"interrupted".into()));

    let again = post(&server, "/api/generation/stream", "", &keyed).await;
    assert_eq!(
        again.header("x-prompt-id"),
        response.header("x-prompt-id"),
        "a request with its key joins it"
    );
    for stream in [response, again] {
        let (_, done) = stream.answer().await;
        assert_eq!((&done["type"], &done["metadata"]["tokenCount"]), (&"done".into(), &30.into()));
    }
    check_end(server).await;
}

#[tokio::test]
async fn a_second_signal_ends_the_drain_at_once() {
    let fake = FakeModel::start().await;
    let mut server = server(&fake, "fake,stall=3", "600").await;
    let mut response = ask(&server, "why?").await;
    response.delta().await.expect("the answer has begun");
    server.signal("TERM").await;
    server.logged("new prompts are refused").await;
    server.signal("TERM").await;
    let (_, error) = response.answer().await;
    assert_eq!(error["metadata"]["code"], "interrupted");
    check_end(server).await;
}

#[tokio::test]
async fn two_hundred_clients_get_an_end_and_none_delays_the_shutdown() {
    const GRACE: Duration = Duration::from_secs(2);
    let fake = FakeModel::start().await;
    let mut server = server(&fake, "fake,tokens=100000,pace=20ms", "2").await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        let mut stream = ask(&server, "why?").await;
        stream.delta().await.expect("the answer has begun");
        streams.push(stream);
    }
    // Two connections that ask for nothing, one of them after it was answered.
    let mut silent = TcpStream::connect(&server.address).await.unwrap();
    let mut idle = get_and_stay(&server).await;

    server.signal("TERM").await;
    let told = Instant::now();
    server.logged("new prompts are refused").await;
    assert_eq!(soon("the end of an idle connection", idle.read(&mut [0; 1])).await.unwrap(), 0);
    // One of them stays, and reads nothing any more.
    let unread = streams.pop().expect("there are many");
    let readers: Vec<_> = streams.into_iter().map(|stream| tokio::spawn(stream.answer())).collect();
    for reader in readers {
        let (_, error) = reader.await.expect("a stream is read to its end");
        assert_eq!(error["metadata"]["code"], "interrupted", "{error}");
    }
    let ran = server.ended().await;
    let took = told.elapsed();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    println!("200 clients: ended {took:?} after the signal, with a drain time of {GRACE:?}");
    assert!(GRACE <= took && took <= GRACE + Duration::from_secs(1), "it took {took:?}: {}", ran.err);
    let _ = soon("the end of a silent connection", silent.read(&mut [0; 1])).await;
    drop(unread);
}

/// A connection that stays open after a response.
async fn get_and_stay(server: &Server) -> TcpStream {
    let mut connection = TcpStream::connect(&server.address).await.expect("the server listens");
    let request = format!("GET /health/live HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    connection.write_all(request.as_bytes()).await.expect("the server reads");
    let mut answer = Vec::new();
    while !answer.ends_with(b"{\"status\":\"live\"}") {
        soon("an answer", connection.read_buf(&mut answer)).await.expect("the server answers");
    }
    connection
}
