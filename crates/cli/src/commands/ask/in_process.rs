//! Answers by this process: it opens the data folder and wires everything that a server has but the HTTP.

use std::future::poll_fn;

use bytes::BytesMut;
use dialects::Encoder;
use dialects::generation::{self, DeltaEncoder, Encoding};
use domain::{CancelReason, IndexSync, NewSession, Principal, Rejection, TraceId};
use engine::{Engine, Reader};

use super::{AnswerStream, Ask, Backend};
use crate::commands::CommandError;
use crate::settings::Settings;
use crate::wiring::{self, ProcessLifetime, WiredServer};

pub(super) struct InProcess {
    wired: WiredServer,
}

pub(super) struct InProcessStream {
    engine: Engine,
    reader: Reader,
    encoder: DeltaEncoder,
}

impl InProcess {
    /// Opens the data folder, and waits until the index has caught up with the catalog.
    pub(super) async fn open(settings: &Settings) -> Result<Self, CommandError> {
        let wired = wiring::server(settings, ProcessLifetime::OneCommand).await?;
        wired.follower.wait_until_searchable().await?;
        Ok(Self { wired })
    }
}

impl Backend for InProcess {
    type Stream = InProcessStream;

    async fn start_session(&self) -> Result<String, CommandError> {
        let started = self.wired.parts.engine.start_session(&Principal::local(), NewSession::default()).await;
        Ok(started?.id.to_string())
    }

    async fn ask(&self, ask: &Ask, session: &str, question: &str) -> Result<InProcessStream, CommandError> {
        let engine = self.wired.parts.engine.clone();
        let body = ask.body(session, question).to_string();
        let submitted = match generation::decode_prompt(body.as_bytes(), None, TraceId::random()) {
            Ok(prompt) => engine.submit(&Principal::local(), prompt).await,
            Err(rejection) => Err(rejection),
        };
        let reader = submitted.map_err(|rejection| match rejection {
            Rejection::SessionNotUsable => ask.no_such_session(session),
            other => CommandError::Rejected(other),
        })?;
        Ok(InProcessStream { engine, reader, encoder: DeltaEncoder::new(Encoding::Ndjson, None) })
    }

    async fn close(self) {
        self.wired.parts.engine.shutdown().await;
        self.wired.follower.stop().await;
    }
}

impl AnswerStream for InProcessStream {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, CommandError> {
        let mut out = BytesMut::new();
        while out.is_empty() {
            let Some(batch) = poll_fn(|cx| self.reader.poll_next(cx)).await else { return Ok(None) };
            batch.iter().for_each(|event| self.encoder.encode(event, &mut out));
        }
        Ok(Some(out.into()))
    }

    async fn cancel(&self) -> Result<(), CommandError> {
        let (who, reader) = (Principal::local(), &self.reader);
        let cancelled =
            self.engine.cancel(&who, reader.session(), reader.prompt(), CancelReason::UserInitiated);
        Ok(cancelled.await?)
    }
}
