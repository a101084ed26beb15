//! A tokenized call, in batches that any thread may run. The thread that runs the last batch sends the
//! vectors.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::batching::batches;
use super::{Embed, EmbedCall, EmbedResult, internal};

pub(super) struct Job {
    tokens: Vec<Vec<u32>>,
    batches: Vec<Vec<usize>>,
    progress: Mutex<JobProgress>,
}

struct JobProgress {
    vectors: Vec<Vec<f32>>,
    batches_left: usize,
    /// None once the job is completed or has failed.
    reply: Option<oneshot::Sender<EmbedResult>>,
}

impl Job {
    /// Tokenizes the texts. None if the call is already answered or its caller is gone.
    pub(super) fn prepare(embed: &impl Embed, call: EmbedCall) -> Option<Self> {
        let EmbedCall { texts, reply } = call;
        let mut tokens = Vec::with_capacity(texts.len());
        for text in texts {
            if reply.is_closed() {
                return None;
            }
            match embed.tokenize(&text) {
                Ok(ids) => tokens.push(ids),
                Err(error) => {
                    // Sending fails if the caller is gone.
                    let _ = reply.send(Err(internal(error.to_string())));
                    return None;
                }
            }
        }
        if tokens.is_empty() {
            let _ = reply.send(Ok(Vec::new()));
            return None;
        }
        let batches = batches(&tokens.iter().map(Vec::len).collect::<Vec<_>>());
        let vectors = vec![Vec::new(); tokens.len()];
        let progress = Mutex::new(JobProgress { vectors, batches_left: batches.len(), reply: Some(reply) });
        Some(Self { tokens, batches, progress })
    }

    pub(super) fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Whether the caller is gone, or the job has failed.
    pub(super) fn is_abandoned(&self) -> bool {
        self.progress().reply.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Runs a batch. After the last one, sends the vectors.
    pub(super) fn run<E: Embed>(&self, embed: &E, batch: usize, workspace: &mut E::Workspace) {
        if self.is_abandoned() {
            return;
        }
        let positions = &self.batches[batch];
        let texts: Vec<&[u32]> = positions.iter().map(|text| self.tokens[*text].as_slice()).collect();
        let vectors = embed.embed(&texts, workspace);
        let mut progress = self.progress();
        for (text, vector) in positions.iter().zip(vectors) {
            progress.vectors[*text] = vector;
        }
        progress.batches_left -= 1;
        if progress.batches_left == 0
            && let Some(reply) = progress.reply.take()
        {
            let _ = reply.send(Ok(std::mem::take(&mut progress.vectors)));
        }
    }

    /// Fails the job: the caller sees its channel closed.
    pub(super) fn fail(&self) {
        self.progress().reply = None;
    }

    fn progress(&self) -> MutexGuard<'_, JobProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
