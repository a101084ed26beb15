use proptest::prelude::*;

use super::*;
use crate::fusion::Fusion;

/// All passages of a selected text, ranked for a question.
fn passages(text: &str, question: &str) -> Vec<Passage> {
    let selection = SelectedText::new(text);
    let vectors: Vec<Vec<f32>> = selection.chunk_texts().map(|_| vec![1.0]).collect();
    let candidates = selection.candidates(question, &[1.0], &vectors);
    selection.hits(Fusion::Weighted.rank(candidates)).into_iter().map(|hit| hit.passage).collect()
}

#[test]
fn the_chunk_with_the_words_of_the_question_comes_first() {
    let text =
        ["cats sleep.", "dogs bark.", "birds sing."].map(|words| format!("{words} {}", "x ".repeat(300)));
    let text = text.join("\n\n");
    for (question, beginning) in [("do dogs bark", "dogs"), ("who sings", "birds"), ("sleeping cats", "cats")]
    {
        let passages = passages(&text, question);
        assert_eq!(passages.len(), 3);
        assert!(passages[0].text.starts_with(beginning), "{question}: {}", passages[0].text);
    }
}

#[test]
fn cosines_rank_chunks_without_the_words_of_the_question() {
    let text = format!("{}\n\n{}", "first ".repeat(150), "second ".repeat(120));
    let selection = SelectedText::new(&text);
    let candidates = selection.candidates("neither", &[0.0, 1.0], &[vec![1.0, 0.0], vec![0.6, 0.8]]);
    let ranks: Vec<_> = candidates.iter().map(|candidate| (candidate.dense, candidate.lexical)).collect();
    assert_eq!(ranks, [(Some(1), None), (Some(0), None)]);
    assert!((candidates[1].cosine.unwrap() - 0.8).abs() < 1e-6);
}

#[test]
fn a_passage_of_a_selected_text_is_labelled_as_such_and_has_no_file() {
    let passage = &passages("Some words.", "words")[0];
    assert_eq!((passage.title.as_str(), passage.heading()), ("User Selection", Some("Selected Text")));
    assert_eq!(passage.source_url(), "selected_text");
    assert_eq!((&passage.repo_url, &passage.file_path), (&None, &None));
    assert_eq!((passage.chars, passage.lines), (Some((0, 11)), Some((1, 1))));
}

#[test]
fn chunk_ids_are_derived_from_the_content() {
    let text = "same words. ".repeat(500);
    let ids =
        |text: &str| passages(text, "words").into_iter().map(|passage| passage.chunk).collect::<Vec<_>>();
    assert_eq!(ids(&text), ids(&text));
    let all = ids(&text);
    assert!(all.iter().all(|id| all.iter().filter(|other| *other == id).count() == 1), "{all:?}");
    assert_ne!(passages("one", "words")[0].document, passages("two", "words")[0].document);
}

proptest! {
    #[test]
    fn every_passage_has_the_characters_and_lines_of_its_text(text in "([a-zß🙂あ\u{301}]{1,12}[ .。\\t\r\n]{0,4}){0,600}") {
        for passage in passages(&text, "a b c") {
            let ((start, end), (first, last)) = (passage.chars.unwrap(), passage.lines.unwrap());
            let until = |chars: u32| text.chars().take(chars as usize).collect::<String>();
            let quoted: String = text.chars().take(end as usize).skip(start as usize).collect();
            prop_assert_eq!(&passage.text, &quoted);
            prop_assert_eq!((first, last), (1 + line_ends(&until(start)), 1 + line_ends(&until(end))));
        }
    }
}
