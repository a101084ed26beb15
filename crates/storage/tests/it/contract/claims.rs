//! Claims, idempotency keys and the logs of prompts.

use domain::{CancelReason, Claim, EndCause, FailureKind, NewPrompt, PromptId, PromptStatus, Run};

use super::over_both_stores;
use crate::harness::{
    Store, ask, at, cancelled, claim, done, failed, find, keyed, log_of, new_prompt, prompt_of, session,
    session_of, start, stranger, who,
};

over_both_stores! {
    a_claim_is_decided_in_the_documented_order,
    a_key_joins_its_prompt_also_in_an_ended_session,
    a_key_belongs_to_one_question_of_one_session,
    a_key_starts_a_new_prompt_after_a_retryable_end_and_joins_otherwise,
    a_session_runs_one_prompt_at_a_time,
    a_log_can_be_read_once_it_has_ended,
    appending_to_a_prompt_that_does_not_run_fails,
    a_tenant_sees_no_sessions_prompts_or_logs_of_another,
}

fn without_room(mut new: NewPrompt) -> NewPrompt {
    new.room = false;
    new
}

async fn a_claim_is_decided_in_the_documented_order(store: &impl Store) {
    let unknown = domain::SessionId::new(at(0));
    let outcome = claim(store, without_room(new_prompt(unknown, "why?", 0))).await;
    assert!(matches!(outcome, Claim::SessionUnknown), "{outcome:?}");

    let ended = session(store, 0).await;
    let log = ask(store, keyed(ended, "why?", "key", 0), "because", done()).await;
    let running = start(store, new_prompt(ended, "and now?", 1)).await;
    store.end(&who(), ended).await.unwrap();
    let outcome = claim(store, without_room(keyed(ended, "what?", "key", 1))).await;
    assert!(matches!(outcome, Claim::KeyReused), "the key is checked before the session's end: {outcome:?}");
    let outcome = claim(store, without_room(keyed(ended, "why?", "key", 1))).await;
    assert!(matches!(outcome, Claim::Joined(id) if id == prompt_of(&log)), "{outcome:?}");
    let outcome = claim(store, without_room(new_prompt(ended, "why?", 1))).await;
    assert!(
        matches!(outcome, Claim::SessionEnded),
        "the session's end is checked before its running prompt: {outcome:?}"
    );
    running.end(store, done(), 1).await;

    let expired = session(store, 0).await;
    let outcome = claim(store, new_prompt(expired, "why?", 1_000)).await;
    assert!(matches!(outcome, Claim::SessionEnded), "the session was idle too long: {outcome:?}");

    let busy = session(store, 0).await;
    let running = start(store, new_prompt(busy, "why?", 0)).await;
    let outcome = claim(store, without_room(new_prompt(busy, "why?", 5_000))).await;
    assert!(
        matches!(outcome, Claim::SessionBusy(id) if id == running.id()),
        "a running prompt keeps its session alive, and is checked before room: {outcome:?}"
    );

    let idle = session(store, 0).await;
    let outcome = claim(store, without_room(new_prompt(idle, "why?", 0))).await;
    assert!(matches!(outcome, Claim::NoRoom), "{outcome:?}");
    assert_eq!(find(store, idle).await.prompt_count, 0, "no prompt was stored");
    start(store, new_prompt(idle, "why?", 0)).await;
}

async fn a_key_joins_its_prompt_also_in_an_ended_session(store: &impl Store) {
    let session = session(store, 0).await;
    let mut running = start(store, keyed(session, "why?", "key", 0)).await;
    let id = running.id();
    let joins = async |seconds| {
        let outcome = claim(store, keyed(session, "why?", "key", seconds)).await;
        assert!(matches!(outcome, Claim::Joined(joined) if joined == id), "{outcome:?}");
    };
    joins(1).await;
    running.append(store, "because").await;
    running.end(store, done(), 2).await;
    joins(3).await;
    store.end(&who(), session).await.unwrap();
    joins(100_000).await;
}

async fn a_key_belongs_to_one_question_of_one_session(store: &impl Store) {
    let (one, other) = (session(store, 0).await, session(store, 0).await);
    start(store, keyed(one, "why?", "key", 0)).await;
    start(store, keyed(other, "why?", "key", 0)).await;
    let mut differently = keyed(one, "why?", "key", 0);
    differently.accepted.question.top_k = 6;
    for new in [keyed(one, "what?", "key", 1), differently] {
        let outcome = claim(store, new).await;
        assert!(matches!(outcome, Claim::KeyReused), "{outcome:?}");
    }
}

async fn a_key_starts_a_new_prompt_after_a_retryable_end_and_joins_otherwise(store: &impl Store) {
    let client = EndCause::Client(CancelReason::UserInitiated);
    for ended in [done(), cancelled(client), failed(FailureKind::Refused), failed(FailureKind::Internal)] {
        let session = session(store, 0).await;
        let id = prompt_of(&ask(store, keyed(session, "why?", "key", 0), "because", ended.clone()).await);
        let outcome = claim(store, keyed(session, "why?", "key", 1)).await;
        assert!(matches!(outcome, Claim::Joined(joined) if joined == id), "{ended:?}: {outcome:?}");
    }
    for ended in [failed(FailureKind::Died), failed(FailureKind::Interrupted), cancelled(EndCause::Abandoned)]
    {
        let session = session(store, 0).await;
        let first = prompt_of(&ask(store, keyed(session, "why?", "key", 0), "becau", ended).await);
        let retry = start(store, keyed(session, "why?", "key", 1)).await;
        let id = retry.id();
        assert_ne!(id, first);
        retry.end(store, done(), 1).await;
        let outcome = claim(store, keyed(session, "why?", "key", 2)).await;
        assert!(
            matches!(outcome, Claim::Joined(joined) if joined == id),
            "the latest prompt holds the key: {outcome:?}"
        );
        let outcome = claim(store, keyed(session, "what?", "key", 2)).await;
        assert!(matches!(outcome, Claim::KeyReused), "{outcome:?}");
    }
}

async fn a_session_runs_one_prompt_at_a_time(store: &impl Store) {
    let session = session(store, 0).await;
    let running = start(store, new_prompt(session, "why?", 0)).await;
    assert_eq!(find(store, session).await.running, Some(running.id()));
    let outcome = claim(store, keyed(session, "what?", "another key", 0)).await;
    assert!(matches!(outcome, Claim::SessionBusy(id) if id == running.id()), "{outcome:?}");
    running.end(store, failed(FailureKind::Died), 0).await;
    assert_eq!(find(store, session).await.running, None);
    start(store, keyed(session, "what?", "another key", 0)).await;
}

async fn a_log_can_be_read_once_it_has_ended(store: &impl Store) {
    let session = session(store, 0).await;
    let mut running = start(store, keyed(session, "why? 🙂", "key", 0)).await;
    let id = running.id();
    running.append(store, "because of naïve ").await;
    running.append(store, "日本 things").await;
    assert_eq!(log_of(store, id).await, None, "readers of a running prompt have its live log");
    let log = running.end(store, done(), 3).await;
    for _ in 0..3 {
        assert_eq!(log_of(store, id).await.as_ref(), Some(&log));
    }
    assert_eq!(log_of(store, PromptId::new(at(0))).await, None);
    assert!(store.write_unrecorded_ends().await.is_ok(), "there is no unrecorded end");
}

async fn appending_to_a_prompt_that_does_not_run_fails(store: &impl Store) {
    let session = session(store, 0).await;
    let running = start(store, new_prompt(session, "why?", 0)).await;
    let batch = running.batch("too late");
    let id = running.id();
    let log = running.end(store, done(), 0).await;
    for prompt in [id, PromptId::new(at(0))] {
        let run = || Run { prompt, who: who() };
        let error = store.append(&run(), batch.clone()).await.unwrap_err();
        assert!(error.to_string().contains(&prompt.to_string()), "{error}");
        store.finish(run(), batch.clone()).await.unwrap_err();
    }
    assert_eq!(log_of(store, id).await, Some(log));
}

async fn a_tenant_sees_no_sessions_prompts_or_logs_of_another(store: &impl Store) {
    let (ours, theirs) = (session(store, 0).await, session_of(store, &stranger(), 0).await);
    let id = prompt_of(&ask(store, keyed(ours, "why?", "key", 0), "because", done()).await);
    assert!(log_of(store, id).await.is_some());
    assert_eq!(store.read(&stranger(), id).await, Ok(None));
    assert_eq!(store.prompt(&stranger(), id).await, Ok(None));
    assert_eq!(store.thread(&stranger(), id, 9).await, Ok(vec![]));
    assert_eq!(store.find(&stranger(), ours).await, Ok(None));
    assert_eq!(store.end(&stranger(), ours).await, Ok(None));
    assert_eq!(store.delete_session(&stranger(), ours).await, Ok(false));
    assert!(matches!(store.claim(&stranger(), new_prompt(ours, "why?", 0)).await, Ok(Claim::SessionUnknown)));
    let listed = store.sessions(&stranger(), None, 9).await.unwrap();
    assert_eq!(listed.into_iter().map(|session| session.id).collect::<Vec<_>>(), [theirs]);
    assert_eq!(store.prompts(&stranger(), domain::PromptFilter::default(), 9).await, Ok(vec![]));
    assert_eq!(store.prompt(&who(), id).await.unwrap().unwrap().status, PromptStatus::Done);
}
