//! Finds the structure of a text: sections of prose or definitions of code, and where it may be split.

mod code;
pub(crate) mod lines;
mod markdown;
mod outline;

pub(crate) use code::{Grammar, grammar_of_extension, grammar_of_language};
pub(crate) use lines::LineNumbers;
pub use markdown::FrontMatter;
pub(crate) use outline::{Outline, Scope, ScopeKind, TextKind};

use crate::media::Media;

/// A text with its structure. Every text has one: text that cannot be parsed is structured by its lines.
#[derive(Debug)]
pub struct ParsedDocument<'a> {
    text: &'a str,
    media: Media,
    front_matter: FrontMatter,
    outline: Outline,
}

/// Parses a text. The path determines the language together with the text; no file is read.
pub fn parse<'a>(path: &str, text: &'a str) -> ParsedDocument<'a> {
    let media = Media::of(path, text);
    let (front_matter, outline) = match media {
        Media::Markdown => markdown::parse(text),
        Media::Text => (FrontMatter::default(), Outline::unstructured(TextKind::Prose)),
        Media::Code(language) => (FrontMatter::default(), code::outline(language, text)),
        Media::Other => (FrontMatter::default(), Outline::unstructured(TextKind::Lines)),
    };
    ParsedDocument { text, media, front_matter, outline }
}

impl<'a> ParsedDocument<'a> {
    /// The text; byte ranges of chunks refer to it.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The media type.
    pub fn media(&self) -> Media {
        self.media
    }

    /// The front matter; empty unless the text is Markdown.
    pub fn front_matter(&self) -> &FrontMatter {
        &self.front_matter
    }

    /// The text of the first level-1 heading.
    pub fn first_heading(&self) -> Option<&str> {
        self.outline.first_heading().map(Scope::name)
    }

    pub(crate) fn outline(&self) -> &Outline {
        &self.outline
    }

    pub(crate) fn line_numbers(&self) -> LineNumbers {
        LineNumbers::of(self.text)
    }
}
