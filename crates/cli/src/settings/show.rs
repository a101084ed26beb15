//! The settings in force, as a person reads them: TOML, with where each value comes from.

use super::Settings;
use super::sources::Source;
use super::tree::Tree;

/// The settings as TOML, complete with defaults, secrets masked. What is not a default has its source
/// beside it.
pub(crate) fn show(settings: &Settings, tree: &Tree) -> String {
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
            match tree.source(&format!("{table}{key}")) {
                Source::Default => {}
                source => shown.push_str(&format!("  # {source}")),
            }
        }
        shown.push('\n');
    }
    shown
}
