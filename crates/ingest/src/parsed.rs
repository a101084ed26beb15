//! A document that was read: its text, what it is, and its structure.

use crate::code;
use crate::lines::Numbers;
use crate::markdown::{self, FrontMatter};
use crate::media::Media;
use crate::outline::{Manner, Outline, Scope};

/// A document with its structure. Every text has one: what cannot be parsed is cut by its lines.
#[derive(Debug)]
pub struct Parsed<'a> {
    text: &'a str,
    media: Media,
    front_matter: FrontMatter,
    outline: Outline,
}

/// Reads the document that lies at `path`. Only the path's names are looked at, never the file.
pub fn parse<'a>(path: &str, text: &'a str) -> Parsed<'a> {
    let media = Media::of(path, text);
    let (front_matter, outline) = match media {
        Media::Markdown => markdown::read(text),
        Media::Text => (FrontMatter::default(), Outline::unstructured(Manner::Prose)),
        Media::Code(language) => (FrontMatter::default(), code::outline(language, text)),
        Media::Other => (FrontMatter::default(), Outline::unstructured(Manner::Lines)),
    };
    Parsed { text, media, front_matter, outline }
}

impl<'a> Parsed<'a> {
    /// The text that all ranges are ranges of.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// What it is.
    pub fn media(&self) -> Media {
        self.media
    }

    /// What it says about itself; empty for all but Markdown.
    pub fn front_matter(&self) -> &FrontMatter {
        &self.front_matter
    }

    /// The text of its first level-1 heading.
    pub fn first_heading(&self) -> Option<&str> {
        self.outline.first_heading().map(Scope::name)
    }

    pub(crate) fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Tells on which line a byte lies.
    pub(crate) fn line_numbers(&self) -> Numbers {
        Numbers::of(self.text)
    }
}
