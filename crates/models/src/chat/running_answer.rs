//! An answer that is being generated: tokens in, events out.

use domain::{Failure, FailureKind, FinishReason, ModelEvent, Request, Text, Usage};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::llama::{Token, Vocabulary};
use super::sampler::Sampler;
use super::utf8_decoder::Utf8Decoder;

/// Events of an answer besides its tokens. A keep-alive is sent only when the client has read all events before.
const OTHER_EVENTS: usize = 8;

/// An event of an answer.
pub(super) type AnswerEvent = Result<ModelEvent, Failure>;

/// The channel to the client of one answer.
pub(super) struct AnswerSink {
    events: Sender<AnswerEvent>,
    /// Its place in the model's queue, until the answer ends.
    queue_slot: Option<OwnedSemaphorePermit>,
}

/// An answer, up to its last token so far.
pub(super) struct RunningAnswer {
    sink: AnswerSink,
    sampler: Sampler,
    decoder: Utf8Decoder,
    prompt_tokens: usize,
    cached_tokens: usize,
    tokens: usize,
    max_tokens: usize,
}

impl AnswerSink {
    /// The two ends of the channel for the answer to a request.
    pub(super) fn new(request: &Request, queue_slot: OwnedSemaphorePermit) -> (Self, Receiver<AnswerEvent>) {
        // Room for every event of an answer, so that the worker never waits for a client.
        let (events, receiver) = channel(request.max_tokens as usize + OTHER_EVENTS);
        (Self { events, queue_slot: Some(queue_slot) }, receiver)
    }

    /// Whether the client disconnected.
    pub(super) fn is_closed(&self) -> bool {
        self.events.is_closed()
    }

    /// Sends a keep-alive while the first token is awaited.
    pub(super) fn keep_alive(&self) {
        if self.events.capacity() == self.events.max_capacity() {
            self.send(Ok(ModelEvent::Waiting));
        }
    }

    /// Ends without an answer.
    pub(super) fn fail(mut self, failure: Failure) {
        self.end(Err(failure));
    }

    /// Sends the terminal event. The queue slot is released first, so a client that has seen it can ask again at once.
    fn end(&mut self, event: AnswerEvent) {
        self.queue_slot = None;
        self.send(event);
    }

    fn send(&self, event: AnswerEvent) {
        // The channel has room; a disconnected client is noticed before the next batch.
        let _ = self.events.try_send(event);
    }
}

impl RunningAnswer {
    pub(super) fn new(sink: AnswerSink, sampler: Sampler, max_tokens: usize) -> Self {
        let decoder = Utf8Decoder::default();
        Self { sink, sampler, decoder, prompt_tokens: 0, cached_tokens: 0, tokens: 0, max_tokens }
    }

    /// Sets the tokens of its prompt, and how many of them were cached.
    pub(super) fn count_prompt(&mut self, tokens: usize, cached: usize) {
        (self.prompt_tokens, self.cached_tokens) = (tokens, cached);
    }

    pub(super) fn sink(&self) -> &AnswerSink {
        &self.sink
    }

    pub(super) fn into_sink(self) -> AnswerSink {
        self.sink
    }

    /// Whether the first token is still to come.
    pub(super) fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// Samples the next token from the logits and sends its text. None once the answer has ended.
    pub(super) fn next_token(&mut self, logits: Option<&[f32]>, vocabulary: Vocabulary<'_>) -> Option<Token> {
        let Some(token) = logits.and_then(|logits| self.sampler.pick(logits)) else {
            let message = "the model computed something that is not a number; its file may be damaged";
            self.sink.end(Err(Failure::new(FailureKind::Internal, message)));
            return None;
        };
        if vocabulary.ends_turn(token) {
            self.finish(FinishReason::Stop);
            return None;
        }
        self.tokens += 1;
        let text = self.decoder.push(&vocabulary.bytes(token));
        if !text.is_empty() {
            self.sink.send(Ok(ModelEvent::Text(Text::from(text.as_str()))));
        }
        if self.tokens >= self.max_tokens {
            self.finish(FinishReason::Length);
            return None;
        }
        Some(token)
    }

    fn finish(&mut self, reason: FinishReason) {
        let counts = [self.prompt_tokens, self.cached_tokens, self.tokens];
        let [input, cached, output] = counts.map(|count| u64::try_from(count).ok());
        self.sink.send(Ok(ModelEvent::Usage(Usage { input, output, cached })));
        self.sink.end(Ok(ModelEvent::Finish(reason)));
    }
}
