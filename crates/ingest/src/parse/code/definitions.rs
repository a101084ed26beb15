//! Builds the outline from the definitions that a grammar's query captures.

use std::cmp::Reverse;
use std::ops::Range;

use tree_sitter::{QueryCursor, StreamingIterator, Tree};

use super::Grammar;
use crate::parse::lines;
use crate::parse::outline::{MAX_DEPTH, Outline, Part, Scope, ScopeKind, TextKind};

/// Definitions deeper in the tree are ignored, to bound the number of nested scopes.
const MAX_TREE_DEPTH: u32 = 64;

/// The outline of a syntax tree.
pub(super) fn outline(grammar: &Grammar, tree: &Tree, text: &str) -> Outline {
    let captured = Captured::from(grammar, tree, text);
    let mut builder = OutlineBuilder {
        text,
        leading: &captured.leading,
        open: Vec::new(),
        outline: Outline::unstructured(TextKind::Code),
    };
    for definition in &captured.definitions {
        builder.add(definition);
    }
    builder.close_before(usize::MAX);
    builder.outline
}

/// The captures of a query, in the order of the text, outer before inner.
struct Captured {
    definitions: Vec<Definition>,
    leading: Vec<Range<usize>>,
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
        let mut captured = Self { definitions: Vec::new(), leading: Vec::new() };
        let mut cursor = QueryCursor::new();
        cursor.set_max_start_depth(Some(MAX_TREE_DEPTH));
        let mut matches = cursor.matches(query, tree.root_node(), text.as_bytes());
        while let Some(found) = matches.next() {
            let (mut kind, mut name, mut body) = (None, None, None);
            for capture in found.captures() {
                let range = capture.node.byte_range();
                match query.capture_names()[capture.index as usize] {
                    "namespace" => kind = Some((ScopeKind::Namespace, range)),
                    "type" => kind = Some((ScopeKind::Type, range)),
                    "function" => kind = Some((ScopeKind::Function, range)),
                    "name" => name = Some(range),
                    "body" => body = Some(range.start),
                    _ => captured.leading.push(range),
                }
            }
            if let (Some((kind, range)), Some(name)) = (kind, name) {
                captured.definitions.push(Definition { kind, range, name, body });
            }
        }
        captured.definitions.sort_by_key(|definition| outermost_first(&definition.range));
        captured.leading.sort_by_key(outermost_first);
        captured
    }
}

fn outermost_first(range: &Range<usize>) -> (usize, Reverse<usize>) {
    (range.start, Reverse(range.end))
}

/// Adds definitions in their order, with a stack of those that enclose the current position.
struct OutlineBuilder<'a> {
    text: &'a str,
    leading: &'a [Range<usize>],
    open: Vec<OpenDefinition>,
    outline: Outline,
}

struct OpenDefinition {
    end: usize,
    name: Range<usize>,
    scope: usize,
    level: u8,
    /// The level of definitions inside. A namespace does not add a level.
    inner_level: u8,
}

impl OutlineBuilder<'_> {
    fn add(&mut self, definition: &Definition) {
        self.close_before(definition.range.start);
        // An exported or decorated definition is captured twice, with and without its wrapper.
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
        self.push_part(Part {
            start: self.start_with_leading(definition.range.start),
            level,
            scope: Some(scope),
        });
        self.open.push(OpenDefinition {
            end: definition.range.end,
            name: definition.name.clone(),
            scope,
            level,
            inner_level: level + u8::from(definition.kind != ScopeKind::Namespace),
        });
    }

    /// Pops the definitions that end before `at`. Text after one belongs to the enclosing scope, unless it is
    /// only that scope's closing brace.
    fn close_before(&mut self, at: usize) {
        while let Some(closed) = self.open.pop_if(|open| open.end <= at) {
            let around = self.open.last();
            let end = around.map_or(self.text.len(), |around| around.end);
            let start = self.next_text(closed.end).min(at);
            if start < end && self.text[start..end].contains(char::is_alphanumeric) {
                self.push_part(Part { start, level: closed.level, scope: around.map(|around| around.scope) });
            }
        }
    }

    /// The start of the first line after a definition that is not blank.
    fn next_text(&self, definition_end: usize) -> usize {
        let next_line = lines::end(self.text, definition_end);
        let rest = &self.text[next_line..];
        lines::start_of_indentation(self.text, next_line + (rest.len() - rest.trim_start().len()))
    }

    /// Adds a part. One with the start of the previous part replaces it: it has the stronger level of both
    /// and the later scope.
    fn push_part(&mut self, part: Part) {
        match self.outline.parts.last_mut() {
            Some(last) if part.start <= last.start => {
                *last = Part { level: last.level.min(part.level), scope: part.scope, ..*last };
            }
            _ => self.outline.parts.push(part),
        }
    }

    /// The start of a definition together with the comments and attributes directly above it.
    fn start_with_leading(&self, definition: usize) -> usize {
        let mut start = lines::start_of_indentation(self.text, definition);
        let before = self.leading.partition_point(|node| node.start < start);
        for node in self.leading[..before].iter().rev() {
            let node_start = lines::start_of_indentation(self.text, node.start);
            let is_on_its_own_line = node_start == 0 || self.text[..node_start].ends_with(['\n', '\r']);
            let node_end = node.start + self.text[node.clone()].trim_end().len();
            if node_end > start || !is_on_its_own_line || !is_right_above(&self.text[node_end..start]) {
                break;
            }
            start = node_start;
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
