//! How many requests an address may send, and how it is told.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::json;
use server::IpNetwork;

use crate::client::{Answer, Call};
use crate::harness::Setup;
use crate::world::{STREAM, World, question, time_passes};

async fn world(per_minute: u32, trusted: &[IpAddr]) -> World {
    let trusted = trusted.iter().map(|address| IpNetwork { address: *address, prefix: 32 }).collect();
    let setup = Setup::of("fake").settings(|settings| {
        settings.requests_per_minute = per_minute;
        settings.trusted_proxies = trusted;
    });
    setup.start().await
}

/// The limit, what remains of it, and in how many seconds it is whole again.
fn told(answer: &Answer) -> [Option<u64>; 3] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
        .map(|name| answer.header(name).map(|value| value.parse().expect("it is a number")))
}

#[tokio::test]
async fn an_address_that_sends_too_much_is_told_when_to_go_on() {
    let world = world(3, &[]).await;
    let answer = world.get("/api/sessions").await;
    assert_eq!((answer.status, told(&answer)), (200, [Some(3), Some(2), Some(20)]));
    let answer = world.get("/nowhere").await;
    assert_eq!(
        (answer.status, told(&answer)[1]),
        (404, Some(1)),
        "every request counts, and every answer tells"
    );
    let session = world.session().await;
    let answer = world.call(Call::post_json(STREAM, &question(&session))).await;
    assert_eq!(told(&answer)[..2], [Some(3), Some(0)]);
    let wait: u64 = answer.header("retry-after").expect("it says when").parse().expect("in seconds");
    assert!((18..=20).contains(&wait), "{wait}");
    let refusal = answer.refusal(429, "rate_limited").await;
    assert!(refusal["message"].as_str().unwrap().contains("limits.requests_per_minute"), "{refusal}");

    time_passes(Duration::from_secs(wait)).await;
    assert_eq!(world.get("/api/sessions").await.status, 200);
    assert_eq!(world.get("/api/sessions").await.status, 429);
}

#[tokio::test]
async fn it_is_told_in_the_words_of_the_dialect_that_was_called() {
    let world = world(1, &[]).await;
    world.get("/api/sessions").await;
    let refused = world.call(Call::post("/chat", "{}")).await.json(429).await;
    assert_eq!(
        (&refused["error_code"], &refused["code"]),
        (&json!("rate_limited"), &json!(null)),
        "{refused}"
    );
}

#[tokio::test]
async fn those_who_watch_over_the_server_are_not_counted() {
    let world = world(1, &[]).await;
    world.get("/api/sessions").await;
    for path in ["/health/live", "/health/ready", "/metrics"] {
        let answer = world.get(path).await;
        assert_eq!((answer.status, told(&answer)[..2].to_vec()), (200, vec![Some(1), Some(0)]), "{path}");
    }
    assert_eq!(world.get("/health").await.status, 429);
}

#[tokio::test]
async fn browsers_ask_first_without_being_counted_and_a_page_can_read_that_it_sent_too_much() {
    const PAGE: &str = "https://wiki.example";
    let setup = Setup::of("fake").settings(|settings| {
        settings.requests_per_minute = 1;
        settings.allowed_origins = vec![PAGE.to_owned()];
    });
    let world = setup.start().await;
    let preflight = || {
        let call = Call::new("OPTIONS", "/api/sessions").header("Origin", PAGE);
        world.call(call.header("Access-Control-Request-Method", "GET"))
    };
    for _ in 0..2 {
        let answer = preflight().await;
        assert_eq!((answer.status, told(&answer)), (200, [Some(1), Some(1), Some(0)]));
    }
    let page = || world.call(Call::get("/api/sessions").header("Origin", PAGE));
    assert_eq!(page().await.status, 200);
    assert_eq!((preflight().await.status, page().await.status), (200, 429));
    let refused = page().await;
    assert_eq!(refused.header("access-control-allow-origin"), Some(PAGE));
    assert_eq!(told(&refused)[..2], [Some(1), Some(0)]);
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_has_its_own_share() {
    let behind = |client: &str| Call::get("/api/sessions").header("X-Forwarded-For", client);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for (trusted, expected) in [(&[loopback][..], [200, 200, 429]), (&[], [200, 429, 429])] {
        let world = world(1, trusted).await;
        let mut statuses = Vec::new();
        for client in ["198.51.100.1", "198.51.100.2", "203.0.113.9, 198.51.100.2"] {
            statuses.push(world.call(behind(client)).await.status);
        }
        assert_eq!(statuses, expected, "{trusted:?}");
    }
}

#[tokio::test]
async fn without_a_limit_nothing_is_said_of_it() {
    let world = world(0, &[]).await;
    for _ in 0..50 {
        let answer = world.get("/health/live").await;
        assert_eq!((answer.status, told(&answer)), (200, [None; 3]));
    }
}
