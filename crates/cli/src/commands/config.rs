//! `wellspring config`: the settings in force, and what is wrong with them.

use std::error::Error;
use std::fmt::Write;

use clap::Subcommand;

use super::{ConfigFlag, print};
use crate::settings::{self, Environment, Flags, Settings, Sources};

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
    let (settings, tree) = Settings::load(&sources)?;
    if let Config::Show(_) = config {
        return Ok(print(&settings::show(&settings, &tree))?);
    }
    let mut text = match file {
        Some(file) => format!("ok: {}\n", file.path.display()),
        None => "ok: no settings file; defaults and environment\n".to_owned(),
    };
    for remark in settings::remarks(&settings, &tree, environment) {
        writeln!(text, "  {remark}")?;
    }
    Ok(print(&text)?)
}
