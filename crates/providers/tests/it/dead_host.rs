//! A server whose machine is gone: packets are lost without an error. A test can take down only a network of its own, so
//! it runs itself again in a network namespace.

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use domain::FailureKind;
use providers::{HttpProviderSettings, OpenAiProvider};
use testing::FakeModel;

use crate::fake_server::{failure, settings, words};

/// Set in the process that runs in the namespace.
const INSIDE: &str = "WELLSPRING_TEST_NETWORK";

const CONNECT: Duration = Duration::from_secs(1);

/// Runs the named test again in a process with a network of its own. Returns true in that process, and false outside
/// once it has succeeded.
fn has_own_network(test: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--"]);
    command.arg(env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
    let output = command.env(INSIDE, "yes").output().expect("unshare (of util-linux) can be run");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{test}, in a namespace with a network of its own (it takes user namespaces):\n{out}\n{err}"
    );
    false
}

fn set_network(up_or_down: &str) {
    let set = Command::new("ip").args(["link", "set", "lo", up_or_down]).status();
    assert!(set.expect("ip (of iproute2) can be run").success());
}

#[tokio::test]
async fn a_dead_machine_is_noticed_on_an_established_connection() {
    if !has_own_network("dead_host::a_dead_machine_is_noticed_on_an_established_connection") {
        return;
    }
    set_network("up");
    let server = FakeModel::start().await;
    let settings = settings(&format!("{}/v1", server.url()));
    let settings = HttpProviderSettings { model: Some("fake".to_owned()), connect: CONNECT, ..settings };
    let provider = OpenAiProvider::new(settings).unwrap();
    assert!(!words(&provider).await.is_empty());

    set_network("down");
    for _ in 0..2 {
        let asked = Instant::now();
        let failure = failure(&provider).await;
        assert_eq!(failure.kind, FailureKind::Unavailable);
        // The kernel rounds up to its next retransmission.
        assert!(asked.elapsed() < 3 * CONNECT, "{failure} came after {:?}", asked.elapsed());
    }
}
