use super::*;
use crate::parse;

/// Splits with a token counter that counts words. Returns each chunk with its text on one line.
fn split(path: &str, text: &str, max_tokens: usize, min_tokens: usize) -> Vec<(String, TextChunk)> {
    let budget = ChunkStrategy::Structure(ChunkBudget { max_tokens, min_tokens });
    let found = chunk_document(&parse(path, text), budget, &|text| text.split_whitespace().count());
    let line = |chunk: &TextChunk| text[chunk.range.clone()].split_whitespace().collect::<Vec<_>>().join(" ");
    found.into_iter().map(|chunk| (line(&chunk), chunk)).collect()
}

fn texts(chunks: &[(String, TextChunk)]) -> Vec<&str> {
    chunks.iter().map(|(text, _)| text.as_str()).collect()
}

#[test]
fn a_small_section_is_merged_with_its_parent() {
    let text =
        "# T\n\none two three four\n\n## A\n\nfive six seven\n\n### B\n\neight\n\n## C\n\nnine ten eleven\n";
    let found = split("a.md", text, 10, 4);
    assert_eq!(
        texts(&found),
        ["# T one two three four", "## A five six seven ### B eight", "## C nine ten eleven"]
    );
    assert_eq!(found[1].1.heading.as_ref().unwrap().text, "A");
    assert_eq!(found[1].1.kind, Some(ChunkKind::Section));
}

#[test]
fn a_section_that_is_too_large_is_split_evenly_at_its_paragraphs() {
    let text = "## A\n\none two three\n\nfour five six\n\nseven eight nine\n\nten\n";
    let found = split("a.md", text, 9, 2);
    assert_eq!(texts(&found), ["## A one two three four five six", "seven eight nine ten"]);
    assert_eq!(found[0].1.kind, Some(ChunkKind::ParagraphGroup));
    assert_eq!(found[0].1.context, "");
    assert_eq!(found[1].1.context, "A");
}

#[test]
fn a_class_that_is_too_large_is_split_at_its_methods_with_its_signature_as_context() {
    let text = "class A(B):\n    x = 1\n\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n";
    assert_eq!(split("a.py", text, 20, 1).len(), 1);
    let found = split("a.py", text, 6, 1);
    assert_eq!(texts(&found), ["class A(B): x = 1", "def f(self): return 1", "def g(self): return 2"]);
    let (_, method) = &found[2];
    assert_eq!(method.context, "class A(B):");
    assert_eq!((method.section.as_deref(), method.subsection.as_deref()), (Some("A"), Some("g")));
    assert_eq!(method.lines, (7, 8));
}

#[test]
fn a_function_that_is_too_large_is_split_at_its_lines_with_its_signature_as_context() {
    let text = "fn f(a: u8) {\n    one();\n    two();\n\n    three();\n    four();\n}\n";
    let found = split("a.rs", text, 6, 1);
    assert_eq!(texts(&found), ["fn f(a: u8) { one(); two();", "three(); four(); }"]);
    assert_eq!(found[1].1.context, "fn f(a: u8)");
    assert_eq!(found[1].1.section.as_deref(), Some("f"));
}

#[test]
fn a_function_outside_a_type_is_the_section() {
    let found = split("a.go", "package a\n\nfunc F() {}\n", 20, 5);
    assert_eq!(found[0].1.section.as_deref(), Some("F"));
    assert_eq!(found[0].1.subsection, None);
}
