//! Joined prompts against prompts that are prefilled as a whole, with the real small model.

use std::cell::Cell;
use std::path::Path;

use super::*;
use crate::chat::llama::{ContextSize, Parse, Weights};
use crate::chat::tests;

const PREFIX: &str =
    "You answer questions about software from the passages that you are given, and from nothing else.\n";
const PASSAGES: [&str; 3] = [
    "A mutex is a lock that at most one thread holds at a time. A thread that wants it meanwhile waits.\n",
    "The journal has the logs of running prompts. Each batch is written before any reader sees it.\n",
    "Port 8080 is where the server listens unless the settings say otherwise, on loopback alone.\n",
];
const QUESTION: &str = "Question: what is a mutex?\nAnswer:";

const MAX_PENDING: usize = 8;

/// A context, and two sequences of it besides the cache's.
struct Bench {
    context: Context,
    cache: PrefixCache,
    whole: Sequence,
    joined: Sequence,
}

impl Bench {
    fn new(weights: &Arc<Weights>, folder: Option<&Path>) -> Self {
        let size = ContextSize { tokens: 4_096, batch: 512, sequences: 3, threads: 1 };
        let mut context = Context::new(weights.clone(), size).unwrap();
        let [own, whole, joined] = context.sequences().collect::<Vec<_>>().try_into().unwrap();
        let layout = probe(&mut context, [own, whole]).unwrap();
        let store = Store::open(folder, 32 << 20, 1 << 30, Arc::default());
        let cache = PrefixCache::new(layout, CacheKey::of_model(&["a model"]), store, own, MAX_PENDING);
        Self { context, cache, whole, joined }
    }

    /// The logits after a prompt that is prefilled as a whole.
    fn prefill_whole(&mut self, prompt: &Prompt) -> Vec<f32> {
        self.context.truncate(self.whole, 0);
        self.compute(self.whole, 0, &prompt.tokens)
    }

    /// The logits after a prompt whose cached part is restored, and the number of its tokens.
    fn prefill_after_restored(&mut self, prompt: &Prompt) -> (Vec<f32>, usize) {
        self.context.truncate(self.joined, 0);
        let restored = self.restore(prompt);
        (self.compute(self.joined, restored, &prompt.tokens[restored..]), restored)
    }

    fn restore(&mut self, prompt: &Prompt) -> usize {
        self.cache.restore(&mut self.context, self.joined, prompt, 0, || true)
    }

    /// Computes everything that is queued.
    fn warm(&mut self) {
        let mut batch = Batch::default();
        while self.cache.fill_batch(&mut self.context, &mut batch) {
            let outcome = self.context.decode(&mut batch, &|| false);
            self.cache.finish_batch(&mut self.context, &batch, outcome);
        }
    }

    fn cache(&mut self, prompt: &Prompt) {
        self.cache.queue_missing(prompt, &self.cache.spans(prompt));
        self.warm();
    }

    fn compute(&mut self, sequence: Sequence, start: usize, tokens: &[Token]) -> Vec<f32> {
        let (mut batch, mut last) = (Batch::default(), 0);
        for (index, &token) in tokens.iter().enumerate() {
            last = batch.push(sequence, start + index, token, index + 1 == tokens.len());
        }
        assert_eq!(self.context.decode(&mut batch, &|| false), DecodeOutcome::Done);
        self.context.logits(last).unwrap().to_vec()
    }

    fn exported(&mut self, sequence: Sequence) -> Option<KvState> {
        self.cache.layout.parse(&self.context.export(sequence).unwrap_or_default())
    }
}

fn prompt(weights: &Weights, texts: &[&str]) -> Prompt {
    let tokens_of = |text| weights.vocabulary().tokens(text, Parse::Plain).unwrap();
    let (mut tokens, mut passages) = (tokens_of(PREFIX), Vec::new());
    for text in texts {
        let start = tokens.len();
        tokens.extend(tokens_of(text));
        passages.push(start..tokens.len());
    }
    tokens.extend(tokens_of(QUESTION));
    Prompt { tokens, passages, answer_tokens: 10 }
}

/// The largest difference, relative to the range of the logits.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    let (least, most) =
        a.iter().fold((f32::MAX, f32::MIN), |(least, most), &one| (least.min(one), most.max(one)));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / (most - least)
}

fn likeliest(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap()
}

#[test]
fn a_single_cached_passage_gives_the_logits_of_a_whole_prefill() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    for passage in PASSAGES {
        let prompt = prompt(&weights, &[passage]);
        let whole = bench.prefill_whole(&prompt);
        bench.context.truncate(bench.whole, 0);
        bench.cache(&prompt);
        let (joined, restored) = bench.prefill_after_restored(&prompt);
        assert_eq!(restored, prompt.passages_end());
        // Tokens lie elsewhere in the context, so that sums are rounded in another order.
        assert!(difference(&whole, &joined) < 0.05, "{}", difference(&whole, &joined));
        assert_eq!(likeliest(&whole), likeliest(&joined), "{passage}");
        bench.context.truncate(bench.joined, 0);
    }
}

#[test]
fn states_from_files_equal_states_from_memory() {
    let weights = tests::weights();
    let folder = tempfile::tempdir().unwrap();
    let prompt = prompt(&weights, &PASSAGES);
    let mut first = Bench::new(&weights, Some(folder.path()));
    first.cache(&prompt);
    let (from_memory, restored) = first.prefill_after_restored(&prompt);
    assert_eq!(restored, prompt.passages_end());
    let mut later = Bench::new(&weights, Some(folder.path()));
    let (from_files, restored) = later.prefill_after_restored(&prompt);
    assert_eq!(restored, prompt.passages_end());
    assert!(difference(&from_memory, &from_files) < 0.01, "{}", difference(&from_memory, &from_files));
    // An imported sequence is exported to the last bit.
    later.context.truncate(later.joined, 0);
    later.restore(&prompt);
    let spans = later.cache.spans(&prompt);
    let states = later.cache.get_all(&spans, &|| true).unwrap();
    let joined = later.cache.layout.join(&states[0], &states[1..], || true).unwrap();
    assert!(later.exported(later.joined) == later.cache.layout.parse(&joined));
}

#[test]
fn a_passage_is_moved_to_any_position() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let [a, b, c] = PASSAGES;
    bench.cache(&prompt(&weights, &[a, b, c]));
    for order in [[a, b, c], [b, c, a], [c, a, b]] {
        let prompt = prompt(&weights, &order);
        assert_eq!(bench.restore(&prompt), prompt.passages_end());
        let joined = bench.exported(bench.joined).unwrap();
        // The first layer has no attention before it, so there a passage differs by its rotation alone.
        bench.prefill_whole(&prompt);
        bench.context.truncate(bench.whole, prompt.passages_end());
        let whole = bench.exported(bench.whole).unwrap();
        let differences = bench.cache.layout.differences(&whole, &joined, 0);
        assert!(differences[0] < 0.01, "{differences:?}");
        bench.context.truncate(bench.joined, 0);
    }
}

#[test]
fn a_prompt_with_a_missing_passage_gets_the_prefix_and_queues_the_passage() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let [a, b, c] = PASSAGES;
    let both = prompt(&weights, &[a, c]);
    assert_eq!(bench.restore(&both), 0, "not even the prefix is cached");
    assert_eq!(bench.cache.pending.len(), 3);
    bench.warm();
    assert_eq!(bench.cache.store.counters().stats().pending, 0);
    let changed = b.replace("Each batch", "No batch");
    let all = prompt(&weights, &[a, &changed, c]);
    let whole = bench.prefill_whole(&all);
    let (logits, restored) = bench.prefill_after_restored(&all);
    assert_eq!(restored, all.prefix().len());
    assert!(difference(&whole, &logits) < 0.05, "{}", difference(&whole, &logits));
    let stats = bench.cache.store.counters().stats();
    assert_eq!((stats.hits, stats.misses, stats.pending), (3, 4, 1));
    bench.warm();
    bench.context.truncate(bench.joined, 0);
    assert_eq!(bench.restore(&all), all.passages_end());
    bench.context.truncate(bench.joined, 0);
    assert_eq!(bench.restore(&prompt(&weights, &[a, b, c])), all.prefix().len());
    bench.context.truncate(bench.joined, 0);
    let longer =
        bench.cache.restore(&mut bench.context, bench.joined, &prompt(&weights, &[b]), 1_000, || true);
    assert_eq!(longer, 0, "the caller has more than the prefix");
}

#[test]
fn the_queue_of_missing_passages_is_bounded_and_the_last_prompt_comes_first() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    for number in 0..4 {
        let texts = PASSAGES.map(|passage| format!("{number}: {passage}"));
        let prompt = prompt(&weights, &texts.each_ref().map(String::as_str));
        bench.restore(&prompt);
        bench.restore(&prompt);
        assert!(bench.cache.pending.len() <= MAX_PENDING);
        let spans = bench.cache.spans(&prompt);
        let first: Vec<_> = bench.cache.pending.iter().take(4).map(|prefill| prefill.key).collect();
        assert_eq!(first, spans.iter().map(|span| span.key).collect::<Vec<_>>(), "each of them once");
    }
    let mut none = Bench::new(&weights, None);
    none.cache.max_pending = 0;
    none.restore(&prompt(&weights, &PASSAGES));
    assert!(!none.cache.has_work());
}

#[test]
fn a_passage_that_is_too_long_or_too_large_is_never_queued() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let long = PASSAGES[0].repeat(100);
    assert_eq!(bench.restore(&prompt(&weights, &[&long])), 0);
    assert_eq!(bench.cache.pending.len(), 1, "the prefix alone");
    bench.cache.store = Store::open(None, 1_000, 0, Arc::default());
    bench.cache.pending.clear();
    bench.restore(&prompt(&weights, &PASSAGES));
    assert!(bench.cache.pending.iter().all(|prefill| prefill.key == prefill.prefix_key));
}

#[test]
fn an_aborted_batch_is_computed_again() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let prompt = prompt(&weights, &PASSAGES);
    bench.cache(&prompt);
    let (expected, _) = bench.prefill_after_restored(&prompt);
    bench.cache.store = Store::open(None, 32 << 20, 0, Arc::default());
    bench.restore(&prompt);
    let mut batch = Batch::default();
    let mut batches = 0;
    while bench.cache.fill_batch(&mut bench.context, &mut batch) {
        // Every other batch is aborted after a part of it.
        let asked = Cell::new(0);
        let abort = || {
            asked.set(asked.get() + 1);
            batches % 2 == 0 && asked.get() > 20
        };
        let outcome = bench.context.decode(&mut batch, &abort);
        bench.cache.finish_batch(&mut bench.context, &batch, outcome);
        batches += 1;
    }
    assert!(batches >= 6, "{batches}");
    let (again, restored) = bench.prefill_after_restored(&prompt);
    assert_eq!(restored, prompt.passages_end());
    assert!(difference(&expected, &again) < 0.05, "{}", difference(&expected, &again));
}

#[test]
fn tokens_that_lie_scattered_in_the_context_are_exported_in_their_order() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let prompt = prompt(&weights, &PASSAGES);
    let orderly = bench.prefill_whole(&prompt);
    let orderly_state = bench.exported(bench.whole).unwrap();
    // Two sequences take turns, then one of them leaves gaps to a third.
    bench.context.truncate(bench.whole, 0);
    for (index, &token) in prompt.tokens.iter().enumerate() {
        bench.compute(bench.joined, index, &[token]);
        bench.compute(bench.whole, index, &[token]);
    }
    bench.context.truncate(bench.joined, prompt.tokens.len() / 2);
    bench.context.truncate(bench.joined, 0);
    let scattered = bench.prefill_whole(&prompt);
    let scattered_state = bench.exported(bench.whole).unwrap();
    let differences = bench.cache.layout.differences(&orderly_state, &scattered_state, 0);
    assert!(differences.iter().all(|&difference| difference < 0.1), "{differences:?}");
    assert!(difference(&orderly, &scattered) < 0.01);
}
