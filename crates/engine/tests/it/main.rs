//! The engine over real ports, on paused time.

mod model;
mod prompts;
mod world;
