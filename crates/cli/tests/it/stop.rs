//! How a server stops: every client is told, and nobody is waited for who has read it.

use testing::FakeModel;

use crate::binary::Home;
use crate::client::{ask, get};

async fn check_that_it_stops_on(signal: &str) {
    let fake = FakeModel::start().await;
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,stall=3"),
    ];
    let server = Home::new().serve(&[], &variables).await;
    let mut response = ask(&server, "why?").await;
    assert_eq!(response.delta().await.expect("the answer has begun")["type"], "token");

    server.signal(signal).await;
    let (_, error) = response.answer().await;
    assert_eq!((&error["type"], &error["seq"]), (&"error".into(), &3.into()));
    assert_eq!(error["metadata"]["code"], "interrupted");
    assert_eq!(error["metadata"]["retryable"], true);
    let ready = get(&server, "/health/ready").await.map(|response| response.status);
    assert!(ready.as_ref().is_ok_and(|status| *status == 503) || ready.is_err(), "{ready:?}");

    let ran = server.ended().await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.trim_end().ends_with("stopped"), "{}", ran.err);
    assert!(!ran.err.contains("in time"), "it waited for nobody in vain: {}", ran.err);
    fake.wait_until(|requests| requests.iter().all(|seen| seen.ending != testing::Ending::Running)).await;
}

#[tokio::test]
async fn a_service_manager_stops_it() {
    check_that_it_stops_on("TERM").await;
}

#[tokio::test]
async fn ctrl_c_stops_it() {
    check_that_it_stops_on("INT").await;
}
