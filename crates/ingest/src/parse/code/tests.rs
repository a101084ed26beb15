use crate::parse::{Scope, parse};

/// The path of each definition.
fn definitions(path: &str, text: &str) -> Vec<String> {
    let document = parse(path, text);
    let outline = document.outline();
    let path = |scope| outline.path(Some(scope)).into_iter().map(Scope::name).collect::<Vec<_>>().join("/");
    (0..outline.scopes.len()).map(path).collect()
}

/// The text of each part.
fn parts<'a>(path: &str, text: &'a str) -> Vec<&'a str> {
    let document = parse(path, text);
    let starts: Vec<usize> = document.outline().parts.iter().map(|part| part.start).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &text[start..end]).collect()
}

#[test]
fn a_wrapped_definition_is_one_definition() {
    assert_eq!(definitions("a.py", "@a\n@b\nclass A:\n    @c\n    def f(self): pass\n"), ["A", "A/f"]);
    assert_eq!(definitions("a.ts", "export default class A { f() {} }"), ["A", "A/f"]);
    assert_eq!(definitions("a.js", "export const f = () => { function g() {} }"), ["f", "f/g"]);
    assert_eq!(definitions("a.cpp", "template <class T> struct A { void f() {} };"), ["A", "A/f"]);
}

#[test]
fn an_implementation_is_named_by_its_type() {
    let text = "impl<T> fmt::Display for Queue<T> { fn fmt(&self) {} }\nimpl A for &B {}\nimpl a::C {}";
    assert_eq!(definitions("a.rs", text), ["Queue", "Queue/fmt", "&B", "a::C"]);
}

#[test]
fn comments_and_attributes_right_above_a_definition_belong_to_it() {
    let text =
        "// License\n\n/// A.\n#[derive(Debug)]\nstruct A;\n\nconst B: u8 = 1; // trailing\nfn c() {}\n";
    assert_eq!(
        parts("a.rs", text),
        ["/// A.\n#[derive(Debug)]\nstruct A;\n\n", "const B: u8 = 1; // trailing\n", "fn c() {}\n"]
    );
}

#[test]
fn several_definitions_on_a_line_are_separate_parts() {
    assert_eq!(parts("a.js", "function a() {} function b() {}"), ["function a() {} ", "function b() {}"]);
}

#[test]
fn a_file_with_a_syntax_error_keeps_its_other_definitions() {
    let text = "fn a() {}\n\nfn b() {\n    let x = = 1;\n}\n\nfn c() {}\n";
    assert_eq!(definitions("a.rs", text), ["a", "b", "c"]);
}

#[test]
fn text_that_is_not_code_has_no_parts() {
    let prose = "This is not code at all, it only has the name of some. ".repeat(50);
    assert!(parts("a.rs", &prose).is_empty());
    assert!(parts("a.rs", &"fn f() {}\n".repeat(200_000)).is_empty());
}
