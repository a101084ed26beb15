//! A prompt in memory, with its log.

use domain::{Accepted, Batch, Ended, Event, Prompt, PromptStatus, Step, StorageError, Timestamp};

use super::footprint;

pub(super) struct StoredPrompt {
    pub(super) accepted: Box<Accepted>,
    pub(super) created_at: Timestamp,
    pub(super) log: Vec<Batch>,
    next_position: u64,
    pub(super) token_count: u64,
    pub(super) ended: Option<Ended>,
    pub(super) bytes: usize,
}

impl StoredPrompt {
    pub(super) fn new(accepted: Box<Accepted>, created_at: Timestamp) -> Self {
        let first = accepted.clone().event(created_at);
        let (next_position, bytes) = (1, footprint::BATCH_BYTES + 2 * footprint::step(&first.step));
        let log = vec![[first].into()];
        Self { accepted, created_at, log, next_position, token_count: 0, ended: None, bytes }
    }

    /// Appends a batch. Fails unless it continues the log.
    pub(super) fn append(&mut self, batch: Batch) -> Result<(), StorageError> {
        if batch.first().is_none_or(|first| first.position != self.next_position) {
            return Err(StorageError::other(format!(
                "the batch does not continue the log of prompt {}",
                self.accepted.prompt
            )));
        }
        for event in batch.iter() {
            self.bytes += footprint::step(&event.step);
            match &event.step {
                Step::Text(_) => self.token_count += 1,
                Step::Ended(ended) => self.ended = Some((**ended).clone()),
                _ => {}
            }
        }
        self.bytes += footprint::BATCH_BYTES + size_of_val(&*batch);
        self.next_position += batch.len() as u64;
        self.log.push(batch);
        Ok(())
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.log.iter().flat_map(|batch| batch.iter())
    }

    /// The prompt as the history lists it.
    pub(super) fn summary(&self) -> Prompt {
        Prompt {
            id: self.accepted.prompt,
            session: self.accepted.session,
            text: self.accepted.question.text.clone(),
            key: self.accepted.key.clone(),
            status: self.ended.as_ref().map_or(PromptStatus::InFlight, |ended| (&ended.outcome).into()),
            created_at: self.created_at,
            token_count: self.token_count,
        }
    }
}
