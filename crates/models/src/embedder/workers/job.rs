//! A call whose texts are tokens, in batches that any thread may run. The one that runs the last answers it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::batches::batches;
use super::{Answer, Call, Embed, broken};

/// A call in batches.
pub(super) struct Job {
    tokens: Vec<Vec<u32>>,
    batches: Vec<Vec<usize>>,
    progress: Mutex<Progress>,
}

struct Progress {
    vectors: Vec<Vec<f32>>,
    batches_left: usize,
    answer: Option<oneshot::Sender<Answer>>,
}

impl Job {
    /// Makes tokens of the texts; none if there is nothing left to do, or nobody to do it for.
    pub(super) fn prepare(embed: &impl Embed, call: Call) -> Option<Self> {
        let Call { texts, answer } = call;
        let mut tokens = Vec::with_capacity(texts.len());
        for text in texts {
            if answer.is_closed() {
                return None;
            }
            match embed.tokens(&text) {
                Ok(ids) => tokens.push(ids),
                Err(reason) => {
                    // Nobody waits any more if this cannot be sent.
                    let _ = answer.send(Err(broken(&format!("a text cannot be made into tokens: {reason}"))));
                    return None;
                }
            }
        }
        if tokens.is_empty() {
            let _ = answer.send(Ok(Vec::new()));
            return None;
        }
        let batches = batches(&tokens.iter().map(Vec::len).collect::<Vec<_>>());
        let vectors = vec![Vec::new(); tokens.len()];
        let progress = Mutex::new(Progress { vectors, batches_left: batches.len(), answer: Some(answer) });
        Some(Self { tokens, batches, progress })
    }

    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Whether the caller left, or the job failed.
    pub(super) fn is_abandoned(&self) -> bool {
        self.progress().answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Runs a batch, and answers the call if it was the last.
    pub(super) fn run<E: Embed>(&self, embed: &E, batch: usize, space: &mut E::Space) {
        if self.is_abandoned() {
            return;
        }
        let places = &self.batches[batch];
        let texts: Vec<&[u32]> = places.iter().map(|place| self.tokens[*place].as_slice()).collect();
        let vectors = embed.embed(&texts, space);
        let mut progress = self.progress();
        for (place, vector) in places.iter().zip(vectors) {
            progress.vectors[*place] = vector;
        }
        progress.batches_left -= 1;
        if progress.batches_left == 0
            && let Some(answer) = progress.answer.take()
        {
            let _ = answer.send(Ok(std::mem::take(&mut progress.vectors)));
        }
    }

    /// Lets the caller know that nobody will answer.
    pub(super) fn give_up(&self) {
        self.progress().answer = None;
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
