//! On paused time, which makes every duration exact.

use std::sync::Arc;
use std::time::Duration;

use domain::{Failure, FailureKind, Provider};
use providers::{BreakerRules, CircuitBreaker, FallbackProvider, SilenceLimits};
use testing::{Behaviour, SwitchableProvider};
use tokio::time::{Instant, advance};

use super::{AnsweredRequest, Load};

/// The defaults of the settings.
const CONNECT: Duration = Duration::from_secs(5);
const FIRST_TOKEN: Duration = Duration::from_secs(60);
const OPEN: Duration = Duration::from_secs(30);

/// How long an answer takes.
const ANSWER: Duration = Duration::from_millis(200);

struct Fixture {
    first: Arc<SwitchableProvider>,
    breaker: Arc<CircuitBreaker>,
    load: Load,
}

impl Fixture {
    fn new() -> Self {
        let silence = SilenceLimits { first_token: FIRST_TOKEN, stall: Duration::from_secs(30) };
        let guarded = |provider| Arc::new(CircuitBreaker::new(provider, BreakerRules::default(), silence));
        let first = SwitchableProvider::new("first", Behaviour::answers().delayed(ANSWER));
        let breaker = guarded(first.clone());
        let spare = guarded(SwitchableProvider::new("spare", Behaviour::answers().delayed(ANSWER)));
        let members: Vec<Arc<dyn Provider>> = vec![breaker.clone(), spare];
        Self { first, breaker, load: Load::new(Arc::new(FallbackProvider::new(members, FIRST_TOKEN))) }
    }

    /// Runs the load while the first provider is in this behaviour.
    async fn run(&mut self, seconds: u64, behaviour: Behaviour) {
        self.first.switch_to(behaviour);
        self.load.run(Duration::from_secs(seconds), || ()).await;
    }

    /// The same with a behaviour that fails: the breaker must open after ten failures at most.
    async fn run_down(&mut self, seconds: u64, behaviour: Behaviour) {
        self.first.switch_to(behaviour);
        let (breaker, first) = (self.breaker.clone(), self.first.clone());
        let before = first.failures();
        let check = || {
            let failures = first.failures() - before;
            assert!(failures < 10 || breaker.status().breaker_open, "{failures} failures");
        };
        self.load.run(Duration::from_secs(seconds), check).await;
        assert!(self.breaker.status().breaker_open);
    }
}

fn no_connection() -> Behaviour {
    Behaviour::fails(Failure::new(FailureKind::Unavailable, "no connection"))
}

fn answered_by<'a>(all: &'a [AnsweredRequest], name: &str) -> Vec<&'a AnsweredRequest> {
    all.iter().filter(|asked| asked.by == name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_failing_provider_is_skipped_until_it_recovers() {
    let mut fixture = Fixture::new();
    fixture.run(10, Behaviour::answers().delayed(ANSWER)).await;
    let before = fixture.load.finish().await;
    assert_eq!(answered_by(&before, "first").len(), before.len());

    let calls = fixture.first.calls();
    fixture.run_down(70, no_connection()).await;
    let down = fixture.load.finish().await;
    assert_eq!(answered_by(&down, "spare").len(), down.len());
    assert_eq!(fixture.first.calls() - calls, 5 + 2, "five failures, and a probe every 30 s");
    assert!(down.iter().all(|asked| asked.took == ANSWER), "no request waits");

    let recovered = Instant::now();
    fixture.run(60, Behaviour::answers().delayed(ANSWER)).await;
    let after = fixture.load.finish().await;
    let first = answered_by(&after, "first")[0].at - recovered;
    assert!(first <= OPEN, "it was asked again after {first:?}");
    let last_spare = answered_by(&after, "spare").last().unwrap().at - recovered;
    assert!(last_spare <= OPEN + ANSWER, "the last fallback was after {last_spare:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_provider_delays_requests_by_the_connect_timeout_at_most() {
    let mut fixture = Fixture::new();
    fixture.run(5, Behaviour::answers().delayed(ANSWER)).await;
    fixture.load.finish().await;

    let died = Instant::now();
    fixture.run_down(100, no_connection().delayed(CONNECT)).await;
    let down = fixture.load.finish().await;
    assert_eq!(answered_by(&down, "spare").len(), down.len());
    let longest = down.iter().map(|asked| asked.took).max().unwrap();
    assert_eq!(longest, CONNECT + ANSWER);
    let waited: Vec<_> = down.iter().filter(|asked| asked.took > ANSWER).collect();
    // Requests sent before the first failure was known, and then a probe every 30 s.
    let early = waited.iter().filter(|asked| asked.at - died <= CONNECT + ANSWER).count();
    assert!(waited.len() - early <= 3, "{} waited although it was known to be dead", waited.len() - early);

    let recovered = Instant::now();
    fixture.run(60, Behaviour::answers().delayed(ANSWER)).await;
    let after = fixture.load.finish().await;
    let last_spare = answered_by(&after, "spare").last().unwrap().at - recovered;
    assert!(last_spare <= CONNECT + OPEN + ANSWER, "{last_spare:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_or_silent_provider_is_skipped_too() {
    for behaviour in [
        Behaviour::fails(Failure::new(FailureKind::Unavailable, "answered 503"))
            .delayed(Duration::from_secs(2)),
        Behaviour::silent(),
    ] {
        let mut fixture = Fixture::new();
        fixture.run(2, Behaviour::answers()).await;
        fixture.first.switch_to(behaviour);
        fixture.load.run(Duration::from_secs(120), || ()).await;
        assert!(fixture.breaker.status().breaker_open);
        let late = Instant::now() - Duration::from_secs(30);
        let all = fixture.load.finish().await;
        assert!(all.iter().all(|asked| asked.took <= FIRST_TOKEN + ANSWER));
        let late: Vec<_> = all.iter().filter(|asked| asked.at >= late).collect();
        let waited = late.iter().filter(|asked| asked.took > ANSWER).count();
        assert!(late.len() > 1_000 && waited <= 1, "{waited} of {} waited", late.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_pauses_all_requests() {
    let mut fixture = Fixture::new();
    let pause = Duration::from_secs(20);
    let busy = Failure { retry_after: Some(pause), ..Failure::new(FailureKind::Unavailable, "answered 429") };
    fixture.run(1, Behaviour::fails(busy)).await;
    assert_eq!(fixture.first.calls(), 1);
    fixture.first.switch_to(Behaviour::answers());
    advance(pause - Duration::from_secs(2)).await;
    fixture.load.run(Duration::from_millis(900), || ()).await;
    assert_eq!(fixture.first.calls(), 1);
    fixture.load.run(Duration::from_secs(1), || ()).await;
    assert!(fixture.first.calls() > 30);
    fixture.load.finish().await;
}
