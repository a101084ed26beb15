//! Small files of every kind, split with a small budget and compared with the committed listings. A listing
//! has a block per chunk: lines, kind, section, subsection, innermost heading, then the context (`>`) and the
//! text (`|`).

use std::fmt::Write;
use std::fs;
use std::path::Path;

use domain::ChunkKind;
use ingest::chunk::{ChunkBudget, ChunkStrategy, TextChunk, chunk_document};

use crate::tokens;

const BUDGET: ChunkBudget = ChunkBudget { max_tokens: 110, min_tokens: 25 };

#[test]
fn prose_is_split_by_headings_then_by_paragraphs() {
    check(&["guide.mdx", "notes.txt"]);
}

#[test]
fn code_is_split_by_definitions_in_every_language() {
    check(&["queue.rs", "inventory.py", "cart.js", "store.ts", "view.tsx"]);
    check(&["Ledger.java", "ring.c", "matrix.cpp", "Orders.cs", "cache.go"]);
}

#[test]
fn a_language_without_a_grammar_is_split_by_its_lines() {
    check(&["settings.yaml"]);
}

fn check(files: &[&str]) {
    for file in files {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/structure");
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let document = ingest::parse(file, &text);
        let found =
            listing(&text, &chunk_document(&document, ChunkStrategy::Structure(BUDGET), &tokens::count));
        let expected = fs::read_to_string(folder.join(format!("{file}.chunks"))).unwrap_or_default();
        assert!(found == expected, "{file} is now split like this:\n{found}");
    }
}

fn listing(text: &str, chunks: &[TextChunk]) -> String {
    let mut listing = String::new();
    for chunk in chunks {
        let (first, last) = chunk.lines;
        let or_dash = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        let kind = match chunk.kind {
            Some(ChunkKind::Section) => "section",
            Some(ChunkKind::Subsection) => "subsection",
            Some(ChunkKind::ParagraphGroup) => "paragraph_group",
            None => "-",
        };
        let heading = chunk.heading.as_ref().map_or_else(
            || "-".to_owned(),
            |heading| format!("{}#{}", heading.text, heading.anchor.as_deref().unwrap_or_default()),
        );
        let names = [kind, &or_dash(&chunk.section), &or_dash(&chunk.subsection), &heading].join("; ");
        writeln!(listing, "{first}-{last}; {names}").unwrap();
        for line in chunk.context.lines() {
            writeln!(listing, "> {line}").unwrap();
        }
        for line in text[chunk.range.clone()].lines() {
            writeln!(listing, "|{line}").unwrap();
        }
    }
    listing
}
