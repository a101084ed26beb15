//! Circuit breakers from the outside: failing providers are skipped for a while, and health reports it.

use serde_json::json;
use testing::FakeModel;

use crate::binary::{Home, soon};
use crate::client::{ask, get};

#[tokio::test]
async fn the_breaker_opens_after_repeated_failures_and_health_reports_it() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let url = fake.url();
    home.write(
        "mine.toml",
        &format!(
            "[generation]\nproviders = ['broken']\n\
             [providers.broken]\nbase_url = '{url}'\nmodel = 'fake,status=500'\n\
             [providers.spare]\nbase_url = '{url}'\nmodel = 'fake'\n\
             [breaker]\nfailures_in_a_row = 2\n"
        ),
    );
    let mut server = home.serve(&["--config", "mine.toml"], &[]).await;
    let health = get(&server, "/api/generation/health").await.unwrap().json().await;
    assert_eq!(health, json!({"status": "Healthy", "providers": {"broken": true, "spare": true}}));

    for _ in 0..2 {
        let (_, error) = ask(&server, "why?").await.answer().await;
        assert_eq!(error["metadata"]["code"], "provider_unavailable");
        assert_eq!(error["metadata"].get("retryAfterMs"), None);
    }
    server.logged("a provider fails too often").await;
    let (_, error) = ask(&server, "why?").await.answer().await;
    let metadata = &error["metadata"];
    assert_eq!((&metadata["code"], &metadata["retryable"]), (&"provider_unavailable".into(), &true.into()));
    let wait = metadata["retryAfterMs"].as_u64().unwrap();
    assert!((1..=30_000).contains(&wait), "{wait}");
    let message = metadata["message"].as_str().unwrap();
    assert!(message.contains("it failed too often") && message.contains("answered 500"), "{message}");
    assert_eq!(fake.chats().len(), 2, "the third question does not reach it");

    let expected = json!({"status": "Degraded", "providers": {"broken": false, "spare": true}});
    soon("health that tells", async {
        while get(&server, "/api/generation/health").await.unwrap().json().await != expected {}
    })
    .await;
    let health = get(&server, "/health").await.unwrap().json().await;
    assert_eq!(health["services"]["providers.broken"]["status"], "down", "{health}");
    assert_eq!(health["services"]["providers.spare"]["status"], "up", "{health}");
}

#[tokio::test]
async fn a_provider_is_skipped_until_its_retry_after() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let url = fake.url();
    home.write(
        "mine.toml",
        &format!(
            "[generation]\nproviders = ['busy', 'spare']\n\
             [providers.busy]\nkind = 'openai'\nbase_url = '{url}/v1'\nmodel = 'fake,status=429,retry-after=60'\n\
             [providers.spare]\nbase_url = '{url}'\nmodel = 'fake'\n"
        ),
    );
    let server = home.serve(&["--config", "mine.toml"], &[]).await;
    for _ in 0..3 {
        let (_, done) = ask(&server, "why?").await.answer().await;
        assert_eq!(done["metadata"]["provider"], "spare");
    }
    let paths: Vec<_> = fake.chats().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/v1/chat/completions", "/api/chat", "/api/chat", "/api/chat"]);
    let expected = json!({"status": "Degraded", "providers": {"busy": false, "spare": true}});
    soon("health that tells", async {
        while get(&server, "/api/generation/health").await.unwrap().json().await != expected {}
    })
    .await;
}
