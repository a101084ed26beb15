//! Passages that a model in the process reads ahead of any question: by `wellspring models warm`, and by a server while
//! nobody asks, also where one of them is killed while it writes. With the real small model.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, DirEntry};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use testing::{FakeModel, models_folder};
use tokio::time::sleep;

use crate::binary::{Home, Ran, Server, soon};
use crate::client::{get, post};
use crate::crash::Dice;
use crate::ingest::embedding_by;

const MODEL: &str = "smollm2-135m-instruct";
const PAGES: usize = 8;

/// Of each page one as the first of a prompt and one as a page that follows others, and what stands before all of them.
const STATES: usize = 2 * PAGES + 1;

/// How often it is looked how far the binary is.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

#[tokio::test]
async fn killed_while_it_writes_warming_leaves_what_can_be_used_and_the_next_run_reads_only_the_rest() {
    let (fake, mut dice) = (FakeModel::start().await, Dice::new());
    for _ in 0..rounds() {
        let home = home_with_pages();
        let models = models(&home);
        let variables = [&embedding_by(&fake)[..], &keeping(&models)].concat();
        assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
        let mut warming = home.start(&["models", "warm"], &variables);
        some_states(&home, &mut dice).await;
        warming.kill().await.expect("it can be killed");
        let left = states(&home);

        let rest = passages_read(&home.run(&["models", "warm"], &variables).await);
        check_that_the_rest_was_read(&home, left, rest);
        assert_eq!(passages_read(&home.run(&["models", "warm"], &variables).await), 0);
    }
}

#[tokio::test]
async fn killed_while_it_reads_ahead_a_server_leaves_what_can_be_used_and_the_next_one_reads_only_the_rest() {
    let (fake, mut dice) = (FakeModel::start().await, Dice::new());
    for _ in 0..rounds() {
        let home = home_with_pages();
        let models = models(&home);
        // The question is given all pages.
        let own = [("WELLSPRING__GENERATION__MAX_TOKENS", "4"), ("WELLSPRING__GENERATION__LEAST_SHARE", "0")];
        let variables = [&embedding_by(&fake)[..], &keeping(&models), &own].concat();
        assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
        let killed = home.serve(&[], &variables).await;
        some_states(&home, &mut dice).await;
        killed.signal("KILL").await;
        killed.ended().await;
        let left = states(&home);

        let next = home.serve(&[], &variables).await;
        let rest = reading_ahead(&next, "done").await["read"].as_u64().expect("it is counted");
        let end = ask_for(&next, "Which pump lifts water from well 3?", PAGES).await;
        assert_eq!(end["metadata"]["sources"].as_array().map(Vec::len), Some(PAGES), "{end}");
        let kept = ready(&next).await["kept_passages"]["local"].take();
        assert!(kept["misses"] == 0 && kept["hits"].as_u64() >= Some(PAGES as u64), "{kept}");
        let log = next.stopped().await;
        assert!(!log.contains("was damaged"), "{log}");
        check_that_the_rest_was_read(&home, left, usize::try_from(rest).expect("it is small"));
    }
}

#[tokio::test]
async fn a_server_tells_how_far_reading_ahead_is_unless_that_is_not_wanted() {
    let fake = FakeModel::start().await;
    let home = home_with_pages();
    let models = models(&home);
    let variables = [&embedding_by(&fake)[..], &keeping(&models)].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let metric = "wellspring_reading_ahead{provider=\"local\",state=";
    let metrics = async |server: &Server| get(server, "/metrics").await.expect("it answers").text().await;

    let server = home.serve(&[], &variables).await;
    let told = reading_ahead(&server, "done").await;
    assert_eq!(told, json!({"state": "done", "passages": PAGES, "read": PAGES}));
    let page = metrics(&server).await;
    assert!(page.contains(&format!("{metric}\"done\"}} 1\n")), "{page}");
    assert!(page.contains(&format!("{metric}\"reading\"}} 0\n")), "{page}");
    server.stopped().await;

    let again = home.serve(&[], &variables).await;
    let told = reading_ahead(&again, "done").await;
    assert_eq!(told, json!({"state": "done", "passages": PAGES, "read": 0}), "they are kept");
    again.stopped().await;

    let never = [&variables[..], &[("WELLSPRING__MODELS__READ_AHEAD", "never")]].concat();
    let mut server = home.serve(&[], &never).await;
    server.logged("chat model loaded").await;
    assert_eq!(ready(&server).await.get("reading_ahead"), None);
    assert!(!metrics(&server).await.contains(metric));
}

#[tokio::test]
async fn a_server_that_has_given_up_reading_ahead_says_why() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let folder = home.path("models").display().to_string();
    let variables = [&embedding_by(&fake)[..], &keeping(&folder)].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let server = home.serve(&[], &variables).await;
    let told = reading_ahead(&server, "stopped").await;
    assert!(told["message"].as_str().is_some_and(|why| why.contains("wellspring models pull")), "{told}");
}

#[tokio::test]
async fn what_is_left_of_documents_that_are_gone_does_not_keep_others_from_being_read() {
    let fake = FakeModel::start().await;
    let (gone, home) = (home_with_pages(), Home::new());
    home.write("wiki/cisterns.md", "# Cisterns\n\nA cistern collects rain below the yard.\n");
    let models = models(&gone);
    let little =
        [("WELLSPRING__MODELS__KEPT_DISK_BYTES", "4000000"), ("WELLSPRING__MODELS__KEPT_MEMORY_BYTES", "0")];
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &little].concat();
    assert_eq!(gone.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let warmed = gone.run(&["models", "warm"], &variables).await;
    assert!(warmed.err.contains("there is no room to keep the rest"), "{}", warmed.err);
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    assert_eq!(passages_read(&home.run(&["models", "warm"], &variables).await), 1);
    assert_eq!(passages_read(&home.run(&["models", "warm"], &variables).await), 0, "it is kept");
}

#[tokio::test]
async fn where_there_is_no_room_what_is_new_takes_the_place_of_what_was_used_longest_ago() {
    let fake = FakeModel::start().await;
    let home = home_with_pages();
    let models = models(&home);
    let own = [
        ("WELLSPRING__MODELS__KEPT_DISK_BYTES", "4000000"),
        ("WELLSPRING__MODELS__KEPT_MEMORY_BYTES", "0"),
        ("WELLSPRING__GENERATION__MAX_TOKENS", "4"),
        ("RUST_LOG", "wellspring=debug,info"),
    ];
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &own].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let mut server = home.serve(&[], &variables).await;
    server.logged("there is no room to keep more passages").await;
    // Of the page that had room, and what stands before all pages.
    soon("the first states", until(|| states(&home) >= 3)).await;
    let full = SystemTime::now();
    let text = "# Cisterns\n\nA cistern collects rain below the yard.\n";
    let page = json!({"repoUrl": "https://example.com/wiki", "filePath": "cisterns.md", "text": text});
    let taken = post(&server, "/api/documents/ingest", "", &json!({"documents": [page]})).await;
    assert_eq!(taken.json().await["successCount"], 1);
    server.logged("passages read ahead").await;
    // What was read is written a little later.
    soon("the new states", until(|| states_since(&home, full) >= 3)).await;
    let end = ask_for(&server, "What does a cistern collect?", 1).await;
    assert_eq!(end["metadata"]["sources"][0]["filePath"], "cisterns.md", "{end}");
    // It stays so, though the page found a place.
    reading_ahead(&server, "full").await;
    let kept = ready(&server).await["kept_passages"]["local"].take();
    assert_eq!(kept["misses"], 0, "{kept}");
    assert!(kept["disk_bytes"].as_u64() <= Some(4_000_000), "{kept}");
}

#[tokio::test]
async fn warming_a_collection_reads_its_documents_alone_and_one_without_any_is_a_mistake() {
    let fake = FakeModel::start().await;
    let home = Home::new();
    home.write("wiki/cisterns.md", "# Cisterns\n\nA cistern collects rain below the yard.\n");
    home.write("code/pumps.md", "# Pumps\n\nA pump lifts water from a well.\n");
    let models = models(&home);
    let variables = [&embedding_by(&fake)[..], &keeping(&models)].concat();
    for folder in ["wiki", "code"] {
        let taken = home.run(&["ingest", folder, "--collection", folder], &variables).await;
        assert_eq!(taken.code, Some(0), "{}", taken.err);
    }
    let warmed = home.run(&["models", "warm", "--collection", "code"], &variables).await;
    assert_eq!(passages_read(&warmed), 1);
    assert!(warmed.err.contains("local: 1 passages to look at\n"), "{}", warmed.err);
    let mistaken = home.run(&["models", "warm", "--collection", "cods"], &variables).await;
    assert_eq!(mistaken.code, Some(1), "{}", mistaken.err);
    assert!(mistaken.err.contains("there are no documents in the collection \"cods\""), "{}", mistaken.err);
}

#[tokio::test]
async fn each_of_many_passages_is_looked_at_once_though_its_vector_came_after_it() {
    const MANY: usize = 70;
    let (fake, home) = (FakeModel::start().await, Home::new());
    for number in 0..MANY {
        home.write(&format!("wiki/{number}.md"), &format!("# Pump {number}\n\nPump {number} lifts water.\n"));
    }
    let models = models(&home);
    // Nothing has room, so that nothing is read.
    let no_room =
        [("WELLSPRING__MODELS__KEPT_DISK_BYTES", "1"), ("WELLSPRING__MODELS__KEPT_MEMORY_BYTES", "0")];
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &no_room].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let warmed = home.run(&["models", "warm"], &variables).await;
    assert!(warmed.err.contains(&format!("local: {MANY} passages to look at\n")), "{}", warmed.err);
}

/// A process that begins with its question knows its model's tokens all the same: what it is given is what was read.
#[tokio::test]
async fn whoever_asks_without_a_server_is_given_what_was_read_ahead_whole() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    for number in 0..PAGES {
        let line = format!("Pump {number} lifts water from well {number}, day and night, for the village.\n");
        home.write(&format!("wiki/{number}.md"), &format!("# Pump {number}\n\n{}", line.repeat(8)));
    }
    let models = models(&home);
    let own = [
        ("WELLSPRING__GENERATION__MAX_TOKENS", "4"),
        ("WELLSPRING__GENERATION__LEAST_SHARE", "0"),
        ("WELLSPRING__GENERATION__CONTEXT_TOKENS", "1200"),
    ];
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &own].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    assert!(passages_read(&home.run(&["models", "warm"], &variables).await) >= PAGES);
    let asked = home.run(&["ask", "--json", "What does pump 3 lift from its well?"], &variables).await;
    assert_eq!(asked.code, Some(0), "{}", asked.err);
    let last = asked.out.lines().last().expect("it says something");
    let done: Value = serde_json::from_str(last).expect("a delta");
    let sources = done["metadata"]["sources"].as_array().expect("there are sources");
    let lines: BTreeSet<_> =
        sources.iter().map(|source| source["lineEnd"].as_u64().zip(source["lineStart"].as_u64())).collect();
    assert_eq!((sources.len(), lines.len()), (5, 1), "each is whole: {done}");
    // A line has some twenty tokens.
    assert!(done["metadata"]["cachedTokens"].as_u64() >= Some(5 * 8 * 15), "{done}");
}

#[tokio::test]
async fn what_was_kept_of_a_page_answers_nothing_once_the_page_has_changed() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let page =
        |lifts: &str| format!("# Pumps\n\n{}", format!("The pump of the mill lifts {lifts}. ").repeat(6));
    let models = models(&home);
    let own = [("WELLSPRING__GENERATION__MAX_TOKENS", "4")];
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &own].concat();
    let ask = async |lifts: &str| {
        home.write("wiki/pumps.md", &page(lifts));
        assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
        let asked = home.run(&["ask", "--json", "What does the pump of the mill lift?"], &variables).await;
        let done: Value = serde_json::from_str(asked.out.lines().last().expect(&asked.err)).expect("a delta");
        let metadata = &done["metadata"];
        assert!(
            metadata["sources"][0]["excerpt"].as_str().is_some_and(|text| text.contains(lifts)),
            "{done}"
        );
        metadata["cachedTokens"].as_u64().expect("it is counted")
    };
    let (first, again) = (ask("water").await, ask("water").await);
    let before_the_page = ask("grain").await;
    assert!(first < before_the_page, "what stands before the page was kept: {first} {before_the_page}");
    assert!(again > before_the_page + 40, "the page has some fifty tokens: {again} {before_the_page}");
}

fn home_with_pages() -> Home {
    let home = Home::new();
    for number in 0..PAGES {
        let text = format!(
            "# Pump {number}\n\nPump {number} lifts water from well {number}, day and night, for the village.\n"
        );
        home.write(&format!("wiki/{number}.md"), &text);
    }
    home
}

/// A folder of its own with the small model and what is kept.
fn models(home: &Home) -> String {
    let folder = home.path("models");
    fs::create_dir(&folder).expect("the home can be written to");
    symlink(models_folder().join(MODEL), folder.join(MODEL)).expect("links can be made");
    folder.display().to_string()
}

fn keeping(models: &str) -> [(&str, &str); 2] {
    [("WELLSPRING__MODELS__DIR", models), ("WELLSPRING__PROVIDERS__LOCAL__MODEL", MODEL)]
}

fn rounds() -> usize {
    if env::var_os("WELLSPRING_SOAK").is_some() { 30 } else { 2 }
}

async fn ready(server: &Server) -> Value {
    get(server, "/health/ready").await.expect("it answers").json().await
}

/// What a server says of reading ahead, once that is in this state.
async fn reading_ahead(server: &Server, state: &str) -> Value {
    let told = async {
        loop {
            let told = ready(server).await["reading_ahead"]["local"].take();
            if told["state"] == state {
                return told;
            }
            sleep(BETWEEN_LOOKS).await;
        }
    };
    soon(state, told).await
}

/// Asks for an answer from so many passages, and tells its end.
async fn ask_for(server: &Server, question: &str, passages: usize) -> Value {
    let session = post(server, "/api/generation/session", "", &json!({})).await.json().await;
    let prompt = json!({"sessionId": session["sessionId"], "prompt": question, "topK": passages});
    post(server, "/api/generation/stream", "", &prompt).await.answer().await.1
}

/// All states are there, and no page was read that both states of were there before.
fn check_that_the_rest_was_read(home: &Home, left: usize, pages_read: usize) {
    assert_eq!(states(home), STATES);
    let missing = STATES - left;
    let pages_without = missing.div_ceil(2)..=missing.min(PAGES);
    assert!(pages_without.contains(&pages_read), "{left} were there, and {pages_read} pages were read");
}

/// Waits until some states are in files, and not yet all of them unless they come fast.
async fn some_states(home: &Home, dice: &mut Dice) {
    let enough = 1 + usize::try_from(dice.below(STATES as u64 - 1)).expect("it is small");
    soon(&format!("{enough} states"), until(|| states(home) >= enough)).await;
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(BETWEEN_LOOKS).await;
    }
}

/// How many states are in files.
fn states(home: &Home) -> usize {
    states_since(home, SystemTime::UNIX_EPOCH)
}

/// How many of them were written or used since then.
fn states_since(home: &Home, since: SystemTime) -> usize {
    fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
        fs::read_dir(folder).into_iter().flatten().flatten()
    }
    let folders = entries(&home.path("models/cache/states"));
    let files = folders.flat_map(|folder| entries(&folder.path()));
    let states = files.filter(|file| file.path().extension() == Some("state".as_ref()));
    let times = states.filter_map(|state| state.metadata().ok()?.modified().ok());
    times.filter(|&time| time >= since).count()
}

/// What `wellspring models warm` says that it has read.
fn passages_read(ran: &Ran) -> usize {
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let words = ran.err.split_once(" of them read").expect("it says so").0;
    words.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}
