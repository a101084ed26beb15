//! The demos and the quickstart work as described.

use std::path::Path;

use serde_json::Value;
use testing::{FakeModel, fake_text};
use tokio::process::Command;

use crate::binary::{Home, Ran, Server, run};

const DEMOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demos");
/// What a plain chat says where there are no documents.
const NOTHING: &str = "Nothing was found in the documents for this question.";
const QUICKSTART: &str = include_str!("../../../../docs/quickstart.md");

async fn server(fake: &FakeModel, model: &str) -> Server {
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", model),
        ("WELLSPRING__EMBEDDING__KIND", "ollama"),
        ("WELLSPRING__EMBEDDING__BASE_URL", fake.url()),
        ("WELLSPRING__EMBEDDING__MODEL", "fake"),
    ];
    Home::new().serve(&[], &variables).await
}

async fn demo(program: &str, name: &str, arguments: &[&str]) -> Ran {
    run(Command::new(program).arg(Path::new(DEMOS).join(name)).args(arguments)).await
}

#[tokio::test]
async fn the_curl_demo_streams_an_answer_and_cancels_another() {
    let fake = FakeModel::start().await;
    let server = server(&fake, "fake,tokens=30,pace=100ms").await;
    let ran = demo("bash", "curl.sh", &[&server.url()]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let deltas = |text: &str| -> Vec<Value> {
        let lines = text.lines().filter(|line| line.starts_with('{'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (whole, cancelled) = ran.out.split_once("# A cancel").unwrap();
    let whole = deltas(whole);
    let text: String = whole.iter().filter_map(|delta| delta["text"].as_str()).collect();
    assert_eq!(text, fake_text(30));
    assert_eq!(whole.last().unwrap()["metadata"]["finishReason"], "stop");

    let (cancelled, chat) = cancelled.split_once("# A plain chat").unwrap();
    assert_eq!(deltas(chat)[0]["answer"], NOTHING);
    assert!(cancelled.contains("\ncancel: 204\n"), "{cancelled}");
    let cancelled = deltas(cancelled);
    assert_eq!(cancelled[0]["seq"], 0);
    assert_eq!(cancelled.last().unwrap()["metadata"]["cancelled"], true);
    assert!(cancelled.len() < 31, "{cancelled:?}");
}

#[tokio::test]
async fn the_fetch_demo_prints_the_answer_to_its_question() {
    let fake = FakeModel::start().await;
    let server = server(&fake, "fake,echo").await;
    let ran = demo("node", "fetch.mjs", &[&server.url(), "is 水 wet?"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(ran.out, "is 水 wet?\n[3 tokens, stop]\n");
}

#[tokio::test]
async fn the_demos_fail_without_a_provider_or_a_server() {
    let fake = FakeModel::start().await;
    let server = server(&fake, "fake,status=500").await;
    let ran = demo("node", "fetch.mjs", &[&server.url()]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("provider_unavailable"), "{}", ran.err);

    let url = server.url();
    server.stopped().await;
    for (program, name) in [("bash", "curl.sh"), ("node", "fetch.mjs")] {
        let ran = demo(program, name, &[&url]).await;
        assert_ne!(ran.code, Some(0), "{name}: {}", ran.out);
        assert!(!ran.err.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn the_settings_of_the_quickstart_have_no_mistake() {
    let (_, file) = QUICKSTART.split_once("```toml\n").unwrap();
    let home = Home::new();
    home.write("wellspring.toml", file.split_once("```").unwrap().0);
    let arguments = ["config", "check", "--config", "wellspring.toml"];
    let ran = home.run(&arguments, &[("OPENAI_API_KEY", "sk-1")]).await;
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("ok: wellspring.toml\n", ""));
}

/// Everything that a reader types in the chapter that asks, as one script.
#[tokio::test]
async fn the_quickstart_does_what_it_says() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let server = server(&fake, "fake,tokens=32,pace=60ms").await;
    let (_, chapter) = QUICKSTART.split_once("\n## Ask over HTTP\n").unwrap();
    let (chapter, _) = chapter.split_once("\n## ").unwrap();
    let blocks = chapter.split("```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let script = blocks.collect::<String>().replace("http://127.0.0.1:8080", &server.url());
    std::os::unix::fs::symlink(DEMOS, home.path("demos")).unwrap();
    let script = home.write("script", &script);
    let ran = run(Command::new("bash").arg("-u").arg(&script).current_dir(home.path("."))).await;

    let told = |words: &str| assert!(ran.out.contains(words), "{words} is not in {}{}", ran.out, ran.err);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    told("\nid: 32\nevent: done\ndata: {");
    told("HTTP/1.1 204 No Content");
    told("\"finishReason\":\"cancelled\"");
    told("\"code\":\"idempotency_key_reused\"");
    told("\n[32 tokens, stop]\n");
    told(&format!("{{\"answer\":\"{NOTHING}\""));
    told("\"chunk_text\":\"Water freezes at 0 degrees.\\nIt boils at 100 degrees.\"");
    told("\"char_start\":0,\"char_end\":52,\"line_start\":1,\"line_end\":2");
    told("data: {\"type\":\"chunk\",\"content\":\"Nothing was found");
    told("data: {\"type\":\"retrieval_complete\",");
    told("\"messages\":[{\"id\":");
    // One call of the model each: why, up, story, then, spring; the selection and the staged events; fetch; the two
    // of curl. A plain chat finds no documents, and asks none.
    assert_eq!(fake.chats().len(), 10, "{}", ran.out);
}
