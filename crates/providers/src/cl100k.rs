//! Counts tokens as OpenAI's tokenizer `cl100k_base` does, exactly. It stands in for the tokenizers of models that are
//! unknown. Text that looks like a control token counts as plain text.

mod byte_pairs;
mod split;
mod vocabulary;

use byte_pairs::count_merged;
use split::pieces;
use vocabulary::Vocabulary;

/// Counts the tokens of a text in `cl100k_base`. The first call reads the vocabulary.
pub fn count_tokens(text: &str) -> usize {
    let vocabulary = Vocabulary::get();
    let tokens = |piece: &str| {
        let piece = piece.as_bytes();
        if vocabulary.rank(piece).is_some() { 1 } else { count_merged(piece, |part| vocabulary.rank(part)) }
    };
    pieces(text).map(tokens).sum()
}
