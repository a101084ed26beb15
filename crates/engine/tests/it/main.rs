//! The engine over real ports, on paused time.

mod model;
mod places;
mod prompts;
mod world;
