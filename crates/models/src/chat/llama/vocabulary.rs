//! The tokenizer of a model.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

use llama_cpp_sys_2 as sys;

use super::exceptions::{THROWN, wellspring_token_to_piece, wellspring_tokenize};
use super::weights::Weights;

/// A token's number.
pub(crate) type Token = sys::llama_token;

/// The vocabulary of a model.
#[derive(Clone, Copy)]
pub(crate) struct Vocabulary<'w> {
    vocabulary: *const sys::llama_vocab,
    weights: PhantomData<&'w Weights>,
}

/// How a text is tokenized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parse {
    /// Names of control tokens become those tokens: for the text of a chat template.
    Control,
    /// Every character is text: for anything that a person or a document says.
    Plain,
}

impl Vocabulary<'_> {
    /// # Safety
    /// The vocabulary must be that of weights which outlive the lifetime.
    pub(super) unsafe fn new(vocabulary: *const sys::llama_vocab) -> Self {
        Self { vocabulary, weights: PhantomData }
    }

    /// The tokens of a text; none if the vocabulary cannot encode it.
    pub(crate) fn tokens(self, text: &str, parse: Parse) -> Option<Vec<Token>> {
        let tokens = self.tokenize(text, parse)?;
        if parse == Parse::Control || !tokens.iter().any(|&token| self.is_marker(token)) {
            return Some(tokens);
        }
        // llama.cpp matches user-defined markers in any text. Tokenized in two parts they are plain words.
        let mut plain = Vec::with_capacity(tokens.len() + 8);
        for token in tokens {
            if self.is_marker(token) {
                let name = self.name(token);
                let (first, rest) = name.split_at(1);
                plain.extend(self.tokenize(first, parse)?);
                plain.extend(self.tokenize(rest, parse)?);
            } else {
                plain.push(token);
            }
        }
        Some(plain)
    }

    fn tokenize(self, text: &str, parse: Parse) -> Option<Vec<Token>> {
        // No token is shorter than a byte, but some vocabularies put a space in front.
        let mut tokens: Vec<Token> = vec![0; text.len() + 8];
        loop {
            let (length, room) = (i32::try_from(text.len()).ok()?, i32::try_from(tokens.len()).ok()?);
            // SAFETY: the vocabulary is alive, and the call reads and writes within the given lengths.
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
                // A text of more than `i32::MAX` tokens gives the same.
                Err(_) if count == THROWN => return None,
                Err(_) => tokens.resize(count.unsigned_abs() as usize, 0),
            }
        }
    }

    /// The BOS token, if this model's prompts begin with one.
    pub(crate) fn bos(self) -> Option<Token> {
        // SAFETY: the vocabulary is alive.
        let (wanted, token) =
            unsafe { (sys::llama_vocab_get_add_bos(self.vocabulary), sys::llama_vocab_bos(self.vocabulary)) };
        (wanted && token >= 0).then_some(token)
    }

    /// The names of the BOS and EOS tokens; empty where there is none.
    pub(crate) fn bos_and_eos(self) -> (String, String) {
        // SAFETY: the vocabulary is alive.
        let (beginning, end) =
            unsafe { (sys::llama_vocab_bos(self.vocabulary), sys::llama_vocab_eos(self.vocabulary)) };
        (self.name(beginning), self.name(end))
    }

    /// Whether a token ends the model's turn. Every control token does: what follows would be another role's turn.
    pub(crate) fn ends_turn(self, token: Token) -> bool {
        // SAFETY: the vocabulary is alive, and `has` checks the caller's token first.
        self.has(token)
            && unsafe {
                sys::llama_vocab_is_eog(self.vocabulary, token)
                    || sys::llama_vocab_is_control(self.vocabulary, token)
            }
    }

    /// Whether a token is a marker such as `<tool_call>`: user-defined, not a control token, but with a meaning to the
    /// model. Other user-defined tokens are runs of spaces and the like.
    fn is_marker(self, token: Token) -> bool {
        // SAFETY: the vocabulary is alive and has the token.
        let is_user_defined = self.has(token)
            && unsafe { sys::llama_vocab_get_attr(self.vocabulary, token) }
                & sys::LLAMA_TOKEN_ATTR_USER_DEFINED
                != 0;
        is_user_defined && {
            let name = self.name(token);
            name.len() > 2 && name.starts_with('<') && name.ends_with('>')
        }
    }

    /// The bytes of a token; empty for a control token. They may be part of a character.
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

    /// Number of tokens in the vocabulary.
    pub(crate) fn size(self) -> usize {
        // SAFETY: the vocabulary is alive.
        usize::try_from(unsafe { sys::llama_vocab_n_tokens(self.vocabulary) }).unwrap_or(0)
    }

    /// The name of a token as a chat template writes it; empty if there is no such token.
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

    use super::super::altered_vocabulary::with_altered_vocabulary;
    use super::*;

    /// GGUF's code for user-defined tokens.
    const USER_DEFINED: i32 = 4;

    #[test]
    fn a_text_that_names_a_marker_stays_text() {
        const MARK: &str = "<repo_name>";
        const TYPES: &CStr = c"tokenizer.ggml.token_type";
        let mark_user_defined = |head: *mut sys::gguf_context| {
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
        with_altered_vocabulary(mark_user_defined, |vocabulary| {
            assert!(vocabulary.is_marker(mark));
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
