//! An answer that is being written: tokens in, events out.

use domain::{Failure, FailureKind, FinishReason, ModelEvent, Request, Text, Usage};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::characters::Characters;
use super::llama::{Token, Vocabulary};
use super::sampler::Sampler;

/// Events of an answer beside its tokens. Signs of life that nobody has read yet are not repeated.
const OTHER_EVENTS: usize = 8;

/// What an answer's events are.
pub(super) type Event = Result<ModelEvent, Failure>;

/// Who waits for an answer.
pub(super) struct Listener {
    events: Sender<Event>,
    /// The place in the queue, or in the model, that it takes until the end.
    place: Option<OwnedSemaphorePermit>,
}

/// An answer, up to its last token so far.
pub(super) struct Answer {
    listener: Listener,
    sampler: Sampler,
    characters: Characters,
    counted: Counted,
    longest: usize,
}

/// Tokens of a prompt and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    input: usize,
    cached: usize,
    output: usize,
}

impl Listener {
    /// Somebody who waits for the answer to a request, and what will be heard.
    pub(super) fn new(request: &Request, place: OwnedSemaphorePermit) -> (Self, Receiver<Event>) {
        // No answer has more tokens, so that nobody who writes ever waits for somebody who reads.
        let (events, heard) = channel(request.max_tokens as usize + OTHER_EVENTS);
        (Self { events, place: Some(place) }, heard)
    }

    /// Whether nobody listens any more.
    pub(super) fn has_left(&self) -> bool {
        self.events.is_closed()
    }

    /// Gives a sign of life.
    pub(super) fn waits(&self) {
        if self.events.capacity() == self.events.max_capacity() {
            self.send(Ok(ModelEvent::Waiting));
        }
    }

    /// Ends without an answer.
    pub(super) fn fail(mut self, failure: Failure) {
        self.end(Err(failure));
    }

    /// Tells the end. Whoever hears of it finds the place free.
    fn end(&mut self, event: Event) {
        self.place = None;
        self.send(event);
    }

    fn send(&self, event: Event) {
        // There is room for every event of an answer; if nobody listens, that is seen before the next batch.
        let _ = self.events.try_send(event);
    }
}

impl Answer {
    pub(super) fn new(listener: Listener, sampler: Sampler, longest: usize) -> Self {
        Self { listener, sampler, characters: Characters::default(), counted: Counted::default(), longest }
    }

    /// Notes how long its prompt is, and how much of that was not computed anew.
    pub(super) fn count_prompt(&mut self, input: usize, cached: usize) {
        self.counted = Counted { input, cached, output: 0 };
    }

    /// Notes that so much of it has to be computed anew after all.
    pub(super) fn count_lost(&mut self, tokens: usize) {
        self.counted.cached = self.counted.cached.saturating_sub(tokens);
    }

    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }

    pub(super) fn into_listener(self) -> Listener {
        self.listener
    }

    /// Whether the first token is still to come.
    pub(super) fn is_empty(&self) -> bool {
        self.counted.output == 0
    }

    /// Takes the next token, given how likely each is. None is the end, which was told.
    pub(super) fn go_on(&mut self, logits: Option<&[f32]>, vocabulary: Vocabulary<'_>) -> Option<Token> {
        let Some(token) = logits.and_then(|logits| self.sampler.pick(logits)) else {
            let message = "the model computed something that is not a number; its file may be damaged";
            self.listener.end(Err(Failure::new(FailureKind::Internal, message)));
            return None;
        };
        if vocabulary.ends_turn(token) {
            self.finish(FinishReason::Stop);
            return None;
        }
        self.counted.output += 1;
        let text = self.characters.push(&vocabulary.bytes(token));
        if !text.is_empty() {
            self.listener.send(Ok(ModelEvent::Text(Text::from(text.as_str()))));
        }
        if self.counted.output >= self.longest {
            self.finish(FinishReason::Length);
            return None;
        }
        Some(token)
    }

    fn finish(&mut self, reason: FinishReason) {
        let Counted { input, cached, output } = self.counted;
        let [input, cached, output] = [input, cached, output].map(|count| u64::try_from(count).ok());
        self.listener.send(Ok(ModelEvent::Usage(Usage { input, output, cached })));
        self.listener.end(Ok(ModelEvent::Finish(reason)));
    }
}
