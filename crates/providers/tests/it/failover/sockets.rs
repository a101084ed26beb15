//! Over real sockets: a model server that is stopped, restarted, and replaced by a black hole.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use domain::Provider;
use providers::{
    BreakerRules, CircuitBreaker, FallbackProvider, HttpProviderSettings, OpenAiProvider, SilenceLimits,
};
use testing::{FakeModel, HangingServer};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::{AnsweredRequest, Load};
use crate::fake_server::settings;

const CONNECT: Duration = Duration::from_millis(300);
const OPEN: Duration = Duration::from_millis(500);

/// Tolerance for a busy machine.
const BUSY: Duration = Duration::from_secs(2);

fn provider(name: &str, url: &str) -> Arc<CircuitBreaker> {
    let settings = HttpProviderSettings {
        name: name.to_owned(),
        model: Some("fake,tokens=4".to_owned()),
        connect: CONNECT,
        ..settings(&format!("{url}/v1"))
    };
    let rules = BreakerRules { open: OPEN, ..BreakerRules::default() };
    let silence = SilenceLimits { first_token: Duration::from_secs(60), stall: Duration::from_secs(30) };
    Arc::new(CircuitBreaker::new(Arc::new(OpenAiProvider::new(settings).unwrap()), rules, silence))
}

async fn start(address: SocketAddr) -> FakeModel {
    FakeModel::serve(TcpListener::bind(address).await.unwrap(), Vec::new()).unwrap()
}

/// Checks that no request waited longer than the connect timeout.
fn check_waits(all: &[AnsweredRequest]) {
    let longest = all.iter().map(|asked| asked.took).max();
    assert!(longest < Some(CONNECT + BUSY), "the longest wait was {longest:?}");
}

/// Runs the load until the first provider answers again.
async fn recovers(load: &mut Load, breaker: &CircuitBreaker) {
    let since = Instant::now();
    while breaker.status().breaker_open {
        load.run(Duration::from_millis(100), || ()).await;
        assert!(since.elapsed() < CONNECT + OPEN + BUSY, "it recovers within its probe's time");
    }
    check_waits(&load.finish().await);
    load.run(Duration::from_millis(300), || ()).await;
    assert!(load.finish().await.iter().all(|asked| asked.by == "first"));
}

#[tokio::test]
async fn a_server_that_comes_and_goes_delays_no_request_for_long() {
    let spare = FakeModel::start().await;
    let server = FakeModel::start().await;
    let address: SocketAddr = server.url().strip_prefix("http://").unwrap().parse().unwrap();
    let breaker = provider("first", server.url());
    let members: Vec<Arc<dyn Provider>> = vec![breaker.clone(), provider("spare", spare.url())];
    let mut load = Load::new(Arc::new(FallbackProvider::new(members, Duration::from_secs(60))));
    recovers(&mut load, &breaker).await;

    server.stop().await;
    load.run(Duration::from_millis(1_500), || ()).await;
    assert!(breaker.status().breaker_open);
    let down = load.finish().await;
    assert!(down.iter().all(|asked| asked.by == "spare"));
    check_waits(&down);

    let server = start(address).await;
    recovers(&mut load, &breaker).await;

    server.stop().await;
    let hole = HangingServer::open(address).await.unwrap();
    load.run(Duration::from_millis(2_000), || ()).await;
    assert!(breaker.status().breaker_open);
    let down = load.finish().await;
    assert!(down.iter().all(|asked| asked.by == "spare"));
    check_waits(&down);

    drop(hole);
    let _server = start(address).await;
    recovers(&mut load, &breaker).await;
}
