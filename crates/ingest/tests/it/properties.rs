//! Invariants that hold for every text.

use domain::ChunkKind;
use ingest::chunk::{ChunkBudget, ChunkStrategy, TextChunk, chunk_document};
use ingest::media;
use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, proptest};
use proptest::strategy::Strategy as Generator;

use crate::tokens;

const FILES: [&str; 13] = [
    "a.md", "a.txt", "a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.java", "a.c", "a.cpp", "a.cs", "a.go",
    "a.csv",
];

/// Maximum bytes of a chunk, including white space.
pub(crate) const MAX_BYTES: usize = 32 << 10;

/// Checks the invariants of a text's chunks, for each kind of file.
pub(crate) fn check(text: &str, budget: ChunkBudget) {
    for file in FILES {
        check_as(file, text, budget);
    }
}

/// Checks the invariants of a text's chunks, for this kind of file.
pub(crate) fn check_as(file: &str, text: &str, budget: ChunkBudget) -> Vec<TextChunk> {
    let document = ingest::parse(file, text);
    let found = chunk_document(&document, ChunkStrategy::Structure(budget), &tokens::count);
    check_that_nothing_is_lost(text, &found);
    for chunk in &found {
        let piece = &text[chunk.range.clone()];
        let trimmed = piece.trim();
        assert!(piece.len() <= MAX_BYTES, "{file}: {} bytes", piece.len());
        if trimmed.is_empty() {
            assert!(text.len() > MAX_BYTES, "{file}: a chunk of white space at {:?}", chunk.range);
            assert_eq!(chunk.lines, (line(text, chunk.range.start), line(text, chunk.range.end - 1)));
            continue;
        }
        let is_one_character = trimmed.chars().count() == 1;
        assert!(
            tokens::count(trimmed) <= budget.max_tokens || is_one_character,
            "{file}: {} tokens at {:?}",
            tokens::count(trimmed),
            chunk.range
        );
        let start = chunk.range.start + piece.find(trimmed).unwrap();
        assert_eq!(chunk.lines, (line(text, start), line(text, start + trimmed.len() - 1)), "{file}");
        assert_eq!(chunk.kind.is_none(), !matches!(file, "a.md" | "a.txt" | "a.csv"));
        assert!(chunk.context.chars().count() <= 500);
    }
    found
}

fn check_that_nothing_is_lost(text: &str, found: &[TextChunk]) {
    if text.trim().is_empty() {
        assert!(found.is_empty());
        return;
    }
    let mut end = 0;
    for chunk in found {
        assert_eq!(chunk.range.start, end);
        assert!(chunk.range.end > end);
        end = chunk.range.end;
    }
    assert_eq!(end, text.len());
}

/// The line of a byte, counted naively.
fn line(text: &str, at: usize) -> u32 {
    let before = &text.as_bytes()[..at];
    let is_end = |&at: &usize| {
        before[at] == b'\n' || (before[at] == b'\r' && text.as_bytes().get(at + 1) != Some(&b'\n'))
    };
    u32::try_from(1 + (0..at).filter(is_end).count()).unwrap()
}

fn budgets() -> impl Generator<Value = ChunkBudget> {
    (1..60usize, 0..30usize).prop_map(|(max_tokens, min_tokens)| ChunkBudget { max_tokens, min_tokens })
}

/// Random sequences of fragments of all languages, which reach more code than random text.
fn fragments() -> impl Generator<Value = String> {
    let fragment = prop::sample::select(vec![
        "# Title\n",
        "## One\n",
        "## One\n",
        "### Deep {#d}\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "    ",
        "```rust\n",
        "```\n",
        "- item\n",
        "1. item\n",
        "> quote\n",
        "| a | b |\n| - | - |\n| c | d |\n",
        "<div>\n",
        "---\n",
        "===\n",
        "title: x\n",
        "tags: [a, b]\n",
        "import X from 'y'\n",
        "A sentence. Another one! ",
        "fn f() {\n",
        "}\n",
        "{",
        "}",
        "(",
        ")",
        "class A {\n",
        "class A:\n",
        "    def f(self):\n        pass\n",
        "impl A {\n",
        "/// doc\n",
        "// note\n",
        "# note\n",
        "/* c */",
        "#[test]\n",
        "@decorated\n",
        "func (a *A) F() {\n",
        "int main(void) {\n",
        "namespace N {\n",
        "public void M() { }\n",
        "export const f = () => {\n",
        "x = 1;\n",
        "return x\n",
        "\"",
        "'",
        "`",
        "日本語。",
        "é",
        "😀",
        "\u{feff}",
        "\u{a0}",
        "a_very_long_identifier_that_has_no_seam_in_it",
    ]);
    prop::collection::vec(fragment, 0..60).prop_map(|fragments| fragments.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nearly_right_text_of_every_kind_is_covered_in_order_and_within_the_budget(
        text in fragments(), budget in budgets()
    ) {
        check(&text, budget);
    }

    #[test]
    fn any_text_is_covered_in_order_and_within_the_budget(text in "\\PC{0,80}(\\s{0,4}\\PC{0,40}){0,10}", budget in budgets()) {
        check(&text, budget);
    }

    #[test]
    fn any_bytes_are_text_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(text) = media::decode(&bytes) {
            check(text, ChunkBudget::default());
        }
    }

    #[test]
    fn the_same_text_gives_the_same_chunks(text in fragments()) {
        let split = || chunk_document(&ingest::parse("a.rs", &text), ChunkStrategy::Structure(ChunkBudget::default()), &tokens::count);
        prop_assert_eq!(split(), split());
    }
}

#[test]
fn a_code_block_that_fits_is_not_split() {
    let block = format!("```\n{}```\n", "one line of code\n".repeat(20));
    let text =
        format!("# T\n\n{}\n\n{block}\n{}\n", "Words before it. ".repeat(10), "Words after it. ".repeat(10));
    let found = check_as("a.md", &text, ChunkBudget { max_tokens: 100, min_tokens: 10 });
    assert!(found.len() > 1);
    assert!(found.iter().any(|chunk| text[chunk.range.clone()].contains(&block)));
}

#[test]
fn tokens_are_counted_at_most_twice_per_chunk_and_never_for_large_texts() {
    let text = "One more sentence of an endless story. ".repeat(20_000);
    let document = ingest::parse("a.txt", &text);
    let counted = std::cell::Cell::new((0, 0));
    let count = |piece: &str| {
        counted.set((counted.get().0 + 1, counted.get().1 + piece.len()));
        assert!(piece.len() <= 16 * ChunkBudget::default().max_tokens);
        tokens::count(piece)
    };
    let found = chunk_document(&document, ChunkStrategy::Structure(ChunkBudget::default()), &count);
    let (times, bytes) = counted.get();
    assert!(times <= 2 * found.len(), "{times} for {}", found.len());
    assert!(bytes <= 2 * text.len());
}

#[test]
fn text_without_headings_is_a_group_of_paragraphs() {
    let found = check_as("a.md", "Just a paragraph.\n\nAnd another.", ChunkBudget::default());
    assert_eq!(found[0].kind, Some(ChunkKind::ParagraphGroup));
}
