//! A real Prometheus, which scrapes a server.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::binary::{Home, Server, soon};
use crate::client::send;

/// Debian's Prometheus, scraping a server; gone when it is dropped.
pub(crate) struct Prometheus {
    address: String,
    _process: Child,
}

impl Prometheus {
    /// Starts it, with rules if there are some.
    pub(crate) fn start(home: &Home, server: &Server, rules: Option<&Path>) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("this machine has a free port").to_string();
        let rules = rules.map(|rules| format!("'{}'", rules.display())).unwrap_or_default();
        let settings = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}\n\
             rule_files: [{rules}]\n\
             scrape_configs: [{{job_name: wellspring, static_configs: [{{targets: ['{}']}}]}}]\n",
            server.address
        );
        let settings = home.write("prometheus.yml", &settings);
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--storage.tsdb.path={}", home.path("prometheus").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("scripts/setup tests installs it");
        Self { address, _process: process }
    }

    /// The value of a query, once it has one.
    pub(crate) async fn value(&self, query: &str) -> f64 {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/api/v1/query?query={encoded}");
        let asked = async {
            loop {
                let answer = self.get(&path).await;
                assert_eq!(answer["status"], "success", "{query}: {answer}");
                if let Some(value) = answer["data"]["result"][0]["value"][1].as_str() {
                    return value.parse().expect("a value is a number");
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        soon(query, asked).await
    }

    /// The kinds of all metrics that the server announces, by their names.
    pub(crate) async fn known(&self) -> BTreeMap<String, String> {
        let known = self.get("/api/v1/targets/metadata?limit=1000").await;
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let known = known["data"].as_array().expect("there are some");
        known.iter().map(|known| (text(&known["metric"]), text(&known["type"]))).collect()
    }

    /// What it answers, once it does.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        let asked = async {
            loop {
                match send(&self.address, &request).await {
                    // A wrong query is a 400.
                    Ok(answer) if [200, 400].contains(&answer.status) => return answer.json().await,
                    _ => sleep(Duration::from_millis(50)).await,
                }
            }
        };
        soon("Prometheus", asked).await
    }
}
