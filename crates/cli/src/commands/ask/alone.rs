//! Answers of this process: everything that a server stands on, the data folder too, and no server.

use std::future::poll_fn;

use bytes::BytesMut;
use dialects::Encoder;
use dialects::generation::{self, DeltaEncoder, Encoding};
use domain::{CancelReason, IndexSync, NewSession, Principal, Rejection, StorageError, TraceId};
use engine::{Engine, Reader};

use super::{Answer, Ask, Place};
use crate::settings::Settings;
use crate::wiring::{self, Lasts, Wired};

/// This process.
pub(super) struct Alone {
    wired: Wired,
}

/// An answer that comes from it.
pub(super) struct OwnAnswer {
    engine: Engine,
    reader: Reader,
    encoder: DeltaEncoder,
}

impl Alone {
    /// Opens the data folder, and waits until all that is known can be found.
    pub(super) async fn open(settings: &Settings) -> Result<Self, String> {
        let wired = wiring::server(settings, Lasts::Briefly).await?;
        let caught_up = wired.follower.wait_until_searchable().await;
        caught_up.map_err(|reason: StorageError| format!("storage: {reason}"))?;
        Ok(Self { wired })
    }
}

impl Place for Alone {
    type Answer = OwnAnswer;

    async fn start_session(&self) -> Result<String, String> {
        let started = self.wired.parts.engine.start_session(&Principal::local(), NewSession::default()).await;
        started.map(|session| session.id.to_string()).map_err(|rejection| rejection.to_string())
    }

    async fn ask(&self, ask: &Ask, session: &str, question: &str) -> Result<OwnAnswer, String> {
        let engine = self.wired.parts.engine.clone();
        let body = ask.body(session, question).to_string();
        let submitted = match generation::decode_prompt(body.as_bytes(), None, TraceId::random()) {
            Ok(prompt) => engine.submit(&Principal::local(), prompt).await,
            Err(rejection) => Err(rejection),
        };
        let reader = submitted.map_err(|rejection| match rejection {
            Rejection::SessionNotUsable => ask.no_such_session(session),
            other => other.to_string(),
        })?;
        Ok(OwnAnswer { engine, reader, encoder: DeltaEncoder::new(Encoding::Ndjson, None) })
    }

    async fn close(self) {
        self.wired.parts.engine.shutdown().await;
        self.wired.follower.stop().await;
    }
}

impl Answer for OwnAnswer {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut out = BytesMut::new();
        while out.is_empty() {
            let Some(batch) = poll_fn(|cx| self.reader.poll_next(cx)).await else { return Ok(None) };
            batch.iter().for_each(|event| self.encoder.encode(event, &mut out));
        }
        Ok(Some(out.into()))
    }

    async fn cancel(&self) -> Result<(), String> {
        let (who, reader) = (Principal::local(), &self.reader);
        let cancelled =
            self.engine.cancel(&who, reader.session(), reader.prompt(), CancelReason::UserInitiated);
        cancelled.await.map_err(|rejection| rejection.to_string())
    }
}
