//! What was found, and what of it an answer rests on.

use crate::{ChunkId, DocumentId};

/// A piece of a document that was found for a question and went into the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The stored piece.
    pub chunk: ChunkId,
    /// The document it is a piece of.
    pub document: DocumentId,
    /// The document's title.
    pub title: String,
    /// The repository it comes from.
    pub repo_url: Option<String>,
    /// Where it lies in that repository.
    pub file_path: Option<String>,
    /// Where a reader can open it.
    pub url: Option<String>,
    /// The first heading above it, below the title; in code the enclosing type.
    pub section: Option<String>,
    /// The second; in code the enclosing function.
    pub subsection: Option<String>,
    /// First and last line, counted from 1.
    pub lines: Option<(u32, u32)>,
    /// Its first character and the one behind its last, in the selection that it is from; none for a document.
    pub chars: Option<(u32, u32)>,
    /// The words themselves.
    pub text: String,
    /// The few words right before it in its document, for whoever reads it to a model by itself; none for the first one,
    /// and for a selection. No part of it: never logged, shown or cited.
    pub before: String,
    /// Cosine of question and passage, 0 to 1.
    pub score: f32,
}

impl Passage {
    /// What stands for the heading of a passage that has none above it.
    pub const NO_HEADING: &str = "Introduction";

    /// The innermost heading above it.
    pub fn heading(&self) -> Option<&str> {
        self.subsection.as_deref().or(self.section.as_deref())
    }

    /// Where a reader finds it: its address, or the path in its repository.
    pub fn source_url(&self) -> String {
        match (&self.url, &self.repo_url, &self.file_path) {
            (Some(url), ..) => url.clone(),
            (None, Some(repo), Some(path)) => format!("{repo}/{path}"),
            (None, repo, path) => repo.as_ref().or(path.as_ref()).cloned().unwrap_or_default(),
        }
    }

    /// It as a model reads it behind a word for it: where it is from, and its text in a fence that is longer than any
    /// within, so that no passage can end its own quotation.
    pub fn quoted(&self) -> String {
        let place = self.file_path.as_ref().or(self.url.as_ref());
        let place = place.map(|place| format!(" ({})", one_line(place))).unwrap_or_default();
        let longest = self.text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let (title, text) = (one_line(&self.title), self.text.trim_end_matches('\n'));
        format!(" from {title}{place}:\n{fence}\n{text}\n{fence}\n\n")
    }

    /// Its first characters, at most so many, at the lines and the characters where they are.
    #[must_use]
    pub fn beginning(&self, most_chars: usize) -> Self {
        let Some((end, _)) = self.text.char_indices().nth(most_chars) else { return self.clone() };
        let text = &self.text[..end];
        let lines = self.lines.map(|(first, _)| (first, first + line_ends(text.trim_end())));
        let chars = self.chars.map(|(first, _)| (first, first + char_count(text)));
        Self { lines, chars, text: text.to_owned(), ..self.clone() }
    }
}

/// How many lines end in a text: at LF, at CR, or at both together.
pub fn line_ends(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let ends =
        |&(at, &byte): &(usize, &u8)| byte == b'\n' || (byte == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
    u32::try_from(bytes.iter().enumerate().filter(ends).count()).unwrap_or(u32::MAX)
}

/// How many characters a text has.
pub fn char_count(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// A passage that an answer rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// Its number in the prompt, from 1.
    pub number: u32,
    /// The words of the passage that support the answer, verbatim; none if the answer only names its number.
    pub quote: Option<String>,
}

/// Titles and paths come from documents too: they stay on their line, and short.
fn one_line(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use crate::Timestamp;

    use super::*;

    #[test]
    fn the_beginning_of_a_passage_is_where_it_says() {
        let selection = "🙂 erste\r\nzweite Größe\r\ndritte";
        let whole = Passage {
            chunk: ChunkId::new(Timestamp::from_micros(0)),
            document: DocumentId::new(Timestamp::from_micros(0)),
            title: String::new(),
            repo_url: None,
            file_path: None,
            url: None,
            section: None,
            subsection: None,
            lines: Some((2, 3)),
            chars: Some((9, 29)),
            text: selection.chars().skip(9).collect(),
            before: String::new(),
            score: 0.5,
        };
        for (most, text, chars, lines) in [
            (0, "", (9, 9), (2, 2)),
            (8, "zweite G", (9, 17), (2, 2)),
            (14, "zweite Größe\r\n", (9, 23), (2, 2)),
            (15, "zweite Größe\r\nd", (9, 24), (2, 3)),
            (20, "zweite Größe\r\ndritte", (9, 29), (2, 3)),
            (500, "zweite Größe\r\ndritte", (9, 29), (2, 3)),
        ] {
            let beginning = whole.beginning(most);
            assert_eq!((beginning.text.as_str(), beginning.chars), (text, Some(chars)));
            assert_eq!(beginning.lines, Some(lines), "{text:?}");
        }
    }

    #[test]
    fn lines_end_as_files_end_them() {
        assert_eq!(["a\nb", "a\r\nb", "a\rb\r", ""].map(line_ends), [1, 1, 2, 0]);
    }
}
