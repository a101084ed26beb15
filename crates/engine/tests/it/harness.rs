//! An engine over a store and a provider that the test drives, with shortcuts to ask and to read logs.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use domain::{
    Ask, Ended, Event, Failure, FailureKind, History, Journal, NewSession, OnDisconnect, Outcome, Principal,
    PromptId, Provider, Question, Rejection, Retriever, SearchScope, Session, SessionId, SessionPolicy,
    Sessions, Step, TraceId, WhenNothingFound,
};
use engine::{AnswerSettings, Engine, Limits, Ports, Providers, Reader, RewriteMode};
use storage::{MemoryLimits, MemoryStore};
use testing::{ManualCalls, ManualProvider, PausedClock, ScriptedRetriever};

/// Timeouts are odd numbers of milliseconds, so that no two deadlines of a test coincide by accident.
pub(crate) const RESUME: Duration = Duration::from_millis(15_007);
pub(crate) const STALL: Duration = Duration::from_millis(30_013);
pub(crate) const TOTAL: Duration = Duration::from_millis(600_003);
pub(crate) const IDLE: Duration = Duration::from_millis(3_600_011);

/// The ports of one store, and a retriever.
#[derive(Clone)]
pub(crate) struct StorePorts {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) sessions: Arc<dyn Sessions>,
    pub(crate) history: Arc<dyn History>,
    pub(crate) retriever: Arc<dyn Retriever>,
}

impl StorePorts {
    pub(crate) fn memory() -> Self {
        let memory = Arc::new(MemoryStore::new(MemoryLimits { bytes: 1 << 24, sessions: 1_000 }));
        Self::of(memory)
    }

    /// One store as all three ports, and a retriever that finds nothing.
    pub(crate) fn of<S: Journal + Sessions + History + 'static>(store: Arc<S>) -> Self {
        let retriever = Arc::new(ScriptedRetriever::nothing());
        Self { journal: store.clone(), sessions: store.clone(), history: store, retriever }
    }

    pub(crate) fn finding(self, retriever: &Arc<ScriptedRetriever>) -> Self {
        Self { retriever: retriever.clone(), ..self }
    }
}

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) calls: ManualCalls,
    pub(crate) principal: Principal,
}

pub(crate) fn limits() -> Limits {
    Limits {
        concurrent_streams: 3,
        readers: 1_000,
        question_chars: 100,
        answer_bytes: 1 << 20,
        max_tokens: 1_000,
        stall: STALL,
        total: TOTAL,
        resume: RESUME,
        idle: IDLE,
    }
}

pub(crate) fn answering() -> AnswerSettings {
    AnswerSettings {
        temperature: 0.0,
        context_tokens: 400,
        min_cosine_share: 0.85,
        when_nothing_found: None,
        rewrite_mode: RewriteMode::Rule,
    }
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with(StorePorts::memory(), limits())
    }

    pub(crate) fn with(store: StorePorts, limits: Limits) -> Self {
        Self::at(PausedClock::new(), store, limits)
    }

    pub(crate) fn answering(store: StorePorts, limits: Limits, answering: AnswerSettings) -> Self {
        Self::build(PausedClock::new(), store, limits, answering)
    }

    pub(crate) fn at(clock: PausedClock, store: StorePorts, limits: Limits) -> Self {
        Self::build(clock, store, limits, answering())
    }

    fn build(clock: PausedClock, store: StorePorts, limits: Limits, answering: AnswerSettings) -> Self {
        let (provider, calls) = ManualProvider::new("local", "scripted");
        let provider: Arc<dyn Provider> = Arc::new(provider);
        let providers = Providers::new(BTreeMap::from([("local".to_owned(), provider.clone())]), provider);
        let ports = Ports {
            journal: store.journal,
            sessions: store.sessions,
            history: store.history,
            retriever: store.retriever,
            clock: Arc::new(clock),
        };
        Self {
            engine: Engine::new(ports, providers, limits, answering),
            calls,
            principal: Principal::local(),
        }
    }

    pub(crate) async fn submit(&self, ask: Ask) -> Result<Reader, Rejection> {
        self.engine.submit(&self.principal, ask).await
    }

    pub(crate) async fn read(&self, prompt: PromptId) -> Result<Reader, Rejection> {
        self.engine.read(&self.principal, prompt).await
    }

    pub(crate) async fn stored_session(&self, id: SessionId) -> Result<Session, Rejection> {
        self.engine.session(&self.principal, id).await
    }

    pub(crate) async fn start_session(&self) -> SessionId {
        self.engine.start_session(&self.principal, NewSession::default()).await.expect("a session starts").id
    }

    pub(crate) async fn ask(
        &self,
        session: SessionId,
        text: &str,
        key: Option<&str>,
    ) -> Result<Reader, Rejection> {
        self.submit(ask(session, text, key)).await
    }
}

pub(crate) fn ask(session: SessionId, text: &str, key: Option<&str>) -> Ask {
    let question = Question {
        text: text.to_owned(),
        top_k: 5,
        scope: SearchScope::default(),
        threshold: None,
        provider: None,
    };
    Ask {
        session,
        session_policy: SessionPolicy::RequireActive,
        question,
        when_nothing_found: WhenNothingFound::Answer,
        on_disconnect: OnDisconnect::Continue,
        key: key.map(str::to_owned),
        trace: TraceId::random(),
    }
}

/// The events that are readable now, and whether they are the last.
pub(crate) fn read_now(reader: &mut Reader) -> (Vec<Event>, bool) {
    let mut events = Vec::new();
    loop {
        match reader.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(batch)) => events.extend(batch.iter().cloned()),
            Poll::Ready(None) => return (events, true),
            Poll::Pending => return (events, false),
        }
    }
}

/// Reads to the terminal event.
pub(crate) async fn read_all(reader: &mut Reader) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(batch) = poll_fn(|cx| reader.poll_next(cx)).await {
        events.extend(batch.iter().cloned());
    }
    events
}

/// The answer text of a log.
pub(crate) fn text_of(events: &[Event]) -> String {
    let texts = events.iter().filter_map(|event| match &event.step {
        Step::Text(text) => Some(&**text),
        _ => None,
    });
    texts.collect()
}

/// The terminal event of a log, after [`check_shape`].
pub(crate) fn end_of(events: &[Event]) -> Ended {
    check_shape(events);
    match &events.last().expect("a log is not empty").step {
        Step::Ended(ended) => (**ended).clone(),
        other => panic!("the last event is {other:?}"),
    }
}

/// Checks the shape of a log, or of its beginning: positions without a gap, times that never go back, the
/// acceptance first, and at most one terminal event, last.
pub(crate) fn check_shape(events: &[Event]) {
    for (position, event) in (0..).zip(events) {
        assert_eq!(event.position, position, "positions have no gap");
        assert_eq!(
            matches!(event.step, Step::Accepted(_)),
            position == 0,
            "the acceptance is the first event"
        );
        let is_last = position + 1 == events.len() as u64;
        assert!(is_last || !matches!(event.step, Step::Ended(_)), "nothing follows the terminal event");
    }
    assert!(events.is_sorted_by_key(|event| event.at), "times never go back");
}

/// The failed outcome of a log, with `kind` as the expected kind.
pub(crate) fn failed(kind: FailureKind, log: &[Event]) -> Outcome {
    match end_of(log).outcome {
        Outcome::Failed(failure) => Outcome::Failed(Failure { kind, ..failure }),
        other => other,
    }
}
