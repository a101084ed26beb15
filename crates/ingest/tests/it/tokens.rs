//! A token counter for tests: a word of up to six characters is one token, as is every other character.

pub(crate) fn count(text: &str) -> usize {
    let mut tokens = 0;
    let mut in_word = 0;
    for character in text.chars() {
        let is_word = character.is_alphanumeric() || character == '_';
        in_word = if is_word && in_word < 6 { in_word + 1 } else { usize::from(is_word) };
        if in_word <= 1 && !(character == ' ' || character == '\n') {
            tokens += 1;
        }
    }
    tokens
}
