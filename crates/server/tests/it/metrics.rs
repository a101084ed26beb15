//! What is measured, as Prometheus reads it.

use std::collections::BTreeMap;

use domain::WhenNothingFound;
use serde_json::json;

use crate::client::Call;
use crate::deltas::Encoding;
use crate::harness::{Kind, Setup};
use crate::world::{World, question};

const ALL: [(&str, &str); 18] = [
    ("gen_ai_server_time_to_first_token_seconds", "histogram"),
    ("gen_ai_server_time_per_output_token_seconds", "histogram"),
    ("gen_ai_server_request_duration_seconds", "histogram"),
    ("wellspring_retrieval_seconds", "histogram"),
    ("wellspring_cancel_seconds", "histogram"),
    ("wellspring_session_tokens", "histogram"),
    ("wellspring_tokens_per_second", "gauge"),
    ("wellspring_active_streams", "gauge"),
    ("wellspring_active_sessions", "gauge"),
    ("wellspring_provider_up", "gauge"),
    ("wellspring_breaker_open", "gauge"),
    ("wellspring_kept_bytes", "gauge"),
    ("wellspring_kept_passages_unread", "gauge"),
    ("wellspring_reading_ahead", "gauge"),
    ("wellspring_kept_passages_total", "counter"),
    ("wellspring_prompts_total", "counter"),
    ("wellspring_tokens_total", "counter"),
    ("wellspring_errors_total", "counter"),
];

async fn text(world: &World) -> String {
    let answer = world.get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    String::from_utf8(answer.body().await).expect("metrics are text")
}

/// Every sample by its name and labels.
async fn samples(world: &World) -> BTreeMap<String, f64> {
    let text = text(world).await;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
            (name.to_owned(), value.parse().expect("a value is a number"))
        })
        .collect()
}

#[tokio::test]
async fn every_metric_is_announced_from_the_start() {
    let text = text(&Setup::of("fake").start().await).await;
    for (name, kind) in ALL {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name}: {text}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}: {text}");
    }
    assert_eq!(text.matches("# TYPE ").count(), ALL.len(), "{text}");
    for zero in
        ["wellspring_prompts_total{outcome=\"done\"} 0", "wellspring_errors_total{code=\"overloaded\"} 0"]
    {
        assert!(text.contains(&format!("{zero}\n")), "{zero}: {text}");
    }
}

#[tokio::test]
async fn what_clients_are_told_is_what_is_counted() {
    let setup =
        Setup::new().provider("local", Kind::Ollama, "fake").provider("broken", Kind::OpenAi, "fake,die=3");
    let world = setup.start().await;
    let (session, other) = (world.session().await, world.session().await);
    let mut to_first = 0;
    for _ in 0..3 {
        let answer = world.ask(&session).await.all().await;
        to_first += answer.done("stop")["timeToFirstTokenMs"].as_u64().expect("it is told");
    }
    let mut body = question(&other);
    body["provider"] = "broken".into();
    world.stream(Encoding::Ndjson, &body).await.all().await.error("provider_error", true);
    world.try_ask(&question("nobody's")).await.refusal(400, "session_not_found").await;
    world.get("/nowhere").await.refusal(404, "not_found").await;

    let samples = samples(&world).await;
    let local = "{provider=\"local\",model=\"fake\"}";
    let value = |name: &str| *samples.get(name).unwrap_or_else(|| panic!("no {name} in {samples:?}"));
    assert_eq!(value(&format!("gen_ai_server_time_to_first_token_seconds_count{local}")), 3.0);
    assert_eq!(value(&format!("gen_ai_server_request_duration_seconds_count{local}")), 3.0);
    assert_eq!(value(&format!("gen_ai_server_time_per_output_token_seconds_count{local}")), 3.0);
    let first = value(&format!("gen_ai_server_time_to_first_token_seconds_sum{local}")) * 1e3;
    assert!((to_first as f64..to_first as f64 + 3.0).contains(&first), "{first} and {to_first}");
    assert_eq!(value("wellspring_tokens_total{provider=\"local\"}"), 48.0);
    assert_eq!(value("wellspring_tokens_total{provider=\"broken\"}"), 3.0);
    assert_eq!(value("wellspring_prompts_total{outcome=\"done\"}"), 3.0);
    assert_eq!(value("wellspring_prompts_total{outcome=\"error\"}"), 1.0);
    assert_eq!(value("wellspring_errors_total{code=\"provider_error\"}"), 1.0);
    assert_eq!(value("wellspring_errors_total{code=\"session_not_found\"}"), 1.0);
    assert_eq!(value("wellspring_errors_total{code=\"not_found\"}"), 1.0);
    assert_eq!(value("wellspring_active_streams"), 0.0);
    assert_eq!(value("wellspring_active_sessions"), 2.0);
    assert!(value("wellspring_tokens_per_second{provider=\"local\"}") > 0.0);
}

#[tokio::test]
async fn a_prompt_that_failed_is_counted_once_however_its_client_is_told() {
    let world = Setup::of("fake,status=500").when_nothing_found(WhenNothingFound::Answer).start().await;
    let failed = world.call(Call::post_json("/chat", &json!({"query": "why?"}))).await.json(503).await;
    assert_eq!(failed["error_code"], "agent_unavailable");
    let samples = samples(&world).await;
    assert_eq!(samples["wellspring_errors_total{code=\"provider_unavailable\"}"], 1.0);
    assert_eq!(samples.get("wellspring_errors_total{code=\"agent_unavailable\"}"), None);
}

#[tokio::test]
async fn a_session_is_measured_once_when_it_is_over_and_a_cancel_when_it_is_done() {
    let world = Setup::of("fake,stall=3").start().await;
    let session = world.session().await;
    let mut stream = world.ask(&session).await;
    stream.tokens(3).await;
    assert_eq!(samples(&world).await["wellspring_active_streams"], 1.0);
    world.cancel(&session, &stream.prompt()).await.no_content();
    assert_eq!(samples(&world).await["wellspring_session_tokens_count"], 0.0);
    for _ in 0..2 {
        world.end_session(&session).await.no_content();
    }
    world.call(Call::delete(format!("/api/sessions/{session}"))).await.no_content();
    let samples = samples(&world).await;
    assert_eq!(
        (samples["wellspring_session_tokens_count"], samples["wellspring_session_tokens_sum"]),
        (1.0, 3.0)
    );
    assert_eq!(samples["wellspring_cancel_seconds_count"], 1.0);
    assert!(samples["wellspring_cancel_seconds_sum"] < 10.0);
    assert_eq!(samples["wellspring_prompts_total{outcome=\"cancelled\"}"], 1.0);
    assert_eq!((samples["wellspring_active_streams"], samples["wellspring_active_sessions"]), (0.0, 0.0));
}

#[tokio::test]
async fn finding_is_measured_for_prompts_and_for_queries() {
    let world = Setup::of("fake").answers_from_documents().start().await;
    let query = json!({"query": "water"});
    world.call(Call::post_json("/api/query", &query)).await.json(200).await;
    world.ask(&world.session().await).await.all().await;
    let samples = samples(&world).await;
    assert_eq!(samples["wellspring_retrieval_seconds_count{stage=\"retrieval\"}"], 2.0);
}
