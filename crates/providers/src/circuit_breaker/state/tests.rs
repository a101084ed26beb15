use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn rules() -> BreakerRules {
    BreakerRules::default()
}

/// A breaker, and a clock that a test moves.
struct Breaker {
    state: BreakerState,
    now: Instant,
}

impl Breaker {
    fn new() -> Self {
        Self { state: BreakerState::new(rules()), now: Instant::now() }
    }

    fn admit(&mut self) -> Result<Permit, Block> {
        self.state.admit(self.now)
    }

    fn record(&mut self, permit: Permit, outcome: RequestOutcome) -> Option<Transition> {
        self.state.record(permit, outcome, self.now)
    }

    /// Runs requests with these outcomes, a second apart; returns the last one's transition.
    fn run(&mut self, outcomes: impl IntoIterator<Item = RequestOutcome>) -> Option<Transition> {
        let mut transition = None;
        for outcome in outcomes {
            let permit = self.admit().unwrap();
            transition = self.record(permit, outcome);
            self.now += SECOND;
        }
        transition
    }

    fn open() -> Self {
        let mut breaker = Self::new();
        assert_eq!(breaker.run([RequestOutcome::Failed; 5]), Some(Transition::Opened));
        breaker.now -= SECOND;
        breaker
    }
}

#[test]
fn five_failures_in_a_row_open_the_breaker() {
    use RequestOutcome::{Failed, Neutral, Succeeded};
    assert_eq!(Breaker::new().run([Failed; 4]), None);
    assert_eq!(Breaker::new().run([Failed; 5]), Some(Transition::Opened));
    assert_eq!(Breaker::new().run([Failed, Failed, Failed, Failed, Succeeded, Failed]), None);
    // A neutral outcome neither counts nor interrupts a row.
    assert_eq!(Breaker::new().run([Neutral; 50]), None);
    let last = Breaker::new().run([Failed, Failed, Neutral, Failed, Failed, Neutral, Failed]);
    assert_eq!(last, Some(Transition::Opened));
}

#[test]
fn failures_in_a_row_count_however_far_apart_they_are() {
    let mut breaker = Breaker::new();
    for _ in 0..4 {
        assert_eq!(breaker.run([RequestOutcome::Failed]), None);
        breaker.now += 3600 * SECOND;
    }
    assert_eq!(breaker.run([RequestOutcome::Failed]), Some(Transition::Opened));
}

#[test]
fn a_failure_share_of_half_opens_the_breaker_from_ten_requests_on() {
    use RequestOutcome::{Failed, Succeeded};
    // 4 of 9, then 5 of 10.
    let nine = [Succeeded, Failed, Succeeded, Failed, Succeeded, Failed, Succeeded, Failed, Succeeded];
    assert_eq!(Breaker::new().run(nine.into_iter().chain([Failed])), Some(Transition::Opened));
    assert_eq!(Breaker::new().run(nine.into_iter().chain([Succeeded, Failed])), None, "5 of 11");
    // A success never opens it, though half of ten have failed.
    let half = [Failed, Failed, Failed, Failed, Succeeded, Failed, Succeeded, Succeeded, Succeeded];
    assert_eq!(Breaker::new().run(half.into_iter().chain([Succeeded])), None);
}

#[test]
fn outcomes_older_than_a_minute_or_twenty_requests_do_not_count() {
    use RequestOutcome::{Failed, Succeeded};
    let pairs = |count: usize| [Succeeded, Failed].into_iter().cycle().take(2 * count);
    let mut breaker = Breaker::new();
    assert_eq!(breaker.run(pairs(4)), None);
    breaker.now += 61 * SECOND;
    assert_eq!(breaker.run(pairs(4)), None, "4 of 8");
    assert_eq!(breaker.run(pairs(1)), Some(Transition::Opened), "5 of 10");

    let mut breaker = Breaker::new();
    assert_eq!(breaker.run(pairs(4).chain([Succeeded; 20])), None);
    let nine = [Failed, Succeeded].into_iter().cycle().take(17);
    assert_eq!(breaker.run(nine), None, "9 of 20");
    assert_eq!(breaker.run([Succeeded, Failed]), Some(Transition::Opened), "10 of 20");
}

#[test]
fn an_open_breaker_lets_one_probe_through_after_thirty_seconds() {
    let mut breaker = Breaker::open();
    assert_eq!(breaker.admit().unwrap_err(), Block::Open(30 * SECOND));
    breaker.now += 29 * SECOND;
    assert_eq!(breaker.admit().unwrap_err(), Block::Open(SECOND));
    breaker.now += SECOND;
    assert_eq!(breaker.state.blocked(breaker.now), None);
    let probe = breaker.admit().unwrap();
    assert_eq!(breaker.admit().unwrap_err(), Block::Probing);
    assert!(breaker.state.is_open());
    assert_eq!(breaker.record(probe, RequestOutcome::Answering), Some(Transition::Closed));
    assert!(!breaker.state.is_open());
    assert_eq!(breaker.run([RequestOutcome::Failed; 4]), None, "earlier outcomes are gone");
    assert_eq!(
        breaker.record(probe, RequestOutcome::Failed),
        Some(Transition::Opened),
        "the probe counts like any other"
    );
}

#[test]
fn a_probe_that_fails_opens_the_breaker_again() {
    let mut breaker = Breaker::open();
    breaker.now += 30 * SECOND;
    let probe = breaker.admit().unwrap();
    breaker.now += 7 * SECOND;
    assert_eq!(breaker.record(probe, RequestOutcome::Failed), Some(Transition::Opened));
    assert_eq!(breaker.admit().unwrap_err(), Block::Open(30 * SECOND));
}

#[test]
fn after_a_neutral_probe_the_next_request_is_the_probe() {
    let mut breaker = Breaker::open();
    breaker.now += 30 * SECOND;
    let probe = breaker.admit().unwrap();
    assert_eq!(breaker.record(probe, RequestOutcome::Neutral), None);
    assert!(breaker.state.is_open());
    let next = breaker.admit().unwrap();
    assert_eq!(breaker.admit().unwrap_err(), Block::Probing);
    assert_eq!(breaker.record(next, RequestOutcome::Succeeded), Some(Transition::Closed));
}

#[test]
fn requests_admitted_before_the_last_opening_do_not_count() {
    let mut breaker = Breaker::new();
    let slow: Vec<_> = (0..3).map(|_| breaker.admit().unwrap()).collect();
    breaker.run([RequestOutcome::Failed; 5]);
    breaker.now += 30 * SECOND;
    let probe = breaker.admit().unwrap();
    assert_eq!(breaker.record(slow[0], RequestOutcome::Failed), None);
    assert_eq!(breaker.record(slow[1], RequestOutcome::Succeeded), None);
    assert_eq!(breaker.record(slow[2], RequestOutcome::Neutral), None);
    assert_eq!(breaker.admit().unwrap_err(), Block::Probing);
    assert_eq!(breaker.record(probe, RequestOutcome::Succeeded), Some(Transition::Closed));
}

#[test]
fn a_pause_that_the_provider_asked_for_blocks_requests() {
    let mut breaker = Breaker::new();
    breaker.state.block_until(breaker.now + 7 * SECOND);
    breaker.state.block_until(breaker.now + 3 * SECOND);
    assert_eq!(breaker.admit().unwrap_err(), Block::RetryAfter(7 * SECOND));
    breaker.now += 7 * SECOND;
    assert!(breaker.admit().is_ok());
    assert!(!breaker.state.is_open());

    let mut breaker = Breaker::open();
    breaker.state.block_until(breaker.now + 7 * SECOND);
    assert_eq!(breaker.admit().unwrap_err(), Block::Open(30 * SECOND));
    breaker.state.block_until(breaker.now + 90 * SECOND);
    assert_eq!(breaker.admit().unwrap_err(), Block::RetryAfter(90 * SECOND));
    breaker.now += 90 * SECOND;
    assert!(breaker.admit().is_ok());
    assert_eq!(breaker.admit().unwrap_err(), Block::Probing);
}

/// A step of a random run.
#[derive(Clone, Debug)]
enum Act {
    Pass(Duration),
    Admit,
    /// An index into the running requests, modulo their number.
    Record(usize, RequestOutcome),
    Pause(Duration),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    use RequestOutcome::{Answering, Failed, Neutral, Succeeded};
    let outcome = prop_oneof![
        6 => Just(Failed),
        4 => Just(Succeeded),
        1 => Just(Neutral),
        2 => Just(Answering)
    ];
    let act = prop_oneof![
        3 => (0..4_000_u64).prop_map(|millis| Act::Pass(Duration::from_millis(millis))),
        1 => (0..70_u64).prop_map(|seconds| Act::Pass(Duration::from_secs(seconds))),
        8 => Just(Act::Admit),
        8 => (any::<usize>(), outcome).prop_map(|(which, outcome)| Act::Record(which, outcome)),
        1 => (0..60_u64).prop_map(|seconds| Act::Pause(Duration::from_secs(seconds))),
    ];
    vec(act, 0..400)
}

/// A slow model of the breaker: keeps every outcome and evaluates the rules over all of them.
struct Reference {
    now: Instant,
    /// When each counted request ended, and whether it failed, since the breaker last closed.
    ends: Vec<(Instant, bool)>,
    opened: Option<Instant>,
    probing: bool,
    openings: usize,
    pauses: Vec<Instant>,
}

impl Reference {
    fn admits(&self) -> bool {
        let is_paused = self.pauses.iter().any(|&until| self.now < until);
        let is_open = self.opened.is_some_and(|opened| self.now < opened + rules().open);
        !(is_paused || is_open || self.probing)
    }

    fn admit(&mut self) {
        self.probing = self.opened.is_some();
    }

    fn record(&mut self, openings_before: usize, outcome: RequestOutcome) {
        if openings_before != self.openings {
            return;
        }
        match (outcome, self.opened) {
            (RequestOutcome::Answering | RequestOutcome::Succeeded, Some(_)) => self.close(),
            (RequestOutcome::Failed, Some(_)) => self.open(),
            (RequestOutcome::Neutral, Some(_)) => self.probing = false,
            (RequestOutcome::Answering | RequestOutcome::Neutral, None) => {}
            (RequestOutcome::Succeeded, None) => self.ends.push((self.now, false)),
            (RequestOutcome::Failed, None) => {
                self.ends.push((self.now, true));
                if self.exceeds() {
                    self.open();
                }
            }
        }
    }

    fn exceeds(&self) -> bool {
        let in_a_row = self.ends.iter().rev().take_while(|(_, failed)| *failed).count();
        let newest = self.ends.iter().rev().take(20);
        let recent: Vec<_> = newest.filter(|(at, _)| self.now - *at <= 60 * SECOND).collect();
        let failures = recent.iter().filter(|(_, failed)| *failed).count();
        in_a_row >= 5 || recent.len() >= 10 && 2 * failures >= recent.len()
    }

    fn open(&mut self) {
        (self.opened, self.probing) = (Some(self.now), false);
        self.openings += 1;
    }

    fn close(&mut self) {
        (self.opened, self.probing) = (None, false);
        self.ends.clear();
    }
}

proptest! {
    #[test]
    fn the_state_machine_agrees_with_the_reference_model(acts in acts()) {
        let mut state = BreakerState::new(rules());
        let mut reference = Reference {
            now: Instant::now(),
            ends: Vec::new(),
            opened: None,
            probing: false,
            openings: 0,
            pauses: Vec::new(),
        };
// Each with the number of openings before it, and whether it is being answered.
        let mut running: Vec<(Permit, usize, bool)> = Vec::new();
        for act in acts {
            match act {
                Act::Pass(time) => reference.now += time,
                Act::Admit => {
                    let admitted = state.admit(reference.now);
                    prop_assert_eq!(admitted.is_ok(), reference.admits());
                    if let Ok(permit) = admitted {
                        reference.admit();
                        running.push((permit, reference.openings, false));
                    }
                }
                Act::Record(which, outcome) if !running.is_empty() => {
                    let which = which % running.len();
                    let (permit, openings_before, answers) = running[which];
                    if outcome == RequestOutcome::Answering {
                        if answers {
                            continue;
                        }
                        running[which].2 = true;
                    } else {
                        running.swap_remove(which);
                    }
                    state.record(permit, outcome, reference.now);
                    reference.record(openings_before, outcome);
                }
                Act::Record(..) => {}
                Act::Pause(wait) => {
                    state.block_until(reference.now + wait);
                    reference.pauses.push(reference.now + wait);
                }
            }
            prop_assert_eq!(state.is_open(), reference.opened.is_some());
            prop_assert_eq!(state.blocked(reference.now).is_none(), reference.admits());
        }
    }
}
