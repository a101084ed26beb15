//! From the ranges that a query captured to an outline.

use std::cmp::Reverse;
use std::ops::Range;

use tree_sitter::{QueryCursor, StreamingIterator, Tree};

use super::Grammar;
use crate::lines;
use crate::outline::{MAX_DEPTH, Manner, Outline, Part, Scope, ScopeKind};

/// Definitions that lie deeper in the tree are not looked for: there would be too many scopes around them.
const MAX_TREE_DEPTH: u32 = 64;

/// The outline of a tree.
pub(super) fn outline(grammar: &Grammar, tree: &Tree, text: &str) -> Outline {
    let captured = Captured::from(grammar, tree, text);
    let mut sweep = Sweep {
        text,
        leads: &captured.leads,
        open: Vec::new(),
        outline: Outline::unstructured(Manner::Code),
    };
    for definition in &captured.definitions {
        sweep.take(definition);
    }
    sweep.close_before(usize::MAX);
    sweep.outline
}

/// What a query found, in the order of the text, what is around before what is inside.
struct Captured {
    definitions: Vec<Definition>,
    leads: Vec<Range<usize>>,
}

struct Definition {
    kind: ScopeKind,
    range: Range<usize>,
    name: Range<usize>,
    body: Option<usize>,
}

impl Captured {
    fn from(grammar: &Grammar, tree: &Tree, text: &str) -> Self {
        let query = grammar.query();
        let mut captured = Self { definitions: Vec::new(), leads: Vec::new() };
        let mut cursor = QueryCursor::new();
        cursor.set_max_start_depth(Some(MAX_TREE_DEPTH));
        let mut matches = cursor.matches(query, tree.root_node(), text.as_bytes());
        while let Some(found) = matches.next() {
            let (mut kind, mut name, mut body) = (None, None, None);
            for capture in found.captures() {
                let range = capture.node.byte_range();
                match query.capture_names()[capture.index as usize] {
                    "space" => kind = Some((ScopeKind::Space, range)),
                    "type" => kind = Some((ScopeKind::Type, range)),
                    "function" => kind = Some((ScopeKind::Function, range)),
                    "name" => name = Some(range),
                    "body" => body = Some(range.start),
                    _ => captured.leads.push(range),
                }
            }
            if let (Some((kind, range)), Some(name)) = (kind, name) {
                captured.definitions.push(Definition { kind, range, name, body });
            }
        }
        captured.definitions.sort_by_key(|definition| outside_in(&definition.range));
        captured.leads.sort_by_key(outside_in);
        captured
    }
}

fn outside_in(range: &Range<usize>) -> (usize, Reverse<usize>) {
    (range.start, Reverse(range.end))
}

/// Goes over the definitions in order, with those open around the current one.
struct Sweep<'a> {
    text: &'a str,
    leads: &'a [Range<usize>],
    open: Vec<Open>,
    outline: Outline,
}

struct Open {
    end: usize,
    name: Range<usize>,
    scope: usize,
    level: u8,
    /// The level of what is inside: a module is as flat as a file.
    inner_level: u8,
}

impl Sweep<'_> {
    fn take(&mut self, definition: &Definition) {
        self.close_before(definition.range.start);
        // An exported or decorated definition is captured with its wrapping and without.
        let is_wrapped = self.open.last().is_some_and(|open| open.name == definition.name);
        if is_wrapped || self.open.len() == MAX_DEPTH {
            return;
        }
        let parent = self.open.last().map(|open| open.scope);
        let level = self.open.last().map_or(0, |open| open.inner_level);
        let scope = self.outline.scopes.len();
        self.outline.scopes.push(Scope::definition(
            definition.kind,
            definition.range.start,
            parent,
            &self.text[definition.name.clone()],
            self.signature(definition),
        ));
        self.begin(Part { start: self.with_leads(definition.range.start), level, scope: Some(scope) });
        self.open.push(Open {
            end: definition.range.end,
            name: definition.name.clone(),
            scope,
            level,
            inner_level: level + u8::from(definition.kind != ScopeKind::Space),
        });
    }

    /// Ends the definitions that are over before `at`. What follows one belongs to the scope around it, unless
    /// it is only that scope's closing brace.
    fn close_before(&mut self, at: usize) {
        while let Some(closed) = self.open.pop_if(|open| open.end <= at) {
            let around = self.open.last();
            let end = around.map_or(self.text.len(), |around| around.end);
            let start = self.after(closed.end).min(at);
            if start < end && self.text[start..end].contains(char::is_alphanumeric) {
                self.begin(Part { start, level: closed.level, scope: around.map(|around| around.scope) });
            }
        }
    }

    /// The first line after a definition that is not blank.
    fn after(&self, definition_end: usize) -> usize {
        let next_line = lines::end(self.text, definition_end);
        let rest = &self.text[next_line..];
        lines::start_if_blank_before(self.text, next_line + (rest.len() - rest.trim_start().len()))
    }

    /// Two parts that begin at one place are one: it separates as the stronger does and is named as the later.
    fn begin(&mut self, part: Part) {
        match self.outline.parts.last_mut() {
            Some(last) if part.start <= last.start => {
                *last = Part { level: last.level.min(part.level), scope: part.scope, ..*last };
            }
            _ => self.outline.parts.push(part),
        }
    }

    /// The start of a definition together with the comments and attributes right above it.
    fn with_leads(&self, definition: usize) -> usize {
        let mut start = lines::start_if_blank_before(self.text, definition);
        let before = self.leads.partition_point(|lead| lead.start < start);
        for lead in self.leads[..before].iter().rev() {
            let lead_start = lines::start_if_blank_before(self.text, lead.start);
            let is_on_its_own_line = lead_start == 0 || self.text[..lead_start].ends_with(['\n', '\r']);
            let lead_end = lead.start + self.text[lead.clone()].trim_end().len();
            if lead_end > start || !is_on_its_own_line || !is_right_above(&self.text[lead_end..start]) {
                break;
            }
            start = lead_start;
        }
        start
    }

    fn signature(&self, definition: &Definition) -> &str {
        let Range { start, end } = definition.range;
        let end = definition.body.unwrap_or_else(|| lines::end(self.text, start).min(end));
        self.text[start..end].trim_end_matches(|last: char| last.is_whitespace() || last == '{')
    }
}

fn is_right_above(gap: &str) -> bool {
    let line_ends = lines::lines(gap).filter(|(_, line)| line.ends_with(['\n', '\r'])).count();
    gap.trim().is_empty() && line_ends <= 1
}
