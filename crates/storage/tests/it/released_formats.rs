//! A data folder of every released format is in `fixtures/data-folders`, as its release wrote it, and opens. When a
//! stored form changes, increment `FORMAT`: the next run writes a new folder there.

use std::fs;
use std::path::PathBuf;

use domain::{
    CancelReason, Claim, EndCause, Ended, Event, FailureKind, FilterField, History, Journal, MessageId,
    ModelId, NewPrompt, NewSession, Principal, PromptId, Run, SearchScope, Session, SessionId, Sessions,
    Step, Timestamp, ToolCall, Turn, Usage,
};
use uuid::Uuid;

use crate::data_folder::DataFolder;
use crate::harness::{at, cancelled, done, failed, keyed, log_of, new_prompt, who};

/// The format that this release writes.
const FORMAT: u32 = 1;

/// When the folders are opened again.
const LATER: u64 = 500;

fn committed(format: u32) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/data-folders");
    PathBuf::from(fixtures).join(format.to_string())
}

/// An id that is the same in every run.
fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x019f_0000_0000_7000_8000_0000_0000_0000 + number)
}

/// The sessions of the fixture: one that was ended, and one with a running prompt.
fn sessions() -> [SessionId; 2] {
    [SessionId(id(1)), SessionId(id(2))]
}

/// A prompt of the fixture.
struct FixturePrompt {
    new: NewPrompt,
    batches: Vec<Vec<Step>>,
    /// None if it is running when the process dies.
    ended: Option<Ended>,
}

/// The prompts of the fixture: every kind of step, of end and of question.
fn fixture_prompts() -> Vec<FixturePrompt> {
    let [talk, busy] = sessions();
    let text = |text: &str| Step::Text(text.into());
    let started = || Step::Started(ModelId { provider: "local".into(), model: "llama".into() });
    let call =
        ToolCall { id: "call-1".into(), name: "look_up".into(), arguments: "{\"word\":\"ß\"}".into() };
    let usage = Usage { input: Some(12), output: Some(3), cached: None };
    let mut first = named(keyed(talk, "Why is the sky blue?", "first", 10), 11);
    first.accepted.question.provider = Some("local".to_owned());
    let filters = [
        (FilterField::FilePath, ["src/**".to_owned(), "docs/*".to_owned()].into()),
        (FilterField::Metadata("team".to_owned()), ["sky".to_owned()].into()),
    ];
    first.accepted.question.scope = SearchScope::Knowledge(filters.into());
    let client = EndCause::Client(CancelReason::UserInitiated);
    vec![
        FixturePrompt {
            new: first,
            batches: vec![
                vec![started(), Step::Reasoning("Rayleigh? ".into()), text("Because ")],
                vec![text("of "), Step::ToolCall(Box::new(call)), text("🙂 "), text("naïve 日本\n")],
                vec![Step::Usage(usage)],
            ],
            ended: Some(done()),
        },
        FixturePrompt {
            new: named(new_prompt(talk, "And at night?", 20), 12),
            batches: vec![vec![started(), text("It is ")]],
            ended: Some(cancelled(client)),
        },
        FixturePrompt {
            new: named(keyed(talk, "Anybody there?", "third", 30), 13),
            batches: vec![],
            ended: Some(failed(FailureKind::Unavailable)),
        },
        FixturePrompt {
            new: named(keyed(busy, "Still running?", "fourth", 40), 14),
            batches: vec![vec![started(), text("Yes, "), text("until ")], vec![text("now")]],
            ended: None,
        },
    ]
}

fn named(mut new: NewPrompt, number: u128) -> NewPrompt {
    new.accepted.prompt = PromptId(id(number));
    new.accepted.answer = MessageId(id(number + 100));
    new.accepted.trace = "4bf92f3577b34da6a3ce929d0e0e4736".parse().expect("hexadecimal digits");
    new
}

impl FixturePrompt {
    /// The log that the store must return.
    fn log(&self, follows: Option<PromptId>) -> Vec<Event> {
        let mut accepted = self.new.accepted.clone();
        accepted.follows = follows;
        let mut log = vec![accepted.event(self.new.at)];
        for step in self.batches.iter().flatten() {
            log.push(Event { position: log.len() as u64, at: self.new.at, step: step.clone() });
        }
        let (ended, when) = match &self.ended {
            Some(ended) => (ended.clone(), self.new.at),
            None => (Ended::interrupted(EndCause::Recovery), at(LATER)),
        };
        log.push(Event { position: log.len() as u64, at: when, step: Step::Ended(Box::new(ended)) });
        log
    }
}

/// Writes the fixture into a folder, up to the moment at which the process dies.
async fn write(folder: &DataFolder) {
    let store = folder.open(0);
    let new = || NewSession {
        owner: Some("acme/rocket".to_owned()),
        context: [("branch".to_owned(), "main".to_owned())].into(),
    };
    for session in sessions() {
        store.create(&who(), Session::new(session, new(), at(0))).await.unwrap();
    }
    for prompt in fixture_prompts() {
        let (log, run) = (prompt.log(None), Run { prompt: prompt.new.accepted.prompt, who: who() });
        let (last, mut events) = log.split_last().map(|(last, log)| (last.clone(), &log[1..])).unwrap();
        let claim = store.claim(&who(), prompt.new.clone()).await.unwrap();
        assert!(matches!(claim, Claim::Started(..)), "{claim:?}");
        for batch in &prompt.batches {
            let (appended, rest) = events.split_at(batch.len());
            store.append(&run, appended.into()).await.unwrap();
            events = rest;
        }
        if prompt.ended.is_some() {
            store.finish(run, [last].into()).await.unwrap();
        }
    }
    store.end(&who(), sessions()[0]).await.unwrap();
    drop(store);
    fs::remove_file(folder.settings.folder.join("lock")).unwrap();
}

/// Opens a copy of a fixture, and checks that all of it is there.
async fn check(folder: &DataFolder) {
    assert_eq!(folder.names(), ["history.db", "journal/000000000001.log"]);
    let copy = folder.copy();
    let store = copy.open(LATER);
    let [answered, cut, unanswered, running]: [FixturePrompt; 4] = fixture_prompts().try_into().ok().unwrap();
    let id_of = |prompt: &FixturePrompt| prompt.new.accepted.prompt;
    for (prompt, follows) in [
        (&answered, None),
        (&cut, Some(id_of(&answered))),
        (&unanswered, Some(id_of(&cut))),
        (&running, None),
    ] {
        assert_eq!(log_of(&store, id_of(prompt)).await, Some(prompt.log(follows)));
    }
    let turn = |question: &str, answer: &str| Turn { question: question.into(), answer: answer.into() };
    assert_eq!(
        store.thread(&who(), id_of(&unanswered), 9).await.unwrap(),
        [turn("Why is the sky blue?", "Because of 🙂 naïve 日本\n"), turn("And at night?", "It is ")]
    );
    let described = store.sessions(&who(), None, 9).await.unwrap();
    let counts: Vec<_> =
        described.iter().map(|session| (session.prompt_count, session.token_count)).collect();
    assert_eq!(counts, [(1, 3), (3, 5)]);
    assert_eq!(described[1].title.as_deref(), Some("Why is the sky blue?"));
    assert_eq!(described[1].context["branch"], "main");
    assert!(described[1].ended.is_some());
    let joined = store.claim(&Principal::local(), answered.new.clone()).await.unwrap();
    assert!(matches!(joined, Claim::Joined(id) if id == id_of(&answered)), "{joined:?}");
    let mut retry = running.new.clone();
    retry.accepted.prompt = PromptId::new(Timestamp::from_micros(1));
    retry.at = at(LATER);
    assert!(matches!(store.claim(&who(), retry).await.unwrap(), Claim::Started(..)));
}

#[tokio::test]
async fn a_data_folder_of_every_released_format_opens_and_replays_the_same() {
    for format in 1..=FORMAT {
        let folder = committed(format);
        if !folder.exists() && format == FORMAT {
            fs::create_dir_all(&folder).unwrap();
            write(&DataFolder::at(&folder)).await;
            panic!("{} was missing and has been written: add it to the repository", folder.display());
        }
        check(&DataFolder::at(&folder)).await;
    }
}

#[tokio::test]
async fn a_data_folder_of_this_release_opens_and_replays_the_same() {
    let folder = DataFolder::new();
    write(&folder).await;
    check(&folder).await;
}
