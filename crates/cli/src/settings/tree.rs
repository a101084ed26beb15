//! The settings as typed, merged from all sources, each value with where it comes from. What a key means
//! and whether it exists is not known here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, Problems};
use super::sources::{SettingsFile, Source, Sources};

const PREFIX: &str = "WELLSPRING__";

/// All values that were given, by their keys.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(super) root: Node,
}

/// A value that was given, or a table of them.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) source: Source,
}

/// What was given.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Table(BTreeMap<String, Node>),
    List(Vec<Node>),
    /// A string of the file.
    Text(String),
    /// A number, boolean or date of the file, in decimal.
    Bare(String),
    /// From the environment or a flag, where everything is text: it has the type that is asked for.
    Untyped(String),
}

/// Nothing was given.
impl Default for Tree {
    fn default() -> Self {
        Self { root: Node { value: Value::Table(BTreeMap::new()), source: Source::Default } }
    }
}

impl Tree {
    /// Merges the sources. Fails only if the file is not TOML.
    pub(crate) fn merge(sources: &Sources<'_>) -> Result<Self, Problems> {
        let mut tree = sources.file.map_or_else(|| Ok(Self::default()), parse)?;
        let name = "MAX_CONCURRENT_STREAMS";
        if let Some(text) = sources.environment.get(name) {
            tree.set(&["limits", "concurrent_streams"], text, &Source::Environment(name.to_owned()));
        }
        for (name, text) in sources.environment {
            let (start, key) = name.split_at_checked(PREFIX.len()).unwrap_or_default();
            if start.eq_ignore_ascii_case(PREFIX) {
                let path: Vec<_> = key.split("__").collect();
                tree.set(&path, text, &Source::Environment(name.clone()));
            }
        }
        if let Some(text) = &sources.flags.bind {
            tree.set(&["server", "bind"], text, &Source::Flag("--bind"));
        }
        Ok(tree)
    }

    /// Where the value of a key comes from: `generation.providers`, or `generation.orders[1].owner`.
    pub(super) fn source(&self, key: &str) -> Source {
        let mut node = &self.root;
        for part in key.split(['.', '[']) {
            let next = match (&node.value, part.strip_suffix(']')) {
                (Value::List(items), Some(index)) => {
                    index.parse().ok().and_then(|index: usize| items.get(index))
                }
                (Value::Table(entries), None) => entries.get(part),
                // The parts of a list in an environment variable come from that variable.
                (Value::Untyped(_), _) => Some(node),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => return Source::Default,
            }
        }
        node.source.clone()
    }

    /// Forgets the value at a path, as if it had not been given. False if there is none.
    pub(super) fn remove(&mut self, path: &[String]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut node = &mut self.root;
        for key in parents {
            let Value::Table(entries) = &mut node.value else { return false };
            let Some(next) = entries.get_mut(key) else { return false };
            node = next;
        }
        let Value::Table(entries) = &mut node.value else { return false };
        entries.remove(last).is_some()
    }

    /// Sets a value, whatever the case of its path's letters. Where a table is needed and something else
    /// was given, that stays and will be refused.
    fn set(&mut self, path: &[&str], text: &str, source: &Source) {
        let mut node = &mut self.root;
        for (depth, part) in path.iter().enumerate() {
            let Value::Table(entries) = &mut node.value else { return };
            let known = entries.keys().find(|key| key.eq_ignore_ascii_case(part));
            let key = known.cloned().unwrap_or_else(|| part.to_ascii_lowercase());
            if depth + 1 == path.len() {
                let value = Value::Untyped(text.to_owned());
                entries.insert(key, Node { value, source: source.clone() });
                return;
            }
            node = entries
                .entry(key)
                .or_insert_with(|| Node { value: Value::Table(BTreeMap::new()), source: source.clone() });
        }
    }
}

fn parse(file: &SettingsFile) -> Result<Tree, Problems> {
    let path: Arc<Path> = Arc::from(file.path.as_path());
    let line = |offset: usize| 1 + file.text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
    let at = |offset: usize| Source::File(path.clone(), line(offset));
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    if errors.is_empty() {
        let value = value_of(DeValue::Table(table.into_inner()), &at);
        return Ok(Tree { root: Node { value, source: at(0) } });
    }
    let problem = |error: toml::de::Error| Problem {
        key: None,
        source: at(error.span().map_or(0, |span| span.start)),
        message: format!("this is not TOML: {}", error.message()),
    };
    Err(Problems(errors.into_iter().map(problem).collect()))
}

/// A value of the file, whose keys and items know their places in it.
fn value_of(value: DeValue<'_>, at: &dyn Fn(usize) -> Source) -> Value {
    let node = |place: usize, value: Spanned<DeValue<'_>>| Node {
        value: value_of(value.into_inner(), at),
        source: at(place),
    };
    match value {
        DeValue::Table(table) => {
            let entry = |(key, value): (Spanned<_>, _)| {
                let place = key.span().start;
                (String::from(key.into_inner()), node(place, value))
            };
            Value::Table(table.into_iter().map(entry).collect())
        }
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node(item.span().start, item)).collect())
        }
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(integer) => {
            let decimal = i128::from_str_radix(integer.as_str(), integer.radix());
            Value::Bare(decimal.map_or_else(|_| integer.to_string(), |number| number.to_string()))
        }
        DeValue::Float(float) => Value::Bare(float.to_string()),
        DeValue::Boolean(boolean) => Value::Bare(boolean.to_string()),
        DeValue::Datetime(date) => Value::Bare(date.to_string()),
    }
}

/// The items of a list that was given as text: a TOML array, or texts with commas between them.
pub(super) fn items_of(text: &str, source: &Source) -> Vec<Node> {
    if let Ok(DeValue::Array(items)) = DeValue::parse(text.trim()).map(Spanned::into_inner) {
        let item = |item: Spanned<_>| Node {
            value: value_of(item.into_inner(), &|_| source.clone()),
            source: source.clone(),
        };
        return items.into_iter().map(item).collect();
    }
    let texts = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    texts.map(|item| Node { value: Value::Untyped(item.to_owned()), source: source.clone() }).collect()
}
