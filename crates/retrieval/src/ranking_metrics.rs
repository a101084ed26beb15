//! Quality of rankings, measured as BEIR does: graded judgements with linear gain, averaged over all
//! questions that have a judgement.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Averages over questions, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankingMetrics {
    /// Questions that have a judgement.
    pub questions: u32,
    /// Normalized discounted cumulative gain of the first ten documents.
    pub ndcg_at_10: f64,
    /// Share of the relevant documents that are among the first ten.
    pub recall_at_10: f64,
    /// Share of the relevant documents that are among the first hundred.
    pub recall_at_100: f64,
    /// Reciprocal rank of the first relevant document; 0 if it is beyond the tenth.
    pub mrr_at_10: f64,
}

/// The documents judged for a question, with their grades. Grade 0 is irrelevant, as is a document without
/// one.
pub type Judgements<D> = HashMap<D, u32>;

/// Metrics of rankings, best document first, each with its question's judgements. A question without
/// judgements does not count.
pub fn measure<'a, D: Eq + Hash + 'a>(
    rankings: impl IntoIterator<Item = (&'a [D], &'a Judgements<D>)>,
) -> RankingMetrics {
    let mut metrics = RankingMetrics::default();
    for (ranking, judgements) in rankings.into_iter().filter(|(_, judgements)| !judgements.is_empty()) {
        metrics.questions += 1;
        metrics.ndcg_at_10 += ndcg(ranking, judgements, 10);
        metrics.recall_at_10 += recall(ranking, judgements, 10);
        metrics.recall_at_100 += recall(ranking, judgements, 100);
        metrics.mrr_at_10 += reciprocal_rank(ranking, judgements, 10);
    }
    let questions = f64::from(metrics.questions.max(1));
    metrics.ndcg_at_10 /= questions;
    metrics.recall_at_10 /= questions;
    metrics.recall_at_100 /= questions;
    metrics.mrr_at_10 /= questions;
    metrics
}

/// A ranking of documents from a ranking of chunks: each document ranks where its best chunk does.
pub fn rank_documents<D: Copy + Eq + Hash>(of_chunks: impl IntoIterator<Item = D>) -> Vec<D> {
    let mut seen = HashSet::new();
    of_chunks.into_iter().filter(|document| seen.insert(*document)).collect()
}

fn ndcg<D: Eq + Hash>(ranking: &[D], judgements: &Judgements<D>, depth: usize) -> f64 {
    let mut ideal: Vec<u32> = judgements.values().copied().collect();
    ideal.sort_unstable_by(|left, right| right.cmp(left));
    let ideal_gain = discounted_gain(ideal.into_iter().take(depth));
    if ideal_gain == 0.0 {
        return 0.0;
    }
    discounted_gain(ranking.iter().take(depth).map(|document| grade(judgements, document))) / ideal_gain
}

fn discounted_gain(grades: impl Iterator<Item = u32>) -> f64 {
    grades.zip(2_u32..).map(|(grade, position)| f64::from(grade) / f64::from(position).log2()).sum()
}

fn recall<D: Eq + Hash>(ranking: &[D], judgements: &Judgements<D>, depth: usize) -> f64 {
    let relevant = judgements.values().filter(|&&grade| grade > 0).map(|_| 1.0).sum::<f64>();
    let found = ranking.iter().take(depth).filter(|document| grade(judgements, document) > 0);
    if relevant == 0.0 { 0.0 } else { found.map(|_| 1.0).sum::<f64>() / relevant }
}

fn reciprocal_rank<D: Eq + Hash>(ranking: &[D], judgements: &Judgements<D>, depth: usize) -> f64 {
    let mut positions = ranking.iter().take(depth).zip(1_u32..);
    let first = positions.find(|(document, _)| grade(judgements, document) > 0);
    first.map_or(0.0, |(_, position)| 1.0 / f64::from(position))
}

fn grade<D: Eq + Hash>(judgements: &Judgements<D>, document: &D) -> u32 {
    judgements.get(document).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_three_questions_equal_those_computed_by_hand() {
        // Ideal order b (2), a (1), c (1): 2 + 1/log2(3) + 1/2. Found a, x, b: 1 + 2/2.
        let first = (vec!["a", "x", "b"], judgements(&[("a", 1), ("b", 2), ("c", 1), ("x", 0)]));
        let first_ndcg = 2.0 / (2.0 + 1.0 / 3_f64.log2() + 0.5);
        // The relevant one is eleventh.
        let beyond = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "y"];
        let second = (beyond.to_vec(), judgements(&[("y", 1)]));
        // Not judged.
        let third = (vec!["z"], judgements(&[]));

        let questions = [first, second, third];
        let measured = measure(questions.iter().map(|(ranking, judgements)| (&ranking[..], judgements)));
        let expected = RankingMetrics {
            questions: 2,
            ndcg_at_10: first_ndcg / 2.0,
            recall_at_10: (2.0 / 3.0) / 2.0,
            recall_at_100: (2.0 / 3.0 + 1.0) / 2.0,
            mrr_at_10: 0.5,
        };
        assert_eq!(measured, expected);
    }

    #[test]
    fn metrics_without_judgements_or_relevant_documents_are_zero() {
        assert_eq!(measure::<&str>([]), RankingMetrics::default());
        let irrelevant = judgements(&[("a", 0)]);
        assert_eq!(
            measure([(&["a"][..], &irrelevant)]),
            RankingMetrics { questions: 1, ..RankingMetrics::default() }
        );
    }

    #[test]
    fn a_document_ranks_where_its_best_chunk_does() {
        assert_eq!(rank_documents(["b", "a", "b", "c", "a"]), ["b", "a", "c"]);
    }

    fn judgements(grades: &[(&'static str, u32)]) -> Judgements<&'static str> {
        grades.iter().copied().collect()
    }
}
