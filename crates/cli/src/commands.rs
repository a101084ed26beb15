//! The command line: one file per subcommand.

mod ask;
mod backup;
mod config;
mod error;
mod eval;
mod health;
mod ingest;
mod models;
mod reindex;
mod search;
mod serve;
mod server_client;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::settings::{Environment, Flags, Settings, SettingsError, SettingsFile, SettingsSources};
pub(crate) use error::CommandError;

/// Answers questions about your code and documents, token by token, with the sources it used.
#[derive(Debug, Parser)]
#[command(name = "wellspring", version, arg_required_else_help = true, after_help = SETTINGS_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const SETTINGS_HELP: &str = "\
Settings come from a TOML file, then from environment variables (WELLSPRING__SECTION__KEY, for example
WELLSPRING__LIMITS__CONCURRENT_STREAMS=50), then from flags; the later one wins, and all have defaults.
`wellspring config show` prints the settings in force; docs/settings.md describes each of them.";

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
    /// Embeds chunks that lack a vector of the configured model, and rebuilds the index
    Reindex(reindex::Reindex),
    /// Copies the databases, also while the server runs
    Backup(backup::Backup),
    /// Reports the health of the running server
    Health(health::Health),
    /// Shows or checks the settings
    #[command(subcommand)]
    Config(config::Config),
    /// Measures retrieval on questions whose answers are known
    Eval(eval::Eval),
    /// Lists or pulls the models that run in this process
    #[command(subcommand)]
    Models(models::Models),
}

#[derive(Args, Clone, Debug)]
struct ConfigFlag {
    /// The settings file [default: wellspring/wellspring.toml in the XDG config directory, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFlag {
    fn read(&self, environment: &Environment) -> Result<Option<SettingsFile>, SettingsError> {
        SettingsFile::read(self.config.as_deref(), environment)
    }

    /// The settings in force, for a command without flags that are settings.
    fn settings(&self, environment: &Environment) -> Result<Settings, SettingsError> {
        let file = self.read(environment)?;
        let sources = SettingsSources { file: file.as_ref(), environment, flags: &Flags::default() };
        Ok(Settings::load(&sources)?.0)
    }
}

/// Runs the command that the arguments name, and returns the exit code of the process.
pub(crate) fn run(arguments: Arguments, environment: &Environment) -> Result<ExitCode, CommandError> {
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

/// Writes to standard output. A reader that closes it early is not an error.
fn print(text: &str) -> Result<(), CommandError> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Stdout(error)),
        _ => Ok(()),
    }
}
