//! `wellspring ask`: in the process, and through a server.

use serde_json::Value;
use testing::{FakeModel, RequestEnding};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::process::Child;

use crate::binary::{Home, Ran, shown, signal, soon, typed};
use crate::client::get;
use crate::ingest::{embedding_by, home_with_pages};

const QUESTION: &str = "Pumps lift water.";

/// The variables of a binary whose models are a fake server.
fn answering_by<'a>(fake: &'a FakeModel, model: &'a str) -> Vec<(&'a str, &'a str)> {
    let provider = [
        ("WELLSPRING__PROVIDERS__LOCAL__KIND", "ollama"),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", model),
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
    ];
    [provider, embedding_by(fake)].concat()
}

/// A home whose two pages are in the knowledge base.
async fn home_that_knows_pages(variables: &[(&str, &str)]) -> Home {
    let home = home_with_pages();
    let ran = home.run(&["ingest", "wiki"], variables).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    home
}

/// The session that a run has started.
fn session(ran: &Ran) -> &str {
    let told = ran.err.trim_end().strip_prefix("To ask on in this session: --session ");
    told.unwrap_or_else(|| panic!("no session in {ran:?}"))
}

#[tokio::test]
async fn the_answer_and_its_sources_are_the_same_with_and_without_a_server() {
    const QUESTION: &str = "Pumps lift water. Cats sleep.";
    let fake = FakeModel::start().await;
    let variables = answering_by(&fake, "fake,words,tokens=3");
    let home = home_that_knows_pages(&variables).await;
    let alone = home.run(&["ask", QUESTION], &variables).await;
    assert_eq!(alone.code, Some(0), "{}", alone.err);
    let expected =
        "word0 word1 word2 \n\nSources:\n  [1] Pumps  pumps.md:1-3\n  [2] Cats  guide/cats.md:1-3\n";
    assert_eq!(alone.out, expected);

    let mut server = home.serve(&[], &variables).await;
    let through = home.run(&["ask", QUESTION], &variables).await;
    assert_eq!((through.code, through.out.as_str()), (Some(0), expected), "{}", through.err);
    server.logged("\"path\":\"/api/generation/stream\",\"status\":200").await;
    let named = Home::new().run(&["ask", QUESTION, "-k", "1", "--server", &server.url()], &[]).await;
    assert_eq!(named.code, Some(0), "{}", named.err);
    assert_eq!(named.out, "word0 word1 word2 \n\nSources:\n  [1] Pumps  pumps.md:1-3\n");
}

#[tokio::test]
async fn cited_sources_are_marked() {
    let fake = FakeModel::start().await;
    let variables = answering_by(&fake, "fake,echo");
    let home = home_that_knows_pages(&variables).await;
    let ran = home.run(&["ask", QUESTION], &variables).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("Sources (* cited):\n* [1] Pumps  pumps.md:1-3\n"), "{}", ran.out);
}

#[tokio::test]
async fn the_quotes_provider_answers_when_the_model_fails() {
    let fake = FakeModel::start().await;
    let variables = answering_by(&fake, "fake,status=500");
    let home = home_that_knows_pages(&variables).await;
    home.write(
        "mine.toml",
        "[generation]\nproviders = ['local', 'quotes']\n[providers.quotes]\nkind = 'quotes'\n",
    );
    let ran = home.run(&["ask", QUESTION, "--config", "mine.toml"], &variables).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("No model was asked") && ran.out.contains("“Pumps lift water.” [1]"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("Sources (* cited):\n* [1] Pumps  pumps.md:1-3\n"), "{}", ran.out);
    assert_eq!(fake.chats().len(), 1, "the model comes first");
}

#[tokio::test]
async fn without_documents_the_model_answers_without_sources() {
    let fake = FakeModel::start().await;
    let ran = Home::new().run(&["ask", QUESTION], &answering_by(&fake, "fake,words,tokens=2")).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.starts_with("word0 word1 \n\nNo sources: nothing was found"), "{}", ran.out);
}

#[tokio::test]
async fn as_json_the_lines_are_the_deltas_that_the_server_sends() {
    let fake = FakeModel::start().await;
    let variables = answering_by(&fake, "fake,tokens=31");
    let home = home_that_knows_pages(&variables).await;
    let alone = home.run(&["ask", "--json", QUESTION], &variables).await;
    let server = home.serve(&[], &variables).await;
    let through = home.run(&["ask", "--json", QUESTION], &variables).await;
    for ran in [alone, through] {
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let first: Value = serde_json::from_str(ran.out.lines().next().expect("a line")).expect("JSON");
        let path = format!("/api/generation/prompts/{}/stream", first["promptId"].as_str().expect("an id"));
        let told = get(&server, &path).await.expect("the server answers").lines().await;
        assert_eq!(ran.out, told);
        assert_eq!(ran.out.lines().count(), 32);
    }
}

#[tokio::test]
async fn a_session_remembers_earlier_questions_and_answers() {
    let fake = FakeModel::start().await;
    let variables = answering_by(&fake, "fake,words,tokens=3");
    let home = Home::new();
    let first = home.run(&["ask", "Why?"], &variables).await;
    let server = home.serve(&[], &variables).await;
    for _ in 0..2 {
        let next = home.run(&["ask", "And then?", "--session", session(&first)], &variables).await;
        assert_eq!((next.code, next.err.as_str()), (Some(0), ""));
    }
    let messages = fake.chats().pop().expect("it was asked").body["messages"].to_string();
    assert!(messages.contains("Why?") && messages.matches("word0 word1 word2").count() == 2, "{messages}");
    drop(server);
}

/// Asks in the process and through a server; both end with this message.
async fn check_that_it_fails(model: &str, arguments: &[&str], out: &str, message: &str) {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let variables = answering_by(&fake, model);
    let arguments = [&["ask"], arguments].concat();
    let alone = home.run(&arguments, &variables).await;
    let _server = home.serve(&[], &variables).await;
    let through = home.run(&arguments, &variables).await;
    for ran in [alone, through] {
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), out), "{}", ran.err);
        assert!(ran.err.starts_with("wellspring: ") && ran.err.contains(message), "{}", ran.err);
    }
}

#[tokio::test]
async fn an_unknown_session_is_an_error() {
    let message = r#"there is no session "mine", or it has ended; without the flag a new one is started"#;
    check_that_it_fails("fake", &["why?", "--session", "mine"], "", message).await;
    let unknown = "0192f4a0-7c1e-7a53-9d42-3f7a5c6b8e01";
    let message = format!("there is no session {unknown:?}");
    check_that_it_fails("fake", &["why?", "--session", unknown], "", &message).await;
}

#[tokio::test]
async fn the_failure_of_a_provider_is_an_error() {
    check_that_it_fails("fake,status=401", &["why?"], "", "local:").await;
    check_that_it_fails("fake,words,die=2", &["why?"], "word0 word1 \n", "the answer broke off:").await;
}

#[tokio::test]
async fn an_empty_question_is_refused() {
    check_that_it_fails("fake", &[" \n"], "", "the question is empty").await;
}

#[tokio::test]
async fn an_unreachable_server_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let ran = Home::new().run(&["ask", "why?", "--server", &url], &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let message = format!("wellspring: the server at {url} did not answer: Connection refused");
    assert!(ran.err.starts_with(&message), "{}", ran.err);
}

#[tokio::test]
async fn a_server_that_is_not_wellspring_is_an_error() {
    let fake = FakeModel::start().await;
    let ran = Home::new().run(&["ask", "why?", "--server", fake.url()], &[]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("404 Not Found: is it Wellspring's address?"), "{}", ran.err);
}

#[tokio::test]
async fn a_second_command_on_the_data_folder_is_refused() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let variables = answering_by(&fake, "fake,words,stall=3");
    let mut asking = home.start(&["ask", "why?"], &variables);
    begun(&mut asking).await;
    let ran = home.run(&["ask", "why?"], &variables).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("is in use by another server or command: stop it"), "{}", ran.err);
}

/// Waits until the answer has begun.
async fn begun(asking: &mut Child) {
    let out = asking.stdout.as_mut().expect("it is piped");
    let mut first = [0; 5];
    soon("a token", out.read_exact(&mut first)).await.expect("it prints");
    assert_eq!(&first, b"word0");
}

/// How it ended, and that the model's work has ended with it.
async fn check_that_it_ended(mut asking: Child, code: i32, fake: &FakeModel) {
    let status = soon("its end", asking.wait()).await.expect("it can be waited for");
    assert_eq!(status.code(), Some(code));
    let mut err = String::new();
    asking.stderr.take().expect("it is piped").read_to_string(&mut err).await.expect("UTF-8");
    assert_eq!(err, "");
    let closed = |seen: &testing::RecordedRequest| seen.is_chat() && seen.ending == RequestEnding::Closed;
    fake.wait_until(|requests| requests.iter().any(closed)).await;
}

#[tokio::test]
async fn ctrl_c_cancels_the_prompt_in_the_process() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let variables = answering_by(&fake, "fake,words,stall=3");
    let mut asking = home.start(&["ask", "why?"], &variables);
    begun(&mut asking).await;
    signal(&asking, "INT").await;
    check_that_it_ended(asking, 130, &fake).await;
    let server = home.serve(&[], &variables).await;
    let prompts = get(&server, "/api/prompts").await.expect("the server answers").json().await;
    assert_eq!(prompts["prompts"][0]["status"], "cancelled", "{prompts}");
}

#[tokio::test]
async fn ctrl_c_cancels_the_prompt_on_the_server() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let variables = answering_by(&fake, "fake,words,stall=3");
    let server = home.serve(&[], &variables).await;
    let mut asking = home.start(&["ask", "why?"], &variables);
    begun(&mut asking).await;
    signal(&asking, "INT").await;
    soon("its end", asking.wait()).await.expect("it can be waited for");
    let prompts = get(&server, "/api/prompts").await.expect("the server answers").json().await;
    assert_eq!(prompts["prompts"][0]["status"], "cancelled", "{prompts}");
    check_that_it_ended(asking, 130, &fake).await;
}

#[tokio::test]
async fn a_closed_standard_output_cancels_the_prompt() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let variables = answering_by(&fake, "fake,words,tokens=100000,pace=2ms");
    let _server = home.serve(&[], &variables).await;
    let mut asking = home.start(&["ask", "why?"], &variables);
    begun(&mut asking).await;
    drop(asking.stdout.take());
    check_that_it_ended(asking, 0, &fake).await;
}

#[tokio::test]
async fn without_a_question_every_line_is_asked_in_one_session() {
    let fake = FakeModel::start().await;
    let variables = answering_by(&fake, "fake,words,tokens=2");
    let home = Home::new();
    let input = "Why?\n\n  And then? \nAnd last?";
    let alone = home.run_with_input(&["ask"], input, &variables).await;
    assert_eq!(alone.code, Some(0), "{}", alone.err);
    assert_eq!(alone.out.matches("word0 word1 \n").count(), 3, "{}", alone.out);
    let last = fake.chats().pop().expect("it was asked").body["messages"].to_string();
    assert!(last.contains("Why?") && last.contains("And then?") && last.contains("And last?"), "{last}");

    let server = home.serve(&[], &variables).await;
    let arguments = ["ask", "--json", "--session", session(&alone)];
    let through = home.run_with_input(&arguments, "And after a restart?\nAnd now?\n", &variables).await;
    assert_eq!((through.code, through.err.as_str()), (Some(0), ""));
    let deltas: Vec<Value> =
        through.out.lines().map(|line| serde_json::from_str(line).expect("every line is a delta")).collect();
    assert_eq!(deltas.iter().filter(|delta| delta["type"] == "done").count(), 2);
    let last = fake.chats().pop().expect("it was asked").body["messages"].to_string();
    assert!(last.contains("And last?") && last.contains("And after a restart?"), "{last}");
    drop(server);
    let nothing = home.run_with_input(&["ask"], "\n \n", &variables).await;
    assert_eq!((nothing.code, nothing.out.as_str(), nothing.err.as_str()), (Some(0), "", ""));
}

#[tokio::test]
async fn the_failure_of_one_question_of_several_is_reported_and_the_others_are_asked() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let mut variables = answering_by(&fake, "fake,words,tokens=2");
    variables.push(("WELLSPRING__LIMITS__QUESTION_CHARS", "10"));
    let input = format!("Why?\n{}\nHow?\n", "x".repeat(11));
    let ran = home.run_with_input(&["ask"], &input, &variables).await;
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert_eq!(ran.out.matches("word0 word1 \n").count(), 2, "{}", ran.out);
    assert!(ran.err.contains("limits.question_chars"), "{}", ran.err);
    assert!(ran.err.contains("wellspring: not every question was answered"), "{}", ran.err);
}

#[tokio::test]
async fn on_a_terminal_ctrl_c_cancels_the_answer_and_ctrl_d_ends_the_conversation() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let variables = answering_by(&fake, "fake,words,tokens=100000,pace=5ms");
    let mut asking = home.start_on_terminal("ask", &variables);
    shown(&mut asking, "> ").await;
    for question in ["Why?\n", "And then?\n"] {
        typed(&mut asking, question).await;
        shown(&mut asking, "word3").await;
        typed(&mut asking, "\x03").await;
        shown(&mut asking, "> ").await;
    }
    typed(&mut asking, "\x04").await;
    let status = soon("its end", asking.wait()).await.expect("it can be waited for");
    assert_eq!(status.code(), Some(0));
    let chats = fake.chats();
    assert_eq!(chats.len(), 2);
    assert!(chats.iter().all(|chat| chat.ending == RequestEnding::Closed), "each answer was cancelled");
    let messages = chats[1].body["messages"].to_string();
    assert!(messages.contains("Why?") && messages.contains("word3"), "what was said so far is remembered");
}
