//! A light stemmer for English: removes the endings of plurals and verb forms, so that `parse` finds
//! `parses`, `parsed` and `parsing`. It has no dictionary and only the rules that measurably help. Words of
//! other scripts stay unchanged.

/// Removes the ending of a lower-case word.
pub(crate) fn stem(word: &mut String) {
    if !word.is_ascii() {
        return;
    }
    remove_plural(word);
    if word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        remove_verb_ending(word);
    }
}

fn remove_plural(word: &mut String) {
    let length = word.len();
    if length <= 3 {
        return;
    }
    match word.as_bytes() {
        [.., before, b'i', b'e', b's'] if !b"ae".contains(before) => {
            word.truncate(length - 3);
            word.push('y');
        }
        [.., before, b'e', b's'] if !b"aeo".contains(before) => word.truncate(length - 1),
        [.., before, b's'] if !b"us".contains(before) => word.truncate(length - 1),
        _ => {}
    }
}

fn remove_verb_ending(word: &mut String) {
    let length = word.len();
    if length > 5 && word.ends_with("ing") {
        word.truncate(length - 3);
        remove_doubled_consonant(word);
        if word.len() > 3 && word.ends_with('e') {
            word.pop();
        }
    } else if length > 4 && word.ends_with("ed") {
        word.truncate(length - 2);
        remove_doubled_consonant(word);
    } else if length > 4 && word.ends_with('e') {
        word.pop();
    }
}

/// `stopp` becomes `stop`, but `pass` stays.
fn remove_doubled_consonant(word: &mut String) {
    if let [_, .., before, last] = word.as_bytes()
        && word.len() > 3
        && before == last
        && !b"lsz".contains(last)
    {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (forms, expected) in [
            (&["parse", "parses", "parsed", "parsing"][..], "pars"),
            (&["query", "queries"], "query"),
            (&["stop", "stops", "stopped", "stopping"], "stop"),
            (&["file", "files"], "file"),
            (&["table", "tables"], "tabl"),
            (&["pass", "passing", "passed"], "pass"),
        ] {
            for form in forms {
                check(form, expected);
            }
        }
    }

    #[test]
    fn short_words_and_other_scripts_stay_unchanged() {
        for word in ["is", "gas", "bus", "ring", "red", "the", "größes", "данные", "日本", ""] {
            check(word, word);
        }
    }

    fn check(word: &str, expected: &str) {
        let mut stemmed = word.to_owned();
        stem(&mut stemmed);
        assert_eq!(stemmed, expected, "{word}");
    }
}
