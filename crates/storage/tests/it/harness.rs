//! Helpers of the tests of stores: one tenant, times in seconds, and prompts that run step by step.

use std::time::Duration;

use domain::{
    Accepted, Batch, ChunkId, Claim, DocumentId, EndCause, Ended, Event, Failure, FailureKind, FinishReason,
    History, Journal, MessageId, ModelId, NewPrompt, NewSession, Outcome, Passage, Principal, PromptId,
    Question, Run, Session, SessionId, Sessions, Step, StorageError, Timestamp, TraceId,
};

/// The ports of a store.
pub(crate) trait Store: Journal + Sessions + History {}

impl<T: Journal + Sessions + History> Store for T {}

/// Sessions expire after this time.
const IDLE: Duration = Duration::from_secs(1_000);

/// This many seconds after the tests began.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_790_000_000_000_000).plus(Duration::from_secs(seconds))
}

pub(crate) fn who() -> Principal {
    Principal::local()
}

pub(crate) fn stranger() -> Principal {
    Principal { tenant: "stranger".to_owned() }
}

pub(crate) async fn session(store: &impl Store, seconds: u64) -> SessionId {
    session_of(store, &who(), seconds).await
}

pub(crate) async fn session_of(store: &impl Store, who: &Principal, seconds: u64) -> SessionId {
    let session = Session::new(SessionId::new(at(seconds)), NewSession::default(), at(seconds));
    store.create(who, session.clone()).await.expect("a session can be created");
    session.id
}

/// A passage of a selection, at these characters and lines.
pub(crate) fn selected(text: &str, chars: (u32, u32), lines: (u32, u32)) -> Passage {
    Passage {
        chunk: ChunkId::new(at(0)),
        document: DocumentId::new(at(0)),
        title: "User Selection".to_owned(),
        repo_url: None,
        file_path: None,
        url: Some("selected_text".to_owned()),
        section: Some("Selected Text".to_owned()),
        subsection: None,
        lines: Some(lines),
        chars: Some(chars),
        text: text.to_owned(),
        score: 0.5,
    }
}

pub(crate) fn question(text: &str) -> Question {
    Question { text: text.to_owned(), top_k: 5, scope: Default::default(), threshold: None, provider: None }
}

/// A prompt to claim.
pub(crate) fn new_prompt(session: SessionId, text: &str, seconds: u64) -> NewPrompt {
    let accepted = Accepted {
        prompt: PromptId::new(at(seconds)),
        session,
        answer: MessageId::new(at(seconds)),
        question: question(text),
        key: None,
        follows: None,
        first_choice: ModelId { provider: "local".into(), model: "llama".into() },
        trace: TraceId::random(),
    };
    NewPrompt {
        accepted: Box::new(accepted),
        at: at(seconds),
        alive_since: at(seconds).minus(IDLE),
        room: true,
    }
}

pub(crate) fn keyed(session: SessionId, text: &str, key: &str, seconds: u64) -> NewPrompt {
    let mut new = new_prompt(session, text, seconds);
    new.accepted.key = Some(key.to_owned());
    new
}

pub(crate) async fn claim(store: &impl Store, new: NewPrompt) -> Claim {
    store.claim(&who(), new).await.expect("the store decides the claim")
}

/// A running prompt, with its expected log.
pub(crate) struct RunningPrompt {
    run: Run,
    pub(crate) log: Vec<Event>,
}

/// Starts a prompt. Panics if the claim does not start it.
pub(crate) async fn start(store: &impl Store, new: NewPrompt) -> RunningPrompt {
    let at = new.at;
    match claim(store, new).await {
        Claim::Started(run, accepted) => RunningPrompt { run, log: vec![accepted.event(at)] },
        other => panic!("it should have started: {other:?}"),
    }
}

impl RunningPrompt {
    pub(crate) fn id(&self) -> PromptId {
        self.run.prompt
    }

    /// Appends a batch with one text per word.
    pub(crate) async fn append(&mut self, store: &impl Store, words: &str) {
        self.try_append(store, words).await.expect("the store takes the batch");
    }

    /// Appends a batch with one step.
    pub(crate) async fn append_step(&mut self, store: &impl Store, step: Step) {
        let last = self.log.last().expect("it was accepted");
        let event = Event { position: last.position + 1, at: last.at, step };
        store.append(&self.run, [event.clone()].into()).await.expect("the store takes the batch");
        self.log.push(event);
    }

    /// The next batch, with one text per word.
    pub(crate) fn batch(&self, words: &str) -> Batch {
        let last = self.log.last().expect("it was accepted");
        let steps = words.split_inclusive(' ').map(|word| Step::Text(word.into()));
        (last.position + 1..)
            .zip(steps)
            .map(|(position, step)| Event { position, at: last.at, step })
            .collect()
    }

    /// Tries to append a batch.
    pub(crate) async fn try_append(&mut self, store: &impl Store, words: &str) -> Result<(), StorageError> {
        let batch = self.batch(words);
        store.append(&self.run, batch.clone()).await?;
        self.log.extend(batch.iter().cloned());
        Ok(())
    }

    /// Ends the prompt, and returns the whole log.
    pub(crate) async fn end(self, store: &impl Store, ended: Ended, seconds: u64) -> Vec<Event> {
        let (log, done) = self.try_end(store, ended, seconds).await;
        done.expect("the store takes the end");
        log
    }

    /// Tries to end the prompt, and returns the log as readers see it then.
    pub(crate) async fn try_end(
        self,
        store: &impl Store,
        ended: Ended,
        seconds: u64,
    ) -> (Vec<Event>, Result<(), StorageError>) {
        let Self { run, mut log } = self;
        let event =
            |ended| Event { position: log.len() as u64, at: at(seconds), step: Step::Ended(Box::new(ended)) };
        let done = store.finish(run, [event(ended.clone())].into()).await;
        let seen = if done.is_ok() { ended } else { Ended::interrupted(EndCause::Journal) };
        log.push(event(seen));
        (log, done)
    }
}

/// Runs a prompt from its claim to its end, with an answer of these words.
pub(crate) async fn ask(store: &impl Store, new: NewPrompt, words: &str, ended: Ended) -> Vec<Event> {
    let seconds = new.at.since(at(0)).as_secs();
    let mut running = start(store, new).await;
    if !words.is_empty() {
        running.append(store, words).await;
    }
    running.end(store, ended, seconds).await
}

/// The message of a failed end. The data folders of released formats have it, too.
const FAILURE_MESSAGE: &str = "as the test says";

pub(crate) fn done() -> Ended {
    Ended { outcome: Outcome::Done(FinishReason::Stop), cause: EndCause::Model }
}

pub(crate) fn cancelled(cause: EndCause) -> Ended {
    Ended { outcome: Outcome::Cancelled, cause }
}

pub(crate) fn failed(kind: FailureKind) -> Ended {
    Ended { outcome: Outcome::Failed(Failure::new(kind, FAILURE_MESSAGE)), cause: EndCause::Model }
}

/// The stored log of an ended prompt.
pub(crate) async fn log_of(store: &impl Store, prompt: PromptId) -> Option<Vec<Event>> {
    let log = store.read(&who(), prompt).await.expect("the store can be read");
    log.map(|log| log.iter().flat_map(|batch| batch.iter().cloned()).collect())
}

pub(crate) fn prompt_of(log: &[Event]) -> PromptId {
    let Step::Accepted(accepted) = &log[0].step else { panic!("a log begins with its acceptance") };
    accepted.prompt
}

pub(crate) async fn find(store: &impl Store, session: SessionId) -> Session {
    store.find(&who(), session).await.expect("the store can be read").expect("the session exists")
}
