//! Replies of the generation dialect that are no streams.

use std::collections::BTreeMap;

use domain::{Failure, Prompt, PromptStatus, Session, SessionStatus, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::json;

/// A new session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionResponse")]
pub struct SessionStarted {
    /// Unique session identifier.
    #[schemars(extend("format" = "uuid", "examples" = ["f47ac10b-58cc-4372-a567-0e02b2c3d479"]))]
    session_id: String,
    /// When the session was created.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// When the session expires, unless it is used before.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
}

/// The reply to `POST /api/generation/session`.
pub fn session_started(session: &Session, expires_at: Timestamp) -> Vec<u8> {
    json::reply(&SessionStarted {
        session_id: session.id.to_string(),
        created_at: session.created_at.to_string(),
        expires_at: expires_at.to_string(),
    })
}

/// A session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub struct SessionReply<'a> {
    /// Unique session identifier.
    #[schemars(extend("format" = "uuid"))]
    session_id: String,
    /// Owner of the session, such as an organization or a repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    /// The context that the client stored with the session.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    context: &'a BTreeMap<String, String>,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// When a prompt of the session was last asked, resumed, cancelled or answered.
    #[schemars(extend("format" = "date-time"))]
    last_active_at: String,
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    status: SessionStatusWire,
    /// Tokens of all answers in the session.
    token_count: u64,
    prompt_count: u64,
}

/// The reply to `GET /api/generation/session/{sessionId}`.
pub fn session(session: &Session, status: SessionStatus, expires_at: Timestamp) -> Vec<u8> {
    json::reply(&SessionReply {
        session_id: session.id.to_string(),
        owner: session.owner.as_deref(),
        context: &session.context,
        created_at: session.created_at.to_string(),
        last_active_at: session.last_active_at.to_string(),
        expires_at: expires_at.to_string(),
        status: status.into(),
        token_count: session.token_count,
        prompt_count: session.prompt_count,
    })
}

/// Status of a session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SessionStatus")]
pub(crate) enum SessionStatusWire {
    Active,
    Completed,
    Cancelled,
    Error,
}

impl From<SessionStatus> for SessionStatusWire {
    fn from(status: SessionStatus) -> Self {
        match status {
            SessionStatus::Active => Self::Active,
            SessionStatus::Completed => Self::Completed,
            SessionStatus::Cancelled => Self::Cancelled,
            SessionStatus::Error => Self::Error,
        }
    }
}

/// A prompt.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Prompt")]
pub struct PromptReply<'a> {
    /// Unique prompt identifier.
    #[schemars(extend("format" = "uuid"))]
    prompt_id: String,
    /// Parent session identifier.
    #[schemars(extend("format" = "uuid"))]
    session_id: String,
    /// User prompt text.
    text: &'a str,
    /// Idempotency key of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    status: PromptStatusWire,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// Tokens of the answer so far.
    token_count: u64,
}

/// Status of a prompt.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PromptStatus")]
pub enum PromptStatusWire {
    /// The prompt is running.
    InFlight,
    /// The prompt was answered.
    Done,
    /// The prompt was cancelled, or abandoned because it had no readers left.
    Cancelled,
    /// The prompt failed.
    Error,
}

impl From<PromptStatus> for PromptStatusWire {
    fn from(status: PromptStatus) -> Self {
        match status {
            PromptStatus::InFlight => Self::InFlight,
            PromptStatus::Done => Self::Done,
            PromptStatus::Cancelled => Self::Cancelled,
            PromptStatus::Error => Self::Error,
        }
    }
}

/// The reply to `GET /api/generation/prompts/{promptId}`.
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
            status: prompt.status.into(),
            created_at: prompt.created_at.to_string(),
            token_count: prompt.token_count,
        }
    }
}

/// Health of the providers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GenerationHealth")]
pub struct HealthReply<'a> {
    status: HealthStatus,
    /// Whether each provider can be asked, by name.
    providers: BTreeMap<&'a str, bool>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
enum HealthStatus {
    Healthy,
    Degraded,
    Unhealthy,
}

/// The reply to `GET /api/generation/health`.
pub fn health(providers: &BTreeMap<String, Result<(), Failure>>) -> Vec<u8> {
    let up = providers.values().filter(|health| health.is_ok()).count();
    json::reply(&HealthReply {
        status: match up {
            0 => HealthStatus::Unhealthy,
            up if up < providers.len() => HealthStatus::Degraded,
            _ => HealthStatus::Healthy,
        },
        providers: providers.iter().map(|(name, health)| (name.as_str(), health.is_ok())).collect(),
    })
}
