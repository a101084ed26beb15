//! Asks every question of a collection, one after the other, and measures what is found.

use std::time::{Duration, Instant};

use domain::{DocumentId, Principal, RetrievalQuery, Retriever, SearchScope};
use retrieval::ranking_metrics::{self, RankingMetrics};

use super::collection::Collection;

/// As many as anybody may ask for.
const PASSAGES: usize = 100;

/// How good it is, and how fast.
pub(super) struct Measured {
    pub(super) metrics: RankingMetrics,
    /// How many questions the gate lets through.
    pub(super) relevant: usize,
    /// How long the questions took, the fastest first.
    times: Vec<Duration>,
}

impl Measured {
    /// The time, in milliseconds, that this share of the questions took at most.
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

/// Asks all questions.
pub(super) async fn all(collection: &Collection, retriever: &dyn Retriever) -> Result<Measured, String> {
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
        let found = found.map_err(|failure| format!("{:?}: {}", question.text, failure.message))?;
        relevant += usize::from(found.is_relevant);
        rankings.push(ranking_metrics::rank_documents(found.passages.iter().map(|hit| hit.passage.document)));
    }
    times.sort_unstable();
    let judged = rankings.iter().zip(collection.judged());
    let metrics = ranking_metrics::measure(
        judged.map(|(ranking, question)| (ranking.as_slice(), &question.judgements)),
    );
    Ok(Measured { metrics, relevant, times })
}
