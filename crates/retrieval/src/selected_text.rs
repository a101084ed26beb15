//! Search in a text that came with the question (`selected_text`): its chunks are scored by BM25 and cosine
//! like those of the index. It lives as long as the question; none of it is stored.

mod split;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use domain::{Candidate, Chunk, ChunkId, DocumentId, Hit, Passage, char_count, line_ends};
use uuid::Uuid;

use crate::fusion::RankedCandidate;
use crate::lexical::bm25::{idf, length_norm, query_terms, term_weight};
use crate::lexical::tokenizer::terms;
use crate::retriever::similarity;

/// Fixed values of a selection's passages, which have no document.
const URL: &str = "selected_text";
const TITLE: &str = "User Selection";
const SECTION: &str = "Selected Text";

/// A selected text, split into chunks.
pub(crate) struct SelectedText<'a> {
    text: &'a str,
    document: DocumentId,
    chunks: Vec<TextChunk>,
}

/// A chunk of the text, by its positions in it.
struct TextChunk {
    id: ChunkId,
    bytes: Range<usize>,
    /// First character and the one behind the last.
    chars: (u32, u32),
    /// First and last line, from 1.
    lines: (u32, u32),
}

impl<'a> SelectedText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let document = DocumentId(Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{URL}\0{text}").as_bytes()));
        let mut chunks = Vec::new();
        let mut repetitions: HashMap<&str, usize> = HashMap::new();
        let (mut at, mut chars, mut lines) = (0, 0, 1);
        for bytes in split::split(text) {
            let chunk = &text[bytes.clone()];
            // A chunk neither begins nor ends with white space, so no CRLF is split.
            chars += char_count(&text[at..bytes.start]);
            lines += line_ends(&text[at..bytes.start]);
            let (first_char, first_line) = (chars, lines);
            chars += char_count(chunk);
            lines += line_ends(chunk);
            at = bytes.end;
            let repetition = repetitions.entry(chunk).or_default();
            let id = Chunk::id(document, "", chunk, *repetition);
            *repetition += 1;
            chunks.push(TextChunk { id, bytes, chars: (first_char, chars), lines: (first_line, lines) });
        }
        Self { text, document, chunks }
    }

    /// The texts of all chunks, in order.
    pub(crate) fn chunk_texts(&self) -> impl Iterator<Item = &str> {
        self.chunks.iter().map(|chunk| &self.text[chunk.bytes.clone()])
    }

    /// All chunks as candidates. `vectors` has one vector for each chunk, in order.
    pub(crate) fn candidates(
        &self,
        question: &str,
        question_vector: &[f32],
        vectors: &[Vec<f32>],
    ) -> Vec<Candidate> {
        let dot =
            |vector: &Vec<f32>| question_vector.iter().zip(vector).map(|(left, right)| left * right).sum();
        let cosines: Vec<f32> = vectors.iter().map(dot).collect();
        let scores = self.bm25_scores(question);
        let (dense, lexical) = (self.ranks(&cosines), self.ranks(&scores));
        let candidate = |(number, (chunk, &cosine)): (usize, (&TextChunk, &f32))| Candidate {
            chunk: chunk.id,
            document: self.document,
            is_code: false,
            lexical: (scores[number] > 0.0).then_some((lexical[number], scores[number])),
            dense: Some(dense[number]),
            cosine: Some(cosine),
        };
        self.chunks.iter().zip(&cosines).enumerate().map(candidate).collect()
    }

    /// Ranked candidates with their passages.
    pub(crate) fn hits(&self, ranked: Vec<RankedCandidate>) -> Vec<Hit> {
        let chunks: HashMap<ChunkId, &TextChunk> =
            self.chunks.iter().map(|chunk| (chunk.id, chunk)).collect();
        let hit = |RankedCandidate { candidate, fused, reranked }| {
            let passage = self.passage(chunks.get(&candidate.chunk)?, &candidate);
            Some(Hit { passage, candidate, fused, reranked })
        };
        ranked.into_iter().filter_map(hit).collect()
    }

    fn passage(&self, chunk: &TextChunk, candidate: &Candidate) -> Passage {
        Passage {
            chunk: chunk.id,
            document: self.document,
            title: TITLE.to_owned(),
            repo_url: None,
            file_path: None,
            url: Some(URL.to_owned()),
            section: Some(SECTION.to_owned()),
            subsection: None,
            lines: Some(chunk.lines),
            chars: Some(chunk.chars),
            text: self.text[chunk.bytes.clone()].to_owned(),
            score: similarity(candidate),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a selection has few words")]
    fn bm25_scores(&self, question: &str) -> Vec<f32> {
        let frequencies: Vec<HashMap<String, f32>> = self
            .chunk_texts()
            .map(|text| {
                let mut frequencies = HashMap::new();
                terms(text).for_each(|term| *frequencies.entry(term).or_insert(0.0) += 1.0);
                frequencies
            })
            .collect();
        let lengths: Vec<f32> = frequencies.iter().map(|frequencies| frequencies.values().sum()).collect();
        let average = (lengths.iter().sum::<f32>() / lengths.len().max(1) as f32).max(1.0);
        let mut scores = vec![0.0; lengths.len()];
        for (term, query_frequency) in query_terms(question) {
            let containing = frequencies.iter().filter(|frequencies| frequencies.contains_key(&term)).count();
            let weight = term_weight(idf(containing as u64, lengths.len() as u64), query_frequency);
            for ((frequencies, length), score) in frequencies.iter().zip(&lengths).zip(&mut scores) {
                let frequency = frequencies.get(&term).copied().unwrap_or(0.0);
                *score += weight * frequency / (frequency + length_norm(*length, average));
            }
        }
        scores
    }

    /// The rank of each chunk by a score, ties by id.
    fn ranks(&self, scores: &[f32]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.chunks.len()).collect();
        order.sort_by(|&left, &right| {
            let by_score = scores[right].total_cmp(&scores[left]);
            by_score.then_with(|| self.chunks[left].id.cmp(&self.chunks[right].id))
        });
        let mut ranks = vec![0; order.len()];
        order.into_iter().enumerate().for_each(|(rank, chunk)| ranks[chunk] = rank);
        ranks
    }
}
