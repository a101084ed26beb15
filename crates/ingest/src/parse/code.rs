//! Outlines code by its syntax tree: types and functions become scopes and parts.
//!
//! A query takes byte ranges from the tree, so the depth of the tree does not matter. Size and steps are
//! bounded; code that cannot be parsed is structured by its lines.

mod definitions;
mod grammar;
mod parse_errors;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, Parser, Tree};

use crate::media::Language;
use crate::parse::outline::{Outline, TextKind};
pub(crate) use grammar::{Grammar, grammar_of_extension, grammar_of_language};

/// Larger files are generated, or data, and are structured by their lines.
const MAX_BYTES: usize = 512 << 10;

/// The bound on the steps of a parse: a base, and one more step per 40 bytes. A step is about a hundred
/// operations of the parser. Code takes one to two operations per byte, while error recovery in text that is
/// not code could take minutes. Steps rather than seconds keep the chunks of a file deterministic.
const BASE_STEPS: usize = 500;
const BYTES_PER_STEP: usize = 40;

/// The outline of a text in this language.
pub(crate) fn outline(language: Language, text: &str) -> Outline {
    let unstructured = || Outline::unstructured(TextKind::Code);
    let Some(grammar) = language.grammar().filter(|_| text.len() <= MAX_BYTES) else {
        return unstructured();
    };
    match parse(grammar, text) {
        Some(tree) if !parse_errors::dominate(&tree) => definitions::outline(grammar, &tree, text),
        _ => unstructured(),
    }
}

fn parse(grammar: &Grammar, text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&grammar.parser()).ok()?;
    let mut steps_left = BASE_STEPS + text.len() / BYTES_PER_STEP;
    let mut on_progress = |_: &_| match steps_left.checked_sub(1) {
        Some(left) => {
            steps_left = left;
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut on_progress);
    let bytes = text.as_bytes();
    parser.parse_with_options(&mut |at, _| &bytes[at.min(bytes.len())..], None, Some(options))
}
