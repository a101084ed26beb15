//! Plays a script: the body of one answer, write by write.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::mem;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Interval, interval};

use crate::script::{FaultKind, Script};
use crate::seen::{Ending, Entry};
use crate::socket::Flushes;
use crate::speech::{Speech, cut_surrogate_pair, escaped_fake_token};
use crate::vendor::{Chat, End, Finish, Frames, Kind};

/// So many tokens go into one write when nothing slows them down.
const TOKENS_PER_WRITE: u64 = 64;

/// Room for one such write.
const USUAL_WRITE_BYTES: usize = 16 << 10;

/// Every so many tokens one comes twice, if the script repeats.
const REPEATED: u64 = 3;

/// An answer while it is sent.
pub(crate) struct Playback {
    script: Script,
    speech: Speech,
    frames: Box<dyn Frames>,
    tool_arguments: Option<serde_json::Value>,
    entry: Entry,
    flushes: Flushes,
    ticks: Option<Interval>,
    stage: Stage,
    /// Tokens rendered so far, reasoning included.
    played: u64,
    /// What is left of a write that was cut.
    pieces: VecDeque<Bytes>,
}

enum Stage {
    Beginning,
    Speaking,
    Dying,
    Stalling,
    Over,
}

impl Playback {
    pub(crate) fn new(
        script: Script,
        chat: &Chat,
        frames: Box<dyn Frames>,
        entry: Entry,
        flushes: Flushes,
    ) -> Self {
        let calls_tool = script.tool.is_some() && !chat.has_tool_result;
        let mut speech = Speech::new(&script, chat);
        if script.empty || calls_tool {
            speech.tokens = 0;
        }
        Self {
            tool_arguments: calls_tool.then(|| json!({"query": chat.question})),
            ticks: script.pace.map(interval),
            script,
            speech,
            frames,
            entry,
            flushes,
            stage: Stage::Beginning,
            played: 0,
            pieces: VecDeque::new(),
        }
    }

    /// The body. It breaks off when the server is stopped.
    pub(crate) fn body(self, stopped: watch::Receiver<()>) -> Body {
        Body::from_stream(stream::unfold((self, stopped), async |(mut playback, mut stopped)| {
            let write = tokio::select! {
                biased;
                _ = stopped.changed() => Some(Err(playback.cut())),
                write = playback.next() => write,
            };
            write.map(|write| (write, (playback, stopped)))
        }))
    }

    /// The next write; none after the last.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(piece) = self.pieces.pop_front() {
            // Without this the connection would join the pieces again.
            self.flushes.next().await;
            return Some(Ok(piece));
        }
        loop {
            let mut write = Vec::with_capacity(USUAL_WRITE_BYTES);
            match mem::replace(&mut self.stage, Stage::Over) {
                Stage::Over => return None,
                Stage::Stalling => pending().await,
                Stage::Dying => {
                    self.flushes.next().await;
                    return Some(Err(self.cut()));
                }
                Stage::Beginning => {
                    self.frames.begin(&mut write);
                    self.speak(&mut write).await;
                }
                Stage::Speaking => self.speak(&mut write).await,
            }
            if !write.is_empty() {
                return Some(Ok(self.cut_characters(write)));
            }
        }
    }

    /// Renders tokens, and what follows the last one.
    async fn speak(&mut self, write: &mut Vec<u8>) {
        let total = self.script.reasoning + self.speech.tokens;
        let last = self.script.fault.map_or(total, |fault| fault.after.min(total));
        let mut batch = if self.script.split { 1 } else { TOKENS_PER_WRITE };
        if let Some(ticks) = &mut self.ticks
            && self.played < last
        {
            batch = 1;
            ticks.tick().await;
        }
        let until = last.min(self.played + batch);
        self.entry.sent(until - self.played);
        while self.played < until {
            self.token(write);
        }
        self.stage = if until < last { Stage::Speaking } else { self.conclude(write) };
    }

    fn token(&mut self, write: &mut Vec<u8>) {
        let start = write.len();
        let (kind, escaped) = match self.played.checked_sub(self.script.reasoning) {
            Some(index) => (Kind::Text, self.speech.token(index)),
            None => (Kind::Reasoning, escaped_fake_token(self.played).into()),
        };
        match self.script.split.then(|| cut_surrogate_pair(&escaped)).flatten() {
            Some((high, low)) => {
                self.frames.token(kind, high.as_bytes(), write);
                self.frames.token(kind, low.as_bytes(), write);
            }
            None => self.frames.token(kind, escaped.as_bytes(), write),
        }
        self.played += 1;
        if self.script.repeat_ids && self.played.is_multiple_of(REPEATED) {
            write.extend_from_within(start..);
        }
    }

    /// What comes after the last token: a fault or a proper end.
    fn conclude(&mut self, write: &mut Vec<u8>) -> Stage {
        match self.script.fault.map(|fault| fault.kind) {
            Some(FaultKind::Die) => return Stage::Dying,
            Some(FaultKind::Stall) => return Stage::Stalling,
            Some(FaultKind::Error) => {
                self.frames.error("the model's name asked for an error here", write);
                self.entry.end(Ending::Failed);
                return Stage::Over;
            }
            None => {}
        }
        if self.script.half {
            self.frames.token(Kind::Text, self.frames.half_character(), write);
        }
        let mut finish = if self.script.length { Finish::Length } else { Finish::Stop };
        if let (Some(tool), Some(arguments)) = (&self.script.tool, &self.tool_arguments) {
            self.frames.tool_call(tool, arguments, write);
            finish = Finish::ToolCall;
        }
        self.frames.end(&End { finish, output_tokens: self.played }, write);
        self.entry.end(Ending::Completed);
        Stage::Over
    }

    /// Cuts a write at each byte of its longer characters if the script says so; all but the first piece
    /// wait for their turn.
    fn cut_characters(&mut self, write: Vec<u8>) -> Bytes {
        let mut rest = Bytes::from(write);
        if !self.script.split {
            return rest;
        }
        while let Some(at) = rest.iter().position(|byte| !byte.is_ascii()) {
            self.pieces.push_back(rest.split_to(at + 1));
        }
        self.pieces.push_back(rest);
        self.pieces.pop_front().unwrap_or_default()
    }

    /// Ends the connection without a proper end of the body.
    fn cut(&mut self) -> io::Error {
        self.entry.end(Ending::Failed);
        io::ErrorKind::ConnectionAborted.into()
    }
}
