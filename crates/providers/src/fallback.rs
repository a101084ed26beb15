//! Fallback: asks providers in order until one answers. The provider never changes once the first text, reasoning or
//! tool call has been passed on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Failure, FailureKind, FinishReason, ModelEvent, ModelId, ModelStream, Provider, Request};
use futures::future::{Either, FutureExt};
use futures::stream::{self, FuturesUnordered, StreamExt};
use tokio::time::timeout;

/// A provider that asks others in order until one answers.
pub struct FallbackProvider {
    members: Arc<[Arc<dyn Provider>]>,
    first_token: Duration,
}

impl FallbackProvider {
    /// Takes the members in the order in which they are asked. A member that sends no event at all for
    /// `first_token` before its first token is given up; [`ModelEvent::Waiting`] restarts that time.
    ///
    /// # Panics
    /// If there is no member.
    pub fn new(members: Vec<Arc<dyn Provider>>, first_token: Duration) -> Self {
        assert!(!members.is_empty(), "a fallback needs at least one provider");
        Self { members: members.into(), first_token }
    }

    fn first_available(&self) -> Option<&dyn Provider> {
        let first = self.members.iter().find(|member| member.status().takes_requests());
        first.map(|member| &**member)
    }
}

#[async_trait]
impl domain::ProviderDecorator for FallbackProvider {
    /// The member that is asked first now.
    fn inner(&self) -> &dyn Provider {
        self.first_available().unwrap_or(&*self.members[0])
    }

    fn model(&self) -> ModelId {
        self.members[0].model()
    }

    fn stream(&self, request: Arc<Request>) -> ModelStream {
        let (members, first_token) = (self.members.clone(), self.first_token);
        async move { first_answer(&members, first_token, &request).await }
            .map(|answer| match answer {
                Ok(BegunAnswer { events, rest }) => Either::Left(stream::iter(events).map(Ok).chain(rest)),
                Err(failure) => Either::Right(stream::iter([Err(failure)])),
            })
            .flatten_stream()
            .boxed()
    }

    /// Waits for the member that is asked first only, and at most for the first-token timeout: the others are
    /// seldom asked.
    async fn ready(&self) {
        if let Some(first) = self.first_available() {
            let _ = timeout(self.first_token, first.ready()).await;
        }
    }

    /// The smallest room of the members whose window holds the question, since any of them may answer it.
    fn room(&self, request: &Request) -> Option<usize> {
        self.members.iter().filter_map(|member| member.room(request)).min()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.members.iter().map(|member| member.count_tokens(text)).max().unwrap_or(0)
    }

    /// Healthy if one member is. Otherwise the failure has the `retry_after` of a member that takes requests, such as
    /// one whose model is still loading.
    async fn health(&self) -> Result<(), Failure> {
        let (mut failures, mut retry_after) = (MemberFailures::default(), None);
        let mut checks: FuturesUnordered<_> =
            self.members.iter().map(|member| async move { (member, member.health().await) }).collect();
        while let Some((member, health)) = checks.next().await {
            let Err(failure) = health else { return Ok(()) };
            if member.status().takes_requests() {
                retry_after = failure.retry_after.or(retry_after);
            }
            failures.add(&member.model().provider, failure);
        }
        Err(Failure { retry_after, ..failures.joined() })
    }
}

/// An answer up to its first content, and the stream that continues it.
struct BegunAnswer {
    /// `Started`, the usage if it was already counted, and the first text, reasoning or tool call.
    events: Vec<ModelEvent>,
    rest: ModelStream,
}

async fn first_answer(
    members: &[Arc<dyn Provider>],
    first_token: Duration,
    request: &Arc<Request>,
) -> Result<BegunAnswer, Failure> {
    let mut failures = MemberFailures::default();
    for member in members {
        let takes_requests = member.status().takes_requests();
        let failure = match begin(&**member, first_token, request).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let name = member.model().provider;
        if takes_requests {
            tracing::warn!(provider = %name, kind = ?failure.kind, reason = %failure, "a provider gave no answer");
        } else {
            // The breaker logged the reason when it opened.
            tracing::debug!(provider = %name, reason = %failure, "a provider is skipped");
        }
        let tries_next = failure.kind.allows_fallback();
        failures.add(&name, failure);
        if !tries_next {
            break;
        }
    }
    Err(failures.joined())
}

/// Reads one member's answer up to its first text, reasoning or tool call.
async fn begin(
    member: &dyn Provider,
    first_token: Duration,
    request: &Arc<Request>,
) -> Result<BegunAnswer, Failure> {
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
            Some(Ok(ModelEvent::Finish(reason))) => return Err(empty_answer(Some(reason))),
            None => return Err(empty_answer(None)),
            Some(Err(failure)) => return Err(failure),
            Some(Ok(content)) => {
                let events = [Some(ModelEvent::Started(model)), usage, Some(content)];
                return Ok(BegunAnswer { events: events.into_iter().flatten().collect(), rest });
            }
        }
    }
}

fn empty_answer(reason: Option<FinishReason>) -> Failure {
    let message = match reason {
        Some(FinishReason::Length) => "reached its length limit before the first token: raise max_tokens",
        Some(FinishReason::Filtered) => "its content filter removed the whole answer",
        _ => "ended without an answer",
    };
    Failure::new(FailureKind::EmptyAnswer, message)
}

/// The failures of the members that were asked.
#[derive(Default)]
struct MemberFailures {
    reasons: Vec<String>,
    last: Option<Failure>,
}

impl MemberFailures {
    fn add(&mut self, name: &str, failure: Failure) {
        self.reasons.push(format!("{name}: {failure}"));
        self.last = Some(failure);
    }

    /// The last failure, with the reasons of all members in its message.
    fn joined(self) -> Failure {
        let last = self.last.expect("a fallback has a member, and it failed");
        Failure { message: self.reasons.join("; "), ..last }
    }
}

#[cfg(test)]
mod tests;
