//! Health: of the providers for people, of the process for orchestrators.

use std::time::{Duration, Instant};

use domain::{Failure, FailureKind};
use providers::{BreakerRules, CircuitBreaker, HealthCheckedProvider, SilenceLimits};
use serde_json::json;
use testing::{Behaviour, HangingServer, SwitchableProvider};

use crate::client::Call;
use crate::harness::{Kind, Setup};
use crate::world::World;

const HEALTH: &str = "/api/generation/health";

#[tokio::test]
async fn the_health_call_tells_which_providers_are_there() {
    let (local, remote) = (Kind::Ollama, Kind::OpenAi);
    for (setup, expected) in [
        (
            Setup::new().provider("local", local, "fake").provider("remote", remote, "fake"),
            json!({"status": "Healthy", "providers": {"local": true, "remote": true}}),
        ),
        (
            Setup::new().provider("local", local, "fake").unreachable("remote", remote),
            json!({"status": "Degraded", "providers": {"local": true, "remote": false}}),
        ),
        (
            Setup::new().unreachable("local", local).unreachable("remote", remote),
            json!({"status": "Unhealthy", "providers": {"local": false, "remote": false}}),
        ),
    ] {
        let world = setup.start().await;
        assert_eq!(world.get(HEALTH).await.json(200).await, expected);
    }
}

#[tokio::test]
async fn being_asked_for_health_often_asks_no_model() {
    let world = Setup::of("fake").start().await;
    ask_often(&world, HEALTH, 2).await;
    assert_eq!(world.fake.chats(), []);
}

#[tokio::test]
async fn an_orchestrator_learns_that_the_server_lives_and_is_ready() {
    let world = Setup::new().unreachable("local", Kind::Ollama).start().await;
    assert_eq!(world.get("/health/live").await.json(200).await, json!({"status": "live"}));
    let mut ready = world.get("/health/ready").await.json(200).await;
    let why = ready["services"]["providers.local"]["message"].take();
    assert!(why.as_str().is_some_and(|why| !why.is_empty()), "{why}");
    let local = json!({"status": "down", "message": null});
    let services =
        json!({"embedding": {"status": "up"}, "index": {"status": "up"}, "providers.local": local});
    assert_eq!(ready, json!({"status": "ready", "services": services}));
}

#[tokio::test]
async fn the_health_of_every_part_is_told_together() {
    let setup = Setup::of("fake").unreachable("spare", Kind::OpenAi);
    let world = setup.start().await;
    let health = world.get("/health").await.json(200).await;
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
async fn a_server_that_can_answer_nobody_is_unhealthy() {
    let world = Setup::of("fake").start().await;
    assert_eq!(world.get("/health").await.json(200).await["status"], "healthy");

    let world = Setup::of("fake").start().await;
    world.journal.fail_appends(true);
    let health = world.get("/health").await.json(503).await;
    assert_eq!(
        (&health["status"], &health["services"]["storage"]["status"]),
        (&json!("unhealthy"), &json!("down"))
    );

    let world = Setup::new().unreachable("local", Kind::Ollama).start().await;
    assert_eq!(world.get("/health").await.json(503).await["status"], "unhealthy");
}

#[tokio::test]
async fn a_spare_that_nobody_asks_by_itself_makes_no_server_healthy() {
    let setup = Setup::of("fake").unreachable("broken", Kind::Ollama).order(&["broken"]);
    let health = setup.start().await.get("/health").await.json(503).await;
    assert_eq!(
        (&health["status"], &health["services"]["providers.local"]["status"]),
        (&json!("unhealthy"), &json!("up"))
    );
}

/// A provider that fails like this, behind its breaker.
fn failing(failure: Failure) -> CircuitBreaker {
    let patience = SilenceLimits { first_token: Duration::from_secs(60), stall: Duration::from_secs(30) };
    CircuitBreaker::new(
        SwitchableProvider::new("local", Behaviour::fails(failure)),
        BreakerRules::default(),
        patience,
    )
}

#[tokio::test]
async fn a_provider_that_loads_will_be_there_and_one_that_is_left_alone_answers_nobody() {
    let loads = Failure {
        retry_after: Some(Duration::from_secs(60)),
        ..Failure::new(FailureKind::Unavailable, "its model is being loaded")
    };
    let world = Setup::new().given("local", failing(loads)).start().await;
    let health = world.get("/health").await.json(200).await;
    assert_eq!(health["services"]["providers.local"]["status"], "degraded", "{health}");
    world.ask(&world.session().await).await.all().await.error("provider_unavailable", true);
    let health = world.get("/health").await.json(503).await;
    assert_eq!(
        health["services"]["providers.local"]["status"], "down",
        "it is skipped for a minute: {health}"
    );

    let fails = Failure::new(FailureKind::Unavailable, "answered 500");
    let world = Setup::new().given("local", failing(fails)).start().await;
    let session = world.session().await;
    for _ in 0..5 {
        world.ask(&session).await.all().await.error("provider_unavailable", true);
    }
    let health = world.get("/health").await.json(503).await;
    let local = &health["services"]["providers.local"];
    assert_eq!((&health["status"], &local["status"]), (&json!("unhealthy"), &json!("down")));
    assert!(local["message"].as_str().is_some_and(|why| why.contains("it failed too often")), "{health}");
    let ready = world.get("/health/ready").await.json(200).await;
    assert_eq!(ready["services"]["providers.local"]["status"], "down", "{ready}");
}

#[tokio::test]
async fn nobody_who_asks_for_health_waits_for_an_embedder_that_is_gone_without_a_word() {
    let hole = HangingServer::open("127.0.0.1:0".parse().unwrap()).await.expect("there is a free port");
    let world = Setup::of("fake").embedder_at(hole.address().expect("it has one")).start().await;
    for path in ["/health/ready", "/health"] {
        let health = world.get(path).await.json(200).await;
        // Whoever waits for it is told that nobody can connect.
        let expected = json!({"status": "degraded", "message": "its health check has not completed yet"});
        assert_eq!(health["services"]["embedding"], expected, "{path}");
        assert_eq!(health["services"]["providers.local"]["status"], "up", "{path}");
    }
}

#[tokio::test]
async fn a_provider_that_takes_its_time_does_not_hide_how_the_others_are() {
    let watched = |name, behaviour| {
        HealthCheckedProvider::new(SwitchableProvider::new(name, behaviour), Duration::from_secs(10))
    };
    let slow = Behaviour::answers().delayed(Duration::from_secs(3600));
    let setup = Setup::new().given("quick", watched("quick", Behaviour::answers()));
    let world = setup.given("slow", watched("slow", slow)).start().await;
    let ready = world.get("/health/ready").await.json(200).await;
    let status = |name: &str| ready["services"][name]["status"].clone();
    assert_eq!(json!([status("providers.quick"), status("providers.slow")]), json!(["up", "degraded"]));
}

#[tokio::test]
async fn whoever_finds_the_server_learns_what_it_is() {
    let world = Setup::of("fake").start().await;
    let root = world.call(Call::get("/").header("Accept", "application/json")).await.json(200).await;
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(root, json!({"name": "Wellspring", "version": version, "docs": "/docs", "health": "/health"}));
}

#[tokio::test]
async fn a_server_without_its_embedder_is_ready_and_says_what_it_lacks() {
    let world = Setup::of("fake").without_embedder().start().await;
    let ready = world.get("/health/ready").await.json(200).await;
    assert_eq!(
        (&ready["status"], &ready["services"]["embedding"]["status"]),
        (&json!("ready"), &json!("degraded"))
    );
    let message = ready["services"]["embedding"]["message"].as_str().expect("it says why");
    assert!(message.starts_with("embedding: "), "{message}");
}

#[tokio::test]
async fn being_asked_often_whether_it_is_ready_asks_the_embedder_and_the_model_seldom() {
    let world = Setup::of("fake").start().await;
    ask_often(&world, "/health/ready", 3).await;
    assert_eq!(world.fake.embeddings(), []);
}

/// Asks twenty times, and checks that the `parts` behind the server were not asked more often than every two seconds.
async fn ask_often(world: &World, path: &str, parts: u64) {
    let began = Instant::now();
    for _ in 0..20 {
        world.get(path).await.json(200).await;
    }
    let looks = world.fake.requests().len() as u64;
    assert!(
        (1..=parts * (1 + began.elapsed().as_secs() / 2)).contains(&looks),
        "{:?}",
        world.fake.requests()
    );
}

#[tokio::test]
async fn a_server_whose_index_is_behind_its_catalog_is_ready_and_says_so() {
    let world = Setup::of("fake").start().await;
    world.catalog.fail(true);
    let ready = world.get("/health/ready").await.json(200).await;
    assert_eq!(
        (&ready["status"], &ready["services"]["index"]["status"]),
        (&json!("ready"), &json!("degraded"))
    );
    let message = ready["services"]["index"]["message"].as_str().expect("it says why");
    assert!(message.contains("not every document is found yet"), "{message}");
}
