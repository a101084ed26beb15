use std::sync::atomic::{AtomicUsize, Ordering};

use domain::Text;
use futures::stream::pending;
use tokio::time::{Instant, sleep};

use super::*;

const FIRST_TOKEN: Duration = Duration::from_secs(60);

/// A provider that does what a test tells it.
struct Scripted {
    name: &'static str,
    script: Vec<Act>,
    calls: AtomicUsize,
    health: Result<(), Failure>,
    window: usize,
}

#[derive(Clone)]
enum Act {
    Send(ModelEvent),
    Fail(Failure),
    Wait(Duration),
    Hang,
}

fn scripted(name: &'static str, script: Vec<Act>) -> Arc<Scripted> {
    Arc::new(Scripted { name, script, calls: AtomicUsize::new(0), health: Ok(()), window: 1_000 })
}

#[async_trait]
impl Provider for Scripted {
    fn model(&self) -> ModelId {
        ModelId { provider: Arc::from(self.name), model: Arc::from("model") }
    }

    fn stream(&self, _: Arc<Request>) -> ModelStream {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let acts = stream::iter(self.script.clone()).then(|act| async move {
            match act {
                Act::Send(event) => Some(Ok(event)),
                Act::Fail(failure) => Some(Err(failure)),
                Act::Wait(time) => {
                    sleep(time).await;
                    None
                }
                Act::Hang => pending().next().await,
            }
        });
        acts.filter_map(std::future::ready).boxed()
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

fn fails(kind: FailureKind, message: &str) -> Vec<Act> {
    vec![Act::Fail(Failure::new(kind, message))]
}

fn answers(name: &str) -> Vec<Act> {
    vec![Act::Send(started(name)), Act::Send(text("Hi")), Act::Send(finish())]
}

async fn ask(members: Vec<Arc<Scripted>>) -> Vec<Result<ModelEvent, Failure>> {
    let members = members.into_iter().map(|member| member as Arc<dyn Provider>).collect();
    Order::new(members, FIRST_TOKEN).stream(Arc::new(Request::default())).collect().await
}

fn answer_of(name: &str) -> Vec<Result<ModelEvent, Failure>> {
    vec![Ok(started(name)), Ok(text("Hi")), Ok(finish())]
}

#[tokio::test(start_paused = true)]
async fn the_first_that_answers_is_the_only_one_asked() {
    let second = scripted("remote", answers("remote"));
    let told = ask(vec![scripted("local", answers("local")), second.clone()]).await;
    assert_eq!(told, answer_of("local"));
    assert_eq!(second.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_one_is_asked_when_nothing_was_streamed() {
    let empty = vec![Act::Send(started("local")), Act::Send(finish())];
    let silent = vec![Act::Send(started("local")), Act::Hang];
    for script in [
        fails(FailureKind::Unavailable, "no connection"),
        fails(FailureKind::Refused, "no key"),
        fails(FailureKind::TooLong, "too long"),
        empty,
        silent,
        vec![],
    ] {
        let told = ask(vec![scripted("local", script), scripted("remote", answers("remote"))]).await;
        assert_eq!(told, answer_of("remote"));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_switched_after_the_first_token() {
    let failure = Failure::new(FailureKind::Unavailable, "broke");
    for first in [text("The"), ModelEvent::Reasoning(Text::from("Hm"))] {
        let script = vec![Act::Send(first.clone()), Act::Fail(failure.clone())];
        let told = ask(vec![scripted("local", script), scripted("remote", answers("remote"))]).await;
        assert_eq!(told, [Ok(started("local")), Ok(first), Err(failure.clone())]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_not_the_providers_alone_is_final() {
    let second = scripted("remote", answers("remote"));
    let told = ask(vec![scripted("local", fails(FailureKind::Internal, "a bug")), second.clone()]).await;
    assert_eq!(told, [Err(Failure::new(FailureKind::Internal, "local: a bug"))]);
    assert_eq!(second.calls.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn when_all_fail_every_reason_is_told_under_the_last_kind() {
    let mut busy = Failure::new(FailureKind::Unavailable, "answered 429");
    busy.retry_after = Some(Duration::from_secs(7));
    let members = vec![
        scripted("local", fails(FailureKind::Refused, "no such model")),
        scripted("remote", vec![Act::Fail(busy.clone())]),
    ];
    let expected = Failure { message: "local: no such model; remote: answered 429".to_owned(), ..busy };
    assert_eq!(ask(members).await, [Err(expected)]);
}

#[tokio::test(start_paused = true)]
async fn any_event_resets_the_clock_and_silence_ends_it() {
    let nearly = Act::Wait(FIRST_TOKEN - Duration::from_secs(1));
    let patient =
        vec![nearly.clone(), Act::Send(started("local")), nearly, Act::Send(text("Hi")), Act::Send(finish())];
    assert_eq!(ask(vec![scripted("local", patient)]).await, answer_of("local"));

    let began = Instant::now();
    let told = ask(vec![scripted("local", vec![Act::Hang])]).await;
    let kinds: Vec<_> = told.iter().map(|event| event.as_ref().map_err(|failure| failure.kind)).collect();
    assert_eq!(kinds, [Err(FailureKind::SilentAtStart)]);
    assert_eq!(began.elapsed(), FIRST_TOKEN);
}

#[tokio::test(start_paused = true)]
async fn waiting_in_a_models_queue_is_no_silence() {
    let wait = (0..20).flat_map(|_| [Act::Wait(FIRST_TOKEN / 2), Act::Send(ModelEvent::Waiting)]);
    let script = [Act::Send(started("local"))].into_iter().chain(wait).chain(answers("local"));
    let told = ask(vec![scripted("local", script.collect()), scripted("remote", answers("remote"))]).await;
    assert_eq!(told, answer_of("local"));
}

#[tokio::test(start_paused = true)]
async fn after_the_first_token_silence_is_none_of_its_business() {
    let slow = vec![Act::Send(text("Hi")), Act::Wait(FIRST_TOKEN * 10), Act::Send(finish())];
    assert_eq!(ask(vec![scripted("local", slow)]).await, answer_of("local"));
}

#[tokio::test]
async fn it_is_healthy_as_long_as_one_member_is() {
    let sick = |name| {
        let health = Err(Failure::new(FailureKind::Unavailable, "down"));
        Arc::new(Scripted { name, script: vec![], calls: AtomicUsize::new(0), health, window: 1_000 })
            as Arc<dyn Provider>
    };
    let one = Order::new(vec![sick("local"), scripted("remote", vec![])], FIRST_TOKEN);
    assert_eq!(one.health().await, Ok(()));
    let none = Order::new(vec![sick("local"), sick("remote")], FIRST_TOKEN);
    assert_eq!(none.health().await.unwrap_err().message, "local: down; remote: down");
    assert_eq!(&*none.model().provider, "local");
}

#[test]
fn passages_fit_whoever_may_come_to_answer() {
    let with_window = |window| {
        Arc::new(Scripted { name: "", script: vec![], calls: AtomicUsize::new(0), health: Ok(()), window })
            as Arc<dyn Provider>
    };
    let order = Order::new(vec![with_window(1_000), with_window(400), with_window(100)], FIRST_TOKEN);
    let request = |chars| Request { question: "q".repeat(chars), ..Request::default() };
    let alone = |window, chars| with_window(window).room(&request(chars)).unwrap();
    assert_eq!(order.room(&request(10)), Some(alone(100, 10)));
    assert_eq!(order.room(&request(200)), Some(alone(400, 200)), "the smallest cannot take the question");
    assert_eq!(order.room(&request(2_000)), None);
}
