use std::sync::atomic::{AtomicUsize, Ordering};

use domain::Text;
use futures::stream::pending;
use tokio::time::{Instant, sleep};

use super::*;

const FIRST_TOKEN: Duration = Duration::from_secs(60);

/// A provider that follows a script.
struct Scripted {
    name: &'static str,
    script: Vec<Step>,
    calls: AtomicUsize,
    health: Result<(), Failure>,
    window: usize,
}

#[derive(Clone)]
enum Step {
    Send(ModelEvent),
    Fail(Failure),
    Wait(Duration),
    Hang,
}

fn scripted(name: &'static str, script: Vec<Step>) -> Arc<Scripted> {
    Arc::new(Scripted { name, script, calls: AtomicUsize::new(0), health: Ok(()), window: 1_000 })
}

#[async_trait]
impl Provider for Scripted {
    fn model(&self) -> ModelId {
        ModelId { provider: Arc::from(self.name), model: Arc::from("model") }
    }

    fn stream(&self, _: Arc<Request>) -> ModelStream {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let steps = stream::iter(self.script.clone()).then(|step| async move {
            match step {
                Step::Send(event) => Some(Ok(event)),
                Step::Fail(failure) => Some(Err(failure)),
                Step::Wait(time) => {
                    sleep(time).await;
                    None
                }
                Step::Hang => pending().next().await,
            }
        });
        steps.filter_map(std::future::ready).boxed()
    }

    fn room(&self, request: &Request) -> Option<usize> {
        request.room(self.window, str::len)
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len()
    }

    async fn health(&self) -> Result<(), Failure> {
        self.health.clone()
    }
}

fn started(name: &str) -> ModelEvent {
    ModelEvent::Started(ModelId { provider: Arc::from(name), model: Arc::from("model") })
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(Text::from(text))
}

fn finish() -> ModelEvent {
    ModelEvent::Finish(FinishReason::Stop)
}

fn fails(kind: FailureKind, message: &str) -> Vec<Step> {
    vec![Step::Fail(Failure::new(kind, message))]
}

fn answers(name: &str) -> Vec<Step> {
    vec![Step::Send(started(name)), Step::Send(text("Hi")), Step::Send(finish())]
}

async fn ask(members: Vec<Arc<Scripted>>) -> Vec<Result<ModelEvent, Failure>> {
    let members = members.into_iter().map(|member| member as Arc<dyn Provider>).collect();
    FallbackProvider::new(members, FIRST_TOKEN).stream(Arc::new(Request::default())).collect().await
}

fn answer_of(name: &str) -> Vec<Result<ModelEvent, Failure>> {
    vec![Ok(started(name)), Ok(text("Hi")), Ok(finish())]
}

#[tokio::test(start_paused = true)]
async fn a_member_after_the_one_that_answers_is_not_asked() {
    let second = scripted("remote", answers("remote"));
    let events = ask(vec![scripted("local", answers("local")), second.clone()]).await;
    assert_eq!(events, answer_of("local"));
    assert_eq!(second.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_member_is_asked_when_nothing_was_streamed() {
    let empty = vec![Step::Send(started("local")), Step::Send(finish())];
    let silent = vec![Step::Send(started("local")), Step::Hang];
    for script in [
        fails(FailureKind::Unavailable, "no connection"),
        fails(FailureKind::Refused, "no key"),
        fails(FailureKind::TooLong, "too long"),
        empty,
        silent,
        vec![],
    ] {
        let events = ask(vec![scripted("local", script), scripted("remote", answers("remote"))]).await;
        assert_eq!(events, answer_of("remote"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_provider_never_changes_after_the_first_token() {
    let failure = Failure::new(FailureKind::Unavailable, "broke");
    for first in [text("The"), ModelEvent::Reasoning(Text::from("Hm"))] {
        let script = vec![Step::Send(first.clone()), Step::Fail(failure.clone())];
        let events = ask(vec![scripted("local", script), scripted("remote", answers("remote"))]).await;
        assert_eq!(events, [Ok(started("local")), Ok(first), Err(failure.clone())]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_allows_no_fallback_is_final() {
    let second = scripted("remote", answers("remote"));
    let events = ask(vec![scripted("local", fails(FailureKind::Internal, "a bug")), second.clone()]).await;
    assert_eq!(events, [Err(Failure::new(FailureKind::Internal, "local: a bug"))]);
    assert_eq!(second.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn when_all_fail_the_last_failure_has_the_reasons_of_all() {
    let mut busy = Failure::new(FailureKind::Unavailable, "answered 429");
    busy.retry_after = Some(Duration::from_secs(7));
    let members = vec![
        scripted("local", fails(FailureKind::Refused, "no such model")),
        scripted("remote", vec![Step::Fail(busy.clone())]),
    ];
    let expected = Failure { message: "local: no such model; remote: answered 429".to_owned(), ..busy };
    assert_eq!(ask(members).await, [Err(expected)]);
}

#[tokio::test(start_paused = true)]
async fn any_event_restarts_the_first_token_timeout() {
    let nearly = Step::Wait(FIRST_TOKEN - Duration::from_secs(1));
    let patient = vec![
        nearly.clone(),
        Step::Send(started("local")),
        nearly,
        Step::Send(text("Hi")),
        Step::Send(finish()),
    ];
    assert_eq!(ask(vec![scripted("local", patient)]).await, answer_of("local"));

    let began = Instant::now();
    let events = ask(vec![scripted("local", vec![Step::Hang])]).await;
    let kinds: Vec<_> = events.iter().map(|event| event.as_ref().map_err(|failure| failure.kind)).collect();
    assert_eq!(kinds, [Err(FailureKind::SilentAtStart)]);
    assert_eq!(began.elapsed(), FIRST_TOKEN);
}

#[tokio::test(start_paused = true)]
async fn waiting_in_a_models_queue_is_not_silence() {
    let wait = (0..20).flat_map(|_| [Step::Wait(FIRST_TOKEN / 2), Step::Send(ModelEvent::Waiting)]);
    let script = [Step::Send(started("local"))].into_iter().chain(wait).chain(answers("local"));
    let events = ask(vec![scripted("local", script.collect()), scripted("remote", answers("remote"))]).await;
    assert_eq!(events, answer_of("local"));
}

#[tokio::test(start_paused = true)]
async fn after_the_first_token_there_is_no_timeout() {
    let slow = vec![Step::Send(text("Hi")), Step::Wait(FIRST_TOKEN * 10), Step::Send(finish())];
    assert_eq!(ask(vec![scripted("local", slow)]).await, answer_of("local"));
}

#[tokio::test]
async fn a_fallback_is_healthy_if_one_member_is() {
    let sick = |name| {
        let health = Err(Failure::new(FailureKind::Unavailable, "down"));
        Arc::new(Scripted { name, script: vec![], calls: AtomicUsize::new(0), health, window: 1_000 })
            as Arc<dyn Provider>
    };
    let one = FallbackProvider::new(vec![sick("local"), scripted("remote", vec![])], FIRST_TOKEN);
    assert_eq!(one.health().await, Ok(()));
    let none = FallbackProvider::new(vec![sick("local"), sick("remote")], FIRST_TOKEN);
    assert_eq!(none.health().await.unwrap_err().message, "local: down; remote: down");
    assert_eq!(&*none.model().provider, "local");
}

#[test]
fn the_room_is_the_smallest_of_the_members_that_can_take_the_question() {
    let with_window = |window| {
        Arc::new(Scripted { name: "", script: vec![], calls: AtomicUsize::new(0), health: Ok(()), window })
            as Arc<dyn Provider>
    };
    let fallback =
        FallbackProvider::new(vec![with_window(1_000), with_window(400), with_window(100)], FIRST_TOKEN);
    let request = |chars| Request { question: "q".repeat(chars), ..Request::default() };
    let alone = |window, chars| with_window(window).room(&request(chars)).unwrap();
    assert_eq!(fallback.room(&request(10)), Some(alone(100, 10)));
    assert_eq!(
        fallback.room(&request(200)),
        Some(alone(400, 200)),
        "the smallest window cannot hold the question"
    );
    assert_eq!(fallback.room(&request(2_000)), None);
}
