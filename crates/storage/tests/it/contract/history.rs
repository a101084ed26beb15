//! Threads, conversations, lists, deletion and retention.

use std::time::Instant;

use domain::{
    CancelReason, EndCause, Exchange, FailureKind, Prompt, PromptFilter, PromptId, PromptStatus,
    RetrievedPassages, SearchScope, SessionId, Step, Turn,
};

use super::over_both_stores;
use crate::harness::{
    Store, ask, at, cancelled, claim, done, failed, find, keyed, log_of, new_prompt, prompt_of, selected,
    session, start, stranger, who,
};

over_both_stores! {
    a_prompt_follows_the_last_turn_of_its_session,
    a_thread_is_walked_along_follows,
    a_conversation_has_its_exchanges_with_their_passages,
    a_prompt_is_listed_with_its_current_status_and_counts,
    prompts_are_listed_newest_first_by_session_and_status,
    a_deleted_session_is_gone_with_its_prompts_and_logs,
    a_session_with_a_running_prompt_is_not_deleted,
    retention_deletes_old_prompts_and_sessions_slice_by_slice,
}

fn follows(log: &[domain::Event]) -> Option<PromptId> {
    let Step::Accepted(accepted) = &log[0].step else { panic!("a log begins with its acceptance") };
    accepted.follows
}

fn turn(question: &str, answer: &str) -> Turn {
    Turn { question: question.to_owned(), answer: answer.to_owned() }
}

async fn a_prompt_follows_the_last_turn_of_its_session(store: &impl Store) {
    let session = session(store, 0).await;
    let client = EndCause::Client(CancelReason::UserInitiated);
    let first = ask(store, new_prompt(session, "one?", 1), "one", done()).await;
    let silent = ask(store, new_prompt(session, "two?", 2), "", failed(FailureKind::Died)).await;
    let cut = ask(store, new_prompt(session, "three?", 3), "thr", cancelled(client)).await;
    let broken = ask(store, new_prompt(session, "four?", 4), "fo", failed(FailureKind::Died)).await;
    let last = ask(store, new_prompt(session, "five?", 5), "five", done()).await;
    assert_eq!(follows(&first), None);
    assert_eq!(follows(&silent), Some(prompt_of(&first)));
    assert_eq!(follows(&cut), Some(prompt_of(&first)), "without text there is no turn");
    assert_eq!(follows(&broken), Some(prompt_of(&cut)), "text that was cut short is a turn");
    assert_eq!(follows(&last), Some(prompt_of(&broken)));
}

async fn a_thread_is_walked_along_follows(store: &impl Store) {
    let session = session(store, 0).await;
    let mut logs = Vec::new();
    for number in 0..5 {
        let new = new_prompt(session, &format!("{number}?"), number);
        logs.push(ask(store, new, &format!("answer {number}"), done()).await);
    }
    let last = prompt_of(&logs[4]);
    let thread = store.thread(&who(), last, 100).await.unwrap();
    let expected: Vec<_> = (0..5).map(|n| turn(&format!("{n}?"), &format!("answer {n}"))).collect();
    assert_eq!(thread, expected);
    assert_eq!(store.thread(&who(), last, 2).await.unwrap(), expected[3..]);
    assert_eq!(store.thread(&who(), last, 0).await.unwrap(), []);
    assert_eq!(store.thread(&who(), PromptId::new(at(0)), 9).await.unwrap(), []);

    let mut branch = new_prompt(session, "another way?", 9);
    branch.accepted.follows = Some(prompt_of(&logs[1]));
    let branch = ask(store, branch, "yes", done()).await;
    let thread = store.thread(&who(), prompt_of(&branch), 100).await.unwrap();
    assert_eq!(thread, [expected[0].clone(), expected[1].clone(), turn("another way?", "yes")]);
}

async fn a_conversation_has_its_exchanges_with_their_passages(store: &impl Store) {
    let (one, other) = (session(store, 0).await, session(store, 0).await);
    let client = EndCause::Client(CancelReason::UserInitiated);
    let found = RetrievedPassages { found: 3, in_prompt: vec![selected("🙂", (5, 6), (1, 1))] };
    let mut logs = vec![ask(store, new_prompt(one, "plain?", 1), "plain", done()).await];
    let mut selecting = new_prompt(one, "selected?", 2);
    selecting.accepted.question.scope = SearchScope::Selection("some 🙂 words".into());
    let mut running = start(store, selecting).await;
    running.append_step(store, Step::Passages(Box::new(found.clone()))).await;
    running.append(store, "cut sh").await;
    logs.push(running.end(store, cancelled(client), 3).await);
    ask(store, new_prompt(one, "silent?", 4), "", failed(FailureKind::Died)).await;
    ask(store, new_prompt(other, "elsewhere?", 5), "elsewhere", done()).await;
    let still = start(store, new_prompt(one, "running?", 6)).await;

    let exchanges = store.conversation(&who(), one, 9).await.unwrap();
    let expected: Vec<_> = logs.iter().map(|log| Exchange::of(log).unwrap()).collect();
    assert_eq!(exchanges, expected, "a pure function of the logs, oldest first");
    assert_eq!(exchanges[0].turn, turn("plain?", "plain"));
    assert_eq!((exchanges[0].asked_at, &exchanges[0].scope), (at(1), &SearchScope::default()));
    assert_eq!(exchanges[1].turn, turn("selected?", "cut sh"));
    assert_eq!((exchanges[1].asked_at, exchanges[1].answered_at), (at(2), at(3)));
    assert_eq!(exchanges[1].scope, SearchScope::Selection("some 🙂 words".into()));
    assert_eq!(exchanges[1].passages, found);
    assert_eq!(store.conversation(&who(), one, 1).await.unwrap(), expected[1..], "the newest");
    assert_eq!(store.conversation(&who(), one, 0).await.unwrap(), []);
    assert_eq!(store.conversation(&stranger(), one, 9).await.unwrap(), []);
    still.end(store, done(), 7).await;
    store.delete_session(&who(), one).await.unwrap();
    assert_eq!(store.conversation(&who(), one, 9).await.unwrap(), []);
}

async fn a_prompt_is_listed_with_its_current_status_and_counts(store: &impl Store) {
    let session = session(store, 0).await;
    let mut running = start(store, keyed(session, "why?", "key", 7)).await;
    let stored = async |id| store.prompt(&who(), id).await.unwrap().unwrap();
    let mut expected = Prompt {
        id: running.id(),
        session,
        text: "why?".to_owned(),
        key: Some("key".to_owned()),
        status: PromptStatus::InFlight,
        created_at: at(7),
        token_count: 0,
    };
    assert_eq!(stored(running.id()).await, expected);
    running.append(store, "a b c").await;
    let id = running.id();
    running.end(store, done(), 8).await;
    expected.status = PromptStatus::Done;
    expected.token_count = 3;
    assert_eq!(stored(id).await, expected);
    assert_eq!(store.prompt(&who(), PromptId::new(at(0))).await, Ok(None));
}

async fn prompts_are_listed_newest_first_by_session_and_status(store: &impl Store) {
    let (one, other) = (session(store, 0).await, session(store, 0).await);
    let first = prompt_of(&ask(store, new_prompt(one, "1?", 1), "a", done()).await);
    let second = prompt_of(&ask(store, new_prompt(other, "2?", 2), "", failed(FailureKind::Died)).await);
    let third = prompt_of(&ask(store, new_prompt(one, "3?", 3), "", cancelled(EndCause::Abandoned)).await);
    let fourth = start(store, new_prompt(other, "4?", 4)).await.id();
    let ids = async |session: Option<SessionId>, status, limit| -> Vec<PromptId> {
        let prompts = store.prompts(&who(), PromptFilter { session, status }, limit).await.unwrap();
        prompts.into_iter().map(|prompt| prompt.id).collect()
    };
    assert_eq!(ids(None, None, 9).await, [fourth, third, second, first]);
    assert_eq!(ids(None, None, 2).await, [fourth, third]);
    assert_eq!(ids(Some(one), None, 9).await, [third, first]);
    assert_eq!(ids(Some(other), Some(PromptStatus::InFlight), 9).await, [fourth]);
    assert_eq!(ids(None, Some(PromptStatus::InFlight), 9).await, [fourth]);
    assert_eq!(ids(None, Some(PromptStatus::Done), 9).await, [first]);
    assert_eq!(ids(None, Some(PromptStatus::Cancelled), 9).await, [third]);
    assert_eq!(ids(None, Some(PromptStatus::Error), 9).await, [second]);
    assert_eq!(ids(Some(one), Some(PromptStatus::Error), 9).await, []);
    assert_eq!(ids(Some(SessionId::new(at(0))), None, 9).await, []);
}

async fn a_deleted_session_is_gone_with_its_prompts_and_logs(store: &impl Store) {
    let (deleted, kept) = (session(store, 0).await, session(store, 0).await);
    let gone = prompt_of(&ask(store, keyed(deleted, "why?", "key", 0), "because", done()).await);
    let stays = ask(store, keyed(kept, "why?", "key", 0), "because", done()).await;
    assert!(log_of(store, gone).await.is_some(), "the log is read before, so that a cache may have it");
    assert_eq!(store.delete_session(&who(), deleted).await, Ok(true));
    assert_eq!(log_of(store, gone).await, None);
    assert_eq!(store.prompt(&who(), gone).await, Ok(None));
    assert_eq!(store.thread(&who(), gone, 9).await, Ok(vec![]));
    assert_eq!(store.find(&who(), deleted).await, Ok(None));
    assert_eq!(store.delete_session(&who(), deleted).await, Ok(false));
    let outcome = claim(store, keyed(deleted, "why?", "key", 0)).await;
    assert!(matches!(outcome, domain::Claim::SessionUnknown), "{outcome:?}");
    assert_eq!(log_of(store, prompt_of(&stays)).await, Some(stays));
    assert_eq!(store.sessions(&who(), None, 9).await.unwrap().len(), 1);
}

async fn a_session_with_a_running_prompt_is_not_deleted(store: &impl Store) {
    let session = session(store, 0).await;
    let running = start(store, new_prompt(session, "why?", 0)).await;
    assert_eq!(store.delete_session(&who(), session).await, Ok(false));
    assert_eq!(find(store, session).await.running, Some(running.id()));
    running.end(store, done(), 0).await;
    assert_eq!(store.delete_session(&who(), session).await, Ok(true));
}

async fn retention_deletes_old_prompts_and_sessions_slice_by_slice(store: &impl Store) {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for number in 0..100 {
        let session = session(store, 0).await;
        let log = ask(store, keyed(session, "old?", "key", number), "old", done()).await;
        old.push((session, prompt_of(&log)));
    }
    let through = session(store, 0).await;
    let early = prompt_of(&ask(store, keyed(through, "early?", "key", 1), "early", done()).await);
    new.push(ask(store, new_prompt(through, "late?", 900), "late", done()).await);
    let running = start(store, new_prompt(session(store, 0).await, "running?", 1)).await;
    let idle = session(store, 0).await;

    let ended = session(store, 0).await;
    store.end(&who(), ended).await.unwrap();

    let (mut slices, mut expired) = (Vec::new(), Vec::new());
    loop {
        let began = Instant::now();
        let progress = store.delete_older_than(at(500)).await.unwrap();
        slices.push(began.elapsed());
        expired.extend(progress.expired);
        assert!(slices.len() < 1_000, "retention must end");
        if !progress.more {
            break;
        }
    }
    expired.sort_unstable();
    assert_eq!(
        expired,
        [vec![0], vec![1; 100]].concat(),
        "the token counts of sessions that no client had ended"
    );
    println!("{} slices, the longest {:?}", slices.len(), slices.iter().max().unwrap());
    for (session, prompt) in old {
        assert_eq!(store.find(&who(), session).await, Ok(None));
        assert_eq!(store.prompt(&who(), prompt).await, Ok(None));
        assert_eq!(log_of(store, prompt).await, None);
    }
    assert_eq!(store.find(&who(), idle).await, Ok(None));
    assert_eq!(store.prompt(&who(), early).await, Ok(None));
    for log in new {
        assert_eq!(store.thread(&who(), prompt_of(&log), 9).await, Ok(vec![turn("late?", "late")]));
        assert_eq!(log_of(store, prompt_of(&log)).await, Some(log));
    }
    assert!(find(store, through).await.title.is_some());
    let id = running.id();
    let log = running.end(store, done(), 901).await;
    assert_eq!(log_of(store, id).await, Some(log), "a running prompt is not deleted");
    start(store, keyed(through, "something else?", "key", 902)).await;
}
