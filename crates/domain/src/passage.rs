//! Passages, the chunks that retrieval finds, and citations, the passages that an answer rests on.

use crate::{ChunkId, DocumentId};

/// A part of a document that was found for a question, and may go into its prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The chunk it shows.
    pub chunk: ChunkId,
    /// The document that contains it.
    pub document: DocumentId,
    /// The document's title.
    pub title: String,
    /// The repository or other root of the document; `None` for a selection.
    pub repo_url: Option<String>,
    /// The path within the repository; `None` for a selection.
    pub file_path: Option<String>,
    /// The address at which a reader can open it.
    pub url: Option<String>,
    /// The topmost heading above it, below the title; in code the enclosing type.
    pub section: Option<String>,
    /// The heading below that; in code the enclosing function.
    pub subsection: Option<String>,
    /// First and last line, counted from 1.
    pub lines: Option<(u32, u32)>,
    /// The range of characters in the client's selection; `None` for a passage of a document.
    pub chars: Option<(u32, u32)>,
    /// The text.
    pub text: String,
    /// Cosine of question and passage, 0 to 1.
    pub score: f32,
}

impl Passage {
    /// Shown in place of the heading of a passage that has none above it.
    pub const NO_HEADING: &str = "Introduction";

    /// The innermost heading above it.
    pub fn heading(&self) -> Option<&str> {
        self.subsection.as_deref().or(self.section.as_deref())
    }

    /// Where a reader finds it: its address, or else its repository and path.
    pub fn source_url(&self) -> String {
        match (&self.url, &self.repo_url, &self.file_path) {
            (Some(url), ..) => url.clone(),
            (None, Some(repo), Some(path)) => format!("{repo}/{path}"),
            (None, repo, path) => repo.as_ref().or(path.as_ref()).cloned().unwrap_or_default(),
        }
    }

    /// The passage as a prompt quotes it: origin, then text in a fence longer than any fence within the text,
    /// so that a passage cannot end its own quotation.
    pub fn quoted(&self) -> String {
        let origin = self.file_path.as_ref().or(self.url.as_ref());
        let origin = origin.map(|origin| format!(" ({})", one_line(origin))).unwrap_or_default();
        let longest = self.text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let (title, text) = (one_line(&self.title), self.text.trim_end_matches('\n'));
        format!(" from {title}{origin}:\n{fence}\n{text}\n{fence}\n\n")
    }

    /// The first `max_chars` characters of the passage, with its range of lines and characters shortened
    /// accordingly.
    #[must_use]
    pub fn beginning(&self, max_chars: usize) -> Self {
        let Some((end, _)) = self.text.char_indices().nth(max_chars) else { return self.clone() };
        let text = &self.text[..end];
        let lines = self.lines.map(|(first, _)| (first, first + line_ends(text.trim_end())));
        let chars = self.chars.map(|(first, _)| (first, first + char_count(text)));
        Self { lines, chars, text: text.to_owned(), ..self.clone() }
    }
}

/// Number of line ends in a text. LF, CR and CRLF each end a line.
pub fn line_ends(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let ends =
        |&(at, &byte): &(usize, &u8)| byte == b'\n' || (byte == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
    u32::try_from(bytes.iter().enumerate().filter(ends).count()).unwrap_or(u32::MAX)
}

/// Number of characters in a text, at most `u32::MAX`.
pub fn char_count(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// A passage that an answer rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// The passage's number in the prompt, from 1.
    pub number: u32,
    /// The text of the passage that supports the answer, verbatim; `None` if the answer only gives the
    /// number.
    pub quote: Option<String>,
}

/// Titles and paths come from documents, so control characters and excess length are removed.
fn one_line(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use crate::Timestamp;

    use super::*;

    #[test]
    fn a_shortened_passage_has_matching_lines_and_characters() {
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
    fn lf_cr_and_crlf_each_end_a_line() {
        assert_eq!(["a\nb", "a\r\nb", "a\rb\r", ""].map(line_ends), [1, 1, 2, 0]);
    }
}
