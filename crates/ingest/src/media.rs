//! Determines the media type of a file from its path or, failing that, its first line, and decodes its bytes.

mod languages;

use std::error::Error;
use std::fmt;

use memchr::memchr;

use crate::parse::{Grammar, grammar_of_extension, grammar_of_language};

/// The media type of a document, which determines how its structure is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// Markdown or MDX.
    Markdown,
    /// Prose in plain text.
    Text,
    /// A programming, markup or configuration language.
    Code(Language),
    /// Any other text, structured by its lines.
    Other,
}

impl Media {
    /// The media type of a text at a path.
    pub fn of(path: &str, text: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        by_name(&name).or_else(|| by_first_line(text)).unwrap_or(Self::Other)
    }

    /// The name of the language, as documents are filtered by it.
    pub fn language(self) -> Option<&'static str> {
        match self {
            Self::Code(language) => Some(language.name),
            Self::Markdown => Some("markdown"),
            Self::Text | Self::Other => None,
        }
    }
}

/// A language of code or configuration.
#[derive(Clone, Copy)]
pub struct Language {
    name: &'static str,
    grammar: Option<&'static Grammar>,
}

impl Language {
    /// The grammar; a language without one is structured by its lines.
    pub(crate) fn grammar(self) -> Option<&'static Grammar> {
        self.grammar
    }

    fn named(name: &'static str) -> Self {
        Self { name, grammar: grammar_of_language(name) }
    }
}

impl PartialEq for Language {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Language {}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The bytes as UTF-8 text, without a byte order mark.
pub fn decode(bytes: &[u8]) -> Result<&str, NotText> {
    if let Some(at) = memchr(0, bytes) {
        return Err(NotText::Nul { at });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        NotText::InvalidUtf8 { at, line: 1 + memchr::memchr_iter(b'\n', &bytes[..at]).count() }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Why bytes are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotText {
    /// A NUL byte, which binary files and UTF-16 contain.
    Nul {
        /// Its offset in bytes.
        at: usize,
    },
    /// A byte that is not UTF-8.
    InvalidUtf8 {
        /// Its offset in bytes.
        at: usize,
        /// Its line, counted from 1.
        line: usize,
    },
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nul { at } => {
                write!(f, "this is a binary file (byte {at} is NUL): leave it out, or save it as UTF-8 text")
            }
            Self::InvalidUtf8 { at, line } => {
                write!(f, "this is not UTF-8 (byte {at}, on line {line}): convert it to UTF-8")
            }
        }
    }
}

impl Error for NotText {}

fn by_name(name: &str) -> Option<Media> {
    if let Some(media) = languages::file_name(name) {
        return Some(media);
    }
    let (_, extension) = name.rsplit_once('.')?;
    if let Some(grammar) = grammar_of_extension(extension) {
        return Some(Media::Code(Language { name: grammar.language(), grammar: Some(grammar) }));
    }
    languages::extension(extension)
}

fn by_first_line(text: &str) -> Option<Media> {
    let first_line = text.lines().next().unwrap_or_default();
    if let Some(command) = first_line.strip_prefix("#!") {
        return languages::interpreter(command).map(|name| Media::Code(Language::named(name)));
    }
    languages::first_line(first_line).map(|name| Media::Code(Language::named(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(path: &str, text: &str) -> Option<&'static str> {
        Media::of(path, text).language()
    }

    #[test]
    fn an_extension_in_any_case_determines_the_language() {
        let expected = [
            ("src/lib.rs", "rust"),
            ("a/b.PY", "python"),
            ("a.mjs", "javascript"),
            ("a.tsx", "typescript"),
            ("A.java", "java"),
            ("a.h", "c"),
            ("a.hpp", "cpp"),
            ("A.cs", "csharp"),
            ("a.go", "go"),
            ("a.rb", "ruby"),
            ("Cargo.toml", "toml"),
            ("a.yml", "yaml"),
            ("a.json", "json"),
            ("a.sh", "shell"),
            ("README.md", "markdown"),
            ("docs/page.mdx", "markdown"),
        ];
        for (path, name) in expected {
            assert_eq!(language(path, ""), Some(name), "{path}");
        }
    }

    #[test]
    fn a_well_known_name_wins_over_its_extension() {
        assert_eq!(language("CMakeLists.txt", ""), Some("cmake"));
        assert_eq!(language("deploy/Dockerfile", ""), Some("dockerfile"));
        assert_eq!(Media::of("LICENSE", ""), Media::Text);
        assert_eq!(Media::of("notes.txt", ""), Media::Text);
    }

    #[test]
    fn without_an_extension_the_first_line_determines_the_language() {
        assert_eq!(language("bin/run", "#!/usr/bin/env -S python3 -u\nprint()"), Some("python"));
        assert_eq!(language("bin/run", "#!/bin/bash -e\n"), Some("shell"));
        assert_eq!(language("page", "<!DOCTYPE html>\n"), Some("html"));
        assert_eq!(Media::of("bin/run", "#!/opt/unheard-of\n"), Media::Other);
        assert_eq!(Media::of("data", "a,b,c\n"), Media::Other);
    }

    #[test]
    fn bytes_that_are_not_text_are_rejected_with_their_position() {
        assert_eq!(decode(b"ab\0c"), Err(NotText::Nul { at: 2 }));
        assert_eq!(decode(b"ab\nc\xff"), Err(NotText::InvalidUtf8 { at: 4, line: 2 }));
        assert_eq!(decode(b"ab\xe2\x82"), Err(NotText::InvalidUtf8 { at: 2, line: 1 }));
        let message = decode(b"ab\nc\xff").unwrap_err().to_string();
        assert_eq!(message, "this is not UTF-8 (byte 4, on line 2): convert it to UTF-8");
    }

    #[test]
    fn a_byte_order_mark_is_dropped() {
        assert_eq!(decode(b"\xef\xbb\xbf# Title"), Ok("# Title"));
    }
}
