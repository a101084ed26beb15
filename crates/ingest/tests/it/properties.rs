//! What holds for every text.

use ingest::chunk::{Budget, Chunk, ChunkType, Strategy, chunks};
use ingest::media;
use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, proptest};
use proptest::strategy::Strategy as Generator;

use crate::tokens;

const FILES: [&str; 13] = [
    "a.md", "a.txt", "a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.java", "a.c", "a.cpp", "a.cs", "a.go",
    "a.csv",
];

/// Bytes of the largest chunk, white space and all.
pub(crate) const MOST_BYTES: usize = 32 << 10;

/// Cuts the text as each kind of file and checks what always holds.
pub(crate) fn check(text: &str, budget: Budget) {
    for file in FILES {
        check_as(file, text, budget);
    }
}

/// Cuts the text as this kind of file and checks what always holds.
pub(crate) fn check_as(file: &str, text: &str, budget: Budget) -> Vec<Chunk> {
    let document = ingest::parse(file, text);
    let found = chunks(&document, Strategy::Structure(budget), &tokens::count);
    check_that_nothing_is_lost(text, &found);
    for chunk in &found {
        let piece = &text[chunk.range.clone()];
        let trimmed = piece.trim();
        assert!(piece.len() <= MOST_BYTES, "{file}: {} bytes", piece.len());
        if trimmed.is_empty() {
            assert!(text.len() > MOST_BYTES, "{file}: a chunk of white space at {:?}", chunk.range);
            assert_eq!(chunk.lines, (line(text, chunk.range.start), line(text, chunk.range.end - 1)));
            continue;
        }
        let is_one_character = trimmed.chars().count() == 1;
        assert!(
            tokens::count(trimmed) <= budget.most || is_one_character,
            "{file}: {} tokens at {:?}",
            tokens::count(trimmed),
            chunk.range
        );
        let start = chunk.range.start + piece.find(trimmed).unwrap();
        assert_eq!(chunk.lines, (line(text, start), line(text, start + trimmed.len() - 1)), "{file}");
        assert_eq!(chunk.chunk_type.is_none(), !matches!(file, "a.md" | "a.txt" | "a.csv"));
        assert!(chunk.context.chars().count() <= 500);
    }
    found
}

fn check_that_nothing_is_lost(text: &str, found: &[Chunk]) {
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

/// The line of a byte, counted the plain way.
fn line(text: &str, at: usize) -> u32 {
    let before = &text.as_bytes()[..at];
    let is_end = |&at: &usize| {
        before[at] == b'\n' || (before[at] == b'\r' && text.as_bytes().get(at + 1) != Some(&b'\n'))
    };
    u32::try_from(1 + (0..at).filter(is_end).count()).unwrap()
}

fn budgets() -> impl Generator<Value = Budget> {
    (1..60usize, 0..30usize).prop_map(|(most, least)| Budget { most, least })
}

/// Pieces of all languages in any order: nearly right text finds more than random text.
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
    fn any_bytes_are_text_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(text) = media::decode(&bytes) {
            check(text, Budget::default());
        }
    }

    #[test]
    fn the_same_text_gives_the_same_chunks(text in fragments()) {
        let cut = || chunks(&ingest::parse("a.rs", &text), Strategy::Structure(Budget::default()), &tokens::count);
        prop_assert_eq!(cut(), cut());
    }
}

#[test]
fn a_code_block_that_fits_is_kept_whole() {
    let block = format!("```\n{}```\n", "one line of code\n".repeat(20));
    let text =
        format!("# T\n\n{}\n\n{block}\n{}\n", "Words before it. ".repeat(10), "Words after it. ".repeat(10));
    let found = check_as("a.md", &text, Budget { most: 100, least: 10 });
    assert!(found.len() > 1);
    assert!(found.iter().any(|chunk| text[chunk.range.clone()].contains(&block)));
}

#[test]
fn a_counter_is_asked_for_few_pieces_and_never_for_huge_ones() {
    let text = "One more sentence of an endless story. ".repeat(20_000);
    let document = ingest::parse("a.txt", &text);
    let asked = std::cell::Cell::new((0, 0));
    let count = |piece: &str| {
        asked.set((asked.get().0 + 1, asked.get().1 + piece.len()));
        assert!(piece.len() <= 16 * Budget::default().most);
        tokens::count(piece)
    };
    let found = chunks(&document, Strategy::Structure(Budget::default()), &count);
    let (times, bytes) = asked.get();
    assert!(times <= 2 * found.len(), "{times} for {}", found.len());
    assert!(bytes <= 2 * text.len());
}

#[test]
fn text_without_headings_is_a_group_of_paragraphs() {
    let found = check_as("a.md", "Just a paragraph.\n\nAnd another.", Budget::default());
    assert_eq!(found[0].chunk_type, Some(ChunkType::ParagraphGroup));
}
