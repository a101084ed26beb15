//! What was measured, in the text format that Prometheus reads. Every metric is announced from the start, also one
//! that has no value yet. Labels are names of the settings and words of ours, never anything a client sent.

mod page;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::response::Response;
use dialects::failure_code;
use domain::{PromptStatus, ProviderStatus, StageName};
use engine::{EngineMetrics, Histogram, ModelMetrics};
use tokio::time::timeout;
use tracing::warn;

use crate::door::PROMPT_ID;
use crate::refusal::Code;
use crate::serve::App;
use page::{Kind, Page, Unit};

/// Storage that takes longer to count sessions does not hold up what else is measured.
const COUNTING: Duration = Duration::from_secs(2);

/// Prometheus' text format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Requests that were refused, by the code of the refusal.
#[derive(Default)]
pub(crate) struct Refused {
    by_code: Mutex<BTreeMap<&'static str, u64>>,
}

impl Refused {
    /// Counts a response, if it is a refusal. One that names a prompt tells how that ended, which is counted there.
    pub(crate) fn count(&self, response: &Response) {
        if let Some(Code(code)) = response.extensions().get()
            && !response.headers().contains_key(PROMPT_ID)
        {
            *self.by_code.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
        }
    }

    fn totals(&self) -> BTreeMap<&'static str, u64> {
        self.by_code.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All metrics as they are now.
pub(crate) async fn text(app: &App) -> String {
    let mut page = Page::default();
    let totals = app.engine.metrics();
    answers(&mut page, &totals);
    prompts(&mut page, &totals, app.refused.totals());
    finding(&mut page, &totals);
    sessions(&mut page, &totals, app).await;
    providers(&mut page, &app.engine.provider_statuses());
    page.into_text()
}

/// How models answer.
fn answers(page: &mut Page, totals: &EngineMetrics) {
    let mut histograms = |name, help, of: fn(&ModelMetrics) -> &Histogram| {
        page.family(name, Kind::Histogram, help);
        for ((provider, model), totals) in &totals.models {
            page.histogram(&[("provider", provider), ("model", model)], of(totals), Unit::Seconds);
        }
    };
    histograms(
        "gen_ai_server_time_to_first_token_seconds",
        "From a prompt to the first token of its answer.",
        |totals| &totals.first_token,
    );
    histograms(
        "gen_ai_server_time_per_output_token_seconds",
        "From one token of an answer to the next, on average over the answer.",
        |totals| &totals.inter_token,
    );
    histograms("gen_ai_server_request_duration_seconds", "From a prompt to its end.", |totals| {
        &totals.request
    });
    let (mut tokens, mut paces) = (BTreeMap::<_, u64>::new(), BTreeMap::new());
    for ((provider, _), totals) in &totals.models {
        *tokens.entry(&**provider).or_default() += totals.tokens;
        paces.extend(totals.tokens_per_second.map(|pace| (&**provider, pace)));
    }
    page.family("wellspring_tokens_total", Kind::Counter, "Tokens of answers.");
    tokens.into_iter().for_each(|(provider, tokens)| page.sample(&[("provider", provider)], tokens));
    page.family("wellspring_tokens_per_second", Kind::Gauge, "The pace of the answer that ended last.");
    paces.into_iter().for_each(|(provider, pace)| page.sample(&[("provider", provider)], pace));
}

/// How prompts end, and what is refused.
fn prompts(page: &mut Page, totals: &EngineMetrics, refused: BTreeMap<&'static str, u64>) {
    page.family("wellspring_prompts_total", Kind::Counter, "Prompts that have ended.");
    for (outcome, count) in &totals.outcomes {
        let outcome = match outcome {
            PromptStatus::Done => "done",
            PromptStatus::Cancelled => "cancelled",
            PromptStatus::Error => "error",
            PromptStatus::InFlight => continue,
        };
        page.sample(&[("outcome", outcome)], count);
    }
    let mut errors = refused;
    for (kind, count) in &totals.failures {
        *errors.entry(failure_code(*kind)).or_default() += count;
    }
    page.family(
        "wellspring_errors_total",
        Kind::Counter,
        "Prompts that failed, and requests that were refused.",
    );
    errors.into_iter().for_each(|(code, count)| page.sample(&[("code", code)], count));
    page.family(
        "wellspring_cancel_seconds",
        Kind::Histogram,
        "From a client's cancel to the end of its prompt.",
    );
    page.histogram(&[], &totals.cancel_latency, Unit::Seconds);
}

/// How long finding takes.
fn finding(page: &mut Page, totals: &EngineMetrics) {
    page.family(
        "wellspring_retrieval_seconds",
        Kind::Histogram,
        "How long a stage of finding passages took.",
    );
    for (stage, took) in &totals.stages {
        let stage = match stage {
            StageName::Rewriting => "rewriting",
            StageName::Retrieval => "retrieval",
            StageName::Reranking => "reranking",
        };
        page.histogram(&[("stage", stage)], took, Unit::Seconds);
    }
}

/// What there is now.
async fn sessions(page: &mut Page, totals: &EngineMetrics, app: &App) {
    page.family("wellspring_active_streams", Kind::Gauge, "Prompts that run.");
    page.sample(&[], app.engine.running_prompts());
    page.family("wellspring_active_sessions", Kind::Gauge, "Sessions in which prompts may be asked.");
    match timeout(COUNTING, app.engine.active_sessions()).await {
        Ok(Ok(sessions)) => page.sample(&[], sessions),
        Ok(Err(reason)) => warn!(%reason, "sessions cannot be counted"),
        Err(_) => warn!("sessions cannot be counted: storage does not answer"),
    }
    page.family(
        "wellspring_session_tokens",
        Kind::Histogram,
        "Tokens of a session's answers, once it is over.",
    );
    page.histogram(&[], &totals.session_tokens, Unit::Whole);
}

/// How those stand who generate. One that nobody looks at is neither up nor down.
fn providers(page: &mut Page, standings: &BTreeMap<String, ProviderStatus>) {
    page.family("wellspring_provider_up", Kind::Gauge, "Whether a provider would answer.");
    for (provider, standing) in standings {
        if let Some(health) = &standing.health {
            page.sample(&[("provider", provider)], u8::from(health.is_ok()));
        }
    }
    page.family(
        "wellspring_breaker_open",
        Kind::Gauge,
        "Whether a provider is left alone because it failed.",
    );
    for (provider, standing) in standings {
        page.sample(&[("provider", provider)], u8::from(standing.breaker_open));
    }
    kept_passages(page, standings);
    reading_ahead(page, standings);
}

/// What models keep of the passages that they have read, and how often that helped.
fn kept_passages(page: &mut Page, standings: &BTreeMap<String, ProviderStatus>) {
    let kept =
        || standings.iter().filter_map(|(provider, standing)| Some((&**provider, standing.prefix_cache?)));
    page.family(
        "wellspring_kept_passages_total",
        Kind::Counter,
        "Pieces of prompts that were kept from an earlier one, or were not.",
    );
    for (provider, kept) in kept() {
        page.sample(&[("provider", provider), ("outcome", "hit")], kept.hits);
        page.sample(&[("provider", provider), ("outcome", "miss")], kept.misses);
    }
    page.family("wellspring_kept_bytes", Kind::Gauge, "What is kept of passages that were read.");
    for (provider, kept) in kept() {
        page.sample(&[("provider", provider), ("place", "memory")], kept.memory_bytes);
        page.sample(&[("provider", provider), ("place", "disk")], kept.disk_bytes);
    }
    page.family(
        "wellspring_kept_passages_unread",
        Kind::Gauge,
        "Pieces of prompts that are being read by themselves, or wait until there is time for it.",
    );
    for (provider, kept) in kept() {
        page.sample(&[("provider", provider)], kept.pending);
    }
}

/// Which of its states reading ahead is in: 1 for that one, 0 for the others.
fn reading_ahead(page: &mut Page, standings: &BTreeMap<String, ProviderStatus>) {
    page.family(
        "wellspring_reading_ahead",
        Kind::Gauge,
        "Whether passages are read ahead of any question, by the state of that.",
    );
    for (provider, standing) in standings {
        let Some(ahead) = &standing.warmup else { continue };
        let now = match &ahead.paused {
            _ if ahead.done >= ahead.total => "done",
            Some(_) => "waiting",
            None => "reading",
        };
        for state in ["waiting", "reading", "done", "full", "stopped"] {
            page.sample(&[("provider", provider), ("state", state)], u8::from(state == now));
        }
    }
}
