//! Renders the body of an answer by its script, write by write.

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

use super::answer_text::{AnswerText, escaped_fake_token, split_surrogate_pair};
use super::api::{AnswerEnd, ChatRequest, Finish, FrameEncoder, TokenKind};
use super::flush_socket::FlushSignal;
use super::recorded::{Recording, RequestEnding};
use super::script::{AnswerScript, FaultKind};

/// Tokens of a write, if the script sets no pace.
const TOKENS_PER_WRITE: u64 = 64;

/// Initial capacity for the bytes of a write.
const USUAL_WRITE_BYTES: usize = 16 << 10;

/// With `repeat-ids`, every third token is sent twice.
const REPEATED: u64 = 3;

/// An answer that is being sent.
pub(crate) struct AnswerBody {
    script: AnswerScript,
    text: AnswerText,
    frames: Box<dyn FrameEncoder>,
    tool_arguments: Option<serde_json::Value>,
    recording: Recording,
    flushes: FlushSignal,
    ticks: Option<Interval>,
    stage: Stage,
    /// Tokens rendered so far, including reasoning.
    rendered: u64,
    /// The remaining pieces of a write that was split.
    pieces: VecDeque<Bytes>,
}

enum Stage {
    Beginning,
    Tokens,
    BreakingOff,
    Stalling,
    Ended,
}

impl AnswerBody {
    pub(crate) fn new(
        script: AnswerScript,
        chat: &ChatRequest,
        frames: Box<dyn FrameEncoder>,
        recording: Recording,
        flushes: FlushSignal,
    ) -> Self {
        let calls_tool = script.tool.is_some() && !chat.has_tool_result;
        let mut text = AnswerText::new(&script, chat);
        if script.empty || calls_tool {
            text.tokens = 0;
        }
        Self {
            tool_arguments: calls_tool.then(|| json!({"query": chat.question})),
            ticks: script.pace.map(interval),
            script,
            text,
            frames,
            recording,
            flushes,
            stage: Stage::Beginning,
            rendered: 0,
            pieces: VecDeque::new(),
        }
    }

    /// The HTTP body. It breaks off when the server stops.
    pub(crate) fn body(self, stopped: watch::Receiver<()>) -> Body {
        Body::from_stream(stream::unfold((self, stopped), async |(mut body, mut stopped)| {
            let write = tokio::select! {
                biased;
                _ = stopped.changed() => Some(Err(body.break_off())),
                write = body.next() => write,
            };
            write.map(|write| (write, (body, stopped)))
        }))
    }

    /// The next write; `None` after the last.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(piece) = self.pieces.pop_front() {
            // The HTTP library would otherwise join the pieces into one write.
            self.flushes.next().await;
            return Some(Ok(piece));
        }
        loop {
            let mut write = Vec::with_capacity(USUAL_WRITE_BYTES);
            match mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Ended => return None,
                Stage::Stalling => pending().await,
                Stage::BreakingOff => {
                    self.flushes.next().await;
                    return Some(Err(self.break_off()));
                }
                Stage::Beginning => {
                    self.frames.begin(&mut write);
                    self.render_tokens(&mut write).await;
                }
                Stage::Tokens => self.render_tokens(&mut write).await,
            }
            if !write.is_empty() {
                return Some(Ok(self.split_characters(write)));
            }
        }
    }

    /// Renders tokens, and the fault or the end after the last one.
    async fn render_tokens(&mut self, write: &mut Vec<u8>) {
        let total = self.script.reasoning + self.text.tokens;
        let last = self.script.fault.map_or(total, |fault| fault.after.min(total));
        let mut batch = if self.script.split { 1 } else { TOKENS_PER_WRITE };
        if let Some(ticks) = &mut self.ticks
            && self.rendered < last
        {
            batch = 1;
            ticks.tick().await;
        }
        let until = last.min(self.rendered + batch);
        self.recording.sent(until - self.rendered);
        while self.rendered < until {
            self.token(write);
        }
        self.stage = if until < last { Stage::Tokens } else { self.render_end(write) };
    }

    fn token(&mut self, write: &mut Vec<u8>) {
        let start = write.len();
        let (kind, escaped) = match self.rendered.checked_sub(self.script.reasoning) {
            Some(index) => (TokenKind::Text, self.text.token(index)),
            None => (TokenKind::Reasoning, escaped_fake_token(self.rendered).into()),
        };
        match self.script.split.then(|| split_surrogate_pair(&escaped)).flatten() {
            Some((high, low)) => {
                self.frames.token(kind, high.as_bytes(), write);
                self.frames.token(kind, low.as_bytes(), write);
            }
            None => self.frames.token(kind, escaped.as_bytes(), write),
        }
        self.rendered += 1;
        if self.script.repeat_ids && self.rendered.is_multiple_of(REPEATED) {
            write.extend_from_within(start..);
        }
    }

    /// Renders what comes after the last token: a fault or the end.
    fn render_end(&mut self, write: &mut Vec<u8>) -> Stage {
        match self.script.fault.map(|fault| fault.kind) {
            Some(FaultKind::Die) => return Stage::BreakingOff,
            Some(FaultKind::Stall) => return Stage::Stalling,
            Some(FaultKind::Error) => {
                self.frames.error("the model's name asked for an error here", write);
                self.recording.end(RequestEnding::Failed);
                return Stage::Ended;
            }
            None => {}
        }
        if self.script.half {
            self.frames.token(TokenKind::Text, self.frames.half_character(), write);
        }
        let mut finish = if self.script.length { Finish::Length } else { Finish::Stop };
        if let (Some(tool), Some(arguments)) = (&self.script.tool, &self.tool_arguments) {
            self.frames.tool_call(tool, arguments, write);
            finish = Finish::ToolCall;
        }
        self.frames.end(&AnswerEnd { finish, output_tokens: self.rendered }, write);
        self.recording.end(RequestEnding::Completed);
        Stage::Ended
    }

    /// With `split`, splits a write after each byte of a multi-byte character. All pieces but the first are
    /// queued.
    fn split_characters(&mut self, write: Vec<u8>) -> Bytes {
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

    /// Breaks the connection off.
    fn break_off(&mut self) -> io::Error {
        self.recording.end(RequestEnding::Failed);
        io::ErrorKind::ConnectionAborted.into()
    }
}
