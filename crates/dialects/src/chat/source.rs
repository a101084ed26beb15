//! A passage of the prompt on the wire.

use domain::Passage;
use schemars::JsonSchema;
use serde::Serialize;

/// Upper bound in characters on a cited text.
const CHUNK_CHARS: usize = 500;

/// A passage in the prompt, cut at 500 characters. A passage of the selected text also has its position there.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SourceCitation")]
pub(crate) struct SourceWire {
    /// URL of source page or 'selected_text'
    source_url: String,
    /// Page title or 'User Selection'
    page_title: String,
    /// Section heading within the page
    section_heading: String,
    /// Relevant text snippet
    #[schemars(length(max = CHUNK_CHARS))]
    chunk_text: String,
    /// Similarity score
    #[schemars(range(min = 0.0, max = 1.0))]
    relevance_score: f32,
    /// Start character offset in selected_text
    #[serde(skip_serializing_if = "Option::is_none")]
    char_start: Option<u32>,
    /// End character offset (exclusive)
    #[serde(skip_serializing_if = "Option::is_none")]
    char_end: Option<u32>,
    /// Start line number (1-indexed)
    #[serde(skip_serializing_if = "Option::is_none")]
    line_start: Option<u32>,
    /// End line number (1-indexed)
    #[serde(skip_serializing_if = "Option::is_none")]
    line_end: Option<u32>,
}

/// The passages in prompt order.
pub(crate) fn sources(passages: &[Passage]) -> Vec<SourceWire> {
    passages.iter().map(|passage| SourceWire::from(passage.beginning(CHUNK_CHARS))).collect()
}

impl From<Passage> for SourceWire {
    fn from(passage: Passage) -> Self {
        let lines = passage.lines.filter(|_| passage.chars.is_some());
        Self {
            source_url: passage.source_url(),
            section_heading: passage.heading().unwrap_or(Passage::NO_HEADING).to_owned(),
            page_title: passage.title,
            chunk_text: passage.text,
            relevance_score: passage.score.clamp(0.0, 1.0),
            char_start: passage.chars.map(|(first, _)| first),
            char_end: passage.chars.map(|(_, behind)| behind),
            line_start: lines.map(|(first, _)| first),
            line_end: lines.map(|(_, last)| last),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::passage;

    fn wire(passage: &Passage) -> Value {
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
        assert_eq!(wire(&passage), expected);
        passage.section = Some("Course".to_owned());
        assert_eq!(wire(&passage)["section_heading"], "Course");
        passage.subsection = Some("Lower course".to_owned());
        assert_eq!(wire(&passage)["section_heading"], "Lower course");
        passage.url = Some("/docs/springs".to_owned());
        assert_eq!(wire(&passage)["source_url"], "/docs/springs");
    }

    #[test]
    fn a_text_is_cut_after_500_characters() {
        let text = "🙂é".repeat(400);
        let cut = wire(&passage(&text, None, (1, 1)));
        assert_eq!(cut["chunk_text"], text.chars().take(500).collect::<String>());
        let text = "é".repeat(500);
        assert_eq!(wire(&passage(&text, None, (1, 1)))["chunk_text"], text);
    }

    #[test]
    fn a_passage_of_the_selection_has_its_position() {
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
        assert_eq!(wire(&passage("Water\r\nruns.", Some((7, 19)), (2, 3))), expected);
    }

    #[test]
    fn the_offsets_of_a_cut_text_are_those_of_its_rest() {
        let line = "eleven 🙂 is\r\n";
        assert_eq!(line.chars().count(), 13);
        let text = line.repeat(100);
        let cut = wire(&passage(&text, Some((20, 1320)), (4, 103)));
        assert_eq!((&cut["char_start"], &cut["char_end"]), (&json!(20), &json!(520)));
        // 38 whole lines have 494 characters, so the 500th is on the 39th.
        assert_eq!((&cut["line_start"], &cut["line_end"]), (&json!(4), &json!(42)));
        let text = format!("{}\n{}", "a".repeat(499), "b".repeat(9));
        let cut = wire(&passage(&text, Some((0, 509)), (1, 2)));
        assert_eq!(cut["line_end"], 1, "the end of a line is on it: {cut}");
    }
}
