//! The time to the first token through the whole server, retrieval included, for a question about five passages: all of
//! them in the prefix cache, three of them, none, and with whole prompts prefilled. Documents are synthetic, their sections
//! passages of about 80 tokens, five on a subject, and no question is asked twice.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use bench::client::percentile;
use bench::models_folder;
use tempfile::TempDir;
use tokio::process::Command;

use super::served::{Asked, Served};

/// Passages on a subject.
const PASSAGES: usize = 5;

/// What the prefix cache has of a subject before it is asked about.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// How many of its passages are in the prefix cache.
    cached: usize,
    whole: bool,
}

const CASES: [Case; 4] = [
    Case { name: "all five cached", cached: 5, whole: false },
    Case { name: "three of five cached", cached: 3, whole: false },
    Case { name: "none cached", cached: 0, whole: false },
    Case { name: "whole prompts prefilled", cached: 0, whole: true },
];

/// Measures one model and prints the table.
pub(crate) async fn measure(model: &str, rounds: usize) {
    let folder = TempDir::new().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    own_models(&place("models"));
    let subjects = CASES.len() * rounds;
    for subject in 0..subjects {
        write(&place("documents"), subject, CASES[subject % CASES.len()].cached);
    }
    let settings = |data: &Path, reading: &str| {
        let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
        [
            ("WELLSPRING__DATA_DIR", text(data)),
            ("WELLSPRING__MODELS__DIR", text(&place("models"))),
            ("WELLSPRING__MODELS__READ_AHEAD", "never".to_owned()),
            ("WELLSPRING__PROVIDERS__LOCAL__KIND", "embedded".to_owned()),
            ("WELLSPRING__PROVIDERS__LOCAL__MODEL", model.to_owned()),
            ("WELLSPRING__PROVIDERS__LOCAL__READING", reading.to_owned()),
            ("WELLSPRING__GENERATION__MAX_TOKENS", "8".to_owned()),
            ("WELLSPRING__GENERATION__LEAST_SHARE", "0".to_owned()),
            ("WELLSPRING__GENERATION__CONTEXT_TOKENS", "1000".to_owned()),
            ("RUST_LOG", "warn".to_owned()),
        ]
    };
    let data = [place("kept"), place("whole")];
    for (data, reading) in data.iter().zip(["kept", "whole"]) {
        for collection in ["cached", "uncached"] {
            let documents = place("documents").join(collection);
            let documents = documents.to_str().expect("a plain path");
            run(&["ingest", documents, "--collection", collection], &settings(data, reading)).await;
        }
    }
    run(&["models", "warm", "--collection", "cached"], &settings(&data[0], "kept")).await;
    let kept = Served::over(&settings(&data[0], "kept")).await;
    let whole = Served::over(&settings(&data[1], "whole")).await;
    let mut asked: Vec<Vec<Asked>> = vec![Vec::new(); CASES.len()];
    for subject in 0..subjects {
        let case = CASES[subject % CASES.len()];
        let server = if case.whole { &whole } else { &kept };
        let question = format!("What is known about the {}?", name(subject));
        asked[subject % CASES.len()].push(server.answer(&question).await);
        server.at_rest().await;
    }
    report(&asked);
}

fn report(asked: &[Vec<Asked>]) {
    println!("  first token with five passages, milliseconds from the request, retrieval included:");
    println!("  | passages | tokens | of these prefilled | p50 | p90 |");
    println!("  | --- | --- | --- | --- | --- |");
    for (case, asked) in CASES.iter().zip(asked) {
        let of = |value: fn(&Asked) -> f64, p| {
            let mut values: Vec<f64> = asked.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            percentile(&values, p)
        };
        println!(
            "  | {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            case.name,
            of(|asked| asked.input as f64, 50.0),
            of(|asked| (asked.input - asked.cached) as f64, 50.0),
            of(|asked| asked.first_token, 50.0),
            of(|asked| asked.first_token, 90.0),
        );
    }
}

/// Links to this machine's models, with an empty prefix cache.
fn own_models(folder: &Path) {
    fs::create_dir_all(folder.join("cache")).expect("a folder for it");
    let link = |from: &Path, to: &Path| symlink(from, to).expect("a link to it");
    for entry in fs::read_dir(models_folder()).expect("models are here").flatten() {
        if entry.file_name() != "cache" {
            link(&entry.path(), &folder.join(entry.file_name()));
        }
    }
    let weights = models_folder().join("cache/weights");
    if weights.exists() {
        link(&weights, &folder.join("cache/weights"));
    }
}

/// Writes the passages on a subject as sections of a document; the first `cached` of them into the collection that is
/// warmed up.
fn write(folder: &Path, subject: usize, cached: usize) {
    let name = name(subject);
    let section = |(number, says)| {
        format!("## Note {number} on the {name}\n\nAbout the {name} it is known that {says}.\n\n")
    };
    let sections: Vec<String> = SAYINGS.iter().enumerate().map(section).collect();
    let (cached, uncached) = sections.split_at(cached);
    for (collection, sections) in [("cached", cached), ("uncached", uncached)] {
        let folder = folder.join(collection);
        fs::create_dir_all(&folder).expect("a folder for documents");
        if !sections.is_empty() {
            let text = format!("# The {name}\n\n{}", sections.concat());
            fs::write(folder.join(format!("{subject}.md")), text).expect("a document");
        }
    }
}

/// A unique name.
fn name(subject: usize) -> String {
    let syllable = |digit: usize| SYLLABLES[digit % SYLLABLES.len()];
    let (first, second) = (subject / SYLLABLES.len(), subject);
    format!("{}{}{} engine", syllable(second), syllable(first + 3), syllable(second * 7 + first))
}

async fn run(arguments: &[&str], settings: &[(&str, String)]) {
    let path = std::env::current_exe().expect("this process has a file").with_file_name("wellspring");
    let environment = settings.iter().map(|(name, value)| (*name, value.as_str()));
    let output = Command::new(path).args(arguments).envs(environment).output().await.expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

const SYLLABLES: [&str; 16] = [
    "bra", "kel", "mor", "tis", "vun", "dor", "pli", "sag", "rem", "lof", "nik", "zur", "hap", "gro", "wet",
    "jil",
];

const SAYINGS: [&str; PASSAGES] = [
    "it was first built in a small workshop near the river, where four people worked on it for eleven years before \
     any visitor saw it run, and that its first version needed two operators who fed it by hand every quarter of an hour",
    "it keeps its settings in one file, reads them when it starts and again at a signal, and refuses to run \
     with a setting that it does not know, because its builders had lost a week to a word that was spelled wrong",
    "its parts wear out at different times: the outer ring lasts nine months, the inner one four years, and a mechanic \
     who changes the outer ring has to warm the housing first, since cold metal has cracked at the seam more than once",
    "it reports how it is by three lamps, of which the left one shows pressure, the middle one heat and the right one \
     that a check is due, and that the right one also lights up for a minute after every start",
    "it may be stopped at any time without losing work, for it writes down what it is about to do before it does so, and \
     when it starts again it first reads what was written down and finishes the step that it had begun",
];
