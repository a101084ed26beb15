//! Languages by file name, extension and first line. A language with a grammar has its extensions in the
//! table of grammars instead.

use super::{Language, Media};

/// The media type of a file with this name, in lower case.
pub(super) fn file_name(name: &str) -> Option<Media> {
    let stem = name.split('.').next().unwrap_or(name);
    let language = match name {
        "cmakelists.txt" => "cmake",
        "makefile" | "gnumakefile" | "justfile" => "make",
        "gemfile" | "rakefile" | "vagrantfile" => "ruby",
        "jenkinsfile" => "groovy",
        "cargo.lock" | "poetry.lock" => "toml",
        "requirements.txt" | "robots.txt" => return Some(Media::Other),
        _ if stem == "dockerfile" || stem == "containerfile" => "dockerfile",
        _ if PROSE_NAMES.contains(&name) => return Some(Media::Text),
        _ => return None,
    };
    Some(Media::Code(Language::named(language)))
}

/// The media type of a file with this extension, in lower case.
pub(super) fn extension(extension: &str) -> Option<Media> {
    if MARKDOWN.contains(&extension) {
        return Some(Media::Markdown);
    }
    if TEXT.contains(&extension) {
        return Some(Media::Text);
    }
    let (name, _) = LANGUAGES.iter().find(|(_, extensions)| extensions.contains(&extension))?;
    Some(Media::Code(Language::named(name)))
}

/// The language of a script, from the command after its `#!`. None if the interpreter is unknown: the file is then not
/// code.
pub(super) fn interpreter(command: &str) -> Option<&'static str> {
    let program = command
        .split_whitespace()
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
    let name = program.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    Some(match name {
        "bash" | "dash" | "ksh" | "sh" | "zsh" => "shell",
        "deno" | "node" => "javascript",
        "lua" => "lua",
        "perl" => "perl",
        "php" => "php",
        "python" | "pypy" => "python",
        "ruby" => "ruby",
        _ => return None,
    })
}

/// The language of a file with this first line.
pub(super) fn first_line(first_line: &str) -> Option<&'static str> {
    let line = first_line.trim_start().to_lowercase();
    let markers = [("<!doctype html", "html"), ("<html", "html"), ("<?xml", "xml"), ("<?php", "php")];
    markers.iter().find(|(start, _)| line.starts_with(start)).map(|(_, name)| *name)
}

const PROSE_NAMES: [&str; 10] = [
    "authors",
    "changelog",
    "changes",
    "contributing",
    "copying",
    "install",
    "license",
    "news",
    "notice",
    "readme",
];

const MARKDOWN: [&str; 5] = ["markdown", "md", "mdown", "mdx", "mkd"];

const TEXT: [&str; 7] = ["adoc", "asciidoc", "org", "rst", "tex", "text", "txt"];

const LANGUAGES: [(&str, &[&str]); 38] = [
    ("batch", &["bat", "cmd"]),
    ("clojure", &["clj", "cljc", "cljs", "edn"]),
    ("cmake", &["cmake"]),
    ("css", &["css", "less", "sass", "scss"]),
    ("dart", &["dart"]),
    ("elixir", &["ex", "exs"]),
    ("elm", &["elm"]),
    ("erlang", &["erl", "hrl"]),
    ("fsharp", &["fs", "fsi", "fsx"]),
    ("graphql", &["gql", "graphql"]),
    ("groovy", &["gradle", "groovy"]),
    ("haskell", &["hs", "lhs"]),
    ("hcl", &["hcl", "tf", "tfvars"]),
    ("html", &["htm", "html", "xhtml"]),
    ("ini", &["cfg", "conf", "ini", "properties"]),
    ("json", &["ipynb", "json", "json5", "jsonc", "jsonl", "ndjson"]),
    ("julia", &["jl"]),
    ("kotlin", &["kt", "kts"]),
    ("lua", &["lua"]),
    ("make", &["mak", "mk"]),
    ("nix", &["nix"]),
    ("ocaml", &["ml", "mli"]),
    ("perl", &["pl", "pm"]),
    ("php", &["php"]),
    ("powershell", &["ps1", "psm1"]),
    ("protobuf", &["proto"]),
    ("r", &["r"]),
    ("ruby", &["erb", "gemspec", "rake", "rb"]),
    ("scala", &["sbt", "scala"]),
    ("shell", &["bash", "fish", "ksh", "sh", "zsh"]),
    ("sql", &["ddl", "sql"]),
    ("svelte", &["svelte"]),
    ("swift", &["swift"]),
    ("toml", &["toml"]),
    ("vue", &["vue"]),
    ("xml", &["csproj", "svg", "xml", "xsd", "xsl"]),
    ("yaml", &["yaml", "yml"]),
    ("zig", &["zig"]),
];
