//! The report, as a table and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::retrieval::MeasuredRetrieval;

pub(super) struct EvalReport {
    pub(super) collection: String,
    /// The embedding model.
    pub(super) model: String,
    pub(super) documents: usize,
    pub(super) chunks: usize,
    /// The time of the ingest.
    pub(super) ingest: Duration,
    /// The configured retrieval.
    pub(super) whole: MeasuredRetrieval,
    pub(super) parts: Vec<MeasuredPart>,
}

/// A part of the retrieval, measured alone.
pub(super) struct MeasuredPart {
    pub(super) name: &'static str,
    pub(super) measured: MeasuredRetrieval,
}

impl EvalReport {
    /// One JSON object.
    pub(super) fn json(&self) -> String {
        let mut report = figures(&self.whole);
        report.insert("collection".to_owned(), json!(self.collection));
        report.insert("model".to_owned(), json!(self.model));
        report.insert("queries".to_owned(), json!(self.whole.metrics.questions));
        report.insert("documents".to_owned(), json!(self.documents));
        report.insert("chunks".to_owned(), json!(self.chunks));
        report.insert("ingest_seconds".to_owned(), json!(rounded(self.ingest.as_secs_f64())));
        if !self.parts.is_empty() {
            let parts = self.parts.iter().map(|part| (part.name.to_owned(), figures(&part.measured).into()));
            report.insert("parts".to_owned(), Value::Object(parts.collect()));
        }
        format!("{:#}\n", Value::Object(report))
    }

    /// One line for the configured retrieval and each part.
    pub(super) fn table(&self) -> String {
        let Self { collection, documents, chunks, model, .. } = self;
        let questions = self.whole.metrics.questions;
        let seconds = self.ingest.as_secs_f64();
        let mut table = format!(
            "{collection}: {questions} questions, {documents} documents in {chunks} chunks, embedded by {model} in \
             {seconds:.1} s\n{:15}  nDCG@10  recall@10  recall@100  MRR@10  relevant  ms p50  ms p95\n",
            ""
        );
        let parts = self.parts.iter().map(|part| (part.name, &part.measured));
        for (name, measured) in [("default", &self.whole)].into_iter().chain(parts) {
            let metrics = measured.metrics;
            let _ = writeln!(
                table,
                "{name:15}  {:7.4}  {:9.4}  {:10.4}  {:6.4}  {:8.4}  {:6.2}  {:6.2}",
                metrics.ndcg_at_10,
                metrics.recall_at_10,
                metrics.recall_at_100,
                metrics.mrr_at_10,
                relevant(measured),
                measured.milliseconds(0.5),
                measured.milliseconds(0.95),
            );
        }
        table
    }
}

fn figures(measured: &MeasuredRetrieval) -> Map<String, Value> {
    let metrics = measured.metrics;
    let figures = [
        ("ndcg@10", metrics.ndcg_at_10),
        ("recall@10", metrics.recall_at_10),
        ("recall@100", metrics.recall_at_100),
        ("mrr@10", metrics.mrr_at_10),
        ("relevant", relevant(measured)),
        ("query_ms_p50", measured.milliseconds(0.5)),
        ("query_ms_p95", measured.milliseconds(0.95)),
    ];
    figures.into_iter().map(|(name, figure)| (name.to_owned(), json!(rounded(figure)))).collect()
}

/// The share of the questions that pass the relevance gate.
#[expect(clippy::cast_precision_loss, reason = "there are few questions")]
fn relevant(measured: &MeasuredRetrieval) -> f64 {
    measured.relevant as f64 / f64::from(measured.metrics.questions.max(1))
}

/// Four decimals.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}
