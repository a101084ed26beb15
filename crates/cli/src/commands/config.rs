//! `wellspring config`: the settings in force, and what is wrong with them.

use std::error::Error;
use std::io::{self, Write};

use clap::Subcommand;

use super::ConfigFlag;
use crate::settings::{self, Environment, Flags, Settings, Sources, Tree};

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Prints the settings in force as TOML, secrets masked, each with where it comes from
    Show(ConfigFlag),
    /// Tells everything that is wrong with the settings
    Check(ConfigFlag),
}

/// Shows or checks the settings that a server started here and now would have.
pub(super) fn run(config: &Config, environment: &Environment) -> Result<(), Box<dyn Error>> {
    let (Config::Show(flag) | Config::Check(flag)) = config;
    let file = flag.read(environment)?;
    let sources = Sources { file: file.as_ref(), environment, flags: &Flags::default() };
    let tree = Tree::merge(&sources)?;
    let settings = Settings::resolve(&tree, environment)?;
    let text = match (config, &file) {
        (Config::Show(_), _) => settings::show(&settings, &tree),
        (Config::Check(_), Some(file)) => format!("ok: {}\n", file.path.display()),
        (Config::Check(_), None) => "ok: no settings file; defaults and environment\n".to_owned(),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
