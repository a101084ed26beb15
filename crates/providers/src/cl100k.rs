//! How many tokens a text has in `cl100k_base`, a vocabulary of OpenAI's: what is counted where a model's own is not
//! known. Exact; what looks like a control token is plain text.

mod merge;
mod pieces;
mod vocabulary;

use merge::merged;
use pieces::pieces;
use vocabulary::Vocabulary;

/// How many tokens a text has. The vocabulary is read when the first text is counted.
pub fn count_tokens(text: &str) -> usize {
    let vocabulary = Vocabulary::get();
    let tokens = |piece: &str| {
        let piece = piece.as_bytes();
        if vocabulary.rank(piece).is_some() { 1 } else { merged(piece, |part| vocabulary.rank(part)) }
    };
    pieces(text).map(tokens).sum()
}
