//! A server whose model runs in it.

use testing::models_folder;

use crate::binary::Home;
use crate::client::{ask, get};

#[tokio::test]
async fn without_its_chat_model_the_server_starts_and_reports_what_to_do() {
    let mut server = Home::new().serve(&[], &[]).await;
    let log = server.logged("chat model not loaded").await;
    let (_, error) = ask(&server, "why?").await.answer().await;
    assert_eq!(error["metadata"]["code"], "provider_unavailable");
    let message = error["metadata"]["message"].as_str().expect("it says why");
    for told in [&log, message] {
        for words in ["q4_k_m.gguf is missing", "wellspring models pull qwen2.5-coder-1.5b-instruct"] {
            assert!(told.contains(words), "{words:?} is not in {told}");
        }
    }
}

#[tokio::test]
async fn the_first_question_waits_for_the_model_and_is_answered_by_it() {
    let folder = models_folder();
    let variables = [
        ("WELLSPRING__MODELS__DIR", folder.to_str().expect("a plain path")),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "smollm2-135m-instruct"),
        ("WELLSPRING__MODELS__PREFIX_CACHE_DISK_BYTES", "0"),
        ("WELLSPRING__GENERATION__MAX_TOKENS", "4"),
    ];
    let mut server = Home::new().serve(&[], &variables).await;
    let (text, end) = ask(&server, "Say hello.").await.answer().await;
    assert!(!text.is_empty(), "{end}");
    assert_eq!(end["type"], "done", "{end}");
    server.logged("chat model loaded").await;
    assert!(!server.log.contains("no provider answers"), "{}", server.log);
    let ready = get(&server, "/health/ready").await.expect("it answers");
    assert_eq!(ready.status, 200);
    assert_eq!(ready.json().await["kept_passages"]["local"]["disk_bytes"], 0);
}
