use super::*;
use crate::parse;

/// Cuts with a count of words, and lists each chunk's text on one line.
fn cut(path: &str, text: &str, most: usize, least: usize) -> Vec<(String, Chunk)> {
    let budget = Strategy::Structure(Budget { most, least });
    let found = chunks(&parse(path, text), budget, &|text| text.split_whitespace().count());
    let line = |chunk: &Chunk| text[chunk.range.clone()].split_whitespace().collect::<Vec<_>>().join(" ");
    found.into_iter().map(|chunk| (line(&chunk), chunk)).collect()
}

fn texts(cut: &[(String, Chunk)]) -> Vec<&str> {
    cut.iter().map(|(text, _)| text.as_str()).collect()
}

#[test]
fn a_small_section_joins_the_one_it_belongs_to() {
    let text =
        "# T\n\none two three four\n\n## A\n\nfive six seven\n\n### B\n\neight\n\n## C\n\nnine ten eleven\n";
    let found = cut("a.md", text, 10, 4);
    assert_eq!(
        texts(&found),
        ["# T one two three four", "## A five six seven ### B eight", "## C nine ten eleven"]
    );
    assert_eq!(found[1].1.heading.as_ref().unwrap().text, "A");
    assert_eq!(found[1].1.chunk_type, Some(ChunkType::Section));
}

#[test]
fn a_section_that_is_too_large_is_divided_evenly_at_its_paragraphs() {
    let text = "## A\n\none two three\n\nfour five six\n\nseven eight nine\n\nten\n";
    let found = cut("a.md", text, 9, 2);
    assert_eq!(texts(&found), ["## A one two three four five six", "seven eight nine ten"]);
    assert_eq!(found[0].1.chunk_type, Some(ChunkType::ParagraphGroup));
    assert_eq!(found[0].1.context, "");
    assert_eq!(found[1].1.context, "A");
}

#[test]
fn a_class_that_is_too_large_is_divided_at_its_methods_and_they_keep_its_signature() {
    let text = "class A(B):\n    x = 1\n\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n";
    assert_eq!(cut("a.py", text, 20, 1).len(), 1);
    let found = cut("a.py", text, 6, 1);
    assert_eq!(texts(&found), ["class A(B): x = 1", "def f(self): return 1", "def g(self): return 2"]);
    let (_, method) = &found[2];
    assert_eq!(method.context, "class A(B):");
    assert_eq!((method.section.as_deref(), method.subsection.as_deref()), (Some("A"), Some("g")));
    assert_eq!(method.lines, (7, 8));
}

#[test]
fn a_function_that_is_too_large_is_divided_at_its_lines_and_they_keep_its_signature() {
    let text = "fn f(a: u8) {\n    one();\n    two();\n\n    three();\n    four();\n}\n";
    let found = cut("a.rs", text, 6, 1);
    assert_eq!(texts(&found), ["fn f(a: u8) { one(); two();", "three(); four(); }"]);
    assert_eq!(found[1].1.context, "fn f(a: u8)");
    assert_eq!(found[1].1.section.as_deref(), Some("f"));
}

#[test]
fn a_function_without_a_type_is_the_section() {
    let found = cut("a.go", "package a\n\nfunc F() {}\n", 20, 5);
    assert_eq!(found[0].1.section.as_deref(), Some("F"));
    assert_eq!(found[0].1.subsection, None);
}
