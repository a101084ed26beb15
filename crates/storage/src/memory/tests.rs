//! Bounds and checks of the store in memory.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Accepted, Ended, Event, FilterField, Filters, MessageId, ModelId, NewSession, Question, SearchScope,
    Step, TraceId,
};

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_770_000_000_000_000);

fn new_prompt(session: SessionId, filter: &str) -> NewPrompt {
    let filters = Filters::from([(FilterField::Title, BTreeSet::from([filter.to_owned()]))]);
    let accepted = Accepted {
        prompt: PromptId::new(NOW),
        session,
        answer: MessageId::new(NOW),
        question: Question {
            text: "why?".to_owned(),
            top_k: 5,
            scope: SearchScope::Knowledge(filters),
            threshold: None,
            provider: None,
        },
        key: None,
        follows: None,
        first_choice: ModelId { provider: "p".into(), model: "m".into() },
        trace: TraceId::random(),
    };
    NewPrompt { accepted: Box::new(accepted), at: NOW, alive_since: Timestamp::MIN, room: true }
}

async fn ask(memory: &MemoryStore, who: &Principal, session: SessionId, filter: &str) -> PromptId {
    let claim = memory.claim(who, new_prompt(session, filter)).await.unwrap();
    let Claim::Started(run, _) = claim else { panic!("{claim:?}") };
    let prompt = run.prompt;
    let ended = Step::Ended(Box::new(Ended::interrupted(domain::EndCause::Drain)));
    memory.finish(run, [Event { position: 1, at: NOW, step: ended }].into()).await.unwrap();
    prompt
}

#[tokio::test]
async fn everything_in_a_log_counts_towards_the_bound() {
    let (memory, who) = (MemoryStore::new(MemoryLimits { bytes: 1 << 20, sessions: 10 }), Principal::local());
    let session = Session::new(SessionId::new(NOW), NewSession::default(), NOW);
    memory.create(&who, session.clone()).await.unwrap();
    let mut prompts = Vec::new();
    for _ in 0..20 {
        prompts.push(ask(&memory, &who, session.id, &"x".repeat(200_000)).await);
    }
    let kept = async |prompt| memory.read(&who, prompt).await.unwrap().is_some();
    assert!(!kept(prompts[0]).await, "the oldest is evicted");
    assert!(kept(prompts[19]).await, "the newest is kept");
    assert!(memory.state().ended_bytes <= 1 << 20);
}

#[tokio::test]
async fn the_longest_idle_sessions_are_evicted() {
    let (memory, who) = (MemoryStore::new(MemoryLimits { bytes: 1 << 20, sessions: 5 }), Principal::local());
    let mut ids = Vec::new();
    for n in 0..12 {
        let context = BTreeMap::from([("about".to_owned(), "x".repeat(300_000))]);
        let new = NewSession { owner: None, context };
        let at = NOW.plus(std::time::Duration::from_secs(n));
        let session = Session::new(SessionId::new(at), new, at);
        ids.push(session.id);
        memory.create(&who, session).await.unwrap();
    }
    assert_eq!(memory.find(&who, ids[0]).await.unwrap(), None);
    assert!(memory.find(&who, ids[11]).await.unwrap().is_some());
    assert_eq!(memory.state().sessions.len(), 3, "there is room for three sessions of that size");
}

#[tokio::test]
async fn a_batch_that_does_not_continue_its_log_is_refused() {
    let (memory, who) = (MemoryStore::new(MemoryLimits { bytes: 1 << 20, sessions: 5 }), Principal::local());
    let session = Session::new(SessionId::new(NOW), NewSession::default(), NOW);
    memory.create(&who, session.clone()).await.unwrap();
    let Claim::Started(run, _) = memory.claim(&who, new_prompt(session.id, "f")).await.unwrap() else {
        panic!("it starts")
    };
    for position in [0, 2] {
        let event = Event { position, at: NOW, step: Step::Text("x".into()) };
        assert!(memory.append(&run, [event].into()).await.is_err());
    }
}
