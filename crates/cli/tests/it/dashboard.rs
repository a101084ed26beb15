//! The dashboard and the alerts in `deploy`, asked of a real Prometheus that reads a real server.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testing::FakeModel;
use tokio::time::sleep;

use crate::binary::{Home, Server, soon};
use crate::client::{delete, get, post};
use crate::deploy::deployed;
use crate::metrics;
use crate::prometheus::Prometheus;

/// Our metrics that a query names.
fn named(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words.filter(|word| word.starts_with("wellspring_") || word.starts_with("gen_ai_server_"))
}

/// The metric that a series belongs to.
fn family(series: &str) -> &str {
    let ends = ["_bucket", "_sum", "_count"];
    ends.iter().find_map(|end| series.strip_suffix(end)).unwrap_or(series)
}

/// Every query of the dashboard, as Grafana sends it.
fn queries() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&deployed("grafana/dashboards/wellspring.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let query = |target: &Value| target["expr"].as_str().expect("a query").replace("$__rate_interval", "1m");
    targets.map(query).collect()
}

async fn ask(server: &Server, session: &Value, provider: &str) -> Value {
    let body = json!({"sessionId": session["sessionId"], "prompt": "why?", "provider": provider});
    post(server, "/api/generation/stream", "", &body).await.answer().await.1
}

/// Causes every measured event once: an answer, a failure, a cancel, the end of a session.
async fn let_it_happen(server: &Server) {
    let session = post(server, "/api/generation/session", "", &json!({})).await.json().await;
    assert_eq!(ask(server, &session, "main").await["type"], "done");
    assert_eq!(ask(server, &session, "dead").await["type"], "error");
    let body = json!({"sessionId": session["sessionId"], "prompt": "why?", "provider": "endless"});
    let mut endless = post(server, "/api/generation/stream", "", &body).await;
    let cancel = json!({"sessionId": session["sessionId"], "promptId": endless.header("x-prompt-id")});
    endless.delta().await.expect("the answer begins");
    assert_eq!(post(server, "/api/generation/cancel", "", &cancel).await.status, 204);
    let path = format!("/api/generation/session/{}", session["sessionId"].as_str().expect("an id"));
    assert_eq!(delete(server, &path).await.expect("it answers").status, 204);
}

#[tokio::test]
async fn every_query_of_the_dashboard_and_of_the_alerts_is_answered() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let server = metrics::server(&fake, &home, "fake").await;
    let_it_happen(&server).await;
    let rules = home.write("alerts.yml", &deployed("prometheus/alerts.yml"));
    let prometheus = Prometheus::start(&home, &server, Some(&rules));
    assert_eq!(prometheus.value("up").await, 1.0);

    let alerts = evaluated(&prometheus).await;
    assert_eq!(alerts.len(), deployed("prometheus/alerts.yml").matches("- alert: ").count());
    let panels = queries();
    let known = prometheus.known().await;
    for query in panels.iter().chain(&alerts) {
        for series in named(query) {
            assert!(known.contains_key(family(series)), "{series} is no metric of the server: {query}");
        }
    }
    // Alerts have no value while all is well; a panel always has one.
    for query in &panels {
        prometheus.value(query).await;
    }
    let shown: BTreeSet<_> = panels.iter().flat_map(|query| named(query)).map(family).collect();
    let page = get(&server, "/metrics").await.expect("it answers").text().await;
    for announced in page.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = announced.split_once(' ').expect("a name and its meaning");
        if help.starts_with("Alias of ") {
            continue;
        }
        assert!(shown.contains(name), "{name} is not on the dashboard");
    }
}

/// The queries of all alerts, once Prometheus has asked each of them.
async fn evaluated(prometheus: &Prometheus) -> Vec<String> {
    let asked = async {
        loop {
            let groups = prometheus.get("/api/v1/rules").await["data"]["groups"].take();
            let groups = groups.as_array().expect("a list").clone();
            let rules: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_array()).flatten().collect();
            for rule in &rules {
                assert_ne!(rule["health"], "err", "{rule}");
            }
            if !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok") {
                let query = |rule: &&Value| rule["query"].as_str().expect("a query").to_owned();
                return rules.iter().map(query).collect();
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    soon("the alerts", asked).await
}
