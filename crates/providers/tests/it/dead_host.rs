//! A server whose machine is gone: nothing says so, it only never answers any more. A network can be taken down only
//! where it is a test's own, so the test is run again in a namespace.

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use domain::FailureKind;
use providers::{HttpProvider, OpenAi};
use testing::FakeModel;

use crate::fake_server::{failure, settings, words};

/// Says that the process is in such a namespace.
const INSIDE: &str = "WELLSPRING_TEST_NETWORK";

const CONNECT: Duration = Duration::from_secs(1);

/// Runs a test where the network is its own: itself, again, as the only one of a process of its own. True in there;
/// false outside, once that process has ended well.
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
async fn a_machine_that_is_gone_is_noticed_also_on_a_connection_that_was_good() {
    if !has_own_network("dead_host::a_machine_that_is_gone_is_noticed_also_on_a_connection_that_was_good") {
        return;
    }
    set_network("up");
    let server = FakeModel::start().await;
    let settings = settings(&format!("{}/v1", server.url()));
    let settings = HttpProvider { model: Some("fake".to_owned()), connect: CONNECT, ..settings };
    let provider = OpenAi::new(settings).unwrap();
    assert!(!words(&provider).await.is_empty());

    set_network("down");
    for _ in 0..2 {
        let asked = Instant::now();
        let failure = failure(&provider).await;
        assert_eq!(failure.kind, FailureKind::Unavailable);
        // The system rounds up to its next attempt to send.
        assert!(asked.elapsed() < 3 * CONNECT, "{failure} came after {:?}", asked.elapsed());
    }
}
