//! On paused time, where every moment can be asked for.

use std::sync::Arc;
use std::time::Duration;

use domain::{Failure, FailureKind, Provider};
use providers::{Breaker, BreakerRules, Order, Patience};
use testing::{Mood, MoodyProvider};
use tokio::time::{Instant, advance};

use super::{Asked, Load};

/// What the settings say by default.
const CONNECT: Duration = Duration::from_secs(5);
const FIRST_TOKEN: Duration = Duration::from_secs(60);
const OPEN: Duration = Duration::from_secs(30);

/// How long an answer takes.
const ANSWER: Duration = Duration::from_millis(200);

struct World {
    first: Arc<MoodyProvider>,
    breaker: Arc<Breaker>,
    load: Load,
}

impl World {
    fn new() -> Self {
        let patience = Patience { first_token: FIRST_TOKEN, stall: Duration::from_secs(30) };
        let guarded = |provider| Arc::new(Breaker::new(provider, BreakerRules::default(), patience));
        let first = MoodyProvider::new("first", Mood::answers().after(ANSWER));
        let breaker = guarded(first.clone());
        let spare = guarded(MoodyProvider::new("spare", Mood::answers().after(ANSWER)));
        let members: Vec<Arc<dyn Provider>> = vec![breaker.clone(), spare];
        Self { first, breaker, load: Load::new(Arc::new(Order::new(members, FIRST_TOKEN))) }
    }

    /// A time in which the first provider is in this mood.
    async fn go_on(&mut self, seconds: u64, mood: Mood) {
        self.first.set(mood);
        self.load.go_on(Duration::from_secs(seconds), || ()).await;
    }

    /// The same, of which it must not fail more than ten times before it is left alone.
    async fn goes_down(&mut self, seconds: u64, mood: Mood) {
        self.first.set(mood);
        let (breaker, first) = (self.breaker.clone(), self.first.clone());
        let before = first.failures();
        let look = || {
            let failures = first.failures() - before;
            assert!(failures < 10 || breaker.status().breaker_open, "{failures} failures");
        };
        self.load.go_on(Duration::from_secs(seconds), look).await;
        assert!(self.breaker.status().breaker_open);
    }
}

fn no_connection() -> Mood {
    Mood::fails(Failure::new(FailureKind::Unavailable, "no connection"))
}

fn by<'a>(all: &'a [Asked], name: &str) -> Vec<&'a Asked> {
    all.iter().filter(|asked| asked.by == name).collect()
}

#[tokio::test(start_paused = true)]
async fn who_fails_and_recovers_is_left_alone_in_between() {
    let mut world = World::new();
    world.go_on(10, Mood::answers().after(ANSWER)).await;
    let before = world.load.ends().await;
    assert_eq!(by(&before, "first").len(), before.len());

    let calls = world.first.calls();
    world.goes_down(70, no_connection()).await;
    let down = world.load.ends().await;
    assert_eq!(by(&down, "spare").len(), down.len());
    assert_eq!(world.first.calls() - calls, 5 + 2, "five failures, and a probe each half minute");
    assert!(down.iter().all(|asked| asked.took == ANSWER), "nobody waits");

    let recovered = Instant::now();
    world.go_on(60, Mood::answers().after(ANSWER)).await;
    let after = world.load.ends().await;
    let first = by(&after, "first")[0].at - recovered;
    assert!(first <= OPEN, "it was asked again after {first:?}");
    let last_spare = by(&after, "spare").last().unwrap().at - recovered;
    assert!(last_spare <= OPEN + ANSWER, "the probe's answer opened the way after {last_spare:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_dead_provider_longer_than_it_takes_to_connect() {
    let mut world = World::new();
    world.go_on(5, Mood::answers().after(ANSWER)).await;
    world.load.ends().await;

    let died = Instant::now();
    world.goes_down(100, no_connection().after(CONNECT)).await;
    let down = world.load.ends().await;
    assert_eq!(by(&down, "spare").len(), down.len());
    let longest = down.iter().map(|asked| asked.took).max().unwrap();
    assert_eq!(longest, CONNECT + ANSWER);
    let waited: Vec<_> = down.iter().filter(|asked| asked.took > ANSWER).collect();
    // Who asked before the first could be known to fail, and then a probe each half minute.
    let early = waited.iter().filter(|asked| asked.at - died <= CONNECT + ANSWER).count();
    assert!(waited.len() - early <= 3, "{} waited although it was known to be dead", waited.len() - early);

    let recovered = Instant::now();
    world.go_on(60, Mood::answers().after(ANSWER)).await;
    let after = world.load.ends().await;
    let last_spare = by(&after, "spare").last().unwrap().at - recovered;
    assert!(last_spare <= CONNECT + OPEN + ANSWER, "{last_spare:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_slowly_or_says_nothing_is_left_alone_too() {
    for mood in [
        Mood::fails(Failure::new(FailureKind::Unavailable, "answered 503")).after(Duration::from_secs(2)),
        Mood::silent(),
    ] {
        let mut world = World::new();
        world.go_on(2, Mood::answers()).await;
        world.first.set(mood);
        world.load.go_on(Duration::from_secs(120), || ()).await;
        assert!(world.breaker.status().breaker_open);
        let late = Instant::now() - Duration::from_secs(30);
        let all = world.load.ends().await;
        assert!(all.iter().all(|asked| asked.took <= FIRST_TOKEN + ANSWER));
        let late: Vec<_> = all.iter().filter(|asked| asked.at >= late).collect();
        let waited = late.iter().filter(|asked| asked.took > ANSWER).count();
        assert!(late.len() > 1_000 && waited <= 1, "{waited} of {} waited", late.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_asks_for_a_pause_gets_it_from_all() {
    let mut world = World::new();
    let pause = Duration::from_secs(20);
    let busy = Failure { retry_after: Some(pause), ..Failure::new(FailureKind::Unavailable, "answered 429") };
    world.go_on(1, Mood::fails(busy)).await;
    assert_eq!(world.first.calls(), 1);
    world.first.set(Mood::answers());
    advance(pause - Duration::from_secs(2)).await;
    world.load.go_on(Duration::from_millis(900), || ()).await;
    assert_eq!(world.first.calls(), 1);
    world.load.go_on(Duration::from_secs(1), || ()).await;
    assert!(world.first.calls() > 30);
    world.load.ends().await;
}
