//! What became of all sources, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use domain::{IngestFailure, IngestStage};
use ingest::{IngestError, SourceReport};
use serde::Serialize;

use super::progress::duration;

/// Failures that a person is told one by one, of each source.
const FAILURES_TOLD: usize = 20;

/// What became of all sources.
#[derive(Default)]
pub(super) struct Summary {
    sources: Vec<(String, Result<SourceReport, IngestError>)>,
}

impl Summary {
    pub(super) fn add(&mut self, shown: &str, read: Result<SourceReport, IngestError>) {
        self.sources.push((shown.to_owned(), read));
    }

    /// For a person.
    pub(super) fn text(&self, took: Duration) -> String {
        let mut text = String::new();
        for (shown, read) in &self.sources {
            match read {
                Ok(report) => text.push_str(&told(shown, report)),
                Err(error) => text.push_str(&format!("{shown}: not read: {error}\n")),
            }
        }
        let (chunks, bytes) = self
            .reports()
            .fold((0, 0), |(chunks, bytes), report| (chunks + report.embedded, bytes + report.bytes));
        let rate = chunks as f64 / took.as_secs_f64().max(0.001);
        let megabytes = bytes as f64 / 1e6;
        text.push_str(&format!(
            "{chunks} chunks embedded, {megabytes:.1} MB read, in {} ({rate:.0} chunks/s)\n",
            duration(took)
        ));
        text
    }

    /// For a program.
    pub(super) fn json(&self, took: Duration) -> String {
        let sources = self.sources.iter().map(|(shown, read)| SourceOut::new(shown, read)).collect();
        let summary = SummaryOut { sources, duration_ms: took.as_millis() };
        serde_json::to_string_pretty(&summary).expect("a summary is JSON") + "\n"
    }

    /// What is left to be done, if something is. Single documents that failed are told and no more.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let unread = self.sources.iter().filter(|(_, read)| read.is_err()).count();
        if unread > 0 {
            return Err(format!("{unread} of {} sources could not be read", self.sources.len()));
        }
        let without = self.reports().find_map(|report| report.not_embedded.as_ref());
        without.map_or(Ok(()), |failure| {
            Err(format!(
                "some chunks are found by their words only, since they could not be embedded: {failure}; the same \
                 command, or `wellspring reindex`, does the rest"
            ))
        })
    }

    fn reports(&self) -> impl Iterator<Item = &SourceReport> {
        self.sources.iter().filter_map(|(_, read)| read.as_ref().ok())
    }
}

fn told(shown: &str, report: &SourceReport) -> String {
    let SourceReport { added, replaced, removed, unchanged, .. } = report;
    let mut text =
        format!("{shown}: {added} added, {replaced} changed, {removed} removed, {unchanged} unchanged");
    let skipped: Vec<_> =
        report.skipped.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    if !skipped.is_empty() {
        text.push_str(&format!("; left out: {}", skipped.join(", ")));
    }
    text.push('\n');
    for IngestFailure { place, stage, message } in report.failures.iter().take(FAILURES_TOLD) {
        text.push_str(&format!("  {}: {}: {message}\n", place.file_path.escape_debug(), name(*stage)));
    }
    let told = report.failures.len().min(FAILURES_TOLD) as u64;
    if report.failure_count > told {
        let _ = writeln!(text, "  and {} more could not be taken in", report.failure_count - told);
    }
    text
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SummaryOut<'a> {
    sources: Vec<SourceOut<'a>>,
    duration_ms: u128,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceOut<'a> {
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    repo_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'a str>,
    added: u64,
    changed: u64,
    removed: u64,
    unchanged: u64,
    skipped: BTreeMap<&'static str, u64>,
    chunks: u64,
    bytes: u64,
    embedded: u64,
    failure_count: u64,
    errors: Vec<FailureOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureOut<'a> {
    file_path: &'a str,
    stage: &'static str,
    message: &'a str,
}

impl<'a> SourceOut<'a> {
    fn new(source: &'a str, read: &'a Result<SourceReport, IngestError>) -> Self {
        let report = match read {
            Ok(report) => report,
            Err(error) => return Self { source, error: Some(error.to_string()), ..Self::default() },
        };
        let failure = |failure: &'a IngestFailure| FailureOut {
            file_path: &failure.place.file_path,
            stage: name(failure.stage),
            message: &failure.message,
        };
        Self {
            source,
            error: report.not_embedded.as_ref().map(ToString::to_string),
            repo_url: &report.repo_url,
            commit: report.commit.as_deref(),
            added: report.added,
            changed: report.replaced,
            removed: report.removed,
            unchanged: report.unchanged,
            skipped: report.skipped.iter().map(|(reason, count)| (reason.name(), *count)).collect(),
            chunks: report.chunks,
            bytes: report.bytes,
            embedded: report.embedded,
            failure_count: report.failure_count,
            errors: report.failures.iter().map(failure).collect(),
        }
    }
}

fn name(stage: IngestStage) -> &'static str {
    match stage {
        IngestStage::Reading => "reading",
        IngestStage::Parsing => "parsing",
        IngestStage::Filing => "filing",
        IngestStage::Embedding => "embedding",
        IngestStage::Indexing => "indexing",
    }
}
