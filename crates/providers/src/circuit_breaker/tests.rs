use std::time::Duration;

use domain::{FailureKind, ModelEvent};
use testing::{Behaviour, SwitchableProvider};
use tokio::time::{advance, timeout};

use super::*;
use crate::FallbackProvider;

const SILENCE: SilenceLimits =
    SilenceLimits { first_token: Duration::from_secs(60), stall: Duration::from_secs(10) };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn breaker(behaviour: Behaviour) -> (Arc<SwitchableProvider>, Arc<CircuitBreaker>) {
    let provider = SwitchableProvider::new("remote", behaviour);
    (provider.clone(), Arc::new(CircuitBreaker::new(provider, BreakerRules::default(), SILENCE)))
}

fn failing(kind: FailureKind) -> Behaviour {
    Behaviour::fails(Failure::new(kind, "it said no"))
}

async fn ask(breaker: &CircuitBreaker) -> Result<(), Failure> {
    let mut answer = breaker.stream(Arc::new(Request::default()));
    while let Some(event) = answer.next().await {
        event?;
    }
    Ok(())
}

/// Whether five requests in this behaviour open a breaker.
async fn opens(behaviour: Behaviour) -> bool {
    let (provider, breaker) = breaker(behaviour);
    for _ in 0..5 {
        let _ = ask(&breaker).await;
    }
    assert_eq!(provider.calls(), 5);
    breaker.status().breaker_open
}

async fn open_breaker() -> (Arc<SwitchableProvider>, Arc<CircuitBreaker>) {
    let (provider, breaker) = breaker(failing(FailureKind::Unavailable));
    for _ in 0..5 {
        assert_eq!(ask(&breaker).await.unwrap_err().message, "it said no");
    }
    (provider, breaker)
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_fails_requests_at_once() {
    let (provider, breaker) = open_breaker().await;
    advance(seconds(3)).await;
    let failure = ask(&breaker).await.unwrap_err();
    assert_eq!(provider.calls(), 5);
    assert_eq!(failure.kind, FailureKind::Unavailable);
    assert_eq!(failure.retry_after, Some(seconds(27)));
    let expected = "not asked because it failed too often; next attempt in 27 s (last failure: it said no)";
    assert_eq!(failure.message, expected);
    assert_eq!(breaker.health().await, Err(failure));
    assert_eq!(provider.health_checks(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_fail_at_once_while_a_probe_runs() {
    let (provider, breaker) = open_breaker().await;
    advance(seconds(30)).await;
    provider.switch_to(Behaviour::answers().delayed(seconds(2)));
    let mut probe = breaker.stream(Arc::new(Request::default()));
    assert!(matches!(probe.next().await, Some(Ok(ModelEvent::Started(_)))));
    let failure = ask(&breaker).await.unwrap_err();
    assert_eq!((failure.kind, provider.calls()), (FailureKind::Unavailable, 6));
    assert!(failure.message.contains("a probe request is running"), "{failure}");
    // The first token closes it, not only the end.
    assert!(matches!(probe.next().await, Some(Ok(ModelEvent::Text(_)))));
    ask(&breaker).await.unwrap();
    assert_eq!(breaker.status(), ProviderStatus::default());
}

#[tokio::test(start_paused = true)]
async fn only_failures_of_the_provider_count() {
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
        assert_eq!(opens(failing(kind).after_first_token()).await, counts, "{kind:?} midway");
    }
    assert!(!opens(Behaviour::empty()).await);
    assert!(!opens(Behaviour::answers()).await);
    assert!(opens(Behaviour::breaks_off().after_first_token()).await);
    assert!(!opens(Behaviour::breaks_off()).await, "it is empty");
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_does_not_count() {
    let fails = || failing(FailureKind::Unavailable);
    let (provider, breaker) = breaker(fails());
    for behaviour in [fails(), fails(), fails(), fails(), Behaviour::empty(), fails()] {
        assert!(breaker.status().takes_requests());
        provider.switch_to(behaviour);
        let _ = ask(&breaker).await;
    }
    assert!(breaker.status().breaker_open, "the empty answer does not interrupt the row");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_does_not_count() {
    for behaviour in [
        Behaviour::silent(),
        Behaviour::silent().after_first_token(),
        failing(FailureKind::Died).delayed(seconds(5)),
    ] {
        let (provider, breaker) = breaker(behaviour);
        for _ in 0..50 {
            let answer = breaker.stream(Arc::new(Request::default()));
            let disconnected = timeout(seconds(4), answer.for_each(|_| async {})).await;
            assert!(disconnected.is_err());
        }
        assert_eq!(breaker.status(), ProviderStatus::default());
        assert_eq!(provider.calls(), 50);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_dropped_probe_the_next_request_is_the_probe() {
    let (provider, breaker) = open_breaker().await;
    advance(seconds(30)).await;
    provider.switch_to(Behaviour::silent());
    drop(breaker.stream(Arc::new(Request::default())));
    provider.switch_to(Behaviour::answers());
    ask(&breaker).await.unwrap();
    assert!(!breaker.status().breaker_open);
}

#[tokio::test(start_paused = true)]
async fn a_first_token_timeout_counts() {
    let (_, breaker) = breaker(Behaviour::silent());
    let fallback = FallbackProvider::new(vec![breaker.clone()], SILENCE.first_token);
    for _ in 0..5 {
        assert!(breaker.status().takes_requests());
        let answer: Vec<_> = fallback.stream(Arc::new(Request::default())).collect().await;
        assert_eq!(answer[0].as_ref().unwrap_err().kind, FailureKind::SilentAtStart);
    }
    let status = breaker.status();
    assert!(status.breaker_open);
    assert_eq!(status.last_failure.unwrap().kind, FailureKind::SilentAtStart);
}

#[tokio::test(start_paused = true)]
async fn a_stall_timeout_counts() {
    let (_, breaker) = breaker(Behaviour::silent().after_first_token());
    for _ in 0..5 {
        let mut answer = breaker.stream(Arc::new(Request::default()));
        while timeout(SILENCE.stall, answer.next()).await.is_ok() {}
    }
    let status = breaker.status();
    assert!(status.breaker_open);
    assert_eq!(status.last_failure.unwrap().kind, FailureKind::Stalled);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_of_the_server_is_respected() {
    let busy =
        Failure { retry_after: Some(seconds(7)), ..Failure::new(FailureKind::Unavailable, "answered 429") };
    let (provider, breaker) = breaker(Behaviour::fails(busy.clone()));
    assert_eq!(ask(&breaker).await, Err(busy));
    provider.switch_to(Behaviour::answers());
    advance(seconds(2)).await;
    let failure = ask(&breaker).await.unwrap_err();
    assert_eq!(failure.retry_after, Some(seconds(5)));
    let expected =
        "not asked because its server requested a pause; next attempt in 5 s (last failure: answered 429)";
    assert_eq!(failure.message, expected);
    let status = breaker.status();
    assert_eq!((status.breaker_open, status.skipped_for), (false, Some(seconds(5))));
    advance(seconds(5)).await;
    ask(&breaker).await.unwrap();
    assert_eq!(provider.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_does_not_block_later_requests() {
    let full = Failure { retry_after: Some(seconds(5)), ..Failure::new(FailureKind::Overloaded, "full") };
    let (provider, breaker) = breaker(Behaviour::fails(full.clone()));
    for _ in 0..50 {
        assert_eq!(ask(&breaker).await, Err(full.clone()));
    }
    assert_eq!(provider.calls(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_skips_a_provider_whose_breaker_is_open() {
    let (provider, breaker) = open_breaker().await;
    let fallback = FallbackProvider::new(
        vec![breaker, SwitchableProvider::new("spare", Behaviour::answers())],
        SILENCE.first_token,
    );
    let answer: Vec<_> = fallback.stream(Arc::new(Request::default())).map(Result::unwrap).collect().await;
    assert!(matches!(&answer[0], ModelEvent::Started(model) if &*model.provider == "spare"));
    assert_eq!(provider.calls(), 5);
    assert_eq!(fallback.status(), ProviderStatus::default(), "that of the member that is asked");
}
