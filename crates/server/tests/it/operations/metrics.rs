//! The metrics page.

use std::collections::BTreeMap;

use domain::WhenNothingFound;
use serde_json::json;

use crate::support::builder::{ProviderKind, TestServerBuilder};
use crate::support::delta_stream::Encoding;
use crate::support::http::Request;
use crate::support::test_server::{TestServer, question};

async fn text(server: &TestServer) -> String {
    let answer = server.get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    String::from_utf8(answer.body().await).expect("metrics are text")
}

/// Every sample by its name and labels.
async fn samples(server: &TestServer) -> BTreeMap<String, f64> {
    let text = text(server).await;
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
    let text = text(&TestServerBuilder::with_model("fake").start().await).await;
    let announced: String =
        text.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("metrics", announced);
    });
    for zero in
        ["wellspring_prompts_total{outcome=\"done\"} 0", "wellspring_errors_total{code=\"overloaded\"} 0"]
    {
        assert!(text.contains(&format!("{zero}\n")), "{zero}: {text}");
    }
}

#[tokio::test]
async fn the_metrics_count_what_clients_see() {
    let builder = TestServerBuilder::new().provider("local", ProviderKind::Ollama, "fake").provider(
        "broken",
        ProviderKind::OpenAi,
        "fake,die=3",
    );
    let server = builder.start().await;
    let (session, other) = (server.session().await, server.session().await);
    let mut to_first = 0;
    for _ in 0..3 {
        let answer = server.ask(&session).await.all().await;
        to_first += answer.done("stop")["timeToFirstTokenMs"].as_u64().expect("it is a number");
    }
    let mut body = question(&other);
    body["provider"] = "broken".into();
    server.stream(Encoding::Ndjson, &body).await.all().await.error("provider_error", true);
    server.try_ask(&question("unknown")).await.error(400, "session_not_found").await;
    server.get("/nowhere").await.error(404, "not_found").await;

    let samples = samples(&server).await;
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
async fn a_failed_prompt_is_counted_once_in_any_dialect() {
    let server = TestServerBuilder::with_model("fake,status=500")
        .when_nothing_found(WhenNothingFound::Answer)
        .start()
        .await;
    let failed = server.call(Request::post_json("/chat", &json!({"query": "why?"}))).await.json(503).await;
    assert_eq!(failed["error_code"], "agent_unavailable");
    let samples = samples(&server).await;
    assert_eq!(samples["wellspring_errors_total{code=\"provider_unavailable\"}"], 1.0);
    assert_eq!(samples.get("wellspring_errors_total{code=\"agent_unavailable\"}"), None);
}

#[tokio::test]
async fn an_ended_session_and_a_cancel_are_measured_once() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let session = server.session().await;
    let mut stream = server.ask(&session).await;
    stream.tokens(3).await;
    assert_eq!(samples(&server).await["wellspring_active_streams"], 1.0);
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    assert_eq!(samples(&server).await["wellspring_session_tokens_count"], 0.0);
    for _ in 0..2 {
        server.end_session(&session).await.assert_no_content();
    }
    server.call(Request::delete(format!("/api/sessions/{session}"))).await.assert_no_content();
    let samples = samples(&server).await;
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
async fn retrieval_is_measured_for_prompts_and_queries() {
    let server = TestServerBuilder::with_model("fake").with_document_retrieval().start().await;
    let query = json!({"query": "water"});
    server.call(Request::post_json("/api/query", &query)).await.json(200).await;
    server.ask(&server.session().await).await.all().await;
    let samples = samples(&server).await;
    assert_eq!(samples["wellspring_retrieval_seconds_count{stage=\"retrieval\"}"], 2.0);
}
