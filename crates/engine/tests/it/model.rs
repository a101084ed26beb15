//! Random sequences of everything that clients, providers and time can do to the engine, checked against a
//! small reference model after every step.

mod reference;
mod steps;

use proptest::prelude::*;

use crate::model::steps::{Step, step};
use crate::places::{InMemory, OnDisk, Place};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_reference_model_says(steps in prop::collection::vec(step(), 1..60)) {
        check(InMemory, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, max_shrink_iters: 50, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_so_over_a_store_on_disk_too_through_restarts_and_crashes(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        check(OnDisk::new(), &steps);
    }
}

/// Plays the steps on an engine over a store, and on the reference model.
fn check(place: impl Place + 'static, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let mut play = steps::Play::new(Box::new(place)).await;
        for step in steps {
            play.step(step).await;
        }
        play.end().await;
    });
}
