//! The prefix cache of the chat model, through its provider and with the real small model.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{
    FailureKind, ModelEvent, ModelId, ModelStream, Passage, PrefixCacheStats, Provider, Request, Turn, Usage,
};
use futures::{FutureExt, StreamExt};
use models::chat::{Limits, LlamaProvider, ModelFile, PassageLookup, PrefixCacheLimits};
use models::files::{Manifest, ModelStore};
use testing::{models_folder, passage};
use tokio::time::timeout;

const CACHE: PrefixCacheLimits =
    PrefixCacheLimits { memory_bytes: 256 << 20, disk_bytes: 1 << 30, pending: 128 };

const LIMITS: Limits = Limits {
    window: 8_192,
    answers: 4,
    waiting: 8,
    threads: 1,
    seed: None,
    conversation_bytes: 256 << 20,
    prefix_cache: Some(CACHE),
};

const WITHOUT_CACHE: Limits = Limits { prefix_cache: None, ..LIMITS };

/// The small model, with or without a folder for its cache.
fn provider(limits: Limits, folder: Option<&Path>) -> LlamaProvider {
    let model = Manifest::committed().find("smollm2-135m-instruct").unwrap();
    let path = ModelStore::new(models_folder()).locate(model).unwrap_or_else(|problem| panic!("{problem}"));
    let file = ModelFile { path, sha256: model.files.first().map(|file| file.sha256) };
    let id = ModelId { provider: "local".into(), model: "small".into() };
    LlamaProvider::find_and_open(id, || Ok(file), folder.map(Path::to_owned), limits)
}

fn passages() -> Vec<Passage> {
    vec![
        passage("Locks", "A mutex is a lock that at most one thread holds at a time. Others wait for it."),
        passage(
            "Journal",
            "The journal keeps the logs of running prompts. Batches are written before they are read.",
        ),
        passage("Ports", "The server listens on port 8080 unless the settings say otherwise."),
    ]
}

/// Passages of about this many tokens, which differ by their seed.
fn long_passages(seed: usize, count: usize, tokens: usize) -> Vec<Passage> {
    let text = |number: usize| format!("{seed} {number} {}", "A prompt is a log. ".repeat(tokens / 6));
    (0..count).map(|number| passage("Notes", &text(number))).collect()
}

fn request(question: &str, passages: Vec<Passage>) -> Request {
    Request {
        system: "You answer questions about software from the passages, in one sentence.".to_owned(),
        question: question.to_owned(),
        passages,
        max_tokens: 8,
        ..Request::default()
    }
}

/// The answer, and the tokens of the prompt: all, and those that were cached.
async fn ask(provider: &LlamaProvider, request: Request) -> (String, u64, u64) {
    let events: Vec<_> = provider.stream(Arc::new(request)).map(Result::unwrap).collect().await;
    assert!(matches!(events.last(), Some(ModelEvent::Finish(_))), "{events:?}");
    let (mut text, mut counted) = (String::new(), Usage::default());
    for event in events {
        match event {
            ModelEvent::Text(piece) => text.push_str(&piece),
            ModelEvent::Usage(usage) => counted = usage,
            _ => {}
        }
    }
    (text, counted.input.unwrap(), counted.cached.unwrap())
}

/// How many tokens of a prompt about these passages are computed.
async fn computed(provider: &LlamaProvider, question: &str, passages: Vec<Passage>) -> u64 {
    let (_, input, cached) = ask(provider, request(question, passages)).await;
    input - cached
}

/// Computes passages, each by itself.
async fn warm(provider: &LlamaProvider, passages: Vec<Passage>) {
    for passage in passages {
        let about = Arc::new(request("", vec![passage]));
        assert!(provider.prefill_passage(about).await.unwrap().is_cached);
    }
}

async fn look_up(provider: &LlamaProvider, passage: &Passage) -> PassageLookup {
    provider.look_up_passage(Arc::new(request("", vec![passage.clone()]))).await.unwrap()
}

/// Waits until the passages are computed that prompts lacked: they come before any passage of a warm-up.
async fn settle(provider: &LlamaProvider) {
    warm(provider, vec![passage("Last", "This one comes last.")]).await;
    assert_eq!(stats(provider).pending, 0);
}

fn stats(provider: &LlamaProvider) -> PrefixCacheStats {
    provider.status().prefix_cache.unwrap()
}

#[tokio::test]
async fn cached_passages_are_not_computed_again_in_whatever_order_they_come() {
    let provider = provider(LIMITS, None);
    warm(&provider, passages()).await;
    for turns in 0..3 {
        let mut turned = passages();
        turned.rotate_left(turns);
        assert!(computed(&provider, "Which port is it?", turned).await < 30, "only the question is computed");
    }
    let stats = stats(&provider);
    assert!(stats.hits == 12 && stats.misses == 0 && stats.memory_bytes > 100_000, "{stats:?}");
    assert!(provider.caches_passages());
}

#[tokio::test]
async fn a_prompt_with_missing_passages_is_prefilled_as_a_whole_and_they_are_computed_when_idle() {
    let (whole, provider) = (provider(WITHOUT_CACHE, None), provider(LIMITS, None));
    let asked = || Request { max_tokens: 24, ..request("Which port is it?", passages()) };
    let (answer, _, cached) = ask(&provider, asked()).await;
    assert_eq!((answer, cached), (ask(&whole, asked()).await.0, 0));
    settle(&provider).await;
    let mut swapped = passages();
    swapped.swap(1, 2);
    assert!(computed(&provider, "Which port is it?", swapped).await < 30, "only the question is computed");
}

#[tokio::test]
async fn a_prompt_with_one_missing_passage_takes_only_the_prefix_from_the_cache() {
    let provider = provider(LIMITS, None);
    let [first, second, third] = <[Passage; 3]>::try_from(passages()).unwrap();
    warm(&provider, vec![first, third]).await;
    let (answer, input, cached) = ask(&provider, request("Which port is it?", passages())).await;
    assert!(!answer.is_empty());
    let tokens = passages().iter().map(|passage| provider.count_tokens(&passage.text) as u64).sum::<u64>();
    assert!(cached > 10 && input - cached > tokens, "{tokens} {input} {cached}");
    settle(&provider).await;
    assert!(look_up(&provider, &second).await.is_cached);
    assert_eq!(stats(&provider).misses, 1);
}

#[tokio::test]
async fn without_a_queue_nothing_is_computed_for_later_prompts() {
    let briefly = PrefixCacheLimits { pending: 0, ..CACHE };
    let provider = provider(Limits { prefix_cache: Some(briefly), ..LIMITS }, None);
    ask(&provider, request("Which port is it?", passages())).await;
    settle(&provider).await;
    for passage in passages() {
        assert!(!look_up(&provider, &passage).await.is_cached);
    }
}

#[tokio::test]
async fn a_changed_passage_is_computed_again() {
    let provider = provider(LIMITS, None);
    warm(&provider, passages()).await;
    ask(&provider, request("What is a mutex?", passages())).await;
    let mut changed = passages();
    changed[2].text = changed[2].text.replace("8080", "9090");
    let tokens = provider.count_tokens(&changed[2].text) as u64;
    let anew = computed(&provider, "Which port is it?", changed.clone()).await;
    assert!((tokens..tokens + 50).contains(&anew), "what stands before it is the last prompt's: {anew}");
    settle(&provider).await;
    changed.rotate_left(1);
    assert!(computed(&provider, "Which port is it?", changed).await < 30, "only the question is computed");
}

#[tokio::test]
async fn cached_passages_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = provider(LIMITS, Some(folder.path()));
    warm(&first, passages()).await;
    let (answer, ..) = ask(&first, request("What is a mutex?", passages())).await;
    drop(first);
    let later = provider(LIMITS, Some(folder.path()));
    let (again, input, cached) = ask(&later, request("What is a mutex?", passages())).await;
    assert_eq!(again, answer);
    assert!(input - cached < 30, "{input} {cached}");
    assert!(stats(&later).disk_bytes > 100_000);
}

#[tokio::test]
async fn without_a_prefix_cache_prompts_are_prefilled_as_a_whole() {
    let provider = provider(WITHOUT_CACHE, None);
    ask(&provider, request("What is a mutex?", passages())).await;
    let mut turned = passages();
    turned.rotate_left(1);
    let (_, input, cached) = ask(&provider, request("Which port is it?", turned.clone())).await;
    assert!(cached < input / 2, "no more than the prefix: {input} {cached}");
    assert_eq!((provider.status().prefix_cache, provider.caches_passages()), (None, false));
    let failure = provider.look_up_passage(Arc::new(request("", turned))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused);
}

#[tokio::test]
async fn a_conversation_goes_on_from_its_last_answer() {
    for is_warm in [true, false] {
        let provider = provider(LIMITS, None);
        if is_warm {
            warm(&provider, passages()).await;
        }
        let (answer, input, cached) = ask(&provider, request("What is a mutex?", passages())).await;
        assert_eq!(cached > 0, is_warm);
        // Another conversation in between.
        ask(&provider, request("Which port is it?", long_passages(1, 2, 50))).await;
        let turn = Turn { question: "What is a mutex?".to_owned(), answer };
        let next = Request { history: vec![turn], ..request("And who waits for it?", passages()) };
        let (_, _, cached) = ask(&provider, next).await;
        assert!(
            cached >= input,
            "the first question and its answer are not computed again: {cached} {input}"
        );
    }
}

#[tokio::test]
async fn a_passage_that_does_not_fit_is_not_computed() {
    let provider = provider(LIMITS, None);
    for tokens in [3_000, 10_000] {
        let about = Arc::new(request("", long_passages(1, 1, tokens)));
        let lookup = provider.prefill_passage(about).await.unwrap();
        assert_eq!((lookup.is_cached, lookup.bytes), (false, None));
    }
    let small = PrefixCacheLimits { memory_bytes: 2 << 20, ..CACHE };
    let provider = self::provider(Limits { prefix_cache: Some(small), ..LIMITS }, None);
    let about = Arc::new(request("", long_passages(1, 1, 300)));
    let lookup = provider.prefill_passage(about).await.unwrap();
    assert!(!lookup.is_cached && lookup.bytes > Some(lookup.capacity), "{lookup:?}");
    // Its prompts are answered all the same.
    assert!(!ask(&provider, request("What is a log?", long_passages(1, 3, 300))).await.0.is_empty());
}

#[tokio::test]
async fn the_cache_stays_within_its_bound_and_the_least_recently_used_passage_is_evicted() {
    let small = PrefixCacheLimits { memory_bytes: 12 << 20, ..CACHE };
    let provider = provider(Limits { prefix_cache: Some(small), ..LIMITS }, None);
    let one = |seed| long_passages(seed, 1, 60).remove(0);
    let kept = one(100);
    warm(&provider, vec![kept.clone()]).await;
    let mut needed = look_up(&provider, &kept).await.bytes.unwrap();
    for seed in 0..10 {
        warm(&provider, vec![one(seed)]).await;
        // A lookup counts as a use.
        let lookup = look_up(&provider, &kept).await;
        assert!(lookup.is_cached && stats(&provider).memory_bytes <= 12 << 20);
        needed += look_up(&provider, &one(seed)).await.bytes.unwrap();
    }
    assert!(needed > 12 << 20, "{needed}");
    assert!(!look_up(&provider, &one(0)).await.is_cached);
    assert!(computed(&provider, "What is a log?", vec![one(9), kept]).await < 30);
}

#[tokio::test]
async fn a_question_goes_before_the_warm_up() {
    let provider = Arc::new(provider(LIMITS, None));
    ask(&provider, request("Hi", Vec::new())).await;
    let mut warming = tokio::spawn({
        let provider = provider.clone();
        async move { warm(&provider, long_passages(1, 5, 400)).await }
    });
    while stats(&provider).memory_bytes == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!ask(&provider, request("What is a mutex?", passages())).await.0.is_empty());
    assert!((&mut warming).now_or_never().is_none(), "the rest is still to be computed");
    warming.await.unwrap();
}

#[tokio::test]
async fn a_prompt_of_a_whole_window_is_admitted_while_a_long_passage_is_warmed() {
    let provider = Arc::new(provider(Limits { window: 2_048, ..LIMITS }, None));
    ask(&provider, request("Hi", Vec::new())).await;
    let warming = tokio::spawn({
        let provider = provider.clone();
        async move { warm(&provider, long_passages(1, 3, 1_600)).await }
    });
    while stats(&provider).memory_bytes == 0 {
        tokio::task::yield_now().await;
    }
    let asked = ask(&provider, request("What is a mutex?", long_passages(2, 1, 1_600)));
    let (answer, ..) = timeout(Duration::from_secs(60), asked).await.expect("it is admitted");
    assert!(!answer.is_empty());
    warming.await.unwrap();
}

#[tokio::test]
async fn a_disconnect_during_prefill_stops_it_within_200_milliseconds() {
    let provider = provider(Limits { answers: 1, waiting: 0, ..LIMITS }, None);
    ask(&provider, request("Hi", Vec::new())).await;
    let begin = async |seed| {
        let mut stream = provider.stream(Arc::new(request("What is a log?", long_passages(seed, 5, 800))));
        // A keep-alive comes during prefill.
        while stream.next().await.unwrap().unwrap() != ModelEvent::Waiting {}
        stream
    };
    check_that_a_disconnect_frees_the_only_slot(&provider, begin).await;
}

#[tokio::test]
async fn a_disconnect_during_restoring_stops_it_within_200_milliseconds() {
    let folder = tempfile::tempdir().unwrap();
    // One passage again and again is computed only once.
    let long = long_passages(1, 1, 800).remove(0);
    let asked = || request("What is a log?", vec![long.clone(); 9]);
    let writer = provider(LIMITS, Some(folder.path()));
    warm(&writer, vec![long.clone()]).await;
    drop(writer);
    // Without a memory tier it is read from its file each time.
    let from_files = PrefixCacheLimits { memory_bytes: 0, ..CACHE };
    let limits =
        Limits { answers: 1, waiting: 0, prefix_cache: Some(from_files), conversation_bytes: 0, ..LIMITS };
    let provider = provider(limits, Some(folder.path()));
    let (_, input, cached) = ask(&provider, asked()).await;
    assert!(input > 7_000 && input - cached < 30, "only the question is computed: {input} {cached}");
    let hits = || stats(&provider).hits;
    // Some disconnect after the first lookup, and others after all of them, when the states are joined.
    let all = hits();
    for found in [1, all] {
        let begin = async |_| {
            let before = hits();
            let mut stream = provider.stream(Arc::new(asked()));
            assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Started(_)))));
            assert!(stream.next().now_or_never().is_none(), "the request is sent, and there is no event yet");
            while hits() < before + found {
                tokio::task::yield_now().await;
            }
            stream
        };
        check_that_a_disconnect_frees_the_only_slot(&provider, begin).await;
    }
}

/// The model drops the request of a disconnected client within 200 milliseconds.
async fn check_that_a_disconnect_frees_the_only_slot(
    provider: &LlamaProvider,
    begin: impl AsyncFn(usize) -> ModelStream,
) {
    // Other tests may take the processor for a while: the best of a few counts.
    let mut soonest = Duration::MAX;
    for attempt in 0..5 {
        let stream = begin(attempt).await;
        let disconnected = Instant::now();
        drop(stream);
        // The only queue slot is free again as soon as the model has dropped the request.
        loop {
            let mut stream = provider.stream(Arc::new(request("Hi", Vec::new())));
            match stream.next().await.unwrap() {
                Ok(_) => break,
                Err(failure) => assert_eq!(failure.kind, FailureKind::Overloaded),
            }
            tokio::task::yield_now().await;
        }
        soonest = soonest.min(disconnected.elapsed());
        if soonest < Duration::from_millis(200) {
            return;
        }
    }
    panic!("the model dropped it after {soonest:?}");
}

#[tokio::test]
async fn a_disconnected_prompt_leaves_nothing_wrong_behind() {
    let long = long_passages(1, 1, 1_000).remove(0);
    let [first, _, third] = <[Passage; 3]>::try_from(passages()).unwrap();
    let asked = || request("Which port is it?", vec![first.clone(), long.clone(), third.clone()]);
    let undisturbed = provider(LIMITS, None);
    warm(&undisturbed, asked().passages).await;
    let (answer, ..) = ask(&undisturbed, asked()).await;
    let provider = provider(LIMITS, None);
    warm(&provider, vec![first.clone(), third.clone()]).await;
    let mut left = provider.stream(Arc::new(asked()));
    while stats(&provider).misses < 1 {
        let _ = left.next().now_or_never();
        tokio::task::yield_now().await;
    }
    drop(left);
    settle(&provider).await;
    let (again, input, cached) = ask(&provider, asked()).await;
    assert!(input - cached < 30, "what it lacked was computed when idle: {input} {cached}");
    assert_eq!(again, answer);
}

#[tokio::test]
async fn a_short_prompt_does_not_wait_for_the_prefill_of_a_long_one() {
    let provider = provider(LIMITS, None);
    ask(&provider, request("Hi", Vec::new())).await;
    let mut long = provider.stream(Arc::new(request("What is a log?", long_passages(1, 9, 400))));
    while long.next().await.unwrap().unwrap() != ModelEvent::Waiting {}
    let others = (2..5).map(|seed| ask(&provider, request("What is a log?", long_passages(seed, 1, 40))));
    for (answer, ..) in futures::future::join_all(others).await {
        assert!(!answer.is_empty());
    }
    while let Some(Some(event)) = long.next().now_or_never() {
        assert!(!matches!(event.unwrap(), ModelEvent::Finish(_)), "it is still in prefill");
    }
    assert!(long.any(|event| async { matches!(event.unwrap(), ModelEvent::Finish(_)) }).await);
}
