//! Filters are exact: every field must match, by any of its values.

use std::collections::BTreeSet;

use domain::{Catalog, FilterField, Filters};
use storage::Knowledge;

use super::library::{digested, document_at, place};
use crate::world::who;

/// Documents that differ in everything that filters look at.
async fn library() -> Knowledge {
    let knowledge = Knowledge::in_memory();
    let mut documents = Vec::new();
    for (repo_url, path, collection, language, title, metadata) in [
        ("r1", "src/main.rs", "code", Some("rust"), "main", &[("team", "\"sky\""), ("stars", "5")][..]),
        ("r1", "src/deep/down.rs", "code", Some("rust"), "down", &[("team", "\"sea\"")]),
        ("r1", "docs/main.md", "default", None, "main", &[("team", "null"), ("stars", "\"5\"")]),
        (
            "r2",
            "src/main.py",
            "code",
            Some("python"),
            "it's; DROP TABLE documents --",
            &[("a.b \"c\"", "[1,2]")],
        ),
    ] {
        let mut there = place(path);
        (there.repo_url, there.collection) = (repo_url.into(), collection.into());
        let mut new = document_at(there, &["text"], 0);
        new.document.language = language.map(Into::into);
        new.document.title = title.into();
        new.document.metadata =
            metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        documents.push(digested(new));
    }
    knowledge.put(&who(), documents).await.unwrap();
    knowledge
}

fn filter(field: FilterField, values: &[&str]) -> Filters {
    [(field, values.iter().map(|value| (*value).to_owned()).collect())].into()
}

fn metadata(name: &str, values: &[&str]) -> Filters {
    filter(FilterField::Metadata(name.to_owned()), values)
}

/// Checks which paths pass filters that must all hold.
async fn check(knowledge: &Knowledge, filters: &[Filters], expected: &[&str]) {
    let filters = filters.iter().flatten().map(|(field, values)| (field.clone(), values.clone())).collect();
    let mut paths = Vec::new();
    for id in knowledge.matching(&who(), &filters).await.unwrap().documents {
        paths.push(knowledge.document(&who(), id).await.unwrap().unwrap().document.place.file_path);
    }
    paths.sort();
    assert_eq!(paths, expected, "{filters:?}");
}

const MAIN: &str = "src/main.rs";
const DOWN: &str = "src/deep/down.rs";
const PROSE: &str = "docs/main.md";
const SNAKE: &str = "src/main.py";

#[tokio::test]
async fn each_field_is_compared_exactly() {
    use FilterField::{Collection, Language, RepoUrl, Title};
    let knowledge = library().await;
    check(&knowledge, &[], &[PROSE, DOWN, SNAKE, MAIN]).await;
    for (field, values, expected) in [
        (RepoUrl, &["r2"][..], &[SNAKE][..]),
        (RepoUrl, &["R2", "r"], &[]),
        (RepoUrl, &["r1", "r2", "r3"], &[PROSE, DOWN, SNAKE, MAIN]),
        (Language, &["rust"], &[DOWN, MAIN]),
        (Language, &["rust", "python"], &[DOWN, SNAKE, MAIN]),
        (Collection, &["default"], &[PROSE]),
        (Title, &["main"], &[PROSE, MAIN]),
        (Title, &["it's; DROP TABLE documents --"], &[SNAKE]),
        (Title, &["' OR 1 = 1 --", "%", "*", "\u{0}", "\"]"], &[]),
    ] {
        check(&knowledge, &[filter(field, values)], expected).await;
    }
}

#[tokio::test]
async fn a_path_is_compared_with_globs() {
    let knowledge = library().await;
    for (globs, expected) in [
        (&["src/*"][..], &[SNAKE, MAIN][..]),
        (&["src/**"], &[DOWN, SNAKE, MAIN]),
        (&["**/*.{rs,md}"], &[PROSE, DOWN, MAIN]),
        (&["src/main.rs", "docs/*"], &[PROSE, MAIN]),
        (&["main.rs"], &[]),
        (&["src/main.r[a-z]"], &[MAIN]),
    ] {
        check(&knowledge, &[filter(FilterField::FilePath, globs)], expected).await;
    }
    let broken = filter(FilterField::FilePath, &["src/["]);
    assert!(knowledge.matching(&who(), &broken).await.unwrap_err().to_string().contains("no glob"));
}

#[tokio::test]
async fn metadata_is_compared_by_content_or_as_json() {
    let knowledge = library().await;
    for (name, values, expected) in [
        ("team", &["sky"][..], &[MAIN][..]),
        ("team", &["\"sky\""], &[]),
        ("team", &["sky", "sea"], &[DOWN, MAIN]),
        ("team", &["null"], &[PROSE]),
        ("stars", &["5"], &[PROSE, MAIN]),
        ("a.b \"c\"", &["[1,2]"], &[SNAKE]),
        ("nothing", &["5"], &[]),
        ("team' OR '1'='1", &["sky"], &[]),
    ] {
        check(&knowledge, &[metadata(name, values)], expected).await;
    }
    check(
        &knowledge,
        &[metadata("team", &["sky", "sea", "null"]), metadata("stars", &["5"])],
        &[PROSE, MAIN],
    )
    .await;
}

#[tokio::test]
async fn all_fields_must_match() {
    let knowledge = library().await;
    let main = || filter(FilterField::Title, &["main"]);
    check(&knowledge, &[main(), filter(FilterField::Language, &["rust", "python"])], &[MAIN]).await;
    check(&knowledge, &[main(), filter(FilterField::FilePath, &["docs/**"])], &[PROSE]).await;
    check(&knowledge, &[main(), metadata("team", &["sea"])], &[]).await;
    check(
        &knowledge,
        &[
            main(),
            filter(FilterField::RepoUrl, &["r1"]),
            filter(FilterField::Collection, &["code", "default"]),
            filter(FilterField::FilePath, &["src/*", "docs/*"]),
            metadata("stars", &["5", "6"]),
        ],
        &[PROSE, MAIN],
    )
    .await;
}

/// Three documents: a page with an address and chunks below headings, one without an address, one with neither.
async fn pages() -> Knowledge {
    let knowledge = Knowledge::in_memory();
    let headings = [
        (None, None, None),
        (Some("Install"), None, Some("install")),
        (Some("Use"), Some("Stop"), Some("stop")),
    ];
    let mut documents = Vec::new();
    for (path, url) in
        [("docs/page.md", Some("/page")), ("docs/other.md", None), ("docs/odd.md", Some("/odd#1"))]
    {
        let mut new = document_at(place(path), &["first", "second", "third"], 0);
        new.document.url = url.map(Into::into);
        for (chunk, (section, subsection, anchor)) in new.chunks.iter_mut().zip(headings) {
            chunk.section = section.map(Into::into);
            chunk.subsection = subsection.map(Into::into);
            chunk.anchor = anchor.map(Into::into);
        }
        documents.push(digested(new));
    }
    knowledge.put(&who(), documents).await.unwrap();
    knowledge
}

/// Checks which chunks pass, as (path, words).
async fn check_chunks(knowledge: &Knowledge, filters: Filters, expected: &[(&str, &str)]) {
    let matching = knowledge.matching(&who(), &filters).await.unwrap();
    let pieces = knowledge.pieces(&who(), &matching.chunks.expect("a filter of chunks")).await.unwrap();
    let documents: BTreeSet<_> = pieces.iter().map(|piece| piece.document.id).collect();
    assert_eq!(matching.documents.into_iter().collect::<BTreeSet<_>>(), documents, "{filters:?}");
    let mut found: Vec<_> =
        pieces.iter().map(|piece| (piece.document.place.file_path.as_str(), piece.text.as_str())).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{filters:?}");
}

#[tokio::test]
async fn an_address_names_a_document_and_with_its_anchor_a_chunk() {
    let knowledge = pages().await;
    let urls = |values: &[&str]| filter(FilterField::SourceUrl, values);
    for (values, expected) in [
        (&["/page"][..], &["docs/page.md"][..]),
        (&["https://example.org/it/docs/other.md"], &["docs/other.md"]),
        (&["https://example.org/it/docs/page.md", "page", "/PAGE"], &[]),
        (&["/page", "https://example.org/it/docs/other.md"], &["docs/other.md", "docs/page.md"]),
    ] {
        assert_eq!(knowledge.matching(&who(), &urls(values)).await.unwrap().chunks, None);
        check(&knowledge, &[urls(values)], expected).await;
    }
    let page = "docs/page.md";
    for (values, expected) in [
        (&["/page#stop"][..], &[(page, "third")][..]),
        (&["/page#install", "/page#stop"], &[(page, "second"), (page, "third")]),
        (&["/page#stop", "/page"], &[(page, "first"), (page, "second"), (page, "third")]),
        (&["/page#nothing", "#", "##", "/page#stop#stop"], &[]),
        (&["/odd#1"], &[("docs/odd.md", "first"), ("docs/odd.md", "second"), ("docs/odd.md", "third")]),
        (&["/odd#1#stop"], &[("docs/odd.md", "third")]),
    ] {
        check_chunks(&knowledge, urls(values), expected).await;
    }
}

#[tokio::test]
async fn a_heading_is_the_innermost_one_and_none_goes_by_what_is_shown_for_it() {
    let knowledge = pages().await;
    let headings = |values: &[&str]| filter(FilterField::SectionHeading, values);
    let each = |words| [("docs/odd.md", words), ("docs/other.md", words), ("docs/page.md", words)];
    for (values, expected) in [
        (&["Install"][..], &each("second")[..]),
        (&["Stop"], &each("third")),
        (&["Use", "install", ""], &[]),
        (&["Introduction"], &each("first")),
    ] {
        check_chunks(&knowledge, headings(values), expected).await;
    }
    let mut both = headings(&["Stop", "Install"]);
    both.extend(filter(FilterField::SourceUrl, &["/page#stop", "/odd#1"]));
    let expected = [("docs/odd.md", "second"), ("docs/odd.md", "third"), ("docs/page.md", "third")];
    check_chunks(&knowledge, both.clone(), &expected).await;
    both.extend(filter(FilterField::FilePath, &["docs/p*"]));
    check_chunks(&knowledge, both.clone(), &expected[2..]).await;
    both.extend(filter(FilterField::Title, &["nothing"]));
    check_chunks(&knowledge, both, &[]).await;
}

#[tokio::test]
async fn metadata_that_is_replaced_is_not_found_any_more() {
    let knowledge = Knowledge::in_memory();
    let mut new = document_at(place("a"), &["text"], 0);
    for team in ["sky", "sea"] {
        new.document.metadata = [("team".to_owned(), format!("\"{team}\""))].into();
        knowledge.put(&who(), vec![digested(new.clone())]).await.unwrap();
    }
    check(&knowledge, &[metadata("team", &["sky"])], &[]).await;
    check(&knowledge, &[metadata("team", &["sea"])], &["a"]).await;
}

#[tokio::test]
async fn any_number_of_filters_and_values_is_answered() {
    let knowledge = library().await;
    let many: Vec<String> = (0..50_000).map(|number| format!("value {number}")).collect();
    let mut values: Vec<&str> = many.iter().map(String::as_str).collect();
    values.push("main");
    check(&knowledge, &[filter(FilterField::Title, &values)], &[PROSE, MAIN]).await;
    let fields: Vec<Filters> = many.iter().take(2_000).map(|name| metadata(name, &["5"])).collect();
    check(&knowledge, &fields, &[]).await;
}
