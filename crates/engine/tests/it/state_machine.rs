//! Model-based test: random sequences of what clients, providers and time can do to the engine, checked
//! against a small reference model after every action.

mod actions;
mod reference_model;
mod runner;

use proptest::prelude::*;

use crate::state_machine::actions::{Action, action};
use crate::state_machine::runner::Runner;
use crate::stores::{InMemoryBackend, OnDiskBackend, StoreBackend};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_the_reference_model(actions in prop::collection::vec(action(), 1..60)) {
        check(InMemoryBackend, &actions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, failure_persistence: None, max_shrink_iters: 50, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_over_a_durable_store_through_restarts_and_crashes(
        actions in prop::collection::vec(action(), 1..60),
    ) {
        check(OnDiskBackend::new(), &actions);
    }
}

/// Applies the actions to an engine over a store and to the reference model.
fn check(backend: impl StoreBackend + 'static, actions: &[Action]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let mut runner = Runner::new(Box::new(backend)).await;
        for action in actions {
            runner.apply(action).await;
        }
        runner.finish().await;
    });
}
