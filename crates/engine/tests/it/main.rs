//! The engine over real ports, on paused time.

mod conversations;
mod model;
mod passages;
mod places;
mod prompts;
mod rewriting;
mod selections;
mod world;
