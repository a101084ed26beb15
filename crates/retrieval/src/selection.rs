//! A text that came with a question, searched like the index: its pieces are compared by words and by meaning. It is
//! gone with the question; nothing of it is written anywhere.

mod pieces;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use domain::{Candidate, Chunk, ChunkId, DocumentId, Hit, Passage, char_count, line_ends};
use uuid::Uuid;

use crate::fusion::Ranked;
use crate::index::bm25::{counted, norm, rarity, weight};
use crate::index::words::words;

/// What a selection goes by, where a document has an address.
const URL: &str = "selected_text";
const TITLE: &str = "User Selection";
const SECTION: &str = "Selected Text";

/// A selection, cut into pieces.
pub(crate) struct Selection<'a> {
    text: &'a str,
    document: DocumentId,
    pieces: Vec<Piece>,
}

struct Piece {
    chunk: ChunkId,
    bytes: Range<usize>,
    chars: (u32, u32),
    lines: (u32, u32),
}

impl<'a> Selection<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let document = DocumentId(Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{URL}\0{text}").as_bytes()));
        let mut selection = Self { text, document, pieces: Vec::new() };
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let (mut at, mut chars, mut lines) = (0, 0, 1);
        for bytes in pieces::of(text) {
            let piece = &text[bytes.clone()];
            // A piece neither begins nor ends with white space, so that no line end is cut in two.
            chars += char_count(&text[at..bytes.start]);
            lines += line_ends(&text[at..bytes.start]);
            let (first_char, first_line) = (chars, lines);
            chars += char_count(piece);
            lines += line_ends(piece);
            at = bytes.end;
            let earlier = seen.entry(piece).or_default();
            let chunk = Chunk::id(document, "", piece, *earlier);
            *earlier += 1;
            let (chars, lines) = ((first_char, chars), (first_line, lines));
            selection.pieces.push(Piece { chunk, bytes, chars, lines });
        }
        selection
    }

    /// The words of each piece.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().map(|piece| &self.text[piece.bytes.clone()])
    }

    /// All pieces, as the index would tell them: compared with a question, and by vectors with the question's.
    pub(crate) fn candidates(&self, question: &str, asked: &[f32], vectors: &[Vec<f32>]) -> Vec<Candidate> {
        let cosine = |vector: &Vec<f32>| asked.iter().zip(vector).map(|(left, right)| left * right).sum();
        let cosines: Vec<f32> = vectors.iter().map(cosine).collect();
        let scores = self.by_words(question);
        let dense = self.places(&cosines);
        let lexical = self.places(&scores);
        let numbered = self.pieces.iter().zip(&cosines).enumerate();
        let candidate = |(number, (piece, &cosine)): (usize, (&Piece, &f32))| Candidate {
            chunk: piece.chunk,
            document: self.document,
            is_code: false,
            lexical: (scores[number] > 0.0).then_some((lexical[number], scores[number])),
            dense: Some(dense[number]),
            cosine: Some(cosine),
        };
        numbered.map(candidate).collect()
    }

    /// What was ranked, as passages.
    pub(crate) fn hits(&self, ranked: Vec<Ranked>) -> Vec<Hit> {
        let pieces: HashMap<ChunkId, &Piece> = self.pieces.iter().map(|piece| (piece.chunk, piece)).collect();
        let hit = |Ranked { candidate, fused, reranked }| {
            let passage = self.passage(pieces.get(&candidate.chunk)?, &candidate);
            Some(Hit { passage, candidate, fused, reranked })
        };
        ranked.into_iter().filter_map(hit).collect()
    }

    fn passage(&self, piece: &Piece, candidate: &Candidate) -> Passage {
        Passage {
            chunk: piece.chunk,
            document: self.document,
            title: TITLE.to_owned(),
            repo_url: None,
            file_path: None,
            url: Some(URL.to_owned()),
            section: Some(SECTION.to_owned()),
            subsection: None,
            lines: Some(piece.lines),
            chars: Some(piece.chars),
            text: self.text[piece.bytes.clone()].to_owned(),
            before: String::new(),
            score: candidate.cosine.unwrap_or(0.0).clamp(0.0, 1.0),
        }
    }

    /// How well the words of each piece fit those of a question.
    #[expect(clippy::cast_precision_loss, reason = "a selection has few words")]
    fn by_words(&self, question: &str) -> Vec<f32> {
        let counts: Vec<HashMap<String, f32>> = self
            .texts()
            .map(|text| {
                let mut counts = HashMap::new();
                words(text).for_each(|word| *counts.entry(word).or_insert(0.0) += 1.0);
                counts
            })
            .collect();
        let lengths: Vec<f32> = counts.iter().map(|counts| counts.values().sum()).collect();
        let average = (lengths.iter().sum::<f32>() / counts.len().max(1) as f32).max(1.0);
        let mut scores = vec![0.0; counts.len()];
        for (word, asked) in counted(question) {
            let having = counts.iter().filter(|counts| counts.contains_key(&word)).count() as u64;
            let weight = weight(rarity(having, counts.len() as u64), asked);
            for ((counts, length), score) in counts.iter().zip(&lengths).zip(&mut scores) {
                let count = counts.get(&word).copied().unwrap_or(0.0);
                *score += weight * count / (count + norm(*length, average));
            }
        }
        scores
    }

    /// The place of each piece when they are put in order by a score, ties by id.
    fn places(&self, scores: &[f32]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.pieces.len()).collect();
        let by_score = |left: &usize, right: &usize| -> Ordering { scores[*right].total_cmp(&scores[*left]) };
        order.sort_by(|left, right| {
            by_score(left, right).then_with(|| self.pieces[*left].chunk.cmp(&self.pieces[*right].chunk))
        });
        let mut places = vec![0; order.len()];
        order.into_iter().enumerate().for_each(|(place, piece)| places[piece] = place);
        places
    }
}

#[cfg(test)]
mod tests;
