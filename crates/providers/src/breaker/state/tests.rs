use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn rules() -> BreakerRules {
    BreakerRules::default()
}

/// A breaker, and a clock that a test moves.
struct World {
    state: State,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self { state: State::new(rules()), now: Instant::now() }
    }

    fn ask(&mut self) -> Result<Ticket, Skip> {
        self.state.ask(self.now)
    }

    fn hear(&mut self, ticket: Ticket, verdict: Verdict) -> Option<Change> {
        self.state.hear(ticket, verdict, self.now)
    }

    /// Requests that end like this, each a moment after the other; what becomes of the breaker in the end.
    fn ends(&mut self, verdicts: impl IntoIterator<Item = Verdict>) -> Option<Change> {
        let mut change = None;
        for verdict in verdicts {
            let ticket = self.ask().unwrap();
            change = self.hear(ticket, verdict);
            self.now += SECOND;
        }
        change
    }

    fn open() -> Self {
        let mut world = Self::new();
        assert_eq!(world.ends([Verdict::Failed; 5]), Some(Change::Opened));
        world.now -= SECOND;
        world
    }
}

#[test]
fn five_failures_in_a_row_open_it() {
    use Verdict::{Failed, Nothing, Succeeded};
    assert_eq!(World::new().ends([Failed; 4]), None);
    assert_eq!(World::new().ends([Failed; 5]), Some(Change::Opened));
    assert_eq!(World::new().ends([Failed, Failed, Failed, Failed, Succeeded, Failed]), None);
    // What says nothing about the provider neither counts nor comes between.
    assert_eq!(World::new().ends([Nothing; 50]), None);
    let last = World::new().ends([Failed, Failed, Nothing, Failed, Failed, Nothing, Failed]);
    assert_eq!(last, Some(Change::Opened));
}

#[test]
fn five_failures_in_a_row_open_it_however_far_apart_they_are() {
    let mut world = World::new();
    for _ in 0..4 {
        assert_eq!(world.ends([Verdict::Failed]), None);
        world.now += 3600 * SECOND;
    }
    assert_eq!(world.ends([Verdict::Failed]), Some(Change::Opened));
}

#[test]
fn half_of_the_last_ten_or_more_open_it() {
    use Verdict::{Failed, Succeeded};
    // 4 of 9, then 5 of 10.
    let nine = [Succeeded, Failed, Succeeded, Failed, Succeeded, Failed, Succeeded, Failed, Succeeded];
    assert_eq!(World::new().ends(nine.into_iter().chain([Failed])), Some(Change::Opened));
    assert_eq!(World::new().ends(nine.into_iter().chain([Succeeded, Failed])), None, "5 of 11");
    // A success never opens it, though half of ten have failed.
    let half = [Failed, Failed, Failed, Failed, Succeeded, Failed, Succeeded, Succeeded, Succeeded];
    assert_eq!(World::new().ends(half.into_iter().chain([Succeeded])), None);
}

#[test]
fn what_is_older_than_a_minute_or_twenty_requests_is_forgotten() {
    use Verdict::{Failed, Succeeded};
    let pairs = |count: usize| [Succeeded, Failed].into_iter().cycle().take(2 * count);
    let mut world = World::new();
    assert_eq!(world.ends(pairs(4)), None);
    world.now += 61 * SECOND;
    assert_eq!(world.ends(pairs(4)), None, "4 of 8");
    assert_eq!(world.ends(pairs(1)), Some(Change::Opened), "5 of 10");

    let mut world = World::new();
    assert_eq!(world.ends(pairs(4).chain([Succeeded; 20])), None);
    let nine = [Failed, Succeeded].into_iter().cycle().take(17);
    assert_eq!(world.ends(nine), None, "9 of 20");
    assert_eq!(world.ends([Succeeded, Failed]), Some(Change::Opened), "10 of 20");
}

#[test]
fn it_is_open_for_half_a_minute_then_one_request_is_let_through() {
    let mut world = World::open();
    assert_eq!(world.ask().unwrap_err(), Skip::Open(30 * SECOND));
    world.now += 29 * SECOND;
    assert_eq!(world.ask().unwrap_err(), Skip::Open(SECOND));
    world.now += SECOND;
    assert_eq!(world.state.skip(world.now), None);
    let probe = world.ask().unwrap();
    assert_eq!(world.ask().unwrap_err(), Skip::Probing);
    assert!(world.state.is_open());
    assert_eq!(world.hear(probe, Verdict::Answers), Some(Change::Closed));
    assert!(!world.state.is_open());
    assert_eq!(world.ends([Verdict::Failed; 4]), None, "it forgot what was before");
    assert_eq!(world.hear(probe, Verdict::Failed), Some(Change::Opened), "the probe counts like any other");
}

#[test]
fn a_probe_that_fails_opens_it_again() {
    let mut world = World::open();
    world.now += 30 * SECOND;
    let probe = world.ask().unwrap();
    world.now += 7 * SECOND;
    assert_eq!(world.hear(probe, Verdict::Failed), Some(Change::Opened));
    assert_eq!(world.ask().unwrap_err(), Skip::Open(30 * SECOND));
}

#[test]
fn a_probe_that_says_nothing_leaves_it_to_the_next() {
    let mut world = World::open();
    world.now += 30 * SECOND;
    let probe = world.ask().unwrap();
    assert_eq!(world.hear(probe, Verdict::Nothing), None);
    assert!(world.state.is_open());
    let next = world.ask().unwrap();
    assert_eq!(world.ask().unwrap_err(), Skip::Probing);
    assert_eq!(world.hear(next, Verdict::Succeeded), Some(Change::Closed));
}

#[test]
fn requests_of_an_earlier_time_say_nothing() {
    let mut world = World::new();
    let slow: Vec<_> = (0..3).map(|_| world.ask().unwrap()).collect();
    world.ends([Verdict::Failed; 5]);
    world.now += 30 * SECOND;
    let probe = world.ask().unwrap();
    assert_eq!(world.hear(slow[0], Verdict::Failed), None);
    assert_eq!(world.hear(slow[1], Verdict::Succeeded), None);
    assert_eq!(world.hear(slow[2], Verdict::Nothing), None);
    assert_eq!(world.ask().unwrap_err(), Skip::Probing);
    assert_eq!(world.hear(probe, Verdict::Succeeded), Some(Change::Closed));
}

#[test]
fn a_provider_is_left_alone_as_long_as_it_asks_for() {
    let mut world = World::new();
    world.state.leave_alone(world.now + 7 * SECOND);
    world.state.leave_alone(world.now + 3 * SECOND);
    assert_eq!(world.ask().unwrap_err(), Skip::Asked(7 * SECOND));
    world.now += 7 * SECOND;
    assert!(world.ask().is_ok());
    assert!(!world.state.is_open());

    let mut world = World::open();
    world.state.leave_alone(world.now + 7 * SECOND);
    assert_eq!(world.ask().unwrap_err(), Skip::Open(30 * SECOND));
    world.state.leave_alone(world.now + 90 * SECOND);
    assert_eq!(world.ask().unwrap_err(), Skip::Asked(90 * SECOND));
    world.now += 90 * SECOND;
    assert!(world.ask().is_ok());
    assert_eq!(world.ask().unwrap_err(), Skip::Probing);
}

/// What happens to a breaker.
#[derive(Clone, Debug)]
enum Act {
    Pass(Duration),
    Ask,
    /// The oldest, newest, … request that has not ended.
    Hear(usize, Verdict),
    LeaveAlone(Duration),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    use Verdict::{Answers, Failed, Nothing, Succeeded};
    let verdict = prop_oneof![
        6 => Just(Failed),
        4 => Just(Succeeded),
        1 => Just(Nothing),
        2 => Just(Answers)
    ];
    let act = prop_oneof![
        3 => (0..4_000_u64).prop_map(|millis| Act::Pass(Duration::from_millis(millis))),
        1 => (0..70_u64).prop_map(|seconds| Act::Pass(Duration::from_secs(seconds))),
        8 => Just(Act::Ask),
        8 => (any::<usize>(), verdict).prop_map(|(which, verdict)| Act::Hear(which, verdict)),
        1 => (0..60_u64).prop_map(|seconds| Act::LeaveAlone(Duration::from_secs(seconds))),
    ];
    vec(act, 0..400)
}

/// Everything that ever happened, and the rules read off it each time.
struct Reference {
    now: Instant,
    /// When each request ended that counted, and whether it failed, since the breaker was last closed.
    ends: Vec<(Instant, bool)>,
    opened: Option<Instant>,
    probing: bool,
    openings: usize,
    waits: Vec<Instant>,
}

impl Reference {
    fn lets_through(&self) -> bool {
        let is_left_alone = self.waits.iter().any(|&until| self.now < until);
        let is_open = self.opened.is_some_and(|opened| self.now < opened + rules().open);
        !(is_left_alone || is_open || self.probing)
    }

    fn ask(&mut self) {
        self.probing = self.opened.is_some();
    }

    fn hear(&mut self, begun_after: usize, verdict: Verdict) {
        if begun_after != self.openings {
            return;
        }
        match (verdict, self.opened) {
            (Verdict::Answers | Verdict::Succeeded, Some(_)) => self.close(),
            (Verdict::Failed, Some(_)) => self.open(),
            (Verdict::Nothing, Some(_)) => self.probing = false,
            (Verdict::Answers | Verdict::Nothing, None) => {}
            (Verdict::Succeeded, None) => self.ends.push((self.now, false)),
            (Verdict::Failed, None) => {
                self.ends.push((self.now, true));
                if self.is_too_much() {
                    self.open();
                }
            }
        }
    }

    fn is_too_much(&self) -> bool {
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
    fn it_does_what_the_rules_say(acts in acts()) {
        let mut state = State::new(rules());
        let mut reference = Reference {
            now: Instant::now(),
            ends: Vec::new(),
            opened: None,
            probing: false,
            openings: 0,
            waits: Vec::new(),
        };
        // Each with the number of openings before it, and whether it was heard to be answered.
        let mut running: Vec<(Ticket, usize, bool)> = Vec::new();
        for act in acts {
            match act {
                Act::Pass(time) => reference.now += time,
                Act::Ask => {
                    let asked = state.ask(reference.now);
                    prop_assert_eq!(asked.is_ok(), reference.lets_through());
                    if let Ok(ticket) = asked {
                        reference.ask();
                        running.push((ticket, reference.openings, false));
                    }
                }
                Act::Hear(which, verdict) if !running.is_empty() => {
                    let which = which % running.len();
                    let (ticket, begun_after, answers) = running[which];
                    if verdict == Verdict::Answers {
                        if answers {
                            continue;
                        }
                        running[which].2 = true;
                    } else {
                        running.swap_remove(which);
                    }
                    state.hear(ticket, verdict, reference.now);
                    reference.hear(begun_after, verdict);
                }
                Act::Hear(..) => {}
                Act::LeaveAlone(wait) => {
                    state.leave_alone(reference.now + wait);
                    reference.waits.push(reference.now + wait);
                }
            }
            prop_assert_eq!(state.is_open(), reference.opened.is_some());
            prop_assert_eq!(state.skip(reference.now).is_none(), reference.lets_through());
        }
    }
}
