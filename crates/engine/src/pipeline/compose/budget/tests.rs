use std::slice;

use domain::{char_count, line_ends};
use proptest::prelude::*;

use super::*;

/// A passage on line 10 of its document.
fn passage(text: &str) -> Passage {
    Passage { lines: Some((10, 10 + line_ends(text.trim()))), ..testing::passage("Guide", text) }
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn texts(passages: &[Passage]) -> Vec<&str> {
    passages.iter().map(|passage| passage.text.as_str()).collect()
}

const STORY: &str =
    "\nFirst comes a line.\nThe server keeps sessions for one hour.\n\nThen they end. Last of all.\n";

#[test]
fn passages_that_fit_are_unchanged() {
    let passages = vec![passage(&STORY.repeat(9)), passage("Short."), passage("Short too.")];
    let all: usize = passages.iter().map(|passage| passage.tokens(words)).sum();
    assert_eq!(cut_passages(passages.clone(), "question", all, words), passages);
    assert_eq!(cut_passages(vec![], "question", 0, words), []);
}

#[test]
fn a_passage_that_is_too_long_is_cut_to_the_sentences_that_the_question_is_about() {
    let fitted = cut_passages(vec![passage(STORY)], "How long is a session kept?", 22, words);
    assert_eq!(texts(&fitted), ["The server keeps sessions for one hour.\n\nThen they end."]);
    assert_eq!(fitted[0].lines, Some((11, 13)));
}

#[test]
fn a_sentence_that_is_too_long_is_cut_to_its_first_words() {
    let fitted = cut_passages(vec![passage(&"word ".repeat(100))], "question", 20, words);
    assert_eq!(texts(&fitted), ["word word word word word word word word word word"]);
    let characters = |text: &str| text.chars().count();
    let fitted = cut_passages(vec![passage(&"ß".repeat(10_000))], "question", 40, characters);
    assert_eq!(texts(&fitted), ["ß".repeat(19)]);
    assert!(cut_passages(vec![passage(&"x".repeat(10_000))], "question", 20, characters).is_empty());
}

#[test]
fn the_last_passages_are_left_out_when_there_is_no_room_for_all() {
    let long = "One two three four. ".repeat(50);
    let passages: Vec<_> = (0..5).map(|_| passage(&long)).collect();
    assert_eq!(cut_passages(passages.clone(), "four", 2 * MIN_PASSAGE_TOKENS, words).len(), 2);
    assert_eq!(cut_passages(passages, "four", 3, words), [], "not even a sentence fits");
}

#[test]
fn cacheable_passages_go_in_whole_or_not_at_all() {
    let [long, short] = [passage(&STORY.repeat(9)), passage("Short.")];
    let tokens = |passage: &Passage| passage.tokens(words);
    let all = || vec![long.clone(), long.clone(), short.clone()];
    let both = tokens(&long) + tokens(&short);
    assert_eq!(whole_passages(all(), "question", both, 10_000, words), [long.clone(), short.clone()]);
    assert_eq!(
        whole_passages(all(), "question", 50, 10_000, words),
        slice::from_ref(&long),
        "the best one in any case"
    );
    assert_eq!(whole_passages(all(), "question", 10_000, both, words), [long.clone(), short.clone()]);
    let cut = whole_passages(all(), "question", 10_000, tokens(&long) - 1, words);
    assert!(cut.len() == 1 && long.text.contains(&cut[0].text) && cut[0].text.len() < long.text.len());
    assert_eq!(whole_passages(all(), "question", 50, 3, words), []);
}

/// A token counter for which texts have more tokens together than the sum of each by itself.
fn letters(text: &str) -> usize {
    text.len() + text.len().checked_ilog2().unwrap_or(0) as usize
}

proptest! {
    #[test]
    fn a_cut_of_a_selection_is_at_its_characters_and_lines(
        before in "[a-zßあ🙂 \r\n]{0,30}",
        text in "([a-zßあ🙂]{1,8}[ .\r\n]{1,3}){1,40}",
        room in 10_usize..400,
    ) {
        let selection = format!("{}\n{text}", before.trim_end());
        let first = char_count(before.trim_end()) + 1;
        let whole = Passage {
            chars: Some((first, first + char_count(&text))),
            lines: Some((1 + line_ends(before.trim_end()) + 1, 1 + line_ends(selection.trim_end()))),
            ..passage(&text)
        };
        for cut in cut_passages(vec![whole], "a b c", room, letters) {
            let ((start, end), (first, last)) = (cut.chars.unwrap(), cut.lines.unwrap());
            let (start, end) = (start as usize, end as usize);
            let quoted: String = selection.chars().take(end).skip(start).collect();
            prop_assert_eq!(&cut.text, &quoted);
            let until = |chars: usize| selection.chars().take(chars).collect::<String>();
            if cut.text == cut.text.trim() {
                prop_assert_eq!(first, 1 + line_ends(&until(start)));
                prop_assert_eq!(last, 1 + line_ends(&until(end)));
            }
        }
    }

    #[test]
    fn a_cut_fits_and_is_in_its_passage_at_its_lines(
        texts in proptest::collection::vec("([a-z]{1,8}[ .\r\n]{1,2}){1,40}", 1..6),
        room in 0_usize..600,
    ) {
        let passages: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(number, text)| Passage { title: number.to_string(), ..passage(text) })
            .collect();
        let fitted = cut_passages(passages.clone(), "a b c", room, letters);
        prop_assert!(fitted.iter().map(|passage| passage.tokens(letters)).sum::<usize>() <= room);
        for cut in &fitted {
            let whole = &passages[cut.title.parse::<usize>().unwrap()].text;
            let at = whole.find(cut.text.trim()).expect("it is a piece of its passage");
            let (first, last) = cut.lines.unwrap();
            prop_assert!(!cut.text.trim().is_empty());
            prop_assert_eq!(last - first, line_ends(cut.text.trim()));
            let earliest = line_ends(&whole[whole.len() - whole.trim_start().len()..at]);
            prop_assert!(first - 10 >= earliest, "{:?} of {:?}", cut, whole);
        }
    }
}
