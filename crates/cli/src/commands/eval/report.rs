//! What was measured, for people and for machines.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::answers::Answers;
use super::found::Measured;

/// Everything that was measured.
pub(super) struct Report {
    pub(super) collection: String,
    /// Of the embedder.
    pub(super) model: String,
    pub(super) documents: usize,
    pub(super) chunks: usize,
    /// How long taking the documents in took.
    pub(super) fill: Duration,
    /// As the settings have it.
    pub(super) whole: Measured,
    pub(super) parts: Vec<Part>,
    /// If questions were asked.
    pub(super) answers: Option<Answers>,
}

/// A way of finding that is measured beside.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) measured: Measured,
}

impl Report {
    /// One JSON object.
    pub(super) fn json(&self) -> String {
        let mut report = figures(&self.whole);
        report.insert("collection".to_owned(), json!(self.collection));
        report.insert("model".to_owned(), json!(self.model));
        report.insert("queries".to_owned(), json!(self.whole.metrics.questions));
        report.insert("documents".to_owned(), json!(self.documents));
        report.insert("chunks".to_owned(), json!(self.chunks));
        report.insert("ingest_seconds".to_owned(), json!(rounded(self.fill.as_secs_f64())));
        if !self.parts.is_empty() {
            let parts = self.parts.iter().map(|part| (part.name.to_owned(), figures(&part.measured).into()));
            report.insert("parts".to_owned(), Value::Object(parts.collect()));
        }
        if let Some(answers) = &self.answers {
            report.extend(answers.figures());
        }
        format!("{:#}\n", Value::Object(report))
    }

    /// A line a way of finding.
    pub(super) fn table(&self) -> String {
        let Self { collection, documents, chunks, model, .. } = self;
        let questions = self.whole.metrics.questions;
        let seconds = self.fill.as_secs_f64();
        let mut table = format!(
            "{collection}: {questions} questions, {documents} documents in {chunks} chunks, taken in by {model} in \
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
        if let Some(answers) = &self.answers {
            table.push_str(&answers.table());
        }
        table
    }
}

fn figures(measured: &Measured) -> Map<String, Value> {
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

/// The share of the questions for which something relevant was found, as the gate has it.
#[expect(clippy::cast_precision_loss, reason = "there are few questions")]
fn relevant(measured: &Measured) -> f64 {
    measured.relevant as f64 / f64::from(measured.metrics.questions.max(1))
}

/// More digits would say nothing.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}
