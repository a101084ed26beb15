//! Finding passages for a question. The stages enter the log as they happen, so that whoever waits sees why.

use domain::{Failure, FailureKind, Found, Query, Question, Stage, Step};
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
    /// What was found; nothing if none of it is likely to answer the question.
    pub(crate) async fn retrieve(
        &self,
        live: &Live,
        question: &Question,
        halts: &mut Halts<'_>,
        writer: &mut Writer,
    ) -> Result<Found, Stop> {
        let query = Query {
            text: question.text.clone(),
            scope: question.scope.clone(),
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
                    found = &mut finding => Next::Found(found),
                }
            });
            match next.await? {
                Next::Stage(stage) => writer.append(&mut vec![Step::Stage(stage)]).await?,
                Next::Found(found) => break found,
            }
        };
        drop(finding);
        let mut rest: Vec<Step> = std::iter::from_fn(|| told.try_recv().ok()).map(Step::Stage).collect();
        if !rest.is_empty() {
            writer.append(&mut rest).await?;
        }
        let found = found.map_err(unavailable)?;
        Ok(if found.is_relevant { found } else { Found::default() })
    }
}

enum Next {
    Stage(Stage),
    Found(Result<Found, Failure>),
}

/// Whatever was wrong with finding, the answer is missing for the same reason.
fn unavailable(failure: Failure) -> Failure {
    Failure { kind: FailureKind::Retrieval, ..failure }
}
