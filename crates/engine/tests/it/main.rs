//! The engine over real ports, on paused time.

mod admission;
mod answers;
mod ending;
mod follow_ups;
mod harness;
mod passages;
mod selections;
mod sessions;
mod state_machine;
mod stores;
