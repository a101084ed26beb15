//! The warm-up of the prefix cache, by `wellspring models warm` and by an idle server, also when one of them is killed
//! while it writes. With the real small model.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::{Value, json};
use testing::{FakeModel, models_folder};
use tokio::time::sleep;

use crate::binary::{Home, Ran, Server, soon};
use crate::client::{get, post};
use crate::crash::Dice;
use crate::ingest::embedding_by;

const MODEL: &str = "smollm2-135m-instruct";
const PAGES: usize = 8;

/// The KV states of the pages and of their system prefix.
const STATES: usize = PAGES + 1;

/// A cache with room for a few pages.
const LITTLE: [(&str, &str); 2] = [
    ("WELLSPRING__MODELS__PREFIX_CACHE_DISK_BYTES", "4000000"),
    ("WELLSPRING__MODELS__PREFIX_CACHE_MEMORY_BYTES", "0"),
];

/// Interval between two looks at the progress of the binary.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[tokio::test]
async fn a_killed_warm_up_leaves_a_usable_cache_and_the_next_one_computes_only_the_rest() {
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

        let rest = prefilled(&home.run(&["models", "warm"], &variables).await);
        check_that_the_rest_was_prefilled(&home, left, rest);
        assert_eq!(prefilled(&home.run(&["models", "warm"], &variables).await), 0);
    }
}

#[tokio::test]
async fn a_server_killed_during_warm_up_leaves_a_usable_cache_and_the_next_one_computes_only_the_rest() {
    let (fake, mut dice) = (FakeModel::start().await, Dice::new());
    for _ in 0..rounds() {
        let home = home_with_pages();
        let models = models(&home);
        // All pages are passages of the question.
        let own = [("WELLSPRING__GENERATION__MAX_TOKENS", "4"), ("WELLSPRING__GENERATION__LEAST_SHARE", "0")];
        let variables = [&embedding_by(&fake)[..], &keeping(&models), &own].concat();
        assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
        let killed = home.serve(&[], &variables).await;
        some_states(&home, &mut dice).await;
        killed.signal("KILL").await;
        killed.ended().await;
        let left = states(&home);

        let next = home.serve(&[], &variables).await;
        let rest = warmup(&next, "done").await["read"].as_u64().expect("it is counted");
        let end = ask_for(&next, "Which pump lifts water from well 3?", PAGES).await;
        assert_eq!(end["metadata"]["sources"].as_array().map(Vec::len), Some(PAGES), "{end}");
        let kept = ready(&next).await["kept_passages"]["local"].take();
        assert!(kept["misses"] == 0 && kept["hits"].as_u64() >= Some(PAGES as u64), "{kept}");
        let log = next.stopped().await;
        assert!(!log.contains("is damaged"), "{log}");
        check_that_the_rest_was_prefilled(&home, left, usize::try_from(rest).expect("it is small"));
    }
}

#[tokio::test]
async fn a_server_reports_the_progress_of_the_warm_up_unless_it_is_turned_off() {
    let fake = FakeModel::start().await;
    let home = home_with_pages();
    let models = models(&home);
    let variables = [&embedding_by(&fake)[..], &keeping(&models)].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let metric = "wellspring_reading_ahead{provider=\"local\",state=";
    let metrics = async |server: &Server| get(server, "/metrics").await.expect("it answers").text().await;

    let server = home.serve(&[], &variables).await;
    let told = warmup(&server, "done").await;
    assert_eq!(told, json!({"state": "done", "passages": PAGES, "read": PAGES}));
    let page = metrics(&server).await;
    assert!(page.contains(&format!("{metric}\"done\"}} 1\n")), "{page}");
    assert!(page.contains(&format!("{metric}\"reading\"}} 0\n")), "{page}");
    server.stopped().await;

    let again = home.serve(&[], &variables).await;
    let told = warmup(&again, "done").await;
    assert_eq!(told, json!({"state": "done", "passages": PAGES, "read": 0}), "they are cached");
    again.stopped().await;

    let never = [&variables[..], &[("WELLSPRING__MODELS__READ_AHEAD", "never")]].concat();
    let mut server = home.serve(&[], &never).await;
    server.logged("chat model loaded").await;
    assert_eq!(ready(&server).await.get("reading_ahead"), None);
    assert!(!metrics(&server).await.contains(metric));
}

#[tokio::test]
async fn a_server_without_its_model_reports_why_the_warm_up_stopped() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let folder = home.path("models").display().to_string();
    let variables = [&embedding_by(&fake)[..], &keeping(&folder)].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let server = home.serve(&[], &variables).await;
    let reported = warmup(&server, "stopped").await;
    assert!(
        reported["message"].as_str().is_some_and(|why| why.contains("wellspring models pull")),
        "{reported}"
    );
}

#[tokio::test]
async fn passages_of_deleted_documents_are_evicted_for_those_of_the_catalog() {
    let fake = FakeModel::start().await;
    let (gone, home) = (home_with_pages(), Home::new());
    home.write("wiki/cisterns.md", "# Cisterns\n\nA cistern collects rain below the yard.\n");
    let models = models(&gone);
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &LITTLE].concat();
    assert_eq!(gone.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let warmed = gone.run(&["models", "warm"], &variables).await;
    assert!(warmed.err.contains("the prefix cache is full"), "{}", warmed.err);
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    assert_eq!(prefilled(&home.run(&["models", "warm"], &variables).await), 1);
    assert_eq!(prefilled(&home.run(&["models", "warm"], &variables).await), 0, "it is cached");
}

#[tokio::test]
async fn a_full_cache_stays_as_it_is_when_the_catalog_is_warmed_again() {
    let (fake, home) = (FakeModel::start().await, home_with_pages());
    let models = models(&home);
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &LITTLE].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let first = prefilled(&home.run(&["models", "warm"], &variables).await);
    assert!((1..PAGES).contains(&first), "{first}");
    for _ in 0..2 {
        assert_eq!(prefilled(&home.run(&["models", "warm"], &variables).await), 0);
    }
}

#[tokio::test]
async fn new_documents_evict_the_least_recently_used_of_a_full_cache() {
    let fake = FakeModel::start().await;
    let home = home_with_pages();
    let models = models(&home);
    let own = [("WELLSPRING__GENERATION__MAX_TOKENS", "4"), ("RUST_LOG", "wellspring=debug,info")];
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &LITTLE, &own].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let mut server = home.serve(&[], &variables).await;
    server.logged("the prefix cache is full").await;
    let full = warmup(&server, "full").await;
    assert!(full["passages"].as_u64() < Some(PAGES as u64), "{full}");
    let text = "# Cisterns\n\nA cistern collects rain below the yard.\n";
    let page = json!({"repoUrl": "https://example.com/wiki", "filePath": "cisterns.md", "text": text});
    let taken = post(&server, "/api/documents/ingest", "", &json!({"documents": [page]})).await;
    assert_eq!(taken.json().await["successCount"], 1);
    server.logged("passages prefilled").await;
    let end = ask_for(&server, "What does a cistern collect?", 1).await;
    assert_eq!(end["metadata"]["sources"][0]["filePath"], "cisterns.md", "{end}");
    // The other pages still do not fit.
    warmup(&server, "full").await;
    let kept = ready(&server).await["kept_passages"]["local"].take();
    assert_eq!(kept["misses"], 0, "{kept}");
    assert!(kept["disk_bytes"].as_u64() <= Some(4_000_000), "{kept}");
}

#[tokio::test]
async fn warming_a_collection_prefills_its_documents_alone_and_one_without_any_is_an_error() {
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
    assert_eq!(prefilled(&warmed), 1);
    assert!(warmed.err.contains("local: 1 of 1 passages, 1 of them prefilled"), "{}", warmed.err);
    let mistaken = home.run(&["models", "warm", "--collection", "cods"], &variables).await;
    assert_eq!(mistaken.code, Some(1), "{}", mistaken.err);
    assert!(mistaken.err.contains("there are no documents in the collection \"cods\""), "{}", mistaken.err);
}

#[tokio::test]
async fn each_of_many_passages_counts_once_though_its_vector_came_after_it() {
    const MANY: usize = 70;
    let (fake, home) = (FakeModel::start().await, Home::new());
    for number in 0..MANY {
        home.write(&format!("wiki/{number}.md"), &format!("# Pump {number}\n\nPump {number} lifts water.\n"));
    }
    let models = models(&home);
    // Nothing fits, so that nothing is computed.
    let no_room = [
        ("WELLSPRING__MODELS__PREFIX_CACHE_DISK_BYTES", "1"),
        ("WELLSPRING__MODELS__PREFIX_CACHE_MEMORY_BYTES", "0"),
    ];
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &no_room].concat();
    assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    let warmed = home.run(&["models", "warm"], &variables).await;
    assert!(warmed.err.contains(&format!("local: 0 of {MANY} passages, 0 of them")), "{}", warmed.err);
}

/// A process that starts with its question waits for the model's tokenizer: its passages are those that were cached.
#[tokio::test]
async fn ask_without_a_server_gets_whole_passages_from_the_cache() {
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
    assert!(prefilled(&home.run(&["models", "warm"], &variables).await) >= PAGES);
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
async fn a_changed_page_is_answered_from_its_new_text() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let page =
        |lifts: &str| format!("# Pumps\n\n{}", format!("The pump of the mill lifts {lifts}. ").repeat(6));
    let models = models(&home);
    let own = [("WELLSPRING__GENERATION__MAX_TOKENS", "4")];
    let variables = [&embedding_by(&fake)[..], &keeping(&models), &own].concat();
    let ingest = async |lifts: &str| {
        home.write("wiki/pumps.md", &page(lifts));
        assert_eq!(home.run(&["ingest", "wiki"], &variables).await.code, Some(0));
    };
    let ask = async |lifts: &str| {
        let asked = home.run(&["ask", "--json", "What does the pump of the mill lift?"], &variables).await;
        let done: Value = serde_json::from_str(asked.out.lines().last().expect(&asked.err)).expect("a delta");
        let metadata = &done["metadata"];
        assert!(
            metadata["sources"][0]["excerpt"].as_str().is_some_and(|text| text.contains(lifts)),
            "{done}"
        );
        metadata["cachedTokens"].as_u64().expect("it is counted")
    };
    ingest("water").await;
    assert_eq!(ask("water").await, 0, "nothing is computed for later");
    assert_eq!(prefilled(&home.run(&["models", "warm"], &variables).await), 1);
    let whole = ask("water").await;
    ingest("grain").await;
    let prefix = ask("grain").await;
    assert!(0 < prefix && prefix + 40 < whole, "the page has some fifty tokens: {prefix} {whole}");
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

/// A folder of its own for the small model and its prefix cache.
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

/// The progress of a server's warm-up, once it is in this state.
async fn warmup(server: &Server, state: &str) -> Value {
    let reported = async {
        loop {
            let reported = ready(server).await["reading_ahead"]["local"].take();
            if reported["state"] == state {
                return reported;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    soon(state, reported).await
}

/// The terminal event of an answer from this many passages.
async fn ask_for(server: &Server, question: &str, passages: usize) -> Value {
    let session = post(server, "/api/generation/session", "", &json!({})).await.json().await;
    let prompt = json!({"sessionId": session["sessionId"], "prompt": question, "topK": passages});
    post(server, "/api/generation/stream", "", &prompt).await.answer().await.1
}

/// All states are there, and only those that were missing were computed.
fn check_that_the_rest_was_prefilled(home: &Home, left: usize, prefilled: usize) {
    assert_eq!(states(home), STATES);
    // The prefix is stored first.
    assert_eq!(prefilled, STATES - left.max(1), "{left} were there");
}

/// Waits until some states are in files, and not yet all of them unless they come fast.
async fn some_states(home: &Home, dice: &mut Dice) {
    let enough = 1 + usize::try_from(dice.below(STATES as u64 - 1)).expect("it is small");
    soon(&format!("{enough} states"), until(|| states(home) >= enough)).await;
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(POLL_INTERVAL).await;
    }
}

/// How many states are in files.
fn states(home: &Home) -> usize {
    let files = fs::read_dir(home.path("models/cache/prefixes")).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension() == Some("kv".as_ref())).count()
}

/// How many passages `wellspring models warm` has prefilled.
fn prefilled(ran: &Ran) -> usize {
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let words = ran.err.split_once(" of them prefilled").expect("it says so").0;
    words.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}
