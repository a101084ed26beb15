//! Finding passages for a question. The stages enter the log as they happen, so that whoever waits sees why.

use std::time::Duration;

use domain::{Failure, FailureKind, Question, RetrievalQuery, Retrieved, Stage, Step};
use futures::FutureExt;
use tokio::sync::mpsc;

use crate::Engine;
use crate::halt::Halts;
use crate::live::Live;
use crate::way::Stop;
use crate::writer::Writer;

/// A retriever has a few stages, each with a beginning and an end.
const STAGES: usize = 16;

impl Engine {
    /// What was found for a query; no passages if none of it is likely to answer the question.
    pub(crate) async fn retrieve(
        &self,
        live: &Live,
        query: &str,
        question: &Question,
        halts: &mut Halts<'_>,
        writer: &mut Writer,
    ) -> Result<Retrieved, Stop> {
        let query = RetrievalQuery {
            text: query.to_owned(),
            scope: question.scope.clone(),
            threshold: question.threshold,
            limit: question.top_k as usize,
        };
        let (tell, mut told) = mpsc::channel::<Stage>(STAGES);
        let stages = move |stage| {
            if let Err(error) = tell.try_send(stage) {
                tracing::warn!(%error, "a stage is not told");
            }
        };
        let mut finding = self.shared.ports.retriever.retrieve(&live.who, query, &stages).fuse();
        let found = loop {
            // Between two events, so that no write to the journal is cut short.
            let next = halts.unless(async {
                tokio::select! {
                    biased;
                    Some(stage) = told.recv() => Next::Stage(stage),
                    found = &mut finding => Next::Retrieved(found),
                }
            });
            match next.await? {
                Next::Stage(stage) => writer.append(&mut vec![Step::Stage(stage)]).await?,
                Next::Retrieved(found) => break found,
            }
        };
        drop(finding);
        let mut rest: Vec<Step> = std::iter::from_fn(|| told.try_recv().ok()).map(Step::Stage).collect();
        if !rest.is_empty() {
            writer.append(&mut rest).await?;
        }
        let found = found.map_err(unavailable)?;
        Ok(if found.is_relevant {
            found
        } else {
            Retrieved { candidates: found.candidates, ..Retrieved::default() }
        })
    }
}

/// A stage takes whole microseconds, which is what a stored log keeps: a replay tells the same.
pub(crate) fn in_microseconds(took: Duration) -> Duration {
    took.saturating_sub(Duration::from_nanos(u64::from(took.subsec_nanos() % 1000)))
}

enum Next {
    Stage(Stage),
    Retrieved(Result<Retrieved, Failure>),
}

/// Finding has two parts, and what is wrong with one of them is the reason why there is no answer: what the index does
/// not call its own is the embedder's.
fn unavailable(failure: Failure) -> Failure {
    let kind = match failure.kind {
        FailureKind::Retrieval => FailureKind::Retrieval,
        _ => FailureKind::Embedding,
    };
    Failure { kind, ..failure }
}
