//! The routes for models and versions.

use serde_json::Value;
use testing::FakeModel;

use crate::client::{ask_all, get};

fn names(list: &Value, field: &str) -> Vec<String> {
    let name = |model: &Value| model[field].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn requested_and_configured_models_are_listed() {
    let fake = FakeModel::start_with(["llama3.2:latest"]).await;
    ask_all(&fake, "/api/chat", "fake,tokens=2").await;
    ask_all(&fake, "/api/chat", "fake,no-such-part").await;
    let tags = names(&get(&fake, "/api/tags").await.1["models"], "name");
    let models = names(&get(&fake, "/v1/models").await.1["data"], "id");
    assert_eq!(tags, models);
    for expected in ["fake", "llama3.2:latest", "fake,tokens=2"] {
        assert!(tags.iter().any(|name| name == expected), "{expected} in {tags:?}");
    }
    assert!(!tags.iter().any(|name| name.contains("no-such-part")), "{tags:?}");
}

#[tokio::test]
async fn every_listed_model_answers() {
    let fake = FakeModel::start().await;
    for name in names(&get(&fake, "/api/tags").await.1["models"], "name") {
        assert_eq!(crate::client::ask(&fake, "/api/chat", &name).await.status, 200, "{name}");
    }
}

#[tokio::test]
async fn the_version_is_served() {
    let fake = FakeModel::start().await;
    let (status, version) = get(&fake, "/api/version").await;
    assert_eq!(status, 200);
    assert!(version["version"].as_str().unwrap().contains('.'));
}

#[tokio::test]
async fn unknown_routes_get_a_json_error() {
    let fake = FakeModel::start().await;
    for path in ["/", "/api/pull", "/api/chat", "/v1/audio/speech", "/v1/embeddings"] {
        let (status, body) = get(&fake, path).await;
        let message = if path.starts_with("/v1/") { &body["error"]["message"] } else { &body["error"] };
        assert_eq!((status, message.as_str().is_some_and(|text| text.contains(path))), (404, true), "{body}");
    }
}
