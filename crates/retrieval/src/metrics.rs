//! How good a ranking is, measured as BEIR does: graded judgements with linear gain, averaged over all
//! questions that have a judgement. Pure; whoever asks the questions brings the rankings.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Averages over questions, each 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// How many questions had a judgement.
    pub questions: u32,
    /// How near the first ten are to the best order there could be.
    pub ndcg_at_10: f64,
    /// How many of the relevant documents are among the first ten.
    pub recall_at_10: f64,
    /// How many are among the first hundred.
    pub recall_at_100: f64,
    /// One divided by the place of the first relevant document; 0 if it is beyond the tenth.
    pub mrr_at_10: f64,
}

/// What is known to be relevant to a question: documents with their grades. 0 is irrelevant, as is everything
/// that has no grade.
pub type Judgements<D> = HashMap<D, u32>;

/// Averages over rankings, best document first, each with its question's judgements. A question without any
/// does not count.
pub fn measure<'a, D: Eq + Hash + 'a>(
    rankings: impl IntoIterator<Item = (&'a [D], &'a Judgements<D>)>,
) -> Metrics {
    let mut metrics = Metrics::default();
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

/// Documents in the order of their best chunks.
pub fn documents<D: Copy + Eq + Hash>(of_chunks: impl IntoIterator<Item = D>) -> Vec<D> {
    let mut seen = HashSet::new();
    of_chunks.into_iter().filter(|document| seen.insert(*document)).collect()
}

fn ndcg<D: Eq + Hash>(ranking: &[D], judgements: &Judgements<D>, depth: usize) -> f64 {
    let mut ideal: Vec<u32> = judgements.values().copied().collect();
    ideal.sort_unstable_by(|left, right| right.cmp(left));
    let best = discounted(ideal.into_iter().take(depth));
    if best == 0.0 {
        return 0.0;
    }
    discounted(ranking.iter().take(depth).map(|document| grade(judgements, document))) / best
}

fn discounted(grades: impl Iterator<Item = u32>) -> f64 {
    grades.zip(2_u32..).map(|(grade, place)| f64::from(grade) / f64::from(place).log2()).sum()
}

fn recall<D: Eq + Hash>(ranking: &[D], judgements: &Judgements<D>, depth: usize) -> f64 {
    let relevant = judgements.values().filter(|&&grade| grade > 0).map(|_| 1.0).sum::<f64>();
    let found = ranking.iter().take(depth).filter(|document| grade(judgements, document) > 0);
    if relevant == 0.0 { 0.0 } else { found.map(|_| 1.0).sum::<f64>() / relevant }
}

fn reciprocal_rank<D: Eq + Hash>(ranking: &[D], judgements: &Judgements<D>, depth: usize) -> f64 {
    let mut places = ranking.iter().take(depth).zip(1_u32..);
    let first = places.find(|(document, _)| grade(judgements, document) > 0);
    first.map_or(0.0, |(_, place)| 1.0 / f64::from(place))
}

fn grade<D: Eq + Hash>(judgements: &Judgements<D>, document: &D) -> u32 {
    judgements.get(document).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_questions_computed_by_hand() {
        // Ideal order b (2), a (1), c (1): 2 + 1/log2(3) + 1/2. Found a, x, b: 1 + 2/2.
        let first = (vec!["a", "x", "b"], judgements(&[("a", 1), ("b", 2), ("c", 1), ("x", 0)]));
        let first_ndcg = 2.0 / (2.0 + 1.0 / 3_f64.log2() + 0.5);
        // The relevant one is eleventh.
        let beyond = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "y"];
        let second = (beyond.to_vec(), judgements(&[("y", 1)]));
        // Nobody judged this one.
        let third = (vec!["z"], judgements(&[]));

        let questions = [first, second, third];
        let measured = measure(questions.iter().map(|(ranking, judgements)| (&ranking[..], judgements)));
        let expected = Metrics {
            questions: 2,
            ndcg_at_10: first_ndcg / 2.0,
            recall_at_10: (2.0 / 3.0) / 2.0,
            recall_at_100: (2.0 / 3.0 + 1.0) / 2.0,
            mrr_at_10: 0.5,
        };
        assert_eq!(measured, expected);
    }

    #[test]
    fn nothing_judged_and_nothing_relevant_are_zero() {
        assert_eq!(measure::<&str>([]), Metrics::default());
        let irrelevant = judgements(&[("a", 0)]);
        assert_eq!(measure([(&["a"][..], &irrelevant)]), Metrics { questions: 1, ..Metrics::default() });
    }

    #[test]
    fn a_document_stands_where_its_best_chunk_does() {
        assert_eq!(documents(["b", "a", "b", "c", "a"]), ["b", "a", "c"]);
    }

    fn judgements(grades: &[(&'static str, u32)]) -> Judgements<&'static str> {
        grades.iter().copied().collect()
    }
}
