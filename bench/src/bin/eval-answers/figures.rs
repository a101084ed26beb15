//! The figures of all answers.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use bench::evaluated::Answer;

use crate::judge::Verdict;

#[derive(Default)]
pub(crate) struct AnswerFigures {
    model: String,
    verdicts: Vec<Verdict>,
}

/// Half the width of the 95 % confidence interval, in standard errors.
const HALF_WIDTH: f64 = 1.96;

impl AnswerFigures {
    pub(crate) fn add(&mut self, answer: &Answer, verdict: Verdict) {
        self.model.clone_from(&answer.model);
        self.verdicts.push(verdict);
    }

    pub(crate) fn json(&self) -> String {
        format!("{:#}\n", Value::Object(self.figures()))
    }

    /// One line a figure.
    pub(crate) fn table(&self) -> String {
        let mut table = String::from("answers\n");
        for (name, value) in self.figures() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(table, "  {name:20}  {value}");
        }
        table
    }

    fn figures(&self) -> Map<String, Value> {
        let answerable = || self.verdicts.iter().filter(|verdict| verdict.answerable);
        let unanswerable = || self.verdicts.iter().filter(|verdict| !verdict.answerable);
        let cited = answerable().map(|verdict| verdict.cited).sum();
        let rightly = answerable().map(|verdict| verdict.rightly_cited).sum();
        let f1: Vec<f64> = answerable().filter_map(|verdict| verdict.f1).collect();
        let mut first: Vec<_> =
            self.verdicts.iter().map(|verdict| verdict.first_token.as_secs_f64() * 1e3).collect();
        first.sort_by(f64::total_cmp);
        let mut figures = Map::new();
        let mut put = |name: &str, value: Value| figures.insert(name.to_owned(), value);
        put("answering_model", json!(self.model));
        put("answers", json!(self.verdicts.len()));
        if let Some((mean, around)) = mean(&f1) {
            put("f1", rounded(mean));
            put("f1_interval", rounded(around));
        }
        let better: Vec<f64> = answerable().filter_map(|verdict| verdict.better).collect();
        if let Some((mean, around)) = mean(&better) {
            put("compared", json!(better.len()));
            put("f1_better", rounded(mean));
            put("f1_better_interval", rounded(around));
        }
        let facts: Vec<_> =
            self.verdicts.iter().filter_map(|verdict| Some((verdict.fact?, verdict.fact_is_given))).collect();
        let given = || facts.iter().filter(|(_, is_given)| *is_given);
        let mut share_of = |name: &str, of: usize, all: usize| {
            if let Some(share) = share(of, all) {
                put(name, rounded(share));
            }
        };
        share_of("with_the_fact", facts.iter().filter(|(has_it, _)| *has_it).count(), facts.len());
        share_of("fact_given", given().count(), facts.len());
        share_of("with_the_given_fact", given().filter(|(has_it, _)| *has_it).count(), given().count());
        share_of(
            "right_refusals",
            unanswerable().filter(|verdict| verdict.refusal).count(),
            unanswerable().count(),
        );
        share_of(
            "false_refusals",
            answerable().filter(|verdict| verdict.refusal).count(),
            answerable().count(),
        );
        share_of("citation_precision", rightly, cited);
        share_of("cited", answerable().filter(|verdict| verdict.cited > 0).count(), answerable().count());
        share_of("with_markers", self.verdicts.iter().filter(|v| v.markers).count(), self.verdicts.len());
        let words = self.verdicts.iter().map(|verdict| verdict.words).sum::<usize>();
        share_of("words", words, self.verdicts.len());
        put("first_token_ms_p50", json!(first.get(first.len() / 2).map(|ms| ms.round())));
        put("first_token_ms_p90", json!(first.get(first.len() * 9 / 10).map(|ms| ms.round())));
        figures
    }
}

/// The mean, and half the width of its confidence interval.
fn mean(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    Some((mean, HALF_WIDTH * (variance / count).sqrt()))
}

fn share(of: usize, all: usize) -> Option<f64> {
    (all > 0).then(|| of as f64 / all as f64)
}

fn rounded(figure: f64) -> Value {
    json!((figure * 1e4).round() / 1e4)
}
