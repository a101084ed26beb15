//! Code by its syntax tree: types and functions become scopes and places to cut. Only byte ranges are taken
//! from the tree, by a query, so that however deep it nests nothing here walks it. Bounded in size and steps;
//! what cannot be parsed is cut by its lines.

mod definitions;
mod errors;
mod grammar;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, Parser, Tree};

use crate::media::Language;
use crate::outline::{Manner, Outline};
pub(crate) use grammar::{Grammar, grammar_of_extension, grammar_of_language};

/// Longer files are generated, or data: they are cut by their lines.
const MAX_BYTES: usize = 512 << 10;

/// Steps that every parse may take, each of a hundred of the parser's operations, and bytes for each further
/// one. Code needs less than one operation a byte, seldom more than two; recovering from the errors of what is
/// no code would take minutes. Not seconds, so that the same file always gives the same chunks.
const FREE_STEPS: usize = 500;
const BYTES_A_STEP: usize = 40;

/// The structure of a file in this language.
pub(crate) fn outline(language: Language, text: &str) -> Outline {
    let by_lines = || Outline::unstructured(Manner::Code);
    let Some(grammar) = language.grammar().filter(|_| text.len() <= MAX_BYTES) else {
        return by_lines();
    };
    match parse(grammar, text) {
        Some(tree) if !errors::prevail(&tree) => definitions::outline(grammar, &tree, text),
        _ => by_lines(),
    }
}

fn parse(grammar: &Grammar, text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&grammar.parser()).ok()?;
    let mut steps_left = FREE_STEPS + text.len() / BYTES_A_STEP;
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
