//! Filters are exact: every field must match, by any of its values.

use std::collections::BTreeSet;

use domain::{Catalog, FilterField, Filters};
use storage::SqliteCatalog;

use super::fixtures::{digested, document_at, location_of};
use crate::harness::who;

/// A catalog of documents that differ in every filtered field.
async fn library() -> SqliteCatalog {
    let catalog = SqliteCatalog::in_memory();
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
        let mut location = location_of(path);
        (location.repo_url, location.collection) = (repo_url.into(), collection.into());
        let mut new = document_at(location, &["text"], 0);
        new.document.language = language.map(Into::into);
        new.document.title = title.into();
        new.document.metadata =
            metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        documents.push(digested(new));
    }
    catalog.put(&who(), documents).await.unwrap();
    catalog
}

fn filter(field: FilterField, values: &[&str]) -> Filters {
    [(field, values.iter().map(|value| (*value).to_owned()).collect())].into()
}

fn metadata(name: &str, values: &[&str]) -> Filters {
    filter(FilterField::Metadata(name.to_owned()), values)
}

/// Checks which paths pass all of the filters.
async fn check(catalog: &SqliteCatalog, filters: &[Filters], expected: &[&str]) {
    let filters = filters.iter().flatten().map(|(field, values)| (field.clone(), values.clone())).collect();
    let mut paths = Vec::new();
    for id in catalog.matching(&who(), &filters).await.unwrap().documents {
        paths.push(catalog.document(&who(), id).await.unwrap().unwrap().document.place.file_path);
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
    let catalog = library().await;
    check(&catalog, &[], &[PROSE, DOWN, SNAKE, MAIN]).await;
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
        check(&catalog, &[filter(field, values)], expected).await;
    }
}

#[tokio::test]
async fn a_path_is_compared_with_globs() {
    let catalog = library().await;
    for (globs, expected) in [
        (&["src/*"][..], &[SNAKE, MAIN][..]),
        (&["src/**"], &[DOWN, SNAKE, MAIN]),
        (&["**/*.{rs,md}"], &[PROSE, DOWN, MAIN]),
        (&["src/main.rs", "docs/*"], &[PROSE, MAIN]),
        (&["main.rs"], &[]),
        (&["src/main.r[a-z]"], &[MAIN]),
    ] {
        check(&catalog, &[filter(FilterField::FilePath, globs)], expected).await;
    }
    let broken = filter(FilterField::FilePath, &["src/["]);
    assert!(catalog.matching(&who(), &broken).await.unwrap_err().to_string().contains("not a valid glob"));
}

#[tokio::test]
async fn metadata_is_compared_by_content_or_as_json() {
    let catalog = library().await;
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
        check(&catalog, &[metadata(name, values)], expected).await;
    }
    check(&catalog, &[metadata("team", &["sky", "sea", "null"]), metadata("stars", &["5"])], &[PROSE, MAIN])
        .await;
}

#[tokio::test]
async fn all_fields_must_match() {
    let catalog = library().await;
    let main = || filter(FilterField::Title, &["main"]);
    check(&catalog, &[main(), filter(FilterField::Language, &["rust", "python"])], &[MAIN]).await;
    check(&catalog, &[main(), filter(FilterField::FilePath, &["docs/**"])], &[PROSE]).await;
    check(&catalog, &[main(), metadata("team", &["sea"])], &[]).await;
    check(
        &catalog,
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

/// Three documents with chunks below headings: one with a URL, one without, one whose URL has a `#`.
async fn pages() -> SqliteCatalog {
    let catalog = SqliteCatalog::in_memory();
    let headings = [
        (None, None, None),
        (Some("Install"), None, Some("install")),
        (Some("Use"), Some("Stop"), Some("stop")),
    ];
    let mut documents = Vec::new();
    for (path, url) in
        [("docs/page.md", Some("/page")), ("docs/other.md", None), ("docs/odd.md", Some("/odd#1"))]
    {
        let mut new = document_at(location_of(path), &["first", "second", "third"], 0);
        new.document.url = url.map(Into::into);
        for (chunk, (section, subsection, anchor)) in new.chunks.iter_mut().zip(headings) {
            chunk.section = section.map(Into::into);
            chunk.subsection = subsection.map(Into::into);
            chunk.anchor = anchor.map(Into::into);
        }
        documents.push(digested(new));
    }
    catalog.put(&who(), documents).await.unwrap();
    catalog
}

/// Checks which chunks pass, as (path, text).
async fn check_chunks(catalog: &SqliteCatalog, filters: Filters, expected: &[(&str, &str)]) {
    let matching = catalog.matching(&who(), &filters).await.unwrap();
    let chunks = catalog.chunks(&who(), &matching.chunks.expect("the filter selects chunks")).await.unwrap();
    let documents: BTreeSet<_> = chunks.iter().map(|chunk| chunk.document.id).collect();
    assert_eq!(matching.documents.into_iter().collect::<BTreeSet<_>>(), documents, "{filters:?}");
    let mut found: Vec<_> =
        chunks.iter().map(|chunk| (chunk.document.place.file_path.as_str(), chunk.text.as_str())).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{filters:?}");
}

#[tokio::test]
async fn a_source_url_selects_a_document_or_with_an_anchor_a_chunk() {
    let catalog = pages().await;
    let urls = |values: &[&str]| filter(FilterField::SourceUrl, values);
    for (values, expected) in [
        (&["/page"][..], &["docs/page.md"][..]),
        (&["https://example.org/it/docs/other.md"], &["docs/other.md"]),
        (&["https://example.org/it/docs/page.md", "page", "/PAGE"], &[]),
        (&["/page", "https://example.org/it/docs/other.md"], &["docs/other.md", "docs/page.md"]),
    ] {
        assert_eq!(catalog.matching(&who(), &urls(values)).await.unwrap().chunks, None);
        check(&catalog, &[urls(values)], expected).await;
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
        check_chunks(&catalog, urls(values), expected).await;
    }
}

#[tokio::test]
async fn a_heading_filter_compares_the_innermost_heading() {
    let catalog = pages().await;
    let headings = |values: &[&str]| filter(FilterField::SectionHeading, values);
    let each = |words| [("docs/odd.md", words), ("docs/other.md", words), ("docs/page.md", words)];
    for (values, expected) in [
        (&["Install"][..], &each("second")[..]),
        (&["Stop"], &each("third")),
        (&["Use", "install", ""], &[]),
        (&["Introduction"], &each("first")),
    ] {
        check_chunks(&catalog, headings(values), expected).await;
    }
    let mut both = headings(&["Stop", "Install"]);
    both.extend(filter(FilterField::SourceUrl, &["/page#stop", "/odd#1"]));
    let expected = [("docs/odd.md", "second"), ("docs/odd.md", "third"), ("docs/page.md", "third")];
    check_chunks(&catalog, both.clone(), &expected).await;
    both.extend(filter(FilterField::FilePath, &["docs/p*"]));
    check_chunks(&catalog, both.clone(), &expected[2..]).await;
    both.extend(filter(FilterField::Title, &["nothing"]));
    check_chunks(&catalog, both, &[]).await;
}

#[tokio::test]
async fn replaced_metadata_does_not_match() {
    let catalog = SqliteCatalog::in_memory();
    let mut new = document_at(location_of("a"), &["text"], 0);
    for team in ["sky", "sea"] {
        new.document.metadata = [("team".to_owned(), format!("\"{team}\""))].into();
        catalog.put(&who(), vec![digested(new.clone())]).await.unwrap();
    }
    check(&catalog, &[metadata("team", &["sky"])], &[]).await;
    check(&catalog, &[metadata("team", &["sea"])], &["a"]).await;
}

#[tokio::test]
async fn filters_with_many_fields_and_values_work() {
    let catalog = library().await;
    let many: Vec<String> = (0..50_000).map(|number| format!("value {number}")).collect();
    let mut values: Vec<&str> = many.iter().map(String::as_str).collect();
    values.push("main");
    check(&catalog, &[filter(FilterField::Title, &values)], &[PROSE, MAIN]).await;
    let fields: Vec<Filters> = many.iter().take(2_000).map(|name| metadata(name, &["5"])).collect();
    check(&catalog, &fields, &[]).await;
}
