//! The tree-sitter grammars: a row per language, with a query for its definitions. Adding a language takes a
//! dependency, a row and a query file.

use std::sync::OnceLock;

use tree_sitter::Query;
use tree_sitter_language::LanguageFn;

/// A query captures whole definitions as `@namespace`, `@type` or `@function`, each with its `@name` and, if
/// it has one, its `@body`; and as `@leading` the comments and attributes that belong to the definition
/// below.
static GRAMMARS: [Grammar; 10] = [
    Grammar::new("c", &["c", "h"], tree_sitter_c::LANGUAGE, include_str!("queries/c.scm")),
    Grammar::new(
        "cpp",
        &["c++", "cc", "cpp", "cu", "cxx", "h++", "hh", "hpp", "hxx", "inl", "ipp", "tpp"],
        tree_sitter_cpp::LANGUAGE,
        include_str!("queries/cpp.scm"),
    ),
    Grammar::new("csharp", &["cs", "csx"], tree_sitter_c_sharp::LANGUAGE, include_str!("queries/csharp.scm")),
    Grammar::new("go", &["go"], tree_sitter_go::LANGUAGE, include_str!("queries/go.scm")),
    Grammar::new("java", &["java"], tree_sitter_java::LANGUAGE, include_str!("queries/java.scm")),
    Grammar::new(
        "javascript",
        &["cjs", "js", "jsx", "mjs"],
        tree_sitter_javascript::LANGUAGE,
        include_str!("queries/javascript.scm"),
    ),
    Grammar::new(
        "python",
        &["py", "pyi", "pyw"],
        tree_sitter_python::LANGUAGE,
        include_str!("queries/python.scm"),
    ),
    Grammar::new("rust", &["rs"], tree_sitter_rust::LANGUAGE, include_str!("queries/rust.scm")),
    Grammar::new(
        "typescript",
        &["cts", "mts", "ts"],
        tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
        include_str!("queries/typescript.scm"),
    ),
    Grammar::new(
        "typescript",
        &["tsx"],
        tree_sitter_typescript::LANGUAGE_TSX,
        include_str!("queries/typescript.scm"),
    ),
];

/// The grammar for files with this extension.
pub(crate) fn grammar_of_extension(extension: &str) -> Option<&'static Grammar> {
    GRAMMARS.iter().find(|grammar| grammar.extensions.contains(&extension))
}

/// The grammar of the language with this name.
pub(crate) fn grammar_of_language(name: &str) -> Option<&'static Grammar> {
    GRAMMARS.iter().find(|grammar| grammar.language == name)
}

/// The parser and the query of a language.
pub(crate) struct Grammar {
    language: &'static str,
    extensions: &'static [&'static str],
    parser: LanguageFn,
    query: &'static str,
    compiled: OnceLock<Query>,
}

impl Grammar {
    const fn new(
        language: &'static str,
        extensions: &'static [&'static str],
        parser: LanguageFn,
        query: &'static str,
    ) -> Self {
        Self { language, extensions, parser, query, compiled: OnceLock::new() }
    }

    /// The name of the language, as documents are filtered by it.
    pub(crate) fn language(&self) -> &'static str {
        self.language
    }

    pub(super) fn parser(&self) -> tree_sitter::Language {
        self.parser.into()
    }

    pub(super) fn query(&self) -> &Query {
        self.compiled.get_or_init(|| {
            Query::new(&self.parser(), self.query)
                .expect("the queries are constants and are all compiled in the tests")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_valid_for_its_grammar() {
        for grammar in &GRAMMARS {
            let query = grammar.query();
            for capture in query.capture_names() {
                let allowed = ["namespace", "type", "function", "name", "body", "leading"];
                assert!(allowed.contains(capture), "{}: {capture}", grammar.language);
            }
        }
    }
}
