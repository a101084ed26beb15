//! What the server measures under load is what its clients measure, and a real Prometheus reads it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use testing::FakeModel;
use tokio::process::Command;

use crate::binary::{Home, Server, run};
use crate::client::{Response, ask, delete, get, post};
use crate::prometheus::Prometheus;

const SESSIONS: usize = 20;
const PROMPTS: usize = 3;

/// What one client saw of its session.
struct Client {
    session: String,
    tokens: u64,
    /// The time to the first token, as the client measured it and as the server reported it.
    first_tokens: Vec<(Duration, u64)>,
}

/// A server with this model as its main provider, beside one that fails and one that never ends.
pub(crate) async fn server(fake: &FakeModel, home: &Home, main: &str) -> Server {
    home.write(
        "mine.toml",
        &format!(
            "[generation]\nproviders = ['main']\n\
             [providers.main]\nkind = 'ollama'\nbase_url = '{url}'\nmodel = '{main}'\n\
             [providers.dead]\nkind = 'openai'\nbase_url = '{url}/v1'\nmodel = 'fake,status=500'\n\
             [providers.endless]\nkind = 'openai'\nbase_url = '{url}/v1'\nmodel = 'fake,tokens=100000,pace=5ms'\n",
            url = fake.url()
        ),
    );
    home.serve(&["--config", "mine.toml"], &[]).await
}

async fn prompt(server: &Server, session: &str, provider: &str) -> Response {
    let body = json!({"sessionId": session, "prompt": "why?", "provider": provider});
    let response = post(server, "/api/generation/stream", "", &body).await;
    assert_eq!(response.status, 200);
    response
}

/// Asks in a session of its own: some prompts that are answered, one that fails, one that is cancelled.
async fn client(server: &Server) -> Client {
    let session = post(server, "/api/generation/session", "", &json!({})).await.json().await;
    let session = session["sessionId"].as_str().expect("it has an id").to_owned();
    let mut client = Client { session, tokens: 0, first_tokens: Vec::new() };
    for _ in 0..PROMPTS {
        let asked_at = Instant::now();
        let mut stream = prompt(server, &client.session, "main").await;
        stream.delta().await.expect("the answer begins");
        let waited = asked_at.elapsed();
        let (_, done) = stream.answer().await;
        let metadata = &done["metadata"];
        client.tokens += metadata["tokenCount"].as_u64().expect("it is a number");
        client.first_tokens.push((waited, metadata["timeToFirstTokenMs"].as_u64().expect("it is a number")));
    }
    let (_, error) = prompt(server, &client.session, "dead").await.answer().await;
    assert_eq!(error["metadata"]["code"], "provider_unavailable");
    let mut endless = prompt(server, &client.session, "endless").await;
    let id = endless.header("x-prompt-id").to_owned();
    endless.delta().await.expect("the answer begins");
    let cancel = json!({"sessionId": client.session, "promptId": id});
    assert_eq!(post(server, "/api/generation/cancel", "", &cancel).await.status, 204);
    let (_, done) = endless.answer().await;
    client.tokens += done["metadata"]["tokenCount"].as_u64().expect("it is a number");
    client
}

/// Every sample by its name and labels.
pub(crate) async fn samples(server: &Server) -> BTreeMap<String, f64> {
    let text = get(server, "/metrics").await.expect("it answers").text().await;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
        (name.to_owned(), value.parse().expect("a value is a number"))
    };
    lines.map(sample).collect()
}

#[tokio::test]
async fn metrics_agree_with_what_clients_measure_under_load() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let server = server(&fake, &home, "fake,tokens=40,pace=5ms").await;
    let clients = join_all((0..SESSIONS).map(|_| client(&server))).await;
    let (sessions, prompts) = (SESSIONS as f64, (SESSIONS * PROMPTS) as f64);
    let measured = samples(&server).await;
    let of = |name: &str| *measured.get(name).unwrap_or_else(|| panic!("no {name} in {measured:#?}"));

    let main = "{provider=\"main\",model=\"fake,tokens=40,pace=5ms\"}";
    for name in ["time_to_first_token", "time_per_output_token", "request_duration"] {
        assert_eq!(of(&format!("gen_ai_server_{name}_seconds_count{main}")), prompts, "{name}");
    }
    let first = of(&format!("gen_ai_server_time_to_first_token_seconds_sum{main}")) / prompts;
    let (mut waited, mut reported) = (0.0, 0.0);
    for (by_client, by_server) in clients.iter().flat_map(|client| &client.first_tokens) {
        waited += by_client.as_secs_f64() / prompts;
        reported += *by_server as f64 / 1e3 / prompts;
    }
    assert!(
        (reported..reported + 0.001).contains(&first),
        "{first} s is measured, {reported} s was reported"
    );
    assert!(first <= waited, "{first} s is measured, and clients have waited {waited} s");
    let between = of(&format!("gen_ai_server_time_per_output_token_seconds_sum{main}")) / prompts;
    assert!((0.004..0.5).contains(&between), "the pace is 5 ms, and {between} s is measured");
    let request = of(&format!("gen_ai_server_request_duration_seconds_sum{main}")) / prompts;
    assert!((first + 39.0 * between..first + 39.0 * between + 1.0).contains(&request), "{request}");
    let pace = of("wellspring_tokens_per_second{provider=\"main\"}");
    assert!((1.0..=400.0).contains(&pace), "{pace}");

    assert_eq!(of("wellspring_prompts_total{outcome=\"done\"}"), prompts);
    assert_eq!(of("wellspring_prompts_total{outcome=\"error\"}"), sessions);
    assert_eq!(of("wellspring_prompts_total{outcome=\"cancelled\"}"), sessions);
    assert_eq!(of("wellspring_errors_total{code=\"provider_unavailable\"}"), sessions);
    assert_eq!(of("wellspring_cancel_seconds_count"), sessions);
    assert_eq!(of("wellspring_tokens_total{provider=\"main\"}"), prompts * 40.0);
    let tokens: u64 = clients.iter().map(|client| client.tokens).sum();
    let counted = of("wellspring_tokens_total{provider=\"main\"}")
        + of("wellspring_tokens_total{provider=\"endless\"}");
    assert_eq!(counted, tokens as f64);
    assert_eq!(of("wellspring_retrieval_seconds_count{stage=\"retrieval\"}"), prompts + 2.0 * sessions);
    assert_eq!((of("wellspring_active_streams"), of("wellspring_active_sessions")), (0.0, sessions));

    assert_eq!(of("wellspring_provider_up{provider=\"main\"}"), 1.0);
    assert_eq!(of("wellspring_breaker_open{provider=\"main\"}"), 0.0);
    assert_eq!(of("wellspring_breaker_open{provider=\"dead\"}"), 1.0);

    for client in &clients {
        let path = format!("/api/generation/session/{}", client.session);
        let session = get(&server, &path).await.unwrap().json().await;
        assert_eq!(session["tokenCount"], client.tokens);
        assert_eq!(delete(&server, &path).await.unwrap().status, 204);
    }
    let measured = samples(&server).await;
    assert_eq!(measured["wellspring_session_tokens_count"], sessions);
    assert_eq!(measured["wellspring_session_tokens_sum"], tokens as f64);
    assert_eq!(measured["wellspring_active_sessions"], 0.0);
}

#[tokio::test]
async fn a_real_prometheus_reads_every_metric() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let server = server(&fake, &home, "fake,tokens=40,pace=5ms").await;
    let (_, done) = ask(&server, "why?").await.answer().await;
    assert_eq!(done["type"], "done");

    let page = get(&server, "/metrics").await.unwrap().text().await;
    home.write("page", &page);
    let checked =
        run(Command::new("sh").args(["-c", "promtool check metrics < \"$0\""]).arg(home.path("page"))).await;
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);

    let prometheus = Prometheus::start(&home, &server, None);
    let up = prometheus.value("up").await;
    assert_eq!(up, 1.0);
    assert_eq!(prometheus.value("wellspring_tokens_total{provider='main'}").await, 40.0);
    let slowest = "histogram_quantile(0.99, sum by (le) (gen_ai_server_request_duration_seconds_bucket))";
    assert!(prometheus.value(slowest).await > 0.0);
    let known = prometheus.known().await;
    for announced in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = announced.split_once(' ').expect("a type has a name");
        assert_eq!(known.get(name).map(String::as_str), Some(kind), "{name}");
    }
}
