//! Plain answers of the generation dialect.

use std::collections::BTreeMap;

use domain::{Failure, Prompt, PromptStatus, Session, SessionStatus, Timestamp};
use serde::Serialize;

use crate::json;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionStarted {
    session_id: String,
    created_at: String,
    expires_at: String,
}

/// The answer to `POST /api/generation/session`.
pub fn session_started(session: &Session, expires_at: Timestamp) -> Vec<u8> {
    json::reply(&SessionStarted {
        session_id: session.id.to_string(),
        created_at: session.created_at.to_string(),
        expires_at: expires_at.to_string(),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionReply<'a> {
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    context: &'a BTreeMap<String, String>,
    created_at: String,
    last_active_at: String,
    expires_at: String,
    status: &'static str,
    token_count: u64,
    prompt_count: u64,
}

/// The answer to `GET /api/generation/session/{sessionId}`.
pub fn session(session: &Session, status: SessionStatus, expires_at: Timestamp) -> Vec<u8> {
    json::reply(&SessionReply {
        session_id: session.id.to_string(),
        owner: session.owner.as_deref(),
        context: &session.context,
        created_at: session.created_at.to_string(),
        last_active_at: session.last_active_at.to_string(),
        expires_at: expires_at.to_string(),
        status: session_status(status),
        token_count: session.token_count,
        prompt_count: session.prompt_count,
    })
}

pub(crate) fn session_status(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Active => "active",
        SessionStatus::Completed => "completed",
        SessionStatus::Cancelled => "cancelled",
        SessionStatus::Error => "error",
    }
}

/// A prompt as it stands.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptReply<'a> {
    prompt_id: String,
    session_id: String,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    status: &'static str,
    created_at: String,
    token_count: u64,
}

/// The answer to `GET /api/generation/prompts/{promptId}`.
pub fn prompt(prompt: &Prompt) -> Vec<u8> {
    json::reply(&PromptReply::from(prompt))
}

impl<'a> From<&'a Prompt> for PromptReply<'a> {
    fn from(prompt: &'a Prompt) -> Self {
        Self {
            prompt_id: prompt.id.to_string(),
            session_id: prompt.session.to_string(),
            text: &prompt.text,
            idempotency_key: prompt.key.as_deref(),
            status: match prompt.status {
                PromptStatus::InFlight => "in-flight",
                PromptStatus::Done => "done",
                PromptStatus::Cancelled => "cancelled",
                PromptStatus::Error => "error",
            },
            created_at: prompt.created_at.to_string(),
            token_count: prompt.token_count,
        }
    }
}

#[derive(Serialize)]
struct HealthReply<'a> {
    status: &'static str,
    providers: BTreeMap<&'a str, bool>,
}

/// The answer to `GET /api/generation/health`.
pub fn health(providers: &BTreeMap<String, Result<(), Failure>>) -> Vec<u8> {
    let up = providers.values().filter(|health| health.is_ok()).count();
    json::reply(&HealthReply {
        status: match up {
            0 => "Unhealthy",
            up if up < providers.len() => "Degraded",
            _ => "Healthy",
        },
        providers: providers.iter().map(|(name, health)| (name.as_str(), health.is_ok())).collect(),
    })
}
