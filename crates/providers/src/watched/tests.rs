use domain::FailureKind;
use testing::{Mood, MoodyProvider};
use tokio::time::advance;

use super::*;

const EVERY: Duration = Duration::from_secs(10);

fn down() -> Failure {
    Failure::new(FailureKind::Unavailable, "it is down")
}

fn watched(mood: Mood) -> (Arc<MoodyProvider>, Arc<Watched>) {
    let provider = MoodyProvider::new("remote", mood);
    (provider.clone(), Arc::new(Watched::new(provider, EVERY)))
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_told_what_was_seen_last() {
    let (provider, watched) = watched(Mood::answers());
    assert_eq!(watched.status().health, None);
    let looking = {
        let watched = watched.clone();
        tokio::spawn(async move { watched.keep_looking().await })
    };
    sleep(Duration::from_secs(1)).await;
    assert_eq!(watched.health().await, Ok(()));
    provider.set(Mood::fails(down()));
    assert_eq!(watched.health().await, Ok(()), "nobody has looked since");
    sleep(EVERY).await;
    for _ in 0..100 {
        assert_eq!(watched.health().await, Err(down()));
    }
    assert_eq!(watched.status().health, Some(Err(down())));
    assert_eq!(provider.looks(), 2);
    looking.abort();
}

#[tokio::test(start_paused = true)]
async fn what_nobody_keeps_looking_at_is_looked_at_when_somebody_asks() {
    let (provider, watched) = watched(Mood::answers().after(Duration::from_secs(1)));
    let (first, second) = tokio::join!(watched.health(), watched.health());
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(provider.looks(), 1, "the second waits for what the first sees");
    advance(EVERY * 3).await;
    provider.set(Mood::fails(down()));
    assert_eq!(watched.health().await, Err(down()));
    assert_eq!(provider.looks(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_loads_is_looked_at_again_soon() {
    let loading = Failure { retry_after: Some(Duration::from_secs(2)), ..down() };
    let (provider, watched) = watched(Mood::fails(loading));
    let looking = {
        let watched = watched.clone();
        tokio::spawn(async move { watched.keep_looking().await })
    };
    sleep(Duration::from_secs(1)).await;
    provider.set(Mood::answers());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(watched.health().await, Ok(()));
    assert_eq!(provider.looks(), 2);
    looking.abort();
}
