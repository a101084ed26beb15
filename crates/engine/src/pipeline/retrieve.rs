//! The retrieve step: finds passages for the query. The retriever's stages enter the log as they happen, so
//! that a waiting client sees progress.

use domain::{Failure, FailureKind, Question, RetrievalQuery, Retrieved, Stage, Step};
use futures::FutureExt;
use tokio::sync::mpsc;

use crate::pipeline::{Pipeline, StepError};

/// Capacity of the channel for stages; a retriever has a few, each with a beginning and an end.
const STAGES: usize = 16;

enum RetrievalEvent {
    Stage(Stage),
    Done(Result<Retrieved, Failure>),
}

impl Pipeline<'_> {
    /// The passages for a query; none if the relevance gate finds that they are unlikely to answer it.
    pub(super) async fn retrieve(
        &mut self,
        query: &str,
        question: &Question,
    ) -> Result<Retrieved, StepError> {
        let query = RetrievalQuery {
            text: query.to_owned(),
            scope: question.scope.clone(),
            threshold: question.threshold,
            limit: question.top_k as usize,
        };
        let (sender, mut stages) = mpsc::channel::<Stage>(STAGES);
        let on_stage = move |stage| {
            if let Err(error) = sender.try_send(stage) {
                tracing::warn!(%error, "a retrieval stage is missing from the log");
            }
        };
        let retriever = &self.engine.shared.ports.retriever;
        let mut retrieval = retriever.retrieve(&self.prompt.principal, query, &on_stage).fuse();
        let retrieved = loop {
            // Writes happen outside of `until_stopped`, so that a stop never cuts one short.
            let next = self.stop.until_stopped(async {
                tokio::select! {
                    biased;
                    Some(stage) = stages.recv() => RetrievalEvent::Stage(stage),
                    retrieved = &mut retrieval => RetrievalEvent::Done(retrieved),
                }
            });
            match next.await? {
                RetrievalEvent::Stage(stage) => self.append(Step::Stage(stage)).await?,
                RetrievalEvent::Done(retrieved) => break retrieved,
            }
        };
        drop(retrieval);
        let mut rest: Vec<Step> = std::iter::from_fn(|| stages.try_recv().ok()).map(Step::Stage).collect();
        if !rest.is_empty() {
            self.writer.append(&mut rest).await?;
        }
        let retrieved = retrieved.map_err(attributed)?;
        Ok(if retrieved.is_relevant {
            retrieved
        } else {
            Retrieved { candidates: retrieved.candidates, ..Retrieved::default() }
        })
    }
}

/// Attributes a failure to one of retrieval's two parts: the index reports its own failures as `Retrieval`,
/// so any other kind comes from the embedder.
fn attributed(failure: Failure) -> Failure {
    let kind = match failure.kind {
        FailureKind::Retrieval => FailureKind::Retrieval,
        _ => FailureKind::Embedding,
    };
    Failure { kind, ..failure }
}
