//! The chat model through its port, with the real small model.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{
    Failure, FailureKind, FinishReason, ModelEvent, ModelId, ModelStream, Provider, Request, Turn, Usage,
};
use futures::{FutureExt, StreamExt};
use models::chat::{Limits, LlamaProvider, PrefixCacheLimits};
use models::files::{Manifest, ModelStore};
use testing::models_folder;

/// One thread: under CPU contention, as in tests, several would wait for each other.
const LIMITS: Limits = Limits {
    window: 8_192,
    answers: 4,
    waiting: 8,
    threads: 1,
    seed: None,
    conversation_bytes: 32 << 20,
    prefix_cache: Some(PrefixCacheLimits { memory_bytes: 32 << 20, disk_bytes: 0, pending: 0 }),
};

fn path() -> PathBuf {
    let model = Manifest::committed().find("smollm2-135m-instruct").unwrap();
    ModelStore::new(models_folder()).locate(model).unwrap_or_else(|problem| panic!("{problem}"))
}

fn open(path: PathBuf, limits: Limits) -> LlamaProvider {
    LlamaProvider::open(ModelId { provider: "local".into(), model: "small".into() }, path, limits)
}

fn provider(limits: Limits) -> LlamaProvider {
    open(path(), limits)
}

fn request(question: &str, max_tokens: u32) -> Request {
    Request {
        system: "You answer questions about software in one or two sentences.".to_owned(),
        question: question.to_owned(),
        max_tokens,
        ..Request::default()
    }
}

/// A question of at least this many tokens.
fn long(tokens: usize) -> String {
    "A prompt is a log. ".repeat(tokens / 6 + 1)
}

struct Answer {
    text: String,
    usage: Usage,
    finish: FinishReason,
}

async fn read(stream: ModelStream) -> Answer {
    let mut answer = Answer { text: String::new(), usage: Usage::default(), finish: FinishReason::Filtered };
    let events: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert!(matches!(events[0], ModelEvent::Started(_)), "{events:?}");
    assert!(matches!(events.last(), Some(ModelEvent::Finish(_))), "{events:?}");
    for event in events {
        match event {
            ModelEvent::Text(text) => answer.text.push_str(&text),
            ModelEvent::Usage(usage) => answer.usage = usage,
            ModelEvent::Finish(reason) => answer.finish = reason,
            _ => {}
        }
    }
    answer
}

async fn ask(provider: &LlamaProvider, request: Request) -> Answer {
    read(provider.stream(Arc::new(request))).await
}

/// What a stream fails with.
async fn failure(mut stream: ModelStream) -> Failure {
    while let Some(event) = stream.next().await {
        if let Err(failure) = event {
            assert!(stream.next().await.is_none(), "nothing comes after a failure");
            return failure;
        }
    }
    panic!("it did not fail")
}

/// Reads up to the first token.
async fn first_token(stream: &mut ModelStream) -> String {
    loop {
        if let ModelEvent::Text(text) = stream.next().await.unwrap().unwrap() {
            return text.to_string();
        }
    }
}

#[tokio::test]
async fn the_first_question_waits_for_the_model_and_greedy_answers_are_reproducible() {
    let provider = provider(LIMITS);
    assert_eq!(provider.health().await.unwrap_err().kind, FailureKind::Unavailable);
    let cold = ask(&provider, request("What is a mutex?", 40)).await;
    assert_eq!(provider.health().await, Ok(()));
    assert!(cold.text.to_lowercase().contains("mutex"), "{}", cold.text);
    assert_eq!(cold.usage.cached, Some(0));
    let warm = ask(&provider, request("What is a mutex?", 40)).await;
    assert_eq!(warm.text, cold.text);
    assert_eq!(warm.usage.cached, cold.usage.input.map(|input| input - 1));
    assert_eq!((warm.usage.input, warm.usage.output), (cold.usage.input, cold.usage.output));
}

#[tokio::test]
async fn an_answer_ends_with_its_turn_or_at_its_bound() {
    let provider = provider(LIMITS);
    let whole = ask(&provider, request("Say hello.", 200)).await;
    assert_eq!(whole.finish, FinishReason::Stop);
    assert!(!whole.text.contains("<|im_end|>"), "{}", whole.text);
    let cut = ask(&provider, request("Say hello.", 3)).await;
    assert_eq!((cut.finish, cut.usage.output), (FinishReason::Length, Some(3)));
    assert!(whole.text.starts_with(&cut.text), "{} {}", whole.text, cut.text);
}

#[tokio::test]
async fn a_common_prefix_with_an_earlier_prompt_is_not_computed_again() {
    let provider = provider(LIMITS);
    let first = ask(&provider, request("What is a mutex?", 20)).await;
    let other = ask(&provider, request("Which ports does HTTP use?", 20)).await;
    let shared = other.usage.cached.unwrap();
    assert!(shared >= 10 && shared < other.usage.input.unwrap(), "the instructions: {shared}");
    let turn = Turn { question: "What is a mutex?".to_owned(), answer: first.text.clone() };
    let next = Request { history: vec![turn], ..request("And a semaphore?", 20) };
    let next = ask(&provider, next).await.usage;
    assert!(next.cached >= first.usage.input, "{next:?} {:?}", first.usage);
}

#[tokio::test]
async fn four_prompts_at_once_are_answered_side_by_side() {
    let provider = provider(LIMITS);
    let questions = ["What is a mutex?", "What is TCP?", "What is a compiler?", "What is a cache?"];
    let streams = all_go_on(&provider, questions.map(|question| request(question, 60))).await;
    for stream in streams {
        assert!(
            stream
                .map(Result::unwrap)
                .any(|event| async move { matches!(event, ModelEvent::Finish(_)) })
                .await
        );
    }
}

#[tokio::test]
async fn four_long_prompts_at_once_are_answered_side_by_side_though_together_they_exceed_the_window() {
    let provider = provider(Limits { window: 1_024, ..LIMITS });
    let questions = ["One", "Two", "Three", "Four"].map(|word| format!("{word}: {}", long(450)));
    all_go_on(&provider, questions.map(|question| request(&question, 256))).await;
}

/// Asks all of these at once; when the last of them has begun to be answered, the first is not at its end.
async fn all_go_on(provider: &LlamaProvider, requests: [Request; 4]) -> Vec<ModelStream> {
    let mut streams: Vec<_> =
        requests.into_iter().map(|request| provider.stream(Arc::new(request))).collect();
    for stream in &mut streams {
        first_token(stream).await;
    }
    // What is ready is no end.
    while let Some(Some(event)) = streams[0].next().now_or_never() {
        assert!(!matches!(event.unwrap(), ModelEvent::Finish(_)));
    }
    streams
}

#[tokio::test]
async fn a_disconnect_during_a_long_prefill_stops_it_within_200_milliseconds() {
    let provider = provider(Limits { answers: 1, waiting: 0, ..LIMITS });
    ask(&provider, request("Hi", 1)).await;
    // Others may have the processor for a while: the best of a few counts.
    let mut soonest = Duration::MAX;
    for number in 0..5 {
        let question = format!("{number} {}", long(4_000));
        let mut stream = provider.stream(Arc::new(request(&question, 10)));
        // A keep-alive comes during prefill.
        while stream.next().await.unwrap().unwrap() != ModelEvent::Waiting {}
        let left = Instant::now();
        drop(stream);
        // The only queue slot is free again as soon as the model has dropped the request.
        let next = loop {
            let mut stream = provider.stream(Arc::new(request(&question, 1)));
            match stream.next().await.unwrap() {
                Ok(_) => break stream,
                Err(failure) => assert_eq!(failure.kind, FailureKind::Overloaded),
            }
            tokio::task::yield_now().await;
        };
        soonest = soonest.min(left.elapsed());
        if soonest < Duration::from_millis(200) {
            return was_not_read_to_its_end(next).await;
        }
    }
    panic!("the model dropped it after {soonest:?}");
}

async fn was_not_read_to_its_end(next: ModelStream) {
    let events: Vec<_> = next.map(Result::unwrap).collect().await;
    let usage = events.iter().find_map(|event| match event {
        ModelEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    let (input, cached) = (usage.unwrap().input.unwrap(), usage.unwrap().cached.unwrap());
    assert!(input > 4_000 && cached < input - 512, "the first was read to its end: {usage:?}");
}

#[tokio::test]
async fn prompts_beyond_the_queue_are_refused_and_queue_slots_are_released() {
    let provider = provider(Limits { answers: 1, waiting: 1, ..LIMITS });
    let mut running = provider.stream(Arc::new(request("What is a mutex?", 500)));
    let waiting = provider.stream(Arc::new(request("What is TCP?", 5)));
    let refused = failure(provider.stream(Arc::new(request("What is a cache?", 5)))).await;
    assert_eq!(refused.kind, FailureKind::Overloaded);
    assert!(refused.message.contains("limits.model_queue") && refused.retry_after.is_some(), "{refused}");
    first_token(&mut running).await;
    drop(running);
    assert_eq!(read(waiting).await.usage.output, Some(5));
    assert_eq!(ask(&provider, request("What is a cache?", 5)).await.usage.output, Some(5));
}

#[tokio::test]
async fn an_empty_question_is_answered_and_one_that_is_too_long_is_refused() {
    let provider = provider(LIMITS);
    ask(&provider, Request { max_tokens: 3, ..Request::default() }).await;
    let failure = failure(provider.stream(Arc::new(request(&long(20_000), 10)))).await;
    assert_eq!(failure.kind, FailureKind::TooLong);
    assert!(failure.message.contains("context_window"), "{failure}");
    assert_eq!(provider.room(&request(&long(20_000), 10)), None);
    let room = provider.room(&request("Hi", 10)).unwrap();
    assert!((8_100..8_192).contains(&room), "{room}");
    assert_eq!(provider.count_tokens("A prompt is a log."), 6);
}

#[tokio::test]
async fn a_temperature_varies_answers_and_a_seed_reproduces_them() {
    let hot = || Request { temperature: 1.5, ..request("Invent a name.", 12) };
    let seeded = async |seed| {
        let provider = provider(Limits { seed: Some(seed), ..LIMITS });
        (ask(&provider, hot()).await.text, ask(&provider, hot()).await.text)
    };
    let (first, second) = seeded(1).await;
    assert_eq!(first, second);
    let provider = provider(LIMITS);
    for _ in 0..10 {
        if ask(&provider, hot()).await.text != first {
            return;
        }
    }
    panic!("ten times {first:?}");
}

#[tokio::test]
async fn memory_does_not_grow_with_the_number_of_prompts() {
    let provider = provider(Limits { window: 1_024, ..LIMITS });
    let resident = || {
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
    };
    let round = async |number: usize| {
        let questions = (0..6).map(|part| request(&format!("{number} {part} {}", long(100)), 4));
        let streams: Vec<_> = questions.map(|question| provider.stream(Arc::new(question))).collect();
        for stream in streams {
            read(stream).await;
        }
    };
    round(0).await;
    let before = resident();
    for number in 1..4 {
        round(number).await;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 << 20, "it grew by {grown} bytes");
}

#[tokio::test]
async fn a_file_that_is_not_a_model_fails_with_its_path_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let whole = fs::read(path()).unwrap();
    let broken = [
        (file("text.gguf", b"not a model"), "text.gguf"),
        (file("empty.gguf", b""), "empty.gguf"),
        (file("half.gguf", &whole[..whole.len() / 2]), "corrupted or incomplete"),
        (file("header.gguf", &whole[..100_000]), "header.gguf"),
        (folder.path().join("missing.gguf"), "No such file"),
    ];
    for (path, words) in broken {
        let provider = open(path.clone(), LIMITS);
        let failure = failure(provider.stream(Arc::new(request("Hi", 1)))).await;
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.message.contains(&path.display().to_string()), "{failure}");
        assert!(failure.message.contains(words), "{failure}");
        assert_eq!(provider.health().await, Err(failure));
    }
}

#[tokio::test]
async fn dropping_the_provider_stops_its_answers() {
    let provider = provider(LIMITS);
    let mut stream = provider.stream(Arc::new(request("What is a mutex?", 2_000)));
    first_token(&mut stream).await;
    let stopped = tokio::task::spawn_blocking(move || drop(provider));
    tokio::time::timeout(Duration::from_secs(60), stopped).await.unwrap().unwrap();
    assert_eq!(failure(stream).await.kind, FailureKind::Internal);
}
