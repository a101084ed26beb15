//! Health checks.

use std::time::{Duration, Instant};

use domain::{Failure, FailureKind};
use providers::{BreakerRules, CircuitBreaker, HealthCheckedProvider, SilenceLimits};
use serde_json::json;
use testing::{Behaviour, HangingServer, SwitchableProvider};

use crate::support::builder::{ProviderKind, TestServerBuilder};
use crate::support::http::Request;
use crate::support::test_server::TestServer;

const HEALTH: &str = "/api/generation/health";

#[tokio::test]
async fn the_health_of_each_provider_is_listed() {
    let (local, remote) = (ProviderKind::Ollama, ProviderKind::OpenAi);
    for (builder, expected) in [
        (
            TestServerBuilder::new().provider("local", local, "fake").provider("remote", remote, "fake"),
            json!({"status": "Healthy", "providers": {"local": true, "remote": true}}),
        ),
        (
            TestServerBuilder::new().provider("local", local, "fake").unreachable_provider("remote", remote),
            json!({"status": "Degraded", "providers": {"local": true, "remote": false}}),
        ),
        (
            TestServerBuilder::new()
                .unreachable_provider("local", local)
                .unreachable_provider("remote", remote),
            json!({"status": "Unhealthy", "providers": {"local": false, "remote": false}}),
        ),
    ] {
        let server = builder.start().await;
        assert_eq!(server.get(HEALTH).await.json(200).await, expected);
    }
}

#[tokio::test]
async fn frequent_health_checks_call_no_model() {
    let server = TestServerBuilder::with_model("fake").start().await;
    check_often(&server, HEALTH, 2).await;
    assert_eq!(server.fake.chats(), []);
}

#[tokio::test]
async fn the_server_is_live_and_ready_without_a_provider() {
    let server = TestServerBuilder::new().unreachable_provider("local", ProviderKind::Ollama).start().await;
    assert_eq!(server.get("/health/live").await.json(200).await, json!({"status": "live"}));
    let mut ready = server.get("/health/ready").await.json(200).await;
    let why = ready["services"]["providers.local"]["message"].take();
    assert!(why.as_str().is_some_and(|why| !why.is_empty()), "{why}");
    let local = json!({"status": "down", "message": null});
    let services =
        json!({"embedding": {"status": "up"}, "index": {"status": "up"}, "providers.local": local});
    assert_eq!(ready, json!({"status": "ready", "services": services}));
}

#[tokio::test]
async fn the_full_health_check_lists_every_dependency() {
    let builder = TestServerBuilder::with_model("fake").unreachable_provider("spare", ProviderKind::OpenAi);
    let server = builder.start().await;
    let health = server.get("/health").await.json(200).await;
    assert_eq!(health["status"], "degraded");
    let services = health["services"].as_object().expect("there are services");
    let up: Vec<_> =
        services.iter().map(|(name, service)| (name.as_str(), service["status"].as_str())).collect();
    let expected = [
        ("embedding", Some("up")),
        ("index", Some("up")),
        ("providers.local", Some("up")),
        ("providers.spare", Some("down")),
        ("storage", Some("up")),
    ];
    assert_eq!(up, expected);
    assert!(services["providers.spare"]["message"].as_str().is_some_and(|why| !why.is_empty()), "{health}");
    assert!(services["storage"]["latency_ms"].as_f64().is_some_and(|latency| latency >= 0.0), "{health}");
    assert!(health["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')), "{health}");
}

#[tokio::test]
async fn without_storage_or_provider_the_server_is_unhealthy() {
    let server = TestServerBuilder::with_model("fake").start().await;
    assert_eq!(server.get("/health").await.json(200).await["status"], "healthy");

    let server = TestServerBuilder::with_model("fake").start().await;
    server.journal.fail_appends(true);
    let health = server.get("/health").await.json(503).await;
    assert_eq!(
        (&health["status"], &health["services"]["storage"]["status"]),
        (&json!("unhealthy"), &json!("down"))
    );

    let server = TestServerBuilder::new().unreachable_provider("local", ProviderKind::Ollama).start().await;
    assert_eq!(server.get("/health").await.json(503).await["status"], "unhealthy");
}

#[tokio::test]
async fn a_provider_outside_the_default_order_does_not_make_the_server_healthy() {
    let builder = TestServerBuilder::with_model("fake")
        .unreachable_provider("broken", ProviderKind::Ollama)
        .order(&["broken"]);
    let health = builder.start().await.get("/health").await.json(503).await;
    assert_eq!(
        (&health["status"], &health["services"]["providers.local"]["status"]),
        (&json!("unhealthy"), &json!("up"))
    );
}

/// A provider with this failure, behind its circuit breaker.
fn failing(failure: Failure) -> CircuitBreaker {
    let limits = SilenceLimits { first_token: Duration::from_secs(60), stall: Duration::from_secs(30) };
    CircuitBreaker::new(
        SwitchableProvider::new("local", Behaviour::fails(failure)),
        BreakerRules::default(),
        limits,
    )
}

#[tokio::test]
async fn a_loading_provider_is_degraded_and_a_skipped_one_is_down() {
    let loads = Failure {
        retry_after: Some(Duration::from_secs(60)),
        ..Failure::new(FailureKind::Unavailable, "its model is being loaded")
    };
    let server = TestServerBuilder::new().custom_provider("local", failing(loads)).start().await;
    let health = server.get("/health").await.json(200).await;
    assert_eq!(health["services"]["providers.local"]["status"], "degraded", "{health}");
    server.ask(&server.session().await).await.all().await.error("provider_unavailable", true);
    let health = server.get("/health").await.json(503).await;
    assert_eq!(
        health["services"]["providers.local"]["status"], "down",
        "it is skipped for a minute: {health}"
    );

    let fails = Failure::new(FailureKind::Unavailable, "answered 500");
    let server = TestServerBuilder::new().custom_provider("local", failing(fails)).start().await;
    let session = server.session().await;
    for _ in 0..5 {
        server.ask(&session).await.all().await.error("provider_unavailable", true);
    }
    let health = server.get("/health").await.json(503).await;
    let local = &health["services"]["providers.local"];
    assert_eq!((&health["status"], &local["status"]), (&json!("unhealthy"), &json!("down")));
    assert!(local["message"].as_str().is_some_and(|why| why.contains("it failed too often")), "{health}");
    let ready = server.get("/health/ready").await.json(200).await;
    assert_eq!(ready["services"]["providers.local"]["status"], "down", "{ready}");
}

#[tokio::test]
async fn a_health_check_does_not_wait_for_an_unresponsive_embedder() {
    let hanging_server =
        HangingServer::open("127.0.0.1:0".parse().unwrap()).await.expect("there is a free port");
    let server = TestServerBuilder::with_model("fake")
        .embedder_at(hanging_server.address().expect("it has one"))
        .start()
        .await;
    for path in ["/health/ready", "/health"] {
        let health = server.get(path).await.json(200).await;
        // The check itself would end with a failed connection, after its caller's timeout.
        let expected = json!({"status": "degraded", "message": "its health check has not completed yet"});
        assert_eq!(health["services"]["embedding"], expected, "{path}");
        assert_eq!(health["services"]["providers.local"]["status"], "up", "{path}");
    }
}

#[tokio::test]
async fn a_slow_provider_does_not_hide_the_health_of_others() {
    let watched = |name, behaviour| {
        HealthCheckedProvider::new(SwitchableProvider::new(name, behaviour), Duration::from_secs(10))
    };
    let slow = Behaviour::answers().delayed(Duration::from_secs(3600));
    let builder = TestServerBuilder::new().custom_provider("quick", watched("quick", Behaviour::answers()));
    let server = builder.custom_provider("slow", watched("slow", slow)).start().await;
    let ready = server.get("/health/ready").await.json(200).await;
    let status = |name: &str| ready["services"][name]["status"].clone();
    assert_eq!(json!([status("providers.quick"), status("providers.slow")]), json!(["up", "degraded"]));
}

#[tokio::test]
async fn the_root_names_the_service_and_its_version() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let root = server.call(Request::get("/").header("Accept", "application/json")).await.json(200).await;
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(root, json!({"name": "Wellspring", "version": version, "docs": "/docs", "health": "/health"}));
}

#[tokio::test]
async fn a_server_without_its_embedder_is_ready_and_reports_it() {
    let server = TestServerBuilder::with_model("fake").without_embedder().start().await;
    let ready = server.get("/health/ready").await.json(200).await;
    assert_eq!(
        (&ready["status"], &ready["services"]["embedding"]["status"]),
        (&json!("ready"), &json!("degraded"))
    );
    let message = ready["services"]["embedding"]["message"].as_str().expect("it says why");
    assert!(message.starts_with("embedding: "), "{message}");
}

#[tokio::test]
async fn frequent_readiness_checks_rarely_reach_the_dependencies() {
    let server = TestServerBuilder::with_model("fake").start().await;
    check_often(&server, "/health/ready", 3).await;
    assert_eq!(server.fake.embeddings(), []);
}

/// Sends twenty requests and checks that the `parts` behind the server were reached at most every two
/// seconds.
async fn check_often(server: &TestServer, path: &str, parts: u64) {
    let began = Instant::now();
    for _ in 0..20 {
        server.get(path).await.json(200).await;
    }
    let checks = server.fake.requests().len() as u64;
    assert!(
        (1..=parts * (1 + began.elapsed().as_secs() / 2)).contains(&checks),
        "{:?}",
        server.fake.requests()
    );
}

#[tokio::test]
async fn a_server_whose_index_is_behind_is_ready_and_reports_it() {
    let server = TestServerBuilder::with_model("fake").start().await;
    server.catalog.fail(true);
    let ready = server.get("/health/ready").await.json(200).await;
    assert_eq!(
        (&ready["status"], &ready["services"]["index"]["status"]),
        (&json!("ready"), &json!("degraded"))
    );
    let message = ready["services"]["index"]["message"].as_str().expect("it says why");
    assert!(message.contains("not every document is found yet"), "{message}");
}
