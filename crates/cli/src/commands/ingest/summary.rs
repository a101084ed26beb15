//! The result of an ingest, source by source, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use domain::{IngestFailure, IngestStage};
use ingest::{IngestError, SourceReport};
use serde::Serialize;

use super::progress::duration;
use crate::commands::CommandError;

/// The most failures of a source that the text lists one by one.
const FAILURES_LISTED: usize = 20;

/// The report of every source, or why it could not be read.
#[derive(Default)]
pub(super) struct IngestSummary {
    sources: Vec<(String, Result<SourceReport, IngestError>)>,
}

impl IngestSummary {
    pub(super) fn add(&mut self, shown: &str, read: Result<SourceReport, IngestError>) {
        self.sources.push((shown.to_owned(), read));
    }

    pub(super) fn text(&self, took: Duration) -> String {
        let mut text = String::new();
        for (shown, read) in &self.sources {
            match read {
                Ok(report) => text.push_str(&source_text(shown, report)),
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

    pub(super) fn json(&self, took: Duration) -> String {
        let sources = self.sources.iter().map(|(shown, read)| SourceOut::new(shown, read)).collect();
        let summary = SummaryOut { sources, duration_ms: took.as_millis() };
        serde_json::to_string_pretty(&summary).expect("a summary is JSON") + "\n"
    }

    /// An error if a source was not read or chunks lack vectors. Single documents that failed are only listed.
    pub(super) fn check_complete(&self) -> Result<(), CommandError> {
        let unread = self.sources.iter().filter(|(_, read)| read.is_err()).count();
        if unread > 0 {
            let message = format!("{unread} of {} sources could not be read", self.sources.len());
            return Err(CommandError::Incomplete(message));
        }
        let without = self.reports().find_map(|report| report.not_embedded.as_ref());
        without.map_or(Ok(()), |failure| {
            Err(CommandError::Incomplete(format!(
                "some chunks could not be embedded and are found by their words only: {failure}; the same command, or \
                 `wellspring reindex`, embeds the rest"
            )))
        })
    }

    fn reports(&self) -> impl Iterator<Item = &SourceReport> {
        self.sources.iter().filter_map(|(_, read)| read.as_ref().ok())
    }
}

fn source_text(shown: &str, report: &SourceReport) -> String {
    let SourceReport { added, replaced, removed, unchanged, .. } = report;
    let mut text =
        format!("{shown}: {added} added, {replaced} changed, {removed} removed, {unchanged} unchanged");
    let skipped: Vec<_> =
        report.skipped.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    if !skipped.is_empty() {
        text.push_str(&format!("; skipped: {}", skipped.join(", ")));
    }
    text.push('\n');
    for IngestFailure { place, stage, message } in report.failures.iter().take(FAILURES_LISTED) {
        text.push_str(&format!("  {}: {}: {message}\n", place.file_path.escape_debug(), name(*stage)));
    }
    let listed = report.failures.len().min(FAILURES_LISTED) as u64;
    if report.failure_count > listed {
        let _ = writeln!(text, "  and {} more could not be ingested", report.failure_count - listed);
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
