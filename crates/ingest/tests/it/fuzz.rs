//! Mutated files of every kind: each is chunked with all invariants or rejected as binary.

use ingest::chunk::ChunkBudget;
use ingest::names::DocusaurusSite;
use ingest::{media, parse};
use testing::{fuzz, fuzz_text};

use crate::properties::check_as;

const BUDGET: ChunkBudget = ChunkBudget { max_tokens: 110, min_tokens: 25 };

macro_rules! files {
    ($($name:literal),*) => { [$(include_str!(concat!("../../fixtures/structure/", $name))),*] };
}

/// Delimiters of most languages.
const MARKS: [&str; 18] =
    ["{", "}", "(", ")", "\"", "'", "`", "/*", "*/", "//", "#", "<", ">", "\"\"\"", "r#\"", "\\", ";", "=>"];

fn check(file: &str, seeds: &[&str], words: &[&str]) {
    fuzz_text(seeds, words, |text| drop(check_as(file, text, BUDGET)));
}

#[test]
fn pages() {
    let seeds = files!("guide.mdx");
    let words = [
        "---\n",
        "title: [",
        "tags: [a, b]\n",
        "slug: /x\n",
        "# ",
        "## ",
        "```\n",
        "~~~",
        "> ",
        "- ",
        "| a | b |\n",
        "<!--",
        "-->",
        "<details>",
        "[a](b)",
        "{#id}",
        "import x from 'y'\n",
        "&#x0;",
    ];
    check("a.md", &seeds, &words);
}

#[test]
fn prose_and_tables() {
    check("a.txt", &files!("notes.txt"), &["\n\n", "\t", ".", "\u{c}"]);
    check("a.csv", &["a,b,c\n1,2,3\n4,5,6\n"], &["\"", ",", "\"\"", ";"]);
    check("a.yaml", &files!("settings.yaml"), &["- ", ": ", "|\n", "&a", "*a"]);
}

#[test]
fn code_in_rust_and_go() {
    check("a.rs", &files!("queue.rs"), &MARKS);
    check("a.go", &files!("cache.go"), &MARKS);
}

#[test]
fn code_in_python() {
    check("a.py", &files!("inventory.py"), &[&MARKS[..], &["\t", "    ", "def ", "class ", "@"]].concat());
}

#[test]
fn code_in_javascript_and_typescript() {
    check("a.js", &files!("cart.js"), &MARKS);
    check("a.ts", &files!("store.ts"), &MARKS);
    check("a.tsx", &files!("view.tsx"), &MARKS);
}

#[test]
fn code_in_java_and_c_sharp() {
    check("a.java", &files!("Ledger.java"), &MARKS);
    check("a.cs", &files!("Orders.cs"), &MARKS);
}

#[test]
fn code_in_c() {
    check("a.c", &files!("ring.c"), &[&MARKS[..], &["#if 0\n", "#endif\n"]].concat());
    check("a.cpp", &files!("matrix.cpp"), &[&MARKS[..], &["template <", "::"]].concat());
}

#[test]
fn bytes_of_any_file() {
    let seeds: [&[u8]; 4] =
        [b"plain text\n", "\u{feff}marked \u{fc}".as_bytes(), b"\xff\xfeU\0T\0F\0", b"\x7fELF\0\0"];
    fuzz(&seeds, &["\0"], |bytes| {
        if let Ok(text) = media::decode(bytes) {
            check_as("a.txt", text, BUDGET);
        }
    });
}

#[test]
fn settings_of_a_site_and_routes_of_its_pages() {
    let settings = "module.exports = {\n  baseUrl: '/x/',\n  presets: [['classic', {docs: {path: 'docs', \
                    routeBasePath: '/'}}]],\n};\n";
    let page = "---\nid: one\nslug: /two/../three\n---\n# Title\n";
    fuzz_text(&[settings, page], &["docs:", "{", "}", "'", "..", "//", "01-", "index", "${x}"], |text| {
        let site = DocusaurusSite::from_config(text);
        let page = parse("docs/01-a/index.md", text);
        for path in ["docs/01-a/index.md", "docs/a.mdx", "readme.md"] {
            if let Some(route) = site.route(path, page.front_matter(), Some("part")) {
                assert!(route.starts_with('/'), "{route}");
            }
        }
    });
}
