//! Providers one after the other, until one answers. Once the first text, reasoning or tool call is given
//! out, the provider is never changed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Failure, FailureKind, FinishReason, ModelEvent, ModelId, ModelStream, Provider, ProviderStatus, Request,
};
use futures::future::{Either, FutureExt};
use futures::stream::{self, FuturesUnordered, StreamExt};
use tokio::time::timeout;

/// A provider over providers: asks each in turn until one answers.
pub struct Order {
    members: Arc<[Arc<dyn Provider>]>,
    first_token: Duration,
}

impl Order {
    /// The members in the order they are asked. Before its first token each may be silent for
    /// `first_token`; a sign of life breaks the silence.
    ///
    /// # Panics
    /// If there is no member.
    pub fn new(members: Vec<Arc<dyn Provider>>, first_token: Duration) -> Self {
        assert!(!members.is_empty(), "an order needs a provider");
        Self { members: members.into(), first_token }
    }
}

#[async_trait]
impl Provider for Order {
    fn model(&self) -> ModelId {
        self.members[0].model()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let (members, first_token) = (self.members.clone(), self.first_token);
        async move { first_answer(&members, first_token, &request).await }
            .map(|answer| match answer {
                Ok(Answer { beginning, rest }) => Either::Left(stream::iter(beginning).map(Ok).chain(rest)),
                Err(failure) => Either::Right(stream::iter([Err(failure)])),
            })
            .flatten_stream()
            .boxed()
    }

    /// Whoever comes after the first is seldom asked, so that nobody waits for them; nor for the first without end.
    async fn ready(&self) {
        if let Some(first) = self.members.iter().find(|member| member.status().takes_requests()) {
            let _ = timeout(self.first_token, first.ready()).await;
        }
    }

    /// What every member takes that can take the question at all, since any of them may come to answer.
    fn room(&self, request: &Request) -> Option<usize> {
        self.members.iter().filter_map(|member| member.room(request)).min()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.members.iter().map(|member| member.count_tokens(text)).max().unwrap_or(0)
    }

    /// Well if one of them is; else on its way if one is that would be asked.
    async fn health(&self) -> Result<(), Failure> {
        let (mut failures, mut retry_after) = (Failures::default(), None);
        let mut checks: FuturesUnordered<_> =
            self.members.iter().map(|member| async move { (member, member.health().await) }).collect();
        while let Some((member, health)) = checks.next().await {
            let Err(failure) = health else { return Ok(()) };
            if member.status().takes_requests() {
                retry_after = failure.retry_after.or(retry_after);
            }
            failures.add(&member.model().provider, failure);
        }
        Err(Failure { retry_after, ..failures.told() })
    }

    /// That of the member who would be asked first.
    fn status(&self) -> ProviderStatus {
        let mut standings = self.members.iter().map(|member| member.status());
        let first = standings.next().expect("an order has a member");
        if first.takes_requests() {
            first
        } else {
            standings.find(ProviderStatus::takes_requests).unwrap_or(first)
        }
    }
}

/// An answer that has begun.
struct Answer {
    /// Who answers, what was counted so far, and the first text, reasoning or tool call.
    beginning: Vec<ModelEvent>,
    rest: ModelStream,
}

async fn first_answer(
    members: &[Arc<dyn Provider>],
    first_token: Duration,
    request: &Arc<Request>,
) -> Result<Answer, Failure> {
    let mut failures = Failures::default();
    for member in members {
        let is_asked = member.status().takes_requests();
        let failure = match begin(&**member, first_token, request).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let name = member.model().provider;
        if is_asked {
            tracing::warn!(provider = %name, kind = ?failure.kind, reason = %failure, "a provider gave no answer");
        } else {
            // It was told why when that began.
            tracing::debug!(provider = %name, reason = %failure, "a provider is left alone");
        }
        let tries_next = failure.kind.allows_fallback();
        failures.add(&name, failure);
        if !tries_next {
            break;
        }
    }
    Err(failures.told())
}

/// Reads one member's answer up to its first text, reasoning or tool call.
async fn begin(
    member: &dyn Provider,
    first_token: Duration,
    request: &Arc<Request>,
) -> Result<Answer, Failure> {
    let mut rest = member.stream(request.clone());
    let mut model = member.model();
    let mut usage = None;
    loop {
        let event = timeout(first_token, rest.next()).await.map_err(|_| {
            let message = format!(
                "sent nothing for {first_token:?}: if its model needs longer to load, \
                 raise generation.first_token_seconds"
            );
            Failure::new(FailureKind::SilentAtStart, message)
        })?;
        match event {
            Some(Ok(ModelEvent::Started(started))) => model = started,
            Some(Ok(ModelEvent::Waiting)) => {}
            Some(Ok(ModelEvent::Usage(counted))) => usage = Some(ModelEvent::Usage(counted)),
            Some(Ok(ModelEvent::Finish(reason))) => return Err(empty(Some(reason))),
            None => return Err(empty(None)),
            Some(Err(failure)) => return Err(failure),
            Some(Ok(content)) => {
                let beginning = [Some(ModelEvent::Started(model)), usage, Some(content)];
                return Ok(Answer { beginning: beginning.into_iter().flatten().collect(), rest });
            }
        }
    }
}

fn empty(reason: Option<FinishReason>) -> Failure {
    let message = match reason {
        Some(FinishReason::Length) => "reached its bound on length before it said anything: raise max_tokens",
        Some(FinishReason::Filtered) => "its content filter let nothing through",
        _ => "ended without an answer",
    };
    Failure::new(FailureKind::EmptyAnswer, message)
}

/// Why nobody answered: the last failure, and everybody's reason.
#[derive(Default)]
struct Failures {
    reasons: Vec<String>,
    last: Option<Failure>,
}

impl Failures {
    fn add(&mut self, name: &str, failure: Failure) {
        self.reasons.push(format!("{name}: {failure}"));
        self.last = Some(failure);
    }

    fn told(self) -> Failure {
        let last = self.last.expect("an order has a member, and it failed");
        Failure { message: self.reasons.join("; "), ..last }
    }
}

#[cfg(test)]
mod tests;
