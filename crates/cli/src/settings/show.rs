//! The settings in force as TOML, with where each value comes from.

use super::Settings;
use super::raw::RawSettings;
use super::sources::SettingOrigin;

/// All settings as TOML, with defaults, and secrets masked. A value that is not a default has its origin beside it.
pub(crate) fn show(settings: &Settings, raw: &RawSettings) -> String {
    let text = toml::to_string(settings).expect("settings are tables of plain values, which TOML can write");
    let (mut table, mut shown) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
            let index = shown.lines().filter(|earlier| *earlier == line).count();
            table = format!("{name}[{index}].");
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
        }
        shown.push_str(line);
        if let Some((key, _)) = line.split_once(" = ") {
            match raw.origin(&format!("{table}{key}")) {
                SettingOrigin::Default => {}
                origin => shown.push_str(&format!("  # {origin}")),
            }
        }
        shown.push('\n');
    }
    shown
}
