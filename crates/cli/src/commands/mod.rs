//! The command line: one file a command.

mod config;
mod serve;

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::settings::{Environment, SettingsFile};

/// Answers questions about your code and documents, token by token, with the sources it used.
#[derive(Debug, Parser)]
#[command(name = "wellspring", version, arg_required_else_help = true, after_help = SETTINGS_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const SETTINGS_HELP: &str = "\
Settings come from a TOML file, then from environment variables (WELLSPRING__SECTION__KEY, for example
WELLSPRING__LIMITS__CONCURRENT_STREAMS=50), then from flags; the later one holds. Every key has a default:
`wellspring config show` prints them all.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server
    Serve(serve::Serve),
    /// Shows or checks the settings
    #[command(subcommand)]
    Config(config::Config),
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
}

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: Arguments, environment: &Environment) -> Result<(), Box<dyn Error>> {
    match arguments.command {
        Command::Serve(serve) => serve::run(serve, environment),
        Command::Config(config) => config::run(&config, environment),
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
