//! The real binary, from the outside.

mod binary;
mod client;
mod config;
mod demos;
mod logs;
mod serve;
mod stop;
