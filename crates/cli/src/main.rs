//! The binary `wellspring`. Everything it reads of its surroundings (arguments, environment, the settings
//! file) is read here and in `commands`; whatever lies below gets it as a value.

mod ahead;
mod commands;
mod files;
mod logging;
mod memory;
mod running;
mod service;
mod settings;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

use commands::Arguments;
use settings::Environment;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match commands::run(arguments, &environment()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wellspring: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The environment, read once. What is not Unicode is kept with replacement characters, so that a setting
/// in it is refused by name instead of being overlooked.
fn environment() -> Environment {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect()
}
