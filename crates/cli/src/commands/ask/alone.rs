//! An answer of this process: everything that a server stands on, and no server.

use std::future::poll_fn;

use bytes::BytesMut;
use dialects::Encoder;
use dialects::generation::{self, DeltaEncoder, Encoding};
use domain::{CancelReason, NewSession, Principal, Rejection, StorageError, TraceId};
use engine::{Engine, Reader};

use super::{Answer, Ask};
use crate::settings::Settings;
use crate::wiring::{self, Wired};

/// An answer that comes from this process.
pub(super) struct Alone {
    wired: Wired,
    reader: Reader,
    encoder: DeltaEncoder,
}

impl Alone {
    /// Asks in a new session unless one is named.
    pub(super) async fn ask(settings: &Settings, ask: &Ask) -> Result<Self, String> {
        let wired = wiring::server(settings).await?;
        let caught_up = wired.follower.caught_up().await;
        caught_up.map_err(|StorageError(reason)| format!("storage: {reason}"))?;
        let reader = submit(&wired.parts.engine, ask).await.map_err(|rejection| match rejection {
            Rejection::SessionNotUsable => ask.no_such_session(),
            other => other.to_string(),
        })?;
        Ok(Self { wired, reader, encoder: DeltaEncoder::new(Encoding::Ndjson, None) })
    }
}

impl Answer for Alone {
    fn session(&self) -> String {
        self.reader.session().to_string()
    }

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
        let engine = &self.wired.parts.engine;
        let cancelled = engine.cancel(&who, reader.session(), reader.prompt(), CancelReason::UserInitiated);
        cancelled.await.map_err(|rejection| rejection.to_string())
    }

    async fn close(self) {
        self.wired.parts.engine.shutdown().await;
        self.wired.follower.stop().await;
    }
}

async fn submit(engine: &Engine, ask: &Ask) -> Result<Reader, Rejection> {
    let who = Principal::local();
    let session = match &ask.session {
        Some(session) => session.clone(),
        None => engine.start_session(&who, NewSession::default()).await?.id.to_string(),
    };
    let body = ask.body(&session).to_string();
    engine.submit(&who, generation::decode_prompt(body.as_bytes(), None, TraceId::random())?).await
}
