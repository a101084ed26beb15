//! Searches for every question of a collection, one after the other, and measures the rankings.

use std::time::{Duration, Instant};

use domain::{DocumentId, Principal, RetrievalQuery, Retriever, SearchScope};
use retrieval::ranking_metrics::{self, RankingMetrics};

use super::collection::Collection;
use crate::commands::CommandError;

/// The most passages that a client may ask for.
const PASSAGES: usize = 100;

/// The quality of the rankings, and the time they took.
pub(super) struct MeasuredRetrieval {
    pub(super) metrics: RankingMetrics,
    /// How many questions pass the relevance gate.
    pub(super) relevant: usize,
    /// The time of each question, ascending.
    times: Vec<Duration>,
}

impl MeasuredRetrieval {
    /// The quantile of the times, in milliseconds.
    pub(super) fn milliseconds(&self, share: f64) -> f64 {
        let last = self.times.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a place among few questions"
        )]
        let place = (last as f64 * share).round() as usize;
        self.times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}

/// Searches for all questions that have a judgement.
pub(super) async fn measure(
    collection: &Collection,
    retriever: &dyn Retriever,
) -> Result<MeasuredRetrieval, CommandError> {
    let mut rankings: Vec<Vec<DocumentId>> = Vec::with_capacity(collection.questions.len());
    let (mut times, mut relevant) = (Vec::with_capacity(collection.questions.len()), 0);
    for question in collection.judged() {
        let query = RetrievalQuery {
            text: question.text.clone(),
            scope: SearchScope::default(),
            threshold: None,
            limit: PASSAGES,
        };
        let began = Instant::now();
        let found = retriever.retrieve(&Principal::local(), query, &|_| {}).await;
        times.push(began.elapsed());
        let found = found?;
        relevant += usize::from(found.is_relevant);
        rankings.push(ranking_metrics::rank_documents(found.passages.iter().map(|hit| hit.passage.document)));
    }
    times.sort_unstable();
    let judged = rankings.iter().zip(collection.judged());
    let metrics = ranking_metrics::measure(
        judged.map(|(ranking, question)| (ranking.as_slice(), &question.judgements)),
    );
    Ok(MeasuredRetrieval { metrics, relevant, times })
}
