use domain::FailureKind;
use testing::{Behaviour, SwitchableProvider};
use tokio::time::advance;

use super::*;

const INTERVAL: Duration = Duration::from_secs(10);

fn down() -> Failure {
    Failure::new(FailureKind::Unavailable, "it is down")
}

fn checked(behaviour: Behaviour) -> (Arc<SwitchableProvider>, Arc<HealthCheckedProvider>) {
    let provider = SwitchableProvider::new("remote", behaviour);
    (provider.clone(), Arc::new(HealthCheckedProvider::new(provider, INTERVAL)))
}

#[tokio::test(start_paused = true)]
async fn health_is_the_result_of_the_last_check() {
    let (provider, checked) = checked(Behaviour::answers());
    assert_eq!(checked.status().health, None);
    let checks = {
        let checked = checked.clone();
        tokio::spawn(async move { checked.run_checks().await })
    };
    sleep(Duration::from_secs(1)).await;
    assert_eq!(checked.health().await, Ok(()));
    provider.switch_to(Behaviour::fails(down()));
    assert_eq!(checked.health().await, Ok(()), "no check has run since");
    sleep(INTERVAL).await;
    for _ in 0..100 {
        assert_eq!(checked.health().await, Err(down()));
    }
    assert_eq!(checked.status().health, Some(Err(down())));
    assert_eq!(provider.health_checks(), 2);
    checks.abort();
}

#[tokio::test(start_paused = true)]
async fn without_background_checks_a_call_checks_the_provider() {
    let (provider, checked) = checked(Behaviour::answers().delayed(Duration::from_secs(1)));
    let (first, second) = tokio::join!(checked.health(), checked.health());
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(provider.health_checks(), 1, "the second call waits for the first one's check");
    advance(INTERVAL * 3).await;
    provider.switch_to(Behaviour::fails(down()));
    assert_eq!(checked.health().await, Err(down()));
    assert_eq!(provider.health_checks(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_loading_model_is_checked_again_when_it_asks_for_that() {
    let loading = Failure { retry_after: Some(Duration::from_secs(2)), ..down() };
    let (provider, checked) = checked(Behaviour::fails(loading));
    let checks = {
        let checked = checked.clone();
        tokio::spawn(async move { checked.run_checks().await })
    };
    sleep(Duration::from_secs(1)).await;
    provider.switch_to(Behaviour::answers());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(checked.health().await, Ok(()));
    assert_eq!(provider.health_checks(), 2);
    checks.abort();
}
