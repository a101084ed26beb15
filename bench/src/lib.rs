//! What the benchmarks and evaluations share: processes of this project, a cheap HTTP client, a server to evaluate, and the
//! collections to evaluate it on.
//!
//! - `bench` (`make bench`): the cost per token, latency and cancellation of the server, over a fake model server.
//! - `embed`, `ingest`, `models`, `search`: one part each, beside a reference.
//! - `eval-answers`, `eval-dialogues`: the quality of answers, and of retrieval in conversations, through the server.
//!
//! They run the binaries beside their own, so build those first: `cargo build --release -p cli -p testing`.

pub mod client;
pub mod collection;
pub mod evaluated;
pub mod process;

use std::path::PathBuf;

/// The folder of this machine's models, by the rules of the setting `models.dir`.
pub fn models_folder() -> PathBuf {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    if let Some(folder) = set("WELLSPRING__MODELS__DIR") {
        return folder;
    }
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache"))).unwrap_or_default();
    cache.join("wellspring").join("models")
}

/// The CPU time of this process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has /proc");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<f64>().expect("a number of ticks");
    (ticks(11) + ticks(12)) / 100.0
}

/// The resident memory of this process now.
pub fn resident_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the file has VmRSS");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kilobytes");
    kilobytes * 1024.0 / 1e6
}
