//! The command line: one file a command.

mod ask;
mod backup;
mod calls;
mod config;
mod eval;
mod health;
mod ingest;
mod models;
mod reindex;
mod search;
mod serve;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::settings::{Environment, Flags, Settings, SettingsFile, Sources};

/// Answers questions about your code and documents, token by token, with the sources it used.
#[derive(Debug, Parser)]
#[command(name = "wellspring", version, arg_required_else_help = true, after_help = SETTINGS_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const SETTINGS_HELP: &str = "\
Settings come from a TOML file, then from environment variables (WELLSPRING__SECTION__KEY, for example
WELLSPRING__LIMITS__CONCURRENT_STREAMS=50), then from flags; the later one holds, and all have defaults.
`wellspring config show` prints everything that is in force.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server
    Serve(serve::Serve),
    /// Reads folders and repositories into the knowledge base
    Ingest(ingest::Ingest),
    /// Answers a question, with its sources
    Ask(ask::Ask),
    /// Finds passages
    Search(search::Search),
    /// Embeds what lacks a vector of the configured model and makes the index anew
    Reindex(reindex::Reindex),
    /// Copies what is kept, also while the server runs
    Backup(backup::Backup),
    /// Tells how the server is that runs
    Health(health::Health),
    /// Shows or checks the settings
    #[command(subcommand)]
    Config(config::Config),
    /// Measures what is found for questions whose answers are known
    Eval(eval::Eval),
    /// Lists or fetches the models that run in this process
    #[command(subcommand)]
    Models(models::Models),
}

/// Which settings file to read.
#[derive(Args, Clone, Debug)]
struct ConfigFlag {
    /// The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFlag {
    fn read(&self, environment: &Environment) -> Result<Option<SettingsFile>, String> {
        SettingsFile::read(self.config.as_deref(), environment)
    }

    /// The settings in force, for a command without flags of its own for them.
    fn settings(&self, environment: &Environment) -> Result<Settings, Box<dyn Error>> {
        let file = self.read(environment)?;
        let sources = Sources { file: file.as_ref(), environment, flags: &Flags::default() };
        Ok(Settings::load(&sources)?.0)
    }
}

/// Runs the command that the arguments name, and tells what the process is to end with.
pub(crate) fn run(arguments: Arguments, environment: &Environment) -> Result<ExitCode, Box<dyn Error>> {
    match arguments.command {
        Command::Ask(ask) => return ask::run(&ask, environment),
        Command::Health(health) => return health::run(&health, environment),
        Command::Backup(backup) => backup::run(&backup, environment),
        Command::Serve(serve) => serve::run(serve, environment),
        Command::Ingest(ingest) => ingest::run(&ingest, environment),
        Command::Search(search) => search::run(&search, environment),
        Command::Reindex(reindex) => reindex::run(&reindex, environment),
        Command::Config(config) => config::run(&config, environment),
        Command::Eval(eval) => eval::run(&eval, environment),
        Command::Models(models) => models::run(&models, environment),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Writes to standard output. Whoever closes it early has read enough.
fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
