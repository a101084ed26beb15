use std::time::Duration;

use domain::ModelEvent;
use testing::{Mood, MoodyProvider};
use tokio::time::{advance, timeout};

use super::*;
use crate::Order;

const PATIENCE: Patience = Patience { first_token: Duration::from_secs(60), stall: Duration::from_secs(10) };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn breaker(mood: Mood) -> (Arc<MoodyProvider>, Arc<Breaker>) {
    let provider = MoodyProvider::new("remote", mood);
    (provider.clone(), Arc::new(Breaker::new(provider, BreakerRules::default(), PATIENCE)))
}

fn failing(kind: FailureKind) -> Mood {
    Mood::fails(Failure::new(kind, "it said no"))
}

async fn ask(breaker: &Breaker) -> Result<(), Failure> {
    let mut answer = breaker.stream(Arc::new(Request::default()));
    while let Some(event) = answer.next().await {
        event?;
    }
    Ok(())
}

/// Whether five requests that end like this open a breaker.
async fn opens(mood: Mood) -> bool {
    let (provider, breaker) = breaker(mood);
    for _ in 0..5 {
        let _ = ask(&breaker).await;
    }
    assert_eq!(provider.calls(), 5);
    breaker.status().breaker_open
}

async fn open_breaker() -> (Arc<MoodyProvider>, Arc<Breaker>) {
    let (provider, breaker) = breaker(failing(FailureKind::Unavailable));
    for _ in 0..5 {
        assert_eq!(ask(&breaker).await.unwrap_err().message, "it said no");
    }
    (provider, breaker)
}

#[tokio::test(start_paused = true)]
async fn who_fails_too_often_is_not_asked_for_a_while() {
    let (provider, breaker) = open_breaker().await;
    advance(seconds(3)).await;
    let failure = ask(&breaker).await.unwrap_err();
    assert_eq!(provider.calls(), 5);
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert_eq!(failure.retry_after, Some(seconds(27)));
    let expected = "it is not asked, since it failed too often, for another 27 s (the last time: it said no)";
    assert_eq!(failure.message, expected);
    assert_eq!(breaker.health().await, Err(failure));
    assert_eq!(provider.looks(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_request_tries_it_again_and_the_others_do_not_wait_for_that() {
    let (provider, breaker) = open_breaker().await;
    advance(seconds(30)).await;
    provider.set(Mood::answers().after(seconds(2)));
    let mut probe = breaker.stream(Arc::new(Request::default()));
    assert!(matches!(probe.next().await, Some(Ok(ModelEvent::Started(_)))));
    let failure = ask(&breaker).await.unwrap_err();
    assert_eq!((failure.kind, provider.calls()), (FailureKind::Unavailable, 6));
    assert!(failure.message.contains("before a first request is answered"), "{failure}");
    // It closes with the first token, not only with the end.
    assert!(matches!(probe.next().await, Some(Ok(ModelEvent::Text(_)))));
    ask(&breaker).await.unwrap();
    assert_eq!(breaker.status(), ProviderStatus::default());
}

#[tokio::test(start_paused = true)]
async fn failures_count_as_the_table_says() {
    for (kind, counts) in [
        (FailureKind::Unavailable, true),
        (FailureKind::Refused, false),
        (FailureKind::SilentAtStart, true),
        (FailureKind::Stalled, true),
        (FailureKind::Died, true),
        (FailureKind::EmptyAnswer, false),
        (FailureKind::TooLong, false),
        (FailureKind::Overloaded, false),
        (FailureKind::Internal, false),
    ] {
        assert_eq!(opens(failing(kind)).await, counts, "{kind:?}");
        assert_eq!(opens(failing(kind).midway()).await, counts, "{kind:?} midway");
    }
    assert!(!opens(Mood::empty()).await);
    assert!(!opens(Mood::answers()).await);
    assert!(opens(Mood::breaks_off().midway()).await);
    assert!(!opens(Mood::breaks_off()).await, "it is empty");
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_speaks_neither_for_nor_against_it() {
    let fails = || failing(FailureKind::Unavailable);
    let (provider, breaker) = breaker(fails());
    for mood in [fails(), fails(), fails(), fails(), Mood::empty(), fails()] {
        assert!(breaker.status().takes_requests());
        provider.set(mood);
        let _ = ask(&breaker).await;
    }
    assert!(breaker.status().breaker_open, "five failures are in a row, whatever was empty between them");
}

#[tokio::test(start_paused = true)]
async fn a_client_who_leaves_never_counts() {
    for mood in [Mood::silent(), Mood::silent().midway(), failing(FailureKind::Died).after(seconds(5))] {
        let (provider, breaker) = breaker(mood);
        for _ in 0..50 {
            let answer = breaker.stream(Arc::new(Request::default()));
            let left = timeout(seconds(4), answer.for_each(|_| async {})).await;
            assert!(left.is_err());
        }
        assert_eq!(breaker.status(), ProviderStatus::default());
        assert_eq!(provider.calls(), 50);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_who_leaves_a_probe_leaves_it_to_the_next() {
    let (provider, breaker) = open_breaker().await;
    advance(seconds(30)).await;
    provider.set(Mood::silent());
    drop(breaker.stream(Arc::new(Request::default())));
    provider.set(Mood::answers());
    ask(&breaker).await.unwrap();
    assert!(!breaker.status().breaker_open);
}

#[tokio::test(start_paused = true)]
async fn silence_before_the_first_token_counts_when_it_is_given_up() {
    let (_, breaker) = breaker(Mood::silent());
    let order = Order::new(vec![breaker.clone()], PATIENCE.first_token);
    for _ in 0..5 {
        assert!(breaker.status().takes_requests());
        let answer: Vec<_> = order.stream(Arc::new(Request::default())).collect().await;
        assert_eq!(answer[0].as_ref().unwrap_err().kind, FailureKind::SilentAtStart);
    }
    let standing = breaker.status();
    assert!(standing.breaker_open);
    assert_eq!(standing.last_failure.unwrap().kind, FailureKind::SilentAtStart);
}

#[tokio::test(start_paused = true)]
async fn silence_later_counts_when_it_is_given_up() {
    let (_, breaker) = breaker(Mood::silent().midway());
    for _ in 0..5 {
        let mut answer = breaker.stream(Arc::new(Request::default()));
        while timeout(PATIENCE.stall, answer.next()).await.is_ok() {}
    }
    let standing = breaker.status();
    assert!(standing.breaker_open);
    assert_eq!(standing.last_failure.unwrap().kind, FailureKind::Stalled);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_says_when_to_come_back_is_skipped_until_then() {
    let busy =
        Failure { retry_after: Some(seconds(7)), ..Failure::new(FailureKind::Unavailable, "answered 429") };
    let (provider, breaker) = breaker(Mood::fails(busy.clone()));
    assert_eq!(ask(&breaker).await, Err(busy));
    provider.set(Mood::answers());
    advance(seconds(2)).await;
    let failure = ask(&breaker).await.unwrap_err();
    assert_eq!(failure.retry_after, Some(seconds(5)));
    let expected =
        "it is not asked, since it wants to be left alone, for another 5 s (the last time: answered 429)";
    assert_eq!(failure.message, expected);
    let standing = breaker.status();
    assert_eq!((standing.breaker_open, standing.skipped_for), (false, Some(seconds(5))));
    advance(seconds(5)).await;
    ask(&breaker).await.unwrap();
    assert_eq!(provider.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_skips_nobody() {
    let full = Failure { retry_after: Some(seconds(5)), ..Failure::new(FailureKind::Overloaded, "full") };
    let (provider, breaker) = breaker(Mood::fails(full.clone()));
    for _ in 0..50 {
        assert_eq!(ask(&breaker).await, Err(full.clone()));
    }
    assert_eq!(provider.calls(), 50);
}

#[tokio::test(start_paused = true)]
async fn the_next_provider_answers_for_one_that_is_left_alone() {
    let (provider, breaker) = open_breaker().await;
    let order = Order::new(vec![breaker, MoodyProvider::new("spare", Mood::answers())], PATIENCE.first_token);
    let answer: Vec<_> = order.stream(Arc::new(Request::default())).map(Result::unwrap).collect().await;
    assert!(matches!(&answer[0], ModelEvent::Started(model) if &*model.provider == "spare"));
    assert_eq!(provider.calls(), 5);
    assert_eq!(order.status(), ProviderStatus::default(), "that of the one who is asked");
}
