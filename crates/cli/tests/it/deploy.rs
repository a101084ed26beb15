//! The files of `deploy` are valid for the programs that read them, and fit the server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::process::Command;

use crate::binary::{Home, run};

/// The settings that come with the service.
const SETTINGS: &str = "systemd/wellspring.toml";

/// What the server may take to stop beyond `server.drain_seconds`: five seconds to store ends, half a second for clients.
const ENDING: u64 = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the tests run in their project")
}

fn path(name: &str) -> PathBuf {
    root().join("deploy").join(name)
}

/// A file of `deploy`.
pub(crate) fn deployed(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

async fn check(command: &mut Command) -> String {
    let ran = run(command).await;
    assert_eq!(ran.code, Some(0), "{command:?}:\n{}{}", ran.out, ran.err);
    ran.out + &ran.err
}

/// The number behind a name in a text of `name = number` lines, spaces or not.
fn number(text: &str, name: &str) -> u64 {
    let values = text.lines().filter_map(|line| line.split('#').next()?.split_once('='));
    let value = values.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).next();
    let value = value.unwrap_or_else(|| panic!("no {name} in {text}"));
    value.parse().unwrap_or_else(|_| panic!("{name} is {value}, which is no whole number"))
}

/// All settings of the service, defaults included.
async fn settings() -> String {
    let file = path(SETTINGS);
    let ran =
        Home::new().run(&["config", "show", "--config", file.to_str().expect("a plain path")], &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran.out
}

#[tokio::test]
async fn systemd_takes_the_unit_and_finds_it_closed() {
    let home = Home::new();
    let unit = deployed("systemd/wellspring.service");
    let unit = unit.replace("/usr/local/bin/wellspring", env!("CARGO_BIN_EXE_wellspring"));
    let unit = home.write("wellspring.service", &unit);
    let told = check(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit)).await;
    assert_eq!(told, "", "a warning is a mistake too");
    // In tenths; 10.0 is a process that may do everything.
    let security = ["security", "--offline=true", "--no-pager", "--threshold=20"];
    check(Command::new("systemd-analyze").args(security).arg(&unit)).await;
}

#[tokio::test]
async fn the_unit_leaves_the_server_time_and_files_enough() {
    let (unit, settings) = (deployed("systemd/wellspring.service"), settings().await);
    assert!(number(&unit, "TimeoutStopSec") >= number(&settings, "drain_seconds") + ENDING);
    let files = number(&settings, "connections") + number(&settings, "concurrent_streams") + 300;
    assert!(number(&unit, "LimitNOFILE") >= files, "{files} files may be open");
    let account = deployed("systemd/wellspring.sysusers");
    assert!(unit.contains("User=wellspring\n") && account.contains("\nu wellspring "), "{account}");
    for folder in ["data_dir = \"/var/lib/wellspring\"", "dir = \"/var/cache/wellspring/models\""] {
        assert!(settings.contains(folder), "{folder} is not in {settings}");
    }
    assert!(unit.contains("StateDirectory=wellspring\n") && unit.contains("CacheDirectory=wellspring\n"));
}

#[tokio::test]
async fn the_compose_file_keeps_to_its_schema_and_the_image_is_built_as_it_should_be() {
    check(Command::new(root().join("scripts/check-deploy")).current_dir(root())).await;
    let compose = deployed("docker/compose.yaml");
    let mounted = compose.lines().filter_map(|line| line.trim().strip_prefix("- ../")?.split(':').next());
    let mounted: Vec<_> = mounted.collect();
    assert_eq!(mounted.len(), 3, "{mounted:?}");
    for folder in mounted {
        assert!(path(folder).is_dir(), "{folder} is mounted, and is not there");
    }
    let grace =
        compose.lines().find_map(|line| line.trim().strip_prefix("stop_grace_period: ")?.strip_suffix('s'));
    let grace: u64 = grace.expect("it is in seconds").parse().expect("a number");
    assert!(grace >= number(&settings().await, "drain_seconds") + ENDING);
    assert!(compose.contains("nofile: 16384"));
}

#[tokio::test]
async fn the_image_runs_commands_that_there_are() {
    let image = deployed("docker/Dockerfile");
    let health = image.lines().find_map(|line| line.split_once("HEALTHCHECK")?.1.split_once("CMD "));
    let commands = [health.expect("it has a check").1, "[\"wellspring\", \"models\", \"pull\"]"];
    for command in commands {
        let words: Vec<String> = serde_json::from_str(command).expect("a list of words");
        let mut words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        words.push("--help");
        assert_eq!(Home::new().run(&words, &[]).await.code, Some(0), "{command}");
    }
    let variables = image.lines().filter_map(|line| line.trim().trim_start_matches("ENV ").split_once('='));
    let variables = variables.filter(|(name, _)| name.starts_with("WELLSPRING__"));
    let variables: Vec<_> = variables.map(|(name, value)| (name, value.trim_end_matches(" \\"))).collect();
    assert_eq!(variables.len(), 3, "{variables:?}");
    let ran = Home::new().run(&["config", "check"], &variables).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}

#[tokio::test]
async fn prometheus_takes_its_settings_and_alerts_are_raised_when_they_should_be() {
    let promtool = |arguments: [&str; 2], file: &str| {
        let mut command = Command::new("promtool");
        command.args(arguments).arg(path(file));
        command
    };
    check(&mut promtool(["check", "config"], "prometheus/prometheus.yml")).await;
    let tested = check(&mut promtool(["test", "rules"], "prometheus/alerts.test.yml")).await;
    assert!(tested.contains("SUCCESS"), "{tested}");
    let (alerts, tests) = (deployed("prometheus/alerts.yml"), deployed("prometheus/alerts.test.yml"));
    let manual = fs::read_to_string(root().join("docs/operations.md")).expect("it is there");
    for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(manual.contains(&format!("`{alert}`")), "docs/operations.md says nothing about {alert}");
        assert!(tests.contains(&format!("alertname: {alert}\n")), "nothing tests that {alert} is raised");
    }
}

#[tokio::test]
async fn grafana_finds_the_dashboard_and_the_dashboard_its_source() {
    let (source, folders) = (
        deployed("grafana/provisioning/datasources/prometheus.yaml"),
        deployed("grafana/provisioning/dashboards/wellspring.yaml"),
    );
    let uid = source.lines().find_map(|line| line.trim().strip_prefix("uid: ")).expect("it has a name");
    let folder = folders.lines().find_map(|line| line.trim().strip_prefix("path: ")).expect("it has a path");
    let compose = deployed("docker/compose.yaml");
    assert!(compose.contains(&format!("- ../grafana/dashboards:{folder}:ro")), "{folder} is not mounted");
    assert!(compose.contains(&format!("{folder}/wellspring.json")));
    let dashboard: Value =
        serde_json::from_str(&deployed("grafana/dashboards/wellspring.json")).expect("JSON");
    let mut ids = Vec::new();
    for panel in dashboard["panels"].as_array().expect("it has panels") {
        ids.push(panel["id"].as_u64().expect("a number"));
        let targets = panel["targets"].as_array().into_iter().flatten();
        for source in targets.map(|target| &target["datasource"]).chain(panel.get("datasource")) {
            assert_eq!(source["uid"], uid, "{panel}");
        }
    }
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "every panel has its own id");
}
