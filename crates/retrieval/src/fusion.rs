//! One order from two: by words and by meaning. It follows from the candidates alone, and ties are broken by
//! id.

use domain::{Candidate, ChunkId};

/// How many candidates are found by words, and how many by meaning. As many as anybody may ask for, so that
/// the order of the first ten does not depend on how many follow them.
pub(crate) const POOL: usize = 100;

/// How much words count against meaning in prose. Fitted on the development questions of SciFact.
const WORDS_IN_PROSE: f32 = 0.25;

/// And in code, whose words are names. Fitted on the development questions of CoSQA.
const WORDS_IN_CODE: f32 = 0.1;

/// How candidates are put in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// By a weighted sum of how well words and meaning fit. The more of the candidates is code, the less
    /// words count.
    Weighted,
    /// By their places in the two lists alone, which is no reranking.
    ReciprocalRank,
    /// By words alone; what was found by meaning only is left out. For comparison.
    Words,
    /// By meaning alone, likewise.
    Meaning,
}

/// A candidate, and its places, from 0, with its scores there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) candidate: Candidate,
    pub(crate) fused: (usize, f32),
    pub(crate) reranked: Option<(usize, f32)>,
}

impl Fusion {
    /// Puts candidates in order, best first.
    pub(crate) fn rank(self, candidates: Vec<Candidate>) -> Vec<Ranked> {
        let score = match self {
            Self::Weighted | Self::ReciprocalRank => reciprocal_ranks,
            Self::Words => by_words,
            Self::Meaning => by_meaning,
        };
        let scored = candidates.into_iter().filter_map(|candidate| Some((score(&candidate)?, candidate)));
        let fused = in_order(scored.collect(), |candidate| candidate.chunk);
        let fused = fused.map(|(fused, candidate)| Ranked { candidate, fused, reranked: None });
        match self {
            Self::Weighted => rerank(fused.collect()),
            Self::ReciprocalRank | Self::Words | Self::Meaning => fused.collect(),
        }
    }
}

fn rerank(fused: Vec<Ranked>) -> Vec<Ranked> {
    let candidates: Vec<&Candidate> = fused.iter().map(|ranked| &ranked.candidate).collect();
    let scores: Vec<f32> = weighted(&candidates).collect();
    let reranked = in_order(scores.into_iter().zip(fused).collect(), |ranked| ranked.candidate.chunk);
    reranked.map(|(reranked, ranked)| Ranked { reranked: Some(reranked), ..ranked }).collect()
}

/// Best first, each with its place and its score.
fn in_order<T>(
    mut scored: Vec<(f32, T)>,
    id: impl Fn(&T) -> ChunkId,
) -> impl Iterator<Item = ((usize, f32), T)> {
    scored.sort_by(|(left_score, left), (right_score, right)| {
        right_score.total_cmp(left_score).then_with(|| id(left).cmp(&id(right)))
    });
    scored.into_iter().enumerate().map(|(place, (score, ranked))| ((place, score), ranked))
}

fn by_words(candidate: &Candidate) -> Option<f32> {
    candidate.lexical.map(|(_, score)| score)
}

fn by_meaning(candidate: &Candidate) -> Option<f32> {
    candidate.dense.and(candidate.cosine)
}

fn weighted(candidates: &[&Candidate]) -> impl Iterator<Item = f32> {
    let by_words = normalized(candidates, by_words);
    let by_meaning = normalized(candidates, |candidate| candidate.cosine);
    let words = words_count(candidates);
    by_words.zip(by_meaning).map(move |(lexical, cosine)| words * lexical + (1.0 - words) * cosine)
}

/// How much words count, by how much of the candidates is code.
#[expect(clippy::cast_precision_loss, reason = "there are few candidates")]
fn words_count(candidates: &[&Candidate]) -> f32 {
    let code = candidates.iter().filter(|candidate| candidate.is_code).count() as f32;
    let share = code / candidates.len().max(1) as f32;
    WORDS_IN_PROSE + (WORDS_IN_CODE - WORDS_IN_PROSE) * share
}

/// Values between 0, the least there is, and 1, the most. Who has no value has the least, and where all values are the
/// same, they are the most.
fn normalized(
    candidates: &[&Candidate],
    value: impl Fn(&Candidate) -> Option<f32>,
) -> impl Iterator<Item = f32> {
    let values = || candidates.iter().filter_map(|candidate| value(candidate));
    let (least, most) = (values().fold(f32::INFINITY, f32::min), values().fold(f32::NEG_INFINITY, f32::max));
    candidates.iter().map(move |candidate| match value(candidate) {
        Some(value) if most > least => (value - least) / (most - least),
        Some(_) => 1.0,
        None => 0.0,
    })
}

/// Reciprocal rank fusion: one list's first is worth little more than its second, being in both lists much
/// more.
#[expect(clippy::cast_precision_loss, reason = "there are few candidates")]
fn reciprocal_ranks(candidate: &Candidate) -> Option<f32> {
    const DAMPING: f32 = 60.0;
    let ranks = [candidate.lexical.map(|(rank, _)| rank), candidate.dense];
    Some(ranks.into_iter().flatten().map(|rank| 1.0 / (DAMPING + 1.0 + rank as f32)).sum())
}

#[cfg(test)]
mod tests {
    use domain::DocumentId;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn words_count_in_prose_and_hardly_in_code() {
        let by_words = candidate(1, Some((0, 9.0)), None, 0.79);
        let by_meaning = candidate(2, Some((1, 3.0)), Some(0), 0.81);
        let far = candidate(3, None, Some(1), 0.70);
        let prose = vec![by_words, by_meaning, far];
        check(Fusion::Weighted, prose.clone(), &[1, 2, 3]);

        let code = prose.into_iter().map(|candidate| Candidate { is_code: true, ..candidate }).collect();
        check(Fusion::Weighted, code, &[2, 1, 3]);
    }

    #[test]
    fn who_is_in_both_lists_comes_first_by_reciprocal_ranks() {
        let candidates = vec![
            candidate(1, Some((0, 9.0)), None, 0.5),
            candidate(2, Some((5, 3.0)), Some(5), 0.5),
            candidate(3, None, Some(0), 0.9),
        ];
        check(Fusion::ReciprocalRank, candidates, &[2, 1, 3]);
    }

    #[test]
    fn what_is_reranked_keeps_its_place_by_reciprocal_ranks() {
        let candidates = vec![
            candidate(1, Some((0, 9.0)), None, 0.79),
            candidate(2, Some((1, 3.0)), Some(0), 0.81),
            candidate(3, None, Some(1), 0.70),
        ];
        let places = |fusion: Fusion| {
            let ranked = fusion.rank(candidates.clone());
            let place = |ranked: &Ranked| (ranked.fused.0, ranked.reranked.map(|(place, _)| place));
            ranked.iter().map(place).collect::<Vec<_>>()
        };
        assert_eq!(places(Fusion::Weighted), [(1, Some(0)), (0, Some(1)), (2, Some(2))]);
        assert_eq!(places(Fusion::ReciprocalRank), [(0, None), (1, None), (2, None)]);
        let reranked = &Fusion::Weighted.rank(candidates.clone())[1];
        assert_eq!(reranked.fused, Fusion::ReciprocalRank.rank(candidates)[0].fused);
    }

    #[test]
    fn candidates_without_vectors_are_ordered_by_their_words() {
        let bare =
            |number, lexical| Candidate { cosine: None, ..candidate(number, Some(lexical), None, 0.0) };
        check(Fusion::Weighted, vec![bare(1, (1, 2.0)), bare(2, (0, 3.0)), bare(3, (2, 2.0))], &[2, 1, 3]);
    }

    #[test]
    fn the_only_one_with_the_words_comes_before_those_without() {
        let alike = |number, lexical| candidate(number, lexical, Some(0), 0.7);
        check(Fusion::Weighted, vec![alike(1, None), alike(2, Some((0, 3.0))), alike(3, None)], &[2, 1, 3]);
    }

    #[test]
    fn nothing_and_one_are_in_order() {
        check(Fusion::Weighted, vec![], &[]);
        check(Fusion::Weighted, vec![candidate(1, None, Some(0), 0.5)], &[1]);
    }

    fn candidate(
        number: u128,
        lexical: Option<(usize, f32)>,
        dense: Option<usize>,
        cosine: f32,
    ) -> Candidate {
        Candidate {
            chunk: ChunkId(Uuid::from_u128(number)),
            document: DocumentId(Uuid::nil()),
            is_code: false,
            lexical,
            dense,
            cosine: Some(cosine),
        }
    }

    fn check(fusion: Fusion, candidates: Vec<Candidate>, expected: &[u128]) {
        let ranked = fusion.rank(candidates);
        assert_eq!(
            ranked.iter().map(|ranked| ranked.candidate.chunk.0.as_u128()).collect::<Vec<_>>(),
            expected
        );
    }
}
