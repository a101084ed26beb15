//! `wellspring serve`: how it starts, which providers it uses, and its errors.

use std::net::TcpListener;

use testing::{FakeModel, fake_text};
use tokio::net::TcpSocket;

use crate::binary::Home;
use crate::client::{ask, get};

#[tokio::test]
async fn the_server_prints_its_address_once_it_is_ready() {
    let server = Home::new().serve(&[], &[]).await;
    assert_eq!(server.announcement, format!("Wellspring listens on {}\n", server.url()));
    assert!(!server.address.ends_with(":0"), "{}", server.address);
    assert_eq!(get(&server, "/health/ready").await.unwrap().status, 200);
}

#[tokio::test]
async fn the_environment_is_enough_to_ask_an_ollama_server() {
    let fake = FakeModel::start().await;
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake"),
    ];
    let server = Home::new().serve(&[], &variables).await;
    let (text, done) = ask(&server, "why?").await.answer().await;
    assert_eq!(text, fake_text(16));
    assert_eq!((&done["type"], &done["metadata"]["tokenCount"]), (&"done".into(), &16.into()));
    assert_eq!(
        (&done["metadata"]["provider"], &done["metadata"]["model"]),
        (&"local".into(), &"fake".into())
    );
    assert_eq!(fake.chats()[0].path, "/api/chat");
}

#[tokio::test]
async fn a_settings_file_names_providers_and_their_order() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let url = fake.url();
    home.write(
        "mine.toml",
        &format!(
            "[generation]\nproviders = ['broken', 'spare']\n\
             [providers.broken]\nbase_url = '{url}'\nmodel = 'fake,status=500'\n\
             [providers.spare]\nkind = 'openai'\nbase_url = '{url}/v1'\nmodel = 'fake,words,tokens=3'\n"
        ),
    );
    let server = home.serve(&["--config", "mine.toml"], &[]).await;
    let (text, done) = ask(&server, "why?").await.answer().await;
    assert_eq!(text, "word0 word1 word2 ");
    assert_eq!(done["metadata"]["provider"], "spare");
    let paths: Vec<_> = fake.chats().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/api/chat", "/v1/chat/completions"]);
}

#[tokio::test]
async fn without_a_model_the_server_starts_with_a_warning() {
    let mut server = Home::new().serve(&[], &[("WELLSPRING__PROVIDERS__LOCAL__KIND", "ollama")]).await;
    let warning = server.logged("WELLSPRING__PROVIDERS__LOCAL__MODEL").await;
    assert!(warning.contains("WARN") && warning.contains("docs/quickstart.md"), "{warning}");
    assert!(server.log.ends_with(&warning) && server.log.matches("WARN").count() == 1, "{}", server.log);

    let (text, error) = ask(&server, "why?").await.answer().await;
    assert_eq!((text.as_str(), &error["type"]), ("", &"error".into()));
    assert_eq!(error["metadata"]["code"], "provider_unavailable");
    assert_eq!(error["metadata"]["retryable"], false, "asking again does not set a model");
    let message = error["metadata"]["message"].as_str().unwrap();
    assert!(message.contains("WELLSPRING__PROVIDERS__LOCAL__MODEL"), "{message}");
}

#[tokio::test]
async fn a_provider_that_does_not_run_yet_is_a_warning_and_an_error_that_may_be_retried() {
    // Bound and not listening: connections are refused, and no other process gets the port.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", url.as_str()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "llama3.2"),
    ];
    let mut server = Home::new().serve(&[], &variables).await;
    let warning = server.logged("no provider answers").await;
    assert!(warning.contains(&url) && warning.contains("is Ollama running?"), "{warning}");
    assert!(server.log.ends_with(&warning) && server.log.matches("WARN").count() == 1, "{}", server.log);

    let (_, error) = ask(&server, "why?").await.answer().await;
    assert_eq!(error["metadata"]["code"], "provider_unavailable");
    assert_eq!(error["metadata"]["retryable"], true);
}

#[tokio::test]
async fn the_open_file_limit_is_raised_and_a_low_one_is_a_warning() {
    let mut server = Home::new().serve_with_files("-Sn 100").await;
    let limits = server.proc_file("limits");
    let files =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("the file has the limit");
    let (soft, hard) = files.trim().split_once(' ').expect("there are two");
    assert_eq!(Some(soft), hard.split_whitespace().next(), "{files}");
    assert_ne!(soft, "100");

    server = Home::new().serve_with_files("-n 1000").await;
    let warning = server.logged("open 1000 files").await;
    assert!(warning.contains("WARN") && warning.contains("it may need 12400"), "{warning}");
    assert_eq!(get(&server, "/health/ready").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_port_in_use_stops_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = Home::new().run(&["serve", "--bind", &address], &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(
        ran.err.starts_with(&format!("wellspring: server.bind: cannot listen on {address}")),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("another address with --bind"), "{}", ran.err);
}

#[tokio::test]
async fn a_mistake_in_the_settings_file_stops_the_start() {
    let home = Home::new();
    home.write("mine.toml", "[limits]\nreaders = 5\n\n[providers.local]\nmodle = 'llama3.2'\n");
    let ran = home.run(&["serve", "--config", "mine.toml"], &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let expected = "wellspring: providers.local.modle (mine.toml, line 5): there is no such setting \
                    (did you mean model?)";
    assert!(ran.err.starts_with(expected), "{}", ran.err);
}
