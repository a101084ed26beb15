//! A passage as the chat dialect cites it.

use domain::Passage;
use serde::Serialize;

/// A cited text is no longer than this.
const CHUNK_CHARS: usize = 500;

/// A passage that was in the prompt.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Source<'a> {
    source_url: String,
    page_title: &'a str,
    section_heading: &'a str,
    chunk_text: &'a str,
    relevance_score: f32,
    #[serde(flatten)]
    place: Option<Place>,
}

/// Where the cited text lies in the selection.
#[derive(Debug, PartialEq, Serialize)]
struct Place {
    char_start: u32,
    /// The character behind the last.
    char_end: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_start: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_end: Option<u32>,
}

/// Passages in the order of the prompt.
pub(crate) fn sources(passages: &[Passage]) -> Vec<Source<'_>> {
    passages.iter().map(source).collect()
}

fn source(passage: &Passage) -> Source<'_> {
    let chunk_text = beginning(&passage.text);
    let relevance_score = passage.score.clamp(0.0, 1.0);
    match passage.chars {
        None => Source {
            source_url: passage.source_url(),
            page_title: &passage.title,
            section_heading: passage.heading().unwrap_or("Introduction"),
            chunk_text,
            relevance_score,
            place: None,
        },
        Some(chars) => Source {
            source_url: "selected_text".to_owned(),
            page_title: "User Selection",
            section_heading: "Selected Text",
            chunk_text,
            relevance_score,
            place: Some(place(passage, chars, chunk_text)),
        },
    }
}

fn beginning(text: &str) -> &str {
    text.char_indices().nth(CHUNK_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Where the cited text lies, which may be only the beginning of the passage.
fn place(passage: &Passage, (char_start, char_end): (u32, u32), cited: &str) -> Place {
    let line_start = passage.lines.map(|(first, _)| first);
    let (char_end, line_end) = if cited.len() == passage.text.len() {
        (char_end, passage.lines.map(|(_, last)| last))
    } else {
        // The last character is on the last line, also if it is that line's end.
        let before_last = cited.char_indices().next_back().map_or(0, |(last, _)| last);
        let further = cited[..before_last].matches('\n').count();
        (char_start + count(cited.chars().count()), line_start.map(|first| first + count(further)))
    };
    Place { char_start, char_end, line_start, line_end }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::logs::passage;

    fn told(passage: &Passage) -> Value {
        serde_json::to_value(&sources(std::slice::from_ref(passage))[0]).unwrap()
    }

    #[test]
    fn a_source_names_its_page_and_heading() {
        let mut passage = passage("Water runs.", None, (3, 3));
        let expected = json!({
            "source_url": "https://example.com/r/docs/springs.md",
            "page_title": "Springs",
            "section_heading": "Introduction",
            "chunk_text": "Water runs.",
            "relevance_score": 0.5,
        });
        assert_eq!(told(&passage), expected);
        passage.section = Some("Course".to_owned());
        assert_eq!(told(&passage)["section_heading"], "Course");
        passage.subsection = Some("Lower course".to_owned());
        assert_eq!(told(&passage)["section_heading"], "Lower course");
        passage.url = Some("/docs/springs".to_owned());
        assert_eq!(told(&passage)["source_url"], "/docs/springs");
    }

    #[test]
    fn a_text_is_cut_at_500_characters_and_no_character_in_two() {
        let text = "🙂é".repeat(400);
        let cut = told(&passage(&text, None, (1, 1)));
        assert_eq!(cut["chunk_text"], text.chars().take(500).collect::<String>());
        let text = "é".repeat(500);
        assert_eq!(told(&passage(&text, None, (1, 1)))["chunk_text"], text);
    }

    #[test]
    fn what_is_of_the_selection_says_where_in_it() {
        let expected = json!({
            "source_url": "selected_text",
            "page_title": "User Selection",
            "section_heading": "Selected Text",
            "chunk_text": "Water\r\nruns.",
            "relevance_score": 0.5,
            "char_start": 7,
            "char_end": 19,
            "line_start": 2,
            "line_end": 3,
        });
        assert_eq!(told(&passage("Water\r\nruns.", Some((7, 19)), (2, 3))), expected);
    }

    #[test]
    fn the_offsets_of_a_text_that_is_cut_are_those_of_what_is_left() {
        let line = "eleven 🙂 is\r\n";
        assert_eq!(line.chars().count(), 13);
        let text = line.repeat(100);
        let told = told(&passage(&text, Some((20, 1320)), (4, 103)));
        assert_eq!((&told["char_start"], &told["char_end"]), (&json!(20), &json!(520)));
        // 38 whole lines have 494 characters, so the 500th is on the 39th.
        assert_eq!((&told["line_start"], &told["line_end"]), (&json!(4), &json!(42)));
        let text = format!("{}\n{}", "a".repeat(499), "b".repeat(9));
        let told = serde_json::to_value(&sources(&[passage(&text, Some((0, 509)), (1, 2))])[0]).unwrap();
        assert_eq!(told["line_end"], 1, "the end of a line is on it: {told}");
    }
}
