//! Fusion of the lexical and the dense ranking into one order. It depends on the candidates alone; ties are
//! broken by chunk id.

#[cfg(test)]
mod tests;

use domain::{Candidate, ChunkId};

/// Candidates per ranking, at least. It equals the largest limit that a client may ask for, so that the order
/// of the first ten passages does not depend on the limit.
pub(crate) const MIN_CANDIDATES: usize = 100;

/// Weight of the lexical score in prose; the cosine gets the rest. Fitted on SciFact's development questions.
const LEXICAL_WEIGHT_IN_PROSE: f32 = 0.25;

/// Weight of the lexical score in code, whose words are names. Fitted on CoSQA's development questions.
const LEXICAL_WEIGHT_IN_CODE: f32 = 0.1;

/// How the lexical and the dense ranking become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// Reciprocal rank fusion, then reranking by a weighted sum of the normalized BM25 score and cosine. The
    /// larger the share of code among the candidates, the smaller the weight of BM25.
    Weighted,
    /// Reciprocal rank fusion alone, without reranking.
    ReciprocalRank,
    /// The lexical ranking alone, as a baseline for evaluations.
    LexicalOnly,
    /// The dense ranking alone, as a baseline for evaluations.
    DenseOnly,
}

/// A candidate with its rank (from 0) and score after each step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankedCandidate {
    pub(crate) candidate: Candidate,
    pub(crate) fused: (usize, f32),
    pub(crate) reranked: Option<(usize, f32)>,
}

impl Fusion {
    /// Orders candidates, best first.
    pub(crate) fn rank(self, candidates: Vec<Candidate>) -> Vec<RankedCandidate> {
        let score = match self {
            Self::Weighted | Self::ReciprocalRank => reciprocal_rank_score,
            Self::LexicalOnly => lexical_score,
            Self::DenseOnly => dense_score,
        };
        let scored = candidates.into_iter().filter_map(|candidate| Some((score(&candidate)?, candidate)));
        let fused = sorted_by_score(scored.collect(), |candidate| candidate.chunk);
        let fused = fused.map(|(fused, candidate)| RankedCandidate { candidate, fused, reranked: None });
        match self {
            Self::Weighted => rerank(fused.collect()),
            Self::ReciprocalRank | Self::LexicalOnly | Self::DenseOnly => fused.collect(),
        }
    }
}

fn rerank(fused: Vec<RankedCandidate>) -> Vec<RankedCandidate> {
    let candidates: Vec<&Candidate> = fused.iter().map(|ranked| &ranked.candidate).collect();
    let scores: Vec<f32> = weighted_scores(&candidates).collect();
    let reranked = sorted_by_score(scores.into_iter().zip(fused).collect(), |ranked| ranked.candidate.chunk);
    reranked.map(|(reranked, ranked)| RankedCandidate { reranked: Some(reranked), ..ranked }).collect()
}

/// The items, best first, each with its rank and score.
fn sorted_by_score<T>(
    mut scored: Vec<(f32, T)>,
    chunk: impl Fn(&T) -> ChunkId,
) -> impl Iterator<Item = ((usize, f32), T)> {
    scored.sort_by(|(left_score, left), (right_score, right)| {
        right_score.total_cmp(left_score).then_with(|| chunk(left).cmp(&chunk(right)))
    });
    scored.into_iter().enumerate().map(|(rank, (score, item))| ((rank, score), item))
}

fn lexical_score(candidate: &Candidate) -> Option<f32> {
    candidate.lexical.map(|(_, score)| score)
}

fn dense_score(candidate: &Candidate) -> Option<f32> {
    candidate.dense.and(candidate.cosine)
}

/// Reciprocal rank fusion: first place in one ranking is worth little more than second place; being in both
/// rankings is worth much more.
#[expect(clippy::cast_precision_loss, reason = "there are few candidates")]
fn reciprocal_rank_score(candidate: &Candidate) -> Option<f32> {
    const DAMPING: f32 = 60.0;
    let ranks = [candidate.lexical.map(|(rank, _)| rank), candidate.dense];
    Some(ranks.into_iter().flatten().map(|rank| 1.0 / (DAMPING + 1.0 + rank as f32)).sum())
}

fn weighted_scores(candidates: &[&Candidate]) -> impl Iterator<Item = f32> {
    let lexical = min_max_normalized(candidates, lexical_score);
    let cosine = min_max_normalized(candidates, |candidate| candidate.cosine);
    let weight = lexical_weight(candidates);
    lexical.zip(cosine).map(move |(lexical, cosine)| weight * lexical + (1.0 - weight) * cosine)
}

/// The weight of the lexical score, interpolated by the share of code among the candidates.
#[expect(clippy::cast_precision_loss, reason = "there are few candidates")]
fn lexical_weight(candidates: &[&Candidate]) -> f32 {
    let code = candidates.iter().filter(|candidate| candidate.is_code).count() as f32;
    let share = code / candidates.len().max(1) as f32;
    LEXICAL_WEIGHT_IN_PROSE + (LEXICAL_WEIGHT_IN_CODE - LEXICAL_WEIGHT_IN_PROSE) * share
}

/// Values scaled so that the smallest becomes 0 and the largest 1. A missing value becomes 0; equal values
/// all become 1.
fn min_max_normalized(
    candidates: &[&Candidate],
    value: impl Fn(&Candidate) -> Option<f32>,
) -> impl Iterator<Item = f32> {
    let values = || candidates.iter().filter_map(|candidate| value(candidate));
    let (min, max) = (values().fold(f32::INFINITY, f32::min), values().fold(f32::NEG_INFINITY, f32::max));
    candidates.iter().map(move |candidate| match value(candidate) {
        Some(value) if max > min => (value - min) / (max - min),
        Some(_) => 1.0,
        None => 0.0,
    })
}
