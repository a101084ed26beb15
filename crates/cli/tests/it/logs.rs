//! The log: what is in it, and what must not be.

use serde_json::{Value, json};
use testing::{FakeModel, fake_text};

use crate::binary::{Home, shown, soon, typed};
use crate::client::{ask, post};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[tokio::test]
async fn a_prompt_is_logged_by_its_ids_and_without_its_text() {
    let fake = FakeModel::start().await;
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake"),
    ];
    let server = Home::new().serve(&[], &variables).await;
    let started = post(&server, "/api/generation/session", "", &json!({})).await.json().await;
    let prompt =
        json!({"sessionId": started["sessionId"], "prompt": "what did Ada earn?", "idempotencyKey": "again"});
    let traceparent = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
    let response = post(&server, "/api/generation/stream", &traceparent, &prompt).await;
    assert_eq!(response.header("x-trace-id"), TRACE);
    let id = response.header("x-prompt-id").to_owned();
    response.answer().await;

    let address = server.address.clone();
    let log = server.stopped().await;
    let lines = log.lines().map(|line| serde_json::from_str(line).expect("a machine reads JSON"));
    let lines: Vec<Value> = lines.collect();
    let begins = lines.iter().find(|line| line["message"] == "started").expect("it is logged");
    assert_eq!(json!([begins["version"], begins["address"]]), json!([env!("CARGO_PKG_VERSION"), address]));
    let ended = lines.iter().find(|line| line["message"] == "prompt ended").expect("it is logged");
    let expected = json!({"prompt": id, "session": started["sessionId"], "trace": TRACE, "key": "again", "name": "prompt"});
    assert_eq!(ended["span"], expected);
    assert_eq!((&ended["level"], &ended["provider"]), (&json!("INFO"), &json!("local")), "{ended}");
    assert_eq!((&ended["outcome"], &ended["tokens"]), (&json!("done"), &json!(16)), "{ended}");
    assert!(ended["milliseconds"].is_u64(), "{ended}");
    let answered = lines.iter().find(|line| line["message"] == "answered" && line["trace"] == TRACE);
    let answered = answered.expect("it is logged");
    let told = ["client", "method", "path", "status"].map(|name| &answered[name]);
    assert_eq!(json!(told), json!(["127.0.0.1", "POST", "/api/generation/stream", 200]));
    assert!(answered["milliseconds"].is_u64(), "{answered}");
    assert!(!log.contains("Ada"), "{log}");
    assert!(!log.contains(&fake_text(2)), "{log}");
}

#[tokio::test]
async fn a_prompt_that_failed_is_logged_with_the_reason() {
    let fake = FakeModel::start().await;
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,status=500"),
    ];
    let mut server = Home::new().serve(&[], &variables).await;
    ask(&server, "why?").await.answer().await;
    let ended = server.logged("prompt ended").await;
    let ended: Value = serde_json::from_str(&ended).expect("a machine reads JSON");
    let told = ["provider", "outcome", "cause", "failure"].map(|name| &ended[name]);
    assert_eq!(json!(told), json!(["local", "error", "Model", "Unavailable"]), "{ended}");
    assert!(ended["reason"].as_str().is_some_and(|reason| reason.contains("answered 500")), "{ended}");
}

#[tokio::test]
async fn on_a_terminal_the_log_is_text() {
    let home = Home::new();
    let mut serving = home.start_on_terminal("serve --bind 127.0.0.1:0", &[]);
    shown(&mut serving, "Wellspring listens on").await;
    typed(&mut serving, "\x03").await;
    let log = shown(&mut serving, "stopped").await;
    assert!(log.contains("INFO") && log.contains("stopping") && !log.contains("\"level\""), "{log}");
    let status = soon("its end", serving.wait()).await.expect("it can be waited for");
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_closed_log_does_not_stop_the_server() {
    let fake = FakeModel::start().await;
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake"),
    ];
    let mut server = Home::new().serve(&[], &variables).await;
    server.close_log().await;
    for _ in 0..2 {
        let (_, done) = ask(&server, "why?").await.answer().await;
        assert_eq!(done["type"], "done");
    }
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code, Some(0));
}

#[tokio::test]
async fn a_key_is_sent_to_its_provider_and_never_shown() {
    const KEY: &str = "sk-hunter2-0123456789";
    let (fake, home) = (FakeModel::start().await, Home::new());
    home.write(
        "mine.toml",
        &format!(
            "[providers.local]\nkind = 'openai'\nbase_url = '{}/v1'\nmodel = 'fake,status=401'\n\
             api_key_env = 'REMOTE_KEY'\n",
            fake.url()
        ),
    );
    let (config, variables) = (["--config", "mine.toml"], [("REMOTE_KEY", KEY), ("RUST_LOG", "trace")]);
    let server = home.serve(&config, &variables).await;
    let (_, error) = ask(&server, "why?").await.answer().await;
    let chats = fake.chats();
    assert_eq!(chats[0].authorization.as_deref(), Some("Bearer sk-hunter2-0123456789"));
    assert!(error["metadata"]["message"].as_str().unwrap().contains("check the key"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let log = server.stopped().await;
    assert!(!log.contains("hunter2"), "{log}");

    let shown = home.run(&["config", "show", "--config", "mine.toml"], &variables).await;
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    assert!(shown.out.contains("REMOTE_KEY"), "{}", shown.out);
    assert!(!(shown.out + &shown.err).contains("hunter2"));
}
