//! The binary `wellspring`.
//!
//! It reads what surrounds the process (arguments, environment, the settings file), in `commands` and `settings`, and wires
//! the crates below, in `wiring`, which get everything as values. The parts in their order:
//!
//! - `commands`: one file per subcommand; each returns a [`CommandError`](commands::CommandError), which `main` prints.
//! - `settings`: file, environment and flags, merged, validated once, and documented in `docs/settings.md`.
//! - `wiring`: the one place that knows which provider, store and index stand behind the ports.
//! - `warmup`: fills the prefix cache of models in this process while no prompt runs.
//! - `running_server`: `server.json` in the data folder, by which commands find the server.
//! - `service_manager`, `open_file_limit`, `malloc_trim`, `logging`: the server among other processes.
//! - `stderr`: progress and notes.
//!
//! Invariants: only this crate reads the environment. A command beside a running server never opens the index, which the
//! server has locked: it goes through the server, or writes the catalog only, which the server follows.

#[macro_use]
mod stderr;

mod commands;
mod logging;
mod malloc_trim;
mod open_file_limit;
mod running_server;
mod service_manager;
mod settings;
mod warmup;
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
            statusln!("wellspring: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The environment, read once. Text that is not Unicode gets replacement characters, so that a setting in it is refused by
/// name instead of being overlooked.
fn environment() -> Environment {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect()
}
