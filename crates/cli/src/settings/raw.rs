//! The settings as typed, merged from all sources, each value with its origin. What a key means and whether it exists is
//! not known here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{SettingProblem, SettingsError};
use super::renamed::{self, RenamedSetting};
use super::sources::{SettingOrigin, SettingsFile, SettingsSources};

const PREFIX: &str = "WELLSPRING__";

/// All values that were given, by their keys.
#[derive(Clone, Debug)]
pub(crate) struct RawSettings {
    pub(super) root: RawNode,
    /// Values that were given under an old key.
    pub(super) renamed: Vec<RenamedSetting>,
}

/// A value that was given, or a table of them.
#[derive(Clone, Debug)]
pub(super) struct RawNode {
    pub(super) value: RawValue,
    pub(super) origin: SettingOrigin,
}

#[derive(Clone, Debug)]
pub(super) enum RawValue {
    Table(BTreeMap<String, RawNode>),
    List(Vec<RawNode>),
    /// A string of the file.
    Text(String),
    /// A number, boolean or date of the file, in decimal.
    Bare(String),
    /// From the environment or a flag, where everything is text: it takes the type of its key.
    Untyped(String),
}

/// No value was given.
impl Default for RawSettings {
    fn default() -> Self {
        let root = RawNode { value: RawValue::Table(BTreeMap::new()), origin: SettingOrigin::Default };
        Self { root, renamed: Vec::new() }
    }
}

impl RawSettings {
    /// Merges the sources and moves values from old keys to new ones. Fails only if the file is not TOML.
    pub(crate) fn merge(sources: &SettingsSources<'_>) -> Result<Self, SettingsError> {
        let mut raw = sources.file.map_or_else(|| Ok(Self::default()), parse)?;
        let name = "MAX_CONCURRENT_STREAMS";
        if let Some(text) = sources.environment.get(name) {
            raw.set(&["limits", "concurrent_streams"], text, &SettingOrigin::Environment(name.to_owned()));
        }
        for (name, text) in sources.environment {
            let (start, key) = name.split_at_checked(PREFIX.len()).unwrap_or_default();
            if start.eq_ignore_ascii_case(PREFIX) {
                let path: Vec<_> = key.split("__").collect();
                raw.set(&path, text, &SettingOrigin::Environment(name.clone()));
            }
        }
        if let Some(text) = &sources.flags.bind {
            raw.set(&["server", "bind"], text, &SettingOrigin::Flag("--bind"));
        }
        renamed::rename(&mut raw);
        Ok(raw)
    }

    /// Where the value of a key comes from: `generation.providers`, or `generation.orders[1].owner`.
    pub(super) fn origin(&self, key: &str) -> SettingOrigin {
        let mut node = &self.root;
        for part in key.split(['.', '[']) {
            let next = match (&node.value, part.strip_suffix(']')) {
                (RawValue::List(items), Some(index)) => {
                    index.parse().ok().and_then(|index: usize| items.get(index))
                }
                (RawValue::Table(entries), None) => entries.get(part),
                // The items of a list in an environment variable come from that variable.
                (RawValue::Untyped(_), _) => Some(node),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => return SettingOrigin::Default,
            }
        }
        node.origin.clone()
    }

    /// Removes and returns the value at a path.
    pub(super) fn remove(&mut self, path: &[impl AsRef<str>]) -> Option<RawNode> {
        let (last, parents) = path.split_last()?;
        let mut node = &mut self.root;
        for key in parents {
            let RawValue::Table(entries) = &mut node.value else { return None };
            node = entries.get_mut(key.as_ref())?;
        }
        let RawValue::Table(entries) = &mut node.value else { return None };
        entries.remove(last.as_ref())
    }

    /// Inserts a value at a path whose tables exist, unless there is one already.
    pub(super) fn insert_if_absent(&mut self, path: &[&str], inserted: RawNode) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut node = &mut self.root;
        for key in parents {
            let RawValue::Table(entries) = &mut node.value else { return };
            let Some(next) = entries.get_mut(*key) else { return };
            node = next;
        }
        if let RawValue::Table(entries) = &mut node.value {
            entries.entry((*last).to_owned()).or_insert(inserted);
        }
    }

    /// Sets a value, ignoring the case of its path's letters. Where a table is needed and another value was given, that
    /// value stays, and reading it will fail.
    fn set(&mut self, path: &[&str], text: &str, origin: &SettingOrigin) {
        let mut node = &mut self.root;
        for (depth, part) in path.iter().enumerate() {
            let RawValue::Table(entries) = &mut node.value else { return };
            let known = entries.keys().find(|key| key.eq_ignore_ascii_case(part));
            let key = known.cloned().unwrap_or_else(|| part.to_ascii_lowercase());
            if depth + 1 == path.len() {
                let value = RawValue::Untyped(text.to_owned());
                entries.insert(key, RawNode { value, origin: origin.clone() });
                return;
            }
            node = entries.entry(key).or_insert_with(|| RawNode {
                value: RawValue::Table(BTreeMap::new()),
                origin: origin.clone(),
            });
        }
    }
}

fn parse(file: &SettingsFile) -> Result<RawSettings, SettingsError> {
    let path: Arc<Path> = Arc::from(file.path.as_path());
    let line = |offset: usize| 1 + file.text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
    let at = |offset: usize| SettingOrigin::File(path.clone(), line(offset));
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    if errors.is_empty() {
        let value = value_of(DeValue::Table(table.into_inner()), &at);
        return Ok(RawSettings { root: RawNode { value, origin: at(0) }, renamed: Vec::new() });
    }
    let problem = |error: toml::de::Error| SettingProblem {
        key: None,
        origin: at(error.span().map_or(0, |span| span.start)),
        why: format!("this is not TOML: {}", error.message()).into(),
    };
    Err(SettingsError::Invalid(errors.into_iter().map(problem).collect()))
}

/// A value of the file, with the line of each key and item.
fn value_of(value: DeValue<'_>, at: &dyn Fn(usize) -> SettingOrigin) -> RawValue {
    let node = |offset: usize, value: Spanned<DeValue<'_>>| RawNode {
        value: value_of(value.into_inner(), at),
        origin: at(offset),
    };
    match value {
        DeValue::Table(table) => {
            let entry = |(key, value): (Spanned<_>, _)| {
                let offset = key.span().start;
                (String::from(key.into_inner()), node(offset, value))
            };
            RawValue::Table(table.into_iter().map(entry).collect())
        }
        DeValue::Array(items) => {
            RawValue::List(items.into_iter().map(|item| node(item.span().start, item)).collect())
        }
        DeValue::String(text) => RawValue::Text(text.into_owned()),
        DeValue::Integer(integer) => {
            let decimal = i128::from_str_radix(integer.as_str(), integer.radix());
            RawValue::Bare(decimal.map_or_else(|_| integer.to_string(), |number| number.to_string()))
        }
        DeValue::Float(float) => RawValue::Bare(float.to_string()),
        DeValue::Boolean(boolean) => RawValue::Bare(boolean.to_string()),
        DeValue::Datetime(date) => RawValue::Bare(date.to_string()),
    }
}

/// The items of a list that was given as text: a TOML array, or texts with commas between them.
pub(super) fn items_of(text: &str, origin: &SettingOrigin) -> Vec<RawNode> {
    if let Ok(DeValue::Array(items)) = DeValue::parse(text.trim()).map(Spanned::into_inner) {
        let item = |item: Spanned<_>| RawNode {
            value: value_of(item.into_inner(), &|_| origin.clone()),
            origin: origin.clone(),
        };
        return items.into_iter().map(item).collect();
    }
    let texts = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let node = |item: &str| RawNode { value: RawValue::Untyped(item.to_owned()), origin: origin.clone() };
    texts.map(node).collect()
}
