//! The metrics page, in the text format that Prometheus scrapes. Every metric is announced from the start,
//! also one without a sample. Labels are names from the settings and fixed words, never anything a client
//! sent.

mod text_format;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::response::Response;
use dialects::failure_code;
use dialects::health::{WARMUP_STATES, warmup_state};
use domain::{PromptStatus, ProviderStatus, StageName};
use engine::{EngineMetrics, Histogram, ModelMetrics};
use tokio::time::timeout;
use tracing::warn;

use crate::api_error::ErrorCode;
use crate::app::AppState;
use crate::headers::PROMPT_ID;
use text_format::{Kind, Page, Unit};

/// How long the scrape waits for storage to count the active sessions.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// The content type of the page.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts error responses by code.
#[derive(Default)]
pub(crate) struct ErrorCounts {
    by_code: Mutex<BTreeMap<&'static str, u64>>,
}

impl ErrorCounts {
    /// Counts a response if it is an error. One that names a prompt is the prompt's own failure, which the
    /// engine counts.
    pub(crate) fn count(&self, response: &Response) {
        if let Some(ErrorCode(code)) = response.extensions().get()
            && !response.headers().contains_key(PROMPT_ID)
        {
            *self.by_code.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
        }
    }

    fn totals(&self) -> BTreeMap<&'static str, u64> {
        self.by_code.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Renders all metrics as they are now.
pub(crate) async fn render(app: &AppState) -> String {
    let mut page = Page::default();
    let totals = app.engine.metrics();
    models(&mut page, &totals);
    prompts(&mut page, &totals, app.error_counts.totals());
    retrieval(&mut page, &totals);
    sessions(&mut page, &totals, app).await;
    providers(&mut page, &app.engine.provider_statuses());
    page.into_text()
}

/// Speed and tokens, by provider and model.
fn models(page: &mut Page, totals: &EngineMetrics) {
    let mut histograms = |name, help, of: fn(&ModelMetrics) -> &Histogram| {
        page.family(name, Kind::Histogram, help);
        for ((provider, model), totals) in &totals.models {
            page.histogram(&[("provider", provider), ("model", model)], of(totals), Unit::Seconds);
        }
    };
    histograms(
        "gen_ai_server_time_to_first_token_seconds",
        "Time from a prompt to the first token of its answer.",
        |totals| &totals.first_token,
    );
    histograms(
        "gen_ai_server_time_per_output_token_seconds",
        "Time between consecutive tokens, averaged over the answer.",
        |totals| &totals.inter_token,
    );
    histograms("gen_ai_server_request_duration_seconds", "Time from a prompt to its end.", |totals| {
        &totals.request
    });
    let (mut tokens, mut speeds) = (BTreeMap::<_, u64>::new(), BTreeMap::new());
    for ((provider, _), totals) in &totals.models {
        *tokens.entry(&**provider).or_default() += totals.tokens;
        speeds.extend(totals.tokens_per_second.map(|speed| (&**provider, speed)));
    }
    page.family("wellspring_tokens_total", Kind::Counter, "Generated tokens.");
    tokens.into_iter().for_each(|(provider, tokens)| page.sample(&[("provider", provider)], tokens));
    page.family(
        "wellspring_tokens_per_second",
        Kind::Gauge,
        "Generated tokens per second in the answer that ended last.",
    );
    speeds.into_iter().for_each(|(provider, speed)| page.sample(&[("provider", provider)], speed));
}

/// How prompts end, and which errors clients get.
fn prompts(page: &mut Page, totals: &EngineMetrics, error_responses: BTreeMap<&'static str, u64>) {
    page.family("wellspring_prompts_total", Kind::Counter, "Ended prompts, by outcome.");
    for (outcome, count) in &totals.outcomes {
        let outcome = match outcome {
            PromptStatus::Done => "done",
            PromptStatus::Cancelled => "cancelled",
            PromptStatus::Error => "error",
            PromptStatus::InFlight => continue,
        };
        page.sample(&[("outcome", outcome)], count);
    }
    let mut errors = error_responses;
    for (kind, count) in &totals.failures {
        *errors.entry(failure_code(*kind)).or_default() += count;
    }
    page.family("wellspring_errors_total", Kind::Counter, "Failed prompts and error responses, by code.");
    errors.into_iter().for_each(|(code, count)| page.sample(&[("code", code)], count));
    page.family(
        "wellspring_cancel_seconds",
        Kind::Histogram,
        "Time from a client's cancel request to the end of its prompt.",
    );
    page.histogram(&[], &totals.cancel_latency, Unit::Seconds);
}

fn retrieval(page: &mut Page, totals: &EngineMetrics) {
    page.family("wellspring_retrieval_seconds", Kind::Histogram, "Duration of a retrieval stage.");
    for (stage, durations) in &totals.stages {
        let stage = match stage {
            StageName::Rewriting => "rewriting",
            StageName::Retrieval => "retrieval",
            StageName::Reranking => "reranking",
        };
        page.histogram(&[("stage", stage)], durations, Unit::Seconds);
    }
}

async fn sessions(page: &mut Page, totals: &EngineMetrics, app: &AppState) {
    page.family("wellspring_active_streams", Kind::Gauge, "Running prompts.");
    page.sample(&[], app.engine.running_prompts());
    page.family("wellspring_active_sessions", Kind::Gauge, "Sessions that have neither ended nor expired.");
    match timeout(COUNT_TIMEOUT, app.engine.active_sessions()).await {
        Ok(Ok(sessions)) => page.sample(&[], sessions),
        Ok(Err(reason)) => warn!(%reason, "cannot count the active sessions"),
        Err(_) => warn!("cannot count the active sessions: storage does not respond"),
    }
    page.family(
        "wellspring_session_tokens",
        Kind::Histogram,
        "Generated tokens of a session that has ended or expired.",
    );
    page.histogram(&[], &totals.session_tokens, Unit::Whole);
}

/// Health and circuit breaker of each provider. One whose health was never checked has no sample.
fn providers(page: &mut Page, statuses: &BTreeMap<String, ProviderStatus>) {
    page.family("wellspring_provider_up", Kind::Gauge, "Whether a provider is healthy: 1 or 0.");
    for (provider, status) in statuses {
        if let Some(health) = &status.health {
            page.sample(&[("provider", provider)], u8::from(health.is_ok()));
        }
    }
    page.family(
        "wellspring_breaker_open",
        Kind::Gauge,
        "Whether a provider's circuit breaker is open: 1 or 0.",
    );
    for (provider, status) in statuses {
        page.sample(&[("provider", provider)], u8::from(status.breaker_open));
    }
    prefix_caches(page, statuses);
    warmups(page, statuses);
}

/// The prefix cache of each provider that has one, under the current names and under those of the last release.
fn prefix_caches(page: &mut Page, statuses: &BTreeMap<String, ProviderStatus>) {
    let caches = || {
        let cached = |(provider, status): (_, &ProviderStatus)| Some((provider, status.prefix_cache?));
        statuses.iter().filter_map(cached)
    };
    let lookups = "Prefixes and passages that prompts looked up in the prefix cache, by outcome.";
    for (name, help) in [
        ("wellspring_prefix_cache_lookups_total", lookups),
        ("wellspring_kept_passages_total", "Alias of wellspring_prefix_cache_lookups_total for one release."),
    ] {
        page.family(name, Kind::Counter, help);
        for (provider, stats) in caches() {
            page.sample(&[("provider", provider), ("outcome", "hit")], stats.hits);
            page.sample(&[("provider", provider), ("outcome", "miss")], stats.misses);
        }
    }
    for (name, help) in [
        ("wellspring_prefix_cache_bytes", "Bytes of the prefix cache."),
        ("wellspring_kept_bytes", "Alias of wellspring_prefix_cache_bytes for one release."),
    ] {
        page.family(name, Kind::Gauge, help);
        for (provider, stats) in caches() {
            page.sample(&[("provider", provider), ("place", "memory")], stats.memory_bytes);
            page.sample(&[("provider", provider), ("place", "disk")], stats.disk_bytes);
        }
    }
    let pending = "Passages queued for background prefill because a prompt lacked them.";
    for (name, help) in [
        ("wellspring_prefix_cache_pending", pending),
        ("wellspring_kept_passages_unread", "Alias of wellspring_prefix_cache_pending for one release."),
    ] {
        page.family(name, Kind::Gauge, help);
        caches().for_each(|(provider, stats)| page.sample(&[("provider", provider)], stats.pending));
    }
}

/// The progress of each provider's warm-up.
fn warmups(page: &mut Page, statuses: &BTreeMap<String, ProviderStatus>) {
    let warmups: Vec<_> = statuses
        .iter()
        .filter_map(|(provider, status)| Some((&**provider, status.warmup.as_ref()?)))
        .collect();
    page.family(
        "wellspring_warmup_passages",
        Kind::Gauge,
        "Passages of the catalog that the warm-up of the prefix cache has examined, and all of them.",
    );
    for (provider, warmup) in &warmups {
        page.sample(&[("provider", provider), ("state", "done")], warmup.done);
        page.sample(&[("provider", provider), ("state", "total")], warmup.total);
    }
    page.family(
        "wellspring_reading_ahead",
        Kind::Gauge,
        "Alias of wellspring_warmup_passages for one release, as states: 1 or 0.",
    );
    for (provider, warmup) in &warmups {
        let now = warmup_state(warmup);
        for state in WARMUP_STATES {
            page.sample(&[("provider", provider), ("state", state)], u8::from(state == now));
        }
    }
}
