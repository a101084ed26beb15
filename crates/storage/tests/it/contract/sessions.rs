//! Sessions: their counts, activity, end and lists.

use std::collections::BTreeMap;

use domain::{CancelReason, EndCause, EndedSession, FailureKind, NewSession, Session, SessionEnd, SessionId};

use super::over_both_stores;
use crate::harness::{
    Store, ask, at, cancelled, claim, done, failed, find, new_prompt, session, start, stranger, who,
};

over_both_stores! {
    a_session_is_stored_as_it_was_created,
    creating_a_session_again_changes_nothing,
    a_session_counts_its_prompts_and_the_tokens_of_those_that_ended,
    the_first_question_is_the_title,
    every_prompt_event_moves_the_last_activity_forward,
    touching_an_ended_or_expired_session_does_nothing,
    a_session_ends_once_and_returns_its_running_prompt,
    sessions_are_listed_in_pages_newest_first,
}

async fn a_session_is_stored_as_it_was_created(store: &impl Store) {
    let context =
        BTreeMap::from([("branch".to_owned(), "main".to_owned()), (String::new(), "🙂".to_owned())]);
    let new = NewSession { owner: Some("acme/rocket".to_owned()), context };
    let session = Session::new(SessionId::new(at(0)), new, at(0));
    store.create(&who(), session.clone()).await.unwrap();
    assert_eq!(store.find(&who(), session.id).await, Ok(Some(session)));
    assert_eq!(store.find(&who(), SessionId::new(at(0))).await, Ok(None));
}

async fn creating_a_session_again_changes_nothing(store: &impl Store) {
    let id = session(store, 0).await;
    ask(store, new_prompt(id, "one?", 1), "a b", done()).await;
    let before = find(store, id).await;
    let owner = Some("another owner".to_owned());
    let again = Session::new(id, NewSession { owner, ..NewSession::default() }, at(9));
    store.create(&who(), again.clone()).await.unwrap();
    assert_eq!(find(store, id).await, before);
    store.end(&who(), id).await.unwrap();
    store.create(&who(), again.clone()).await.unwrap();
    assert!(find(store, id).await.ended.is_some(), "an ended session stays ended");
    store.create(&stranger(), again.clone()).await.unwrap();
    assert_eq!(store.find(&stranger(), id).await, Ok(Some(again)), "each tenant has its own");
}

async fn a_session_counts_its_prompts_and_the_tokens_of_those_that_ended(store: &impl Store) {
    let session = session(store, 0).await;
    ask(store, new_prompt(session, "one?", 1), "a b c", done()).await;
    ask(store, new_prompt(session, "two?", 2), "d e", cancelled(EndCause::Client(CancelReason::Timeout)))
        .await;
    ask(store, new_prompt(session, "three?", 3), "", failed(FailureKind::Died)).await;
    let mut running = start(store, new_prompt(session, "four?", 4)).await;
    running.append(store, "not yet").await;
    let counted = find(store, session).await;
    assert_eq!((counted.prompt_count, counted.token_count), (4, 5));
    running.end(store, done(), 5).await;
    assert_eq!(find(store, session).await.token_count, 7);
}

async fn the_first_question_is_the_title(store: &impl Store) {
    let named = session(store, 0).await;
    assert_eq!(find(store, named).await.title, None);
    let long = "é".repeat(300);
    ask(store, new_prompt(named, &long, 1), "", failed(FailureKind::Died)).await;
    ask(store, new_prompt(named, "another", 2), "", done()).await;
    assert_eq!(find(store, named).await.title, Some("é".repeat(200)));
}

async fn every_prompt_event_moves_the_last_activity_forward(store: &impl Store) {
    let session = session(store, 10).await;
    let last_active = async || find(store, session).await.last_active_at;
    assert_eq!(last_active().await, at(10));
    store.touch(&who(), session, at(20), at(0)).await.unwrap();
    assert_eq!(last_active().await, at(20));
    store.touch(&who(), session, at(15), at(0)).await.unwrap();
    assert_eq!(last_active().await, at(20), "it never goes back");
    let running = start(store, new_prompt(session, "why?", 30)).await;
    assert_eq!(last_active().await, at(30));
    running.end(store, done(), 40).await;
    assert_eq!(last_active().await, at(40));
    assert_eq!(find(store, session).await.created_at, at(10));
}

async fn touching_an_ended_or_expired_session_does_nothing(store: &impl Store) {
    let (ended, expired, running) =
        (session(store, 0).await, session(store, 0).await, session(store, 0).await);
    store.end(&who(), ended).await.unwrap();
    start(store, new_prompt(running, "why?", 0)).await;
    for session in [ended, expired, running, SessionId::new(at(0))] {
        store.touch(&who(), session, at(2_000), at(1_000)).await.unwrap();
    }
    assert_eq!(find(store, ended).await.last_active_at, at(0));
    assert_eq!(find(store, expired).await.last_active_at, at(0));
    assert_eq!(find(store, running).await.last_active_at, at(2_000), "a running prompt keeps it alive");
}

async fn a_session_ends_once_and_returns_its_running_prompt(store: &impl Store) {
    let (idle, busy) = (session(store, 0).await, session(store, 0).await);
    let running = start(store, new_prompt(busy, "why?", 0)).await;
    let id = running.id();
    assert_eq!(store.end(&who(), idle).await, Ok(Some(EndedSession { running: None, is_first: true })));
    assert_eq!(store.end(&who(), busy).await, Ok(Some(EndedSession { running: Some(id), is_first: true })));
    running.end(store, cancelled(EndCause::SessionEnded), 1).await;
    assert_eq!(store.end(&who(), busy).await, Ok(Some(EndedSession { running: None, is_first: false })));
    assert_eq!(find(store, idle).await.ended, Some(SessionEnd::Completed));
    assert_eq!(find(store, busy).await.ended, Some(SessionEnd::Cancelled), "the first end holds");
    assert_eq!(store.end(&who(), SessionId::new(at(0))).await, Ok(None));
    assert!(matches!(claim(store, new_prompt(idle, "why?", 1)).await, domain::Claim::SessionEnded));
}

async fn sessions_are_listed_in_pages_newest_first(store: &impl Store) {
    let mut created = Vec::new();
    for seconds in 0..25 {
        created.push(session(store, seconds).await);
    }
    created.reverse();
    start(store, new_prompt(created[3], "why?", 30)).await;
    let (mut listed, mut before) = (Vec::new(), None);
    loop {
        let page = store.sessions(&who(), before, 10).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        listed.extend(page);
    }
    assert_eq!(listed.iter().map(|session| session.id).collect::<Vec<_>>(), created);
    assert_eq!(listed[3], find(store, created[3]).await, "a page has the same as the session itself");
    assert!(listed[3].running.is_some());
}
