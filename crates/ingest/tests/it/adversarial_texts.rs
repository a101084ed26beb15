//! Adversarial texts: huge, deeply nested or empty. They are chunked or rejected, in bounded time and stack.

use ingest::chunk::ChunkBudget;
use ingest::media::{self, NotText};

use crate::properties::{MAX_BYTES, check, check_as};

const CODE: [&str; 10] = ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.java", "a.c", "a.cpp", "a.cs", "a.go"];

#[test]
fn a_file_of_a_million_lines() {
    let text = "a line of a log\n".repeat(1_000_000);
    for file in ["a.log", "a.md"] {
        check_as_large(file, &text);
    }
}

#[test]
fn a_line_of_ten_megabytes() {
    check_as_large("a.log", &"x".repeat(10 << 20));
    check_as_large("a.md", &"word ".repeat(2 << 20));
    check_as_large("a.js", &"日".repeat(4 << 20));
}

#[test]
fn a_megabyte_of_white_space() {
    assert!(check_as("a.md", &"\n".repeat(1 << 20), ChunkBudget::default()).is_empty());
    let spaces = " ".repeat(1 << 20);
    for text in [format!("one{spaces}two"), format!("{spaces}one"), format!("# one\n{spaces}\n# two\n")] {
        let found = check_as("a.md", &text, ChunkBudget::default());
        assert!((32..=35).contains(&found.len()), "{} chunks", found.len());
    }
}

#[test]
fn white_space_between_words_does_not_exceed_the_chunk_size() {
    for space in ["\n", " ", "\r\n", "\u{2003}", "\t\n"] {
        let text = format!("a{}b", space.repeat(2_000_000));
        for file in ["a.md", "a.txt", "a.log", "a.rs"] {
            check_as_large(file, &text);
        }
    }
    let often = format!("word{}", "\n".repeat(20_000)).repeat(50);
    for file in ["a.md", "a.log", "a.py"] {
        check_as_large(file, &often);
    }
}

#[test]
fn deeply_nested_markdown() {
    for nested in [
        ">", "> ", "[", "![", "](", "*", "**a ", "_", "`", "<", "<a ", "- ", "1. ", "  - a\n", "| ", "~",
        "{#", "\\",
    ] {
        check_as_large("a.md", &nested.repeat(100_000));
    }
    let steps: String = (0..500).map(|depth| format!("{}- a\n", "  ".repeat(depth))).collect();
    check_as_large("a.md", &steps);
    let headings: String = (0..50_000).map(|_| "# same\n").collect();
    check_as_large("a.md", &headings);
}

#[test]
fn deeply_nested_code() {
    for file in CODE {
        for nested in ["{", "("] {
            check_as_large(file, &nested.repeat(100_000));
        }
        for nested in [
            "[",
            "}",
            "<",
            "\"",
            "/*",
            "`${",
            "a.b(",
            "-",
            "if (a) ",
            "fn a() {",
            "class A {\n",
            "def f():\n ",
        ] {
            check_as_large(file, &nested.repeat(3_000));
        }
    }
}

#[test]
fn front_matter_of_many_lines_and_brackets() {
    check_as_large("a.md", &format!("---\n{}", "a: b\n".repeat(200_000)));
    check_as_large("a.md", &format!("---\ntags: {}\n---\n", "[".repeat(200_000)));
}

#[test]
fn line_ends_of_all_kinds_and_a_byte_order_mark() {
    let budget = ChunkBudget { max_tokens: 12, min_tokens: 3 };
    for line_end in ["\n", "\r\n", "\r"] {
        let text = ["\u{feff}---", "title: T", "---", "# One", "", "Text of it.", "## Two", "- a", "- b"]
            .join(line_end);
        check(&text, budget);
        let found = check_as("a.md", &text, budget);
        assert_eq!(found.last().unwrap().section.as_deref(), Some("Two"));
    }
}

#[test]
fn texts_of_white_space_only() {
    for text in ["", " ", "\n", "\r\n\r\n", "\t \u{a0}\u{2003}\n"] {
        check(text, ChunkBudget::default());
    }
}

#[test]
fn bytes_that_are_not_text() {
    assert_eq!(media::decode(b"\x7fELF\x02\x01\x01\0"), Err(NotText::Nul { at: 7 }));
    assert_eq!(media::decode(b"caf\xe9"), Err(NotText::InvalidUtf8 { at: 3, line: 1 }));
    assert_eq!(media::decode(b"\xff\xfeh\0i\0"), Err(NotText::Nul { at: 3 }));
}

#[test]
fn a_budget_of_zero_tokens_is_a_budget_of_one() {
    check_as("a.md", "some words here", ChunkBudget { max_tokens: 1, min_tokens: 0 });
    let document = ingest::parse("a.md", "some words");
    let none = ingest::chunk::ChunkStrategy::Structure(ChunkBudget { max_tokens: 0, min_tokens: 0 });
    assert_eq!(ingest::chunk::chunk_document(&document, none, &|text| text.len()).len(), 9);
}

/// Checks coverage and size only: counting the lines of a large text naively takes too long.
fn check_as_large(file: &str, text: &str) {
    let document = ingest::parse(file, text);
    let budget = ingest::chunk::ChunkStrategy::Structure(ChunkBudget::default());
    let found = ingest::chunk::chunk_document(&document, budget, &crate::tokens::count);
    assert_eq!(found.iter().map(|chunk| chunk.range.len()).sum::<usize>(), text.len());
    assert!(found.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
    assert!(found.iter().all(|chunk| chunk.range.len() <= MAX_BYTES));
}
