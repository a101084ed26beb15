//! Texts into a model's tokens, and back.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

use llama_cpp_sys_2 as sys;

use super::guard::{THROWN, wellspring_token_to_piece, wellspring_tokenize};
use super::weights::Weights;

/// A token's number.
pub(crate) type Token = sys::llama_token;

/// The vocabulary of a model.
#[derive(Clone, Copy)]
pub(crate) struct Vocabulary<'w> {
    vocabulary: *const sys::llama_vocab,
    weights: PhantomData<&'w Weights>,
}

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parse {
    /// Control tokens by their names, as a chat template writes them.
    Control,
    /// As text and nothing else, whatever it says.
    Plain,
}

impl Vocabulary<'_> {
    /// # Safety
    /// The vocabulary must be that of weights which outlive the lifetime.
    pub(super) unsafe fn new(vocabulary: *const sys::llama_vocab) -> Self {
        Self { vocabulary, weights: PhantomData }
    }

    /// The tokens of a text; none if the vocabulary has no way to say it.
    pub(crate) fn tokens(self, text: &str, parse: Parse) -> Option<Vec<Token>> {
        let tokens = self.read(text, parse)?;
        if parse == Parse::Control || !tokens.iter().any(|&token| self.is_mark(token)) {
            return Some(tokens);
        }
        // llama.cpp finds marks in any text. In two parts they are words like others.
        let mut plain = Vec::with_capacity(tokens.len() + 8);
        for token in tokens {
            if self.is_mark(token) {
                let name = self.name(token);
                let (first, rest) = name.split_at(1);
                plain.extend(self.read(first, parse)?);
                plain.extend(self.read(rest, parse)?);
            } else {
                plain.push(token);
            }
        }
        Some(plain)
    }

    fn read(self, text: &str, parse: Parse) -> Option<Vec<Token>> {
        // No token is shorter than a byte, but some vocabularies put a space in front.
        let mut tokens: Vec<Token> = vec![0; text.len() + 8];
        loop {
            let (length, room) = (i32::try_from(text.len()).ok()?, i32::try_from(tokens.len()).ok()?);
            // SAFETY: the vocabulary is alive, and the call reads and writes no more than it is told.
            let count = unsafe {
                let text = text.as_ptr().cast::<c_char>();
                let control = parse == Parse::Control;
                wellspring_tokenize(self.vocabulary, text, length, tokens.as_mut_ptr(), room, control)
            };
            match usize::try_from(count) {
                Ok(count) => {
                    tokens.truncate(count);
                    return Some(tokens);
                }
                // That is also what a text of too many tokens gives.
                Err(_) if count == THROWN => return None,
                Err(_) => tokens.resize(count.unsigned_abs() as usize, 0),
            }
        }
    }

    /// The token that texts begin with, if this model wants one.
    pub(crate) fn beginning(self) -> Option<Token> {
        // SAFETY: the vocabulary is alive.
        let (wanted, token) =
            unsafe { (sys::llama_vocab_get_add_bos(self.vocabulary), sys::llama_vocab_bos(self.vocabulary)) };
        (wanted && token >= 0).then_some(token)
    }

    /// The names of the tokens that texts begin and end with; empty where there is none.
    pub(crate) fn ends_of_texts(self) -> (String, String) {
        // SAFETY: the vocabulary is alive.
        let (beginning, end) =
            unsafe { (sys::llama_vocab_bos(self.vocabulary), sys::llama_vocab_eos(self.vocabulary)) };
        (self.name(beginning), self.name(end))
    }

    /// Whether a token ends the model's turn. Any control token does: after it, somebody else would speak.
    pub(crate) fn ends_turn(self, token: Token) -> bool {
        // SAFETY: the vocabulary is alive, and the caller's token is one of it or answered with no.
        self.has(token)
            && unsafe {
                sys::llama_vocab_is_eog(self.vocabulary, token)
                    || sys::llama_vocab_is_control(self.vocabulary, token)
            }
    }

    /// Whether a token is a mark of the model's makers, such as `<tool_call>`, which ends no turn but means something to
    /// the model. Their other tokens are runs of spaces and the like.
    fn is_mark(self, token: Token) -> bool {
        // SAFETY: the vocabulary is alive and has the token.
        let is_theirs = self.has(token)
            && unsafe { sys::llama_vocab_get_attr(self.vocabulary, token) }
                & sys::LLAMA_TOKEN_ATTR_USER_DEFINED
                != 0;
        is_theirs && {
            let name = self.name(token);
            name.len() > 2 && name.starts_with('<') && name.ends_with('>')
        }
    }

    /// The bytes that a token stands for; none for a control token. They may be a part of a character.
    pub(crate) fn bytes(self, token: Token) -> Vec<u8> {
        let mut bytes: Vec<u8> = vec![0; 64];
        while self.has(token) {
            let Ok(room) = i32::try_from(bytes.len()) else { break };
            // SAFETY: the vocabulary is alive and has the token, and the call writes no more than there is room.
            let length = unsafe {
                let into = bytes.as_mut_ptr().cast::<c_char>();
                wellspring_token_to_piece(self.vocabulary, token, into, room)
            };
            match usize::try_from(length) {
                Ok(length) => {
                    bytes.truncate(length);
                    return bytes;
                }
                Err(_) if length == THROWN => break,
                Err(_) => bytes.resize(length.unsigned_abs() as usize, 0),
            }
        }
        Vec::new()
    }

    /// How many tokens there are.
    pub(crate) fn size(self) -> usize {
        // SAFETY: the vocabulary is alive.
        usize::try_from(unsafe { sys::llama_vocab_n_tokens(self.vocabulary) }).unwrap_or(0)
    }

    /// The name of a token, such as a chat template writes a control token by; empty if there is no such token.
    pub(crate) fn name(self, token: Token) -> String {
        if !self.has(token) {
            return String::new();
        }
        // SAFETY: the vocabulary is alive and has the token, whose name ends with a zero.
        let name = unsafe { CStr::from_ptr(sys::llama_vocab_get_text(self.vocabulary, token)) };
        name.to_string_lossy().into_owned()
    }

    fn has(self, token: Token) -> bool {
        usize::try_from(token).is_ok_and(|token| token < self.size())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::slice;

    use super::super::changed::vocabulary_of_changed;
    use super::*;

    /// By GGUF's number for it.
    const USER_DEFINED: i32 = 4;

    #[test]
    fn a_text_that_names_a_mark_of_the_models_makers_is_a_text() {
        const MARK: &str = "<repo_name>";
        const TYPES: &CStr = c"tokenizer.ggml.token_type";
        let make_it_one = |head: *mut sys::gguf_context| {
            // SAFETY: the head is alive and its list has as many numbers as it says; it is copied before it is set.
            unsafe {
                let list = sys::gguf_find_key(head, TYPES.as_ptr());
                let numbers = sys::gguf_get_arr_data(head, list).cast::<i32>();
                let mut types = slice::from_raw_parts(numbers, sys::gguf_get_arr_n(head, list)).to_vec();
                types[mark()] = USER_DEFINED;
                let kind = sys::GGUF_TYPE_INT32;
                sys::gguf_set_arr_data(head, TYPES.as_ptr(), kind, types.as_ptr().cast(), types.len());
            }
        };
        fn mark() -> usize {
            let weights = crate::chat::tests::weights();
            let vocabulary = weights.vocabulary();
            let is_it = |&token: &usize| vocabulary.name(Token::try_from(token).unwrap()) == MARK;
            (0..vocabulary.size()).find(is_it).unwrap()
        }
        let mark = Token::try_from(mark()).unwrap();
        vocabulary_of_changed(make_it_one, |vocabulary| {
            assert!(vocabulary.is_mark(mark));
            let text = format!("Write {MARK} before it,{MARK}{MARK} or not.");
            let control = vocabulary.tokens(&text, Parse::Control).unwrap();
            assert_eq!(control.iter().filter(|&&token| token == mark).count(), 3);
            let plain = vocabulary.tokens(&text, Parse::Plain).unwrap();
            assert!(!plain.contains(&mark), "{plain:?}");
            let bytes: Vec<u8> = plain.iter().flat_map(|&token| vocabulary.bytes(token)).collect();
            assert_eq!(bytes, text.as_bytes());
        });
    }
}
