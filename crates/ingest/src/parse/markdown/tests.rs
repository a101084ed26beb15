use super::*;

/// The first line of each part, with the path of its headings.
fn parts(text: &str) -> Vec<(String, String)> {
    let (_, outline) = parse(text);
    let part = |part: &Part| {
        let names: Vec<&str> = outline.path(part.scope).into_iter().map(Scope::name).collect();
        (text[part.start..].lines().next().unwrap_or_default().to_owned(), names.join("/"))
    };
    outline.parts.iter().map(part).collect()
}

fn check(text: &str, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(line, path)| ((*line).to_owned(), (*path).to_owned())).collect();
    assert_eq!(parts(text), expected);
}

#[test]
fn headings_of_both_forms_nest_by_their_levels() {
    check(
        "Title\n=====\n\ntext\n\n## A\n\ntext\n\n#### Deep\n\ntext\n\nB\n---\n\ntext",
        &[("Title", "Title"), ("## A", "Title/A"), ("#### Deep", "Title/A/Deep"), ("B", "Title/B")],
    );
}

#[test]
fn a_heading_without_content_is_in_one_part_with_the_deeper_one_below() {
    check("# T\n## A\n### B\ntext\n## C\n## D\n", &[("# T", "T/A/B"), ("## C", "T/C"), ("## D", "T/D")]);
}

#[test]
fn code_and_quotations_have_no_headings() {
    check("# T\n\n```\n# code\n```\n\n> ## Quoted\n\n    # indented\n", &[("# T", "T")]);
}

#[test]
fn a_quoted_heading_uses_up_its_anchor() {
    let (_, outline) = parse("> ## Same\n\n## Same\n");
    assert_eq!(outline.scopes[0].anchor.as_deref(), Some("same-1"));
}

#[test]
fn the_first_level_one_heading_is_the_title_unless_the_front_matter_names_several_sections() {
    let kinds = |text| parse(text).1.scopes.iter().map(|scope| scope.kind).collect::<Vec<_>>();
    assert_eq!(kinds("# A\n\n# B\n"), [ScopeKind::Title, ScopeKind::Heading]);
    assert_eq!(kinds("---\ntitle: T\n---\n# A\n"), [ScopeKind::Title]);
    assert_eq!(kinds("---\ntitle: T\n---\n# A\n\n# B\n"), [ScopeKind::Heading, ScopeKind::Heading]);
}

#[test]
fn mdx_imports_and_components_are_text() {
    check(
        "import A from 'a'\n\nexport const b = {c: 1}\n\n# T\n\n<A b={() => { throw 1 }}>\n\n## In it\n\ntext\n\n</A>\n",
        &[("# T", "T"), ("## In it", "T/In it")],
    );
}

#[test]
fn a_heading_has_no_markup() {
    let (_, outline) = parse("## The *new* `parse()` of [us](x) {#new}\n");
    assert_eq!(outline.scopes[0].name(), "The new parse() of us");
    assert_eq!(outline.scopes[0].anchor.as_deref(), Some("new"));
}
