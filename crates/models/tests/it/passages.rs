//! Passages that the chat model keeps, through its port and with the real small model.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{
    Failure, FailureKind, ModelEvent, ModelId, ModelStream, Passage, Provider, Request, Turn, Usage,
};
use futures::{FutureExt, StreamExt};
use models::chat::{Ahead, Keep, Limits, LlamaProvider, ModelFile, Read, Room};
use models::files::{Manifest, ModelStore};
use testing::{models_folder, passage};
use tokio::time::timeout;

const KEEP: Keep = Keep { passages: true, put_off: false, memory_bytes: 512 << 20, disk_bytes: 1 << 30 };
const LIMITS: Limits = Limits { window: 8_192, answers: 4, waiting: 8, threads: 1, seed: None, keep: KEEP };

/// The same, where what a prompt lacks may wait until nobody asks.
const PUTTING_OFF: Limits = Limits { keep: Keep { put_off: true, ..KEEP }, ..LIMITS };

/// The small model, with a folder for what it keeps or without.
fn provider(limits: Limits, folder: Option<&Path>) -> LlamaProvider {
    let model = Manifest::committed().find("smollm2-135m-instruct").unwrap();
    let path = ModelStore::new(models_folder()).locate(model).unwrap_or_else(|problem| panic!("{problem}"));
    let file = ModelFile { path, sha256: model.files.first().map(|file| file.sha256) };
    let called = ModelId { provider: "local".into(), model: "small".into() };
    LlamaProvider::find_and_open(called, || Ok(file), folder.map(Path::to_owned), limits)
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

/// So many passages of about so many tokens, which nobody has read before.
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

/// The answer, and what was counted: tokens of the prompt, and of these not read anew.
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

#[tokio::test]
async fn passages_that_were_read_before_are_not_read_again_in_whatever_order_they_come() {
    let provider = provider(LIMITS, None);
    let (answer, input, cached) = ask(&provider, request("What is a mutex?", passages())).await;
    assert!(!answer.is_empty() && cached == 0);
    let mut swapped = passages();
    swapped.swap(1, 2);
    let (_, other_input, cached) = ask(&provider, request("Which port is it?", swapped)).await;
    assert!(other_input - cached < 30, "only the question was read: {other_input} {cached}");
    // One that comes to be the first is read once more as such, and the one that was is read as one that follows.
    let mut turned = passages();
    turned.rotate_left(1);
    let (_, other_input, cached) = ask(&provider, request("Which port is it?", turned.clone())).await;
    assert!(cached > 30 && other_input - cached > 30, "{other_input} {cached}");
    turned.swap(1, 2);
    let (_, other_input, cached) = ask(&provider, request("Which port is it?", turned)).await;
    assert!(other_input - cached < 30, "only the question was read: {other_input} {cached}");
    let (again, _, cached) = ask(&provider, request("What is a mutex?", passages())).await;
    assert_eq!(again, answer);
    assert!(input - cached < 30, "{input} {cached}");
    let kept = provider.status().prefix_cache.unwrap();
    assert!(kept.hits >= 3 && kept.misses > 0 && kept.memory_bytes > 100_000, "{kept:?}");
}

/// Waits until everything is read that was put off until there is time.
async fn settle(provider: &LlamaProvider) {
    provider.read_ahead(Arc::new(request("", Vec::new())), Room::Left).await.unwrap();
    assert_eq!(provider.status().prefix_cache.unwrap().pending, 0);
}

#[tokio::test]
async fn a_prompt_of_which_nothing_is_kept_is_read_as_a_whole_and_kept_when_there_is_time() {
    let whole = provider(Limits { keep: Keep { passages: false, ..KEEP }, ..LIMITS }, None);
    let provider = provider(PUTTING_OFF, None);
    let asked = || Request { max_tokens: 24, ..request("Which port is it?", passages()) };
    let (answer, _, cached) = ask(&provider, asked()).await;
    assert_eq!((answer, cached), (ask(&whole, asked()).await.0, 0));
    settle(&provider).await;
    let mut swapped = passages();
    swapped.swap(1, 2);
    let (_, input, cached) = ask(&provider, request("Which port is it?", swapped)).await;
    assert!(input - cached < 30, "only the question was read: {input} {cached}");
}

#[tokio::test]
async fn nothing_is_put_off_of_a_prompt_whose_only_passage_begins_like_another_one() {
    let provider = provider(PUTTING_OFF, None);
    for seed in 1..4 {
        let (_, input, cached) = ask(&provider, request("What is a log?", long_passages(seed, 1, 60))).await;
        assert!(input - cached > 60, "nobody has read it: {input} {cached}");
        assert_eq!(provider.status().prefix_cache.unwrap().pending, 0);
    }
}

#[tokio::test]
async fn what_is_kept_of_the_first_passage_serves_where_the_rest_is_read_as_a_whole() {
    let whole = provider(Limits { keep: Keep { passages: false, ..KEEP }, ..LIMITS }, None);
    let provider = provider(PUTTING_OFF, None);
    let [first, second, _] = <[Passage; 3]>::try_from(passages()).unwrap();
    let about_the_first = Arc::new(request("", vec![first.clone()]));
    assert_eq!(read(&provider.read_ahead(about_the_first, Room::Left).await), Some(1));
    let asked =
        || Request { max_tokens: 24, ..request("What is a mutex?", vec![first.clone(), second.clone()]) };
    let (answer, input, cached) = ask(&provider, asked()).await;
    assert_eq!(answer, ask(&whole, asked()).await.0);
    let tokens = provider.count_tokens(&second.text) as u64;
    assert!((tokens..tokens + 40).contains(&(input - cached)), "{tokens} {input} {cached}");
}

#[tokio::test]
async fn a_prompt_is_read_around_the_passages_that_are_kept() {
    let provider = provider(PUTTING_OFF, None);
    let [first, second, third] = <[Passage; 3]>::try_from(passages()).unwrap();
    let tokens = |passage: &Passage| provider.count_tokens(&passage.text) as u64;
    let asked = async |found: &[&Passage]| {
        let found = found.iter().copied().cloned().collect();
        let (answer, input, cached) = ask(&provider, request("Which port is it?", found)).await;
        (answer, input - cached)
    };
    let kept = Arc::new(request("", vec![first.clone(), third.clone()]));
    assert_eq!(read(&provider.read_ahead(kept, Room::Left).await), Some(2));
    let (around, anew) = asked(&[&first, &second, &third]).await;
    assert!(!around.is_empty());
    // Of the second one not even its lead is read, besides the question.
    assert!((tokens(&second)..tokens(&second) + 45).contains(&anew), "{anew}");
    settle(&provider).await;
    // The third one begins like one that was read before it, and serves whole all the same.
    let fourth = Passage { text: format!("{} And so on.", third.text), ..third.clone() };
    let (_, anew) = asked(&[&first, &third, &fourth]).await;
    assert!((tokens(&fourth)..tokens(&fourth) + 45).contains(&anew), "{anew}");
    settle(&provider).await;
    let (_, anew) = asked(&[&first, &fourth, &second, &third]).await;
    assert!(anew < 30, "only the question was read: {anew}");
}

#[tokio::test]
async fn a_conversation_goes_on_from_a_prompt_that_was_read_around_what_is_kept() {
    let provider = provider(PUTTING_OFF, None);
    let mut kept = passages();
    kept.remove(1);
    assert_eq!(read(&provider.read_ahead(Arc::new(request("", kept)), Room::Left).await), Some(2));
    let (answer, input, cached) = ask(&provider, request("What is a mutex?", passages())).await;
    assert!(cached > 0 && input - cached > 30, "the second passage was missing: {input} {cached}");
    let turn = Turn { question: "What is a mutex?".to_owned(), answer };
    let next = Request { history: vec![turn], ..request("And who waits for it?", passages()) };
    let (_, _, cached) = ask(&provider, next).await;
    assert!(cached >= input, "the first question and its answer were read before: {cached} {input}");
}

#[tokio::test]
async fn a_prompt_that_is_left_while_it_is_read_around_what_is_kept_leaves_nothing_wrong() {
    let long = long_passages(1, 1, 1_000).remove(0);
    let [first, _, third] = <[Passage; 3]>::try_from(passages()).unwrap();
    let asked = || request("Which port is it?", vec![first.clone(), long.clone(), third.clone()]);
    let never_left = provider(LIMITS, None);
    let (answer, ..) = ask(&never_left, asked()).await;
    let provider = provider(PUTTING_OFF, None);
    let kept = Arc::new(request("", vec![first.clone(), third.clone()]));
    assert_eq!(read(&provider.read_ahead(kept, Room::Left).await), Some(2));
    let mut left = provider.stream(Arc::new(asked()));
    // Once both that are kept were found it is read.
    while provider.status().prefix_cache.unwrap().hits < 2 {
        let _ = left.next().now_or_never();
        tokio::task::yield_now().await;
    }
    drop(left);
    settle(&provider).await;
    let (again, input, cached) = ask(&provider, asked()).await;
    assert!(input - cached < 30, "what it lacked was read when there was time: {input} {cached}");
    assert_eq!(again, answer);
}

#[tokio::test]
async fn what_was_put_off_is_read_when_it_is_asked_for_again_though_there_was_no_time_yet() {
    let provider = provider(PUTTING_OFF, None);
    ask(&provider, request("Hi", Vec::new())).await;
    let mut long = provider.stream(Arc::new(request("What is a log?", long_passages(1, 9, 800))));
    while long.next().await.unwrap().unwrap() != ModelEvent::Waiting {}
    let mut asked = long_passages(2, 4, 100);
    let mut anew = Vec::new();
    for _ in 0..3 {
        let request = Request { max_tokens: 2, ..request("What is a mutex?", asked.clone()) };
        let (_, input, cached) = ask(&provider, request).await;
        anew.push(input - cached);
        asked[1..].rotate_left(1);
    }
    while let Some(Some(event)) = long.next().now_or_never() {
        assert!(!matches!(event.unwrap(), ModelEvent::Finish(_)), "there was no time in between");
    }
    assert!(anew[1] > 200, "it was read as a whole, and then its passages were: {anew:?}");
    assert!(anew[2] < 30, "only the question was read: {anew:?}");
}

#[tokio::test]
async fn passages_are_kept_of_a_prompt_that_begins_like_another_one() {
    let provider = provider(LIMITS, None);
    for seed in 1..4 {
        // Instructions and title are the same each time, and the conversation before is still there.
        let (_, _, cached) = ask(&provider, request("What is a log?", long_passages(seed, 2, 60))).await;
        assert!((seed == 1 || cached > 0) && cached < 60, "nobody has read them: {cached}");
        // Two that follow change places, so that it is another prompt from there on.
        let mut turned = long_passages(seed, 3, 60);
        ask(&provider, request("What is a log?", turned.clone())).await;
        turned.swap(1, 2);
        let (_, input, cached) = ask(&provider, request("What is a prompt?", turned)).await;
        assert!(input - cached < 30, "only the question was read: {input} {cached}");
    }
}

#[tokio::test]
async fn a_passage_that_was_changed_is_read_anew() {
    let provider = provider(LIMITS, None);
    ask(&provider, request("What is a mutex?", passages())).await;
    let mut changed = passages();
    changed[2].text = changed[2].text.replace("8080", "9090");
    let tokens = provider.count_tokens(&changed[2].text) as u64;
    let (_, input, cached) = ask(&provider, request("Which port is it?", changed)).await;
    assert!((tokens..tokens + 50).contains(&(input - cached)), "{tokens} {input} {cached}");
}

#[tokio::test]
async fn a_passage_that_follows_others_is_read_anew_when_what_stands_before_it_was_changed() {
    let provider = provider(LIMITS, None);
    let found = |before: &str| -> Vec<Passage> {
        passages().into_iter().map(|passage| Passage { before: before.to_owned(), ..passage }).collect()
    };
    let asked = async |passages| {
        let (_, input, cached) = ask(&provider, request("Which port is it?", passages)).await;
        input - cached
    };
    asked(found("Threads share memory.")).await;
    // In another order, so that it is no conversation that goes on.
    let mut swapped = found("Threads share memory.");
    swapped.swap(1, 2);
    assert!(asked(swapped).await < 30, "only the question was read");
    let followers = passages().split_off(1);
    let tokens = followers.iter().map(|passage| provider.count_tokens(&passage.text) as u64).sum::<u64>();
    // What is kept of the first one serves: it is read behind nothing.
    let anew = asked(found("Threads share files.")).await;
    assert!((tokens..tokens + 80).contains(&anew), "{tokens} {anew}");
}

#[tokio::test]
async fn what_was_kept_in_files_serves_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (answer, ..) =
        ask(&provider(LIMITS, Some(folder.path())), request("What is a mutex?", passages())).await;
    let later = provider(LIMITS, Some(folder.path()));
    let (again, input, cached) = ask(&later, request("What is a mutex?", passages())).await;
    assert_eq!(again, answer);
    assert!(input - cached < 30, "{input} {cached}");
    assert!(later.status().prefix_cache.unwrap().disk_bytes > 100_000);
}

#[tokio::test]
async fn a_prompt_is_read_as_a_whole_where_that_is_wanted() {
    let whole = Limits { keep: Keep { passages: false, ..KEEP }, ..LIMITS };
    let provider = provider(whole, None);
    ask(&provider, request("What is a mutex?", passages())).await;
    let mut turned = passages();
    turned.rotate_left(1);
    let (_, input, cached) = ask(&provider, request("Which port is it?", turned.clone())).await;
    assert!(cached < input / 2, "no more than the instructions: {input} {cached}");
    assert_eq!(provider.status().prefix_cache, None);
    let ahead = provider.read_ahead(Arc::new(request("", turned)), Room::Left).await;
    assert_eq!(ahead, Ok(Ahead::Never));
}

#[tokio::test]
async fn a_conversation_goes_on_from_where_it_was() {
    let provider = provider(LIMITS, None);
    let (answer, input, _) = ask(&provider, request("What is a mutex?", passages())).await;
    // Somebody else asks in between.
    ask(&provider, request("Which port is it?", long_passages(1, 2, 50))).await;
    let turn = Turn { question: "What is a mutex?".to_owned(), answer };
    let next = Request { history: vec![turn], ..request("And who waits for it?", passages()) };
    let (_, _, cached) = ask(&provider, next).await;
    assert!(cached >= input, "the first question and its answer were read before: {cached} {input}");
}

#[tokio::test]
async fn what_is_read_ahead_is_there_when_it_is_asked_about() {
    let provider = provider(LIMITS, None);
    let about = || Arc::new(request("", passages()));
    assert_eq!(read(&provider.read_ahead(about(), Room::Left).await), Some(3));
    let again = provider.read_ahead(about(), Room::Left).await;
    assert!(
        matches!(again, Ok(Ahead::Kept(Read { passages: 0, bytes: 0, held: 1.., too_long: 0 }))),
        "{again:?}"
    );
    for turns in 0..3 {
        let mut turned = passages();
        turned.rotate_left(turns);
        let (_, input, cached) = ask(&provider, request("What is a mutex?", turned)).await;
        assert!(input - cached < 30, "whichever is the first: {input} {cached}");
    }
    let too_long = Arc::new(request("", long_passages(1, 10, 1_000)));
    assert_eq!(provider.read_ahead(too_long, Room::Left).await, Ok(Ahead::TooLong));
}

#[tokio::test]
async fn nothing_is_read_ahead_that_there_is_no_room_to_keep_unless_room_is_made() {
    let little = Limits { keep: Keep { memory_bytes: 24 << 20, ..KEEP }, ..LIMITS };
    let provider = provider(little, None);
    let about = |seed| Arc::new(request("", long_passages(seed, 1, 60)));
    let mut outcomes = Vec::new();
    while outcomes.last() != Some(&Ahead::Full) && outcomes.len() < 10 {
        outcomes.push(provider.read_ahead(about(outcomes.len()), Room::Left).await.unwrap());
    }
    assert!(outcomes.len() > 2 && outcomes.last() == Some(&Ahead::Full), "{outcomes:?}");
    let is_bounded = || provider.status().prefix_cache.unwrap().memory_bytes <= 12 << 20;
    assert!(is_bounded());
    let new = outcomes.len();
    assert!(read(&provider.read_ahead(about(new), Room::Made).await) > Some(0));
    let (_, input, cached) = ask(&provider, request("What is a log?", long_passages(new, 1, 60))).await;
    assert!(input - cached < 40, "{input} {cached}");
    assert!(is_bounded());
    // Whoever asks is answered all the same.
    assert!(!ask(&provider, request("What is a log?", long_passages(9, 3, 60))).await.0.is_empty());
}

#[tokio::test]
async fn a_question_goes_before_what_is_read_ahead() {
    let provider = Arc::new(provider(LIMITS, None));
    ask(&provider, request("Hi", Vec::new())).await;
    let mut ahead = tokio::spawn({
        let provider = provider.clone();
        async move { provider.read_ahead(Arc::new(request("", long_passages(1, 5, 400))), Room::Left).await }
    });
    // The first piece is kept: it is at work.
    while provider.status().prefix_cache.unwrap().memory_bytes == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!ask(&provider, request("What is a mutex?", passages())).await.0.is_empty());
    assert!((&mut ahead).now_or_never().is_none(), "the rest is still to be read");
    assert_eq!(read(&ahead.await.unwrap()), Some(5));
}

#[tokio::test]
async fn a_question_finds_a_place_where_what_is_read_ahead_has_taken_most() {
    let provider = Arc::new(provider(LIMITS, None));
    ask(&provider, request("Hi", Vec::new())).await;
    let ahead = tokio::spawn({
        let provider = provider.clone();
        async move { provider.read_ahead(Arc::new(request("", long_passages(1, 3, 900))), Room::Left).await }
    });
    // What it has in common with any other is read: it is at work.
    while provider.status().prefix_cache.unwrap().memory_bytes == 0 {
        tokio::task::yield_now().await;
    }
    let asked = ask(&provider, request("What is a mutex?", long_passages(2, 1, 1_000)));
    let (answer, ..) = timeout(Duration::from_secs(60), asked).await.expect("it is not forgotten");
    assert!(!answer.is_empty());
    assert_eq!(read(&ahead.await.unwrap()), Some(3));
}

fn read(ahead: &Result<Ahead, Failure>) -> Option<usize> {
    match ahead {
        Ok(Ahead::Kept(read)) => Some(read.passages),
        _ => None,
    }
}

#[tokio::test]
async fn whoever_leaves_while_passages_are_read_stops_that_within_200_milliseconds() {
    let provider = provider(Limits { answers: 1, waiting: 0, ..LIMITS }, None);
    ask(&provider, request("Hi", Vec::new())).await;
    let begin = async |seed| {
        let mut stream = provider.stream(Arc::new(request("What is a log?", long_passages(seed, 5, 800))));
        // It gives a sign of life while it reads.
        while stream.next().await.unwrap().unwrap() != ModelEvent::Waiting {}
        stream
    };
    check_that_leaving_frees_the_only_place(&provider, begin).await;
}

#[tokio::test]
async fn whoever_leaves_while_passages_are_restored_stops_that_within_200_milliseconds() {
    let folder = tempfile::tempdir().unwrap();
    // The same one again and again has to be computed only twice: as the first one, and as one that follows.
    let asked = || request("What is a log?", vec![long_passages(1, 1, 800).remove(0); 9]);
    let writer = provider(LIMITS, Some(folder.path()));
    assert!(read(&writer.read_ahead(Arc::new(asked()), Room::Left).await) > Some(0));
    drop(writer);
    // Without memory for them they come from their files each time.
    let from_files = Limits { answers: 1, waiting: 0, keep: Keep { memory_bytes: 0, ..KEEP }, ..LIMITS };
    let provider = provider(from_files, Some(folder.path()));
    let (_, input, cached) = ask(&provider, asked()).await;
    assert!(input > 7_000 && input - cached < 30, "only the question was read: {input} {cached}");
    let hits = || provider.status().prefix_cache.unwrap().hits;
    // Some leave when the first piece was found, and others when all of them were, which are then joined.
    let all = hits();
    for found in [1, all] {
        let begin = async |_| {
            let before = hits();
            let mut stream = provider.stream(Arc::new(asked()));
            assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Started(_)))));
            assert!(stream.next().now_or_never().is_none(), "it is asked, and nothing is there yet");
            while hits() < before + found {
                tokio::task::yield_now().await;
            }
            stream
        };
        check_that_leaving_frees_the_only_place(&provider, begin).await;
    }
}

/// Whoever has begun to ask and leaves is forgotten by the model within 200 milliseconds.
async fn check_that_leaving_frees_the_only_place(
    provider: &LlamaProvider,
    begin: impl AsyncFn(usize) -> ModelStream,
) {
    // Others may have the processor for a while: the best of a few counts.
    let mut soonest = Duration::MAX;
    for attempt in 0..5 {
        let stream = begin(attempt).await;
        let left = Instant::now();
        drop(stream);
        // The only place is free again as soon as the model has let go.
        loop {
            let mut stream = provider.stream(Arc::new(request("Hi", Vec::new())));
            match stream.next().await.unwrap() {
                Ok(_) => break,
                Err(failure) => assert_eq!(failure.kind, FailureKind::Overloaded),
            }
            tokio::task::yield_now().await;
        }
        soonest = soonest.min(left.elapsed());
        if soonest < Duration::from_millis(200) {
            return;
        }
    }
    panic!("the model let go after {soonest:?}");
}

#[tokio::test]
async fn a_short_prompt_does_not_wait_until_all_of_a_long_one_is_read() {
    let provider = provider(LIMITS, None);
    ask(&provider, request("Hi", Vec::new())).await;
    let mut long = provider.stream(Arc::new(request("What is a log?", long_passages(1, 9, 400))));
    while long.next().await.unwrap().unwrap() != ModelEvent::Waiting {}
    let others = (2..5).map(|seed| ask(&provider, request("What is a log?", long_passages(seed, 1, 40))));
    for (answer, ..) in futures::future::join_all(others).await {
        assert!(!answer.is_empty());
    }
    while let Some(Some(event)) = long.next().now_or_never() {
        assert!(!matches!(event.unwrap(), ModelEvent::Finish(_)), "it is still at it");
    }
    assert!(long.any(|event| async { matches!(event.unwrap(), ModelEvent::Finish(_)) }).await);
}
