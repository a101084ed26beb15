//! `wellspring config`: the settings in force, and what is wrong with them.

use clap::Subcommand;

use super::{CommandError, ConfigFlag, print};
use crate::settings::{self, Environment, Flags, Settings, SettingsSources};

/// Shows or checks the settings
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Prints the settings in force as TOML, secrets masked, each with its origin
    Show(ConfigFlag),
    /// Reports everything that is wrong with the settings
    Check(ConfigFlag),
}

/// Shows or checks the settings that a server started here and now would have.
pub(super) fn run(config: &Config, environment: &Environment) -> Result<(), CommandError> {
    let (Config::Show(flag) | Config::Check(flag)) = config;
    let file = flag.read(environment)?;
    let sources = SettingsSources { file: file.as_ref(), environment, flags: &Flags::default() };
    let (settings, raw) = Settings::load(&sources)?;
    if let Config::Show(_) = config {
        return print(&settings::show(&settings, &raw));
    }
    let mut text = match file {
        Some(file) => format!("ok: {}\n", file.path.display()),
        None => "ok: no settings file; defaults and environment\n".to_owned(),
    };
    for warning in settings::warnings(&settings, &raw, environment) {
        text.push_str(&format!("  {warning}\n"));
    }
    print(&text)
}
