//! Filters and tenants are exact, and results follow from the chunks alone: checked on random histories
//! against a plain model.

use std::collections::BTreeMap;

use domain::{Candidate, ChunkId, DocumentId, FilterMatches, IndexQuery, IndexedChunk, Principal};
use proptest::collection::vec;
use proptest::prelude::*;
use retrieval::EmbeddedIndex;

use crate::world::{MODEL, apply, chunk, document, found, id, question, tenant, vector};

const WORDS: [&str; 8] = ["cat", "dog", "bird", "sleep", "eat", "fly", "house", "tree"];

/// More than there are chunks.
const ALL: usize = 1000;

/// One revision: chunks that come or are replaced, and chunks that go.
#[derive(Clone, Debug)]
struct Revision {
    added: Vec<IndexedChunk>,
    removed: Vec<(Principal, ChunkId)>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_filtered_search_is_an_unfiltered_one_without_the_others(
        history in history(),
        text in text(),
        kept in 0_u32..8,
        by_chunk in any::<bool>(),
    ) {
        run(async {
            let index = built(&history).await;
            let numbers = (0..8).filter(|number| number & kept == kept);
            let documents: Vec<DocumentId> = numbers.map(document).collect();
            let all = found(&index, IndexQuery { limit: ALL, ..question(&text) }).await;
            let is_chosen = |chunk: ChunkId| !by_chunk || chunk.0.as_bytes().last().is_some_and(|byte| byte % 2 == 0);
            let chosen = all.iter().map(|candidate| candidate.chunk).filter(|chunk| is_chosen(*chunk)).collect();
            let within = FilterMatches { documents: documents.clone(), chunks: by_chunk.then_some(chosen) };
            for limit in [1, 3, 10] {
                let search = IndexQuery { within: Some(within.clone()), limit, ..question(&text) };
                let filtered = found(&index, search).await;
                let passes = |candidate: &Candidate| {
                    documents.contains(&candidate.document) && is_chosen(candidate.chunk)
                };
                assert_same(&filtered, &all, passes, limit);
            }
        });
    }

    #[test]
    fn what_is_found_follows_from_the_tenants_chunks_alone(history in history(), text in text()) {
        run(async {
            let index = built(&history).await;
            let ours = EmbeddedIndex::in_memory(MODEL).unwrap();
            let local: Vec<IndexedChunk> =
                left(&history).into_values().filter(|chunk| chunk.who == Principal::local()).collect();
            apply(&ours, vec![], local).await;
            assert_eq!(found(&index, question(&text)).await, found(&ours, question(&text)).await);
        });
    }

    #[test]
    fn the_nearest_are_those_of_comparing_all_exactly(
        history in history(),
        text in text(),
        limit in 1_usize..10,
    ) {
        run(async {
            let index = built(&history).await;
            let asked = vector(&text);
            let mut nearest: Vec<(f32, ChunkId)> = left(&history)
                .into_values()
                .filter(|chunk| chunk.who == Principal::local())
                .filter_map(|chunk| Some((cosine(&asked, &chunk.vector?), chunk.chunk)))
                .collect();
            nearest.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
            nearest.truncate(limit);

            let mut candidates = found(&index, IndexQuery { limit, ..question(&text) }).await;
            candidates.retain(|candidate| candidate.dense.is_some());
            candidates.sort_by_key(|candidate| candidate.dense);
            let told = candidates.iter().map(|candidate| (candidate.cosine.unwrap(), candidate.chunk));
            assert_eq!(told.collect::<Vec<_>>(), nearest);
        });
    }
}

/// The filtered list has exactly those of `all` that pass, in the same order and with the same scores.
fn assert_same(filtered: &[Candidate], all: &[Candidate], passes: impl Fn(&Candidate) -> bool, limit: usize) {
    assert!(filtered.iter().all(&passes));
    let by_words = |candidate: &Candidate| candidate.lexical;
    let by_meaning = |candidate: &Candidate| candidate.dense.zip(candidate.cosine);
    assert_eq!(list(filtered, by_words, &passes, limit), list(all, by_words, &passes, limit));
    assert_eq!(list(filtered, by_meaning, &passes, limit), list(all, by_meaning, &passes, limit));
}

/// The first of one of the two lists that pass, each with its score.
fn list(
    candidates: &[Candidate],
    place: impl Fn(&Candidate) -> Option<(usize, f32)>,
    passes: impl Fn(&Candidate) -> bool,
    limit: usize,
) -> Vec<(ChunkId, f32)> {
    let passing = candidates.iter().filter(|candidate| passes(candidate));
    let mut listed: Vec<_> = passing
        .filter_map(|candidate| place(candidate).map(|(rank, score)| (rank, candidate.chunk, score)))
        .collect();
    listed.sort_by_key(|(rank, ..)| *rank);
    listed.into_iter().map(|(_, chunk, score)| (chunk, score)).take(limit).collect()
}

async fn built(history: &[Revision]) -> EmbeddedIndex {
    let index = EmbeddedIndex::in_memory(MODEL).expect("an index in memory");
    for revision in history {
        apply(&index, revision.removed.clone(), revision.added.clone()).await;
    }
    index
}

/// The chunks that are there in the end.
fn left(history: &[Revision]) -> BTreeMap<(Principal, ChunkId), IndexedChunk> {
    let mut chunks = BTreeMap::new();
    for revision in history {
        for key in &revision.removed {
            chunks.remove(key);
        }
        chunks.extend(revision.added.iter().map(|chunk| ((chunk.who.clone(), chunk.chunk), chunk.clone())));
    }
    chunks
}

/// Summed as the index sums.
fn cosine(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    for (at, (left, right)) in left.iter().zip(right).enumerate() {
        sums[at % 8] += left * right;
    }
    sums.iter().sum()
}

fn history() -> impl Strategy<Value = Vec<Revision>> {
    let revision = (vec(any_chunk(), 0..12), vec((owner(), (0_u32..30).prop_map(id)), 0..4));
    vec(revision.prop_map(|(added, removed)| Revision { added: deduplicated(added), removed }), 1..15)
}

/// A revision tells a chunk once.
fn deduplicated(chunks: Vec<IndexedChunk>) -> Vec<IndexedChunk> {
    let by_key: BTreeMap<_, _> =
        chunks.into_iter().map(|chunk| ((chunk.who.clone(), chunk.chunk), chunk)).collect();
    by_key.into_values().collect()
}

fn any_chunk() -> impl Strategy<Value = IndexedChunk> {
    let parts = (owner(), 0_u32..30, text(), any::<bool>(), prop::bool::weighted(0.8));
    parts.prop_map(|(who, number, text, is_code, has_vector)| {
        let mut chunk = chunk(number, &text);
        chunk.who = who;
        chunk.document = document(number % 8);
        chunk.is_code = is_code;
        chunk.vector = chunk.vector.filter(|_| has_vector);
        chunk
    })
}

fn owner() -> impl Strategy<Value = Principal> {
    prop_oneof![3 => Just(Principal::local()), 1 => Just(tenant("another"))]
}

fn text() -> impl Strategy<Value = String> {
    vec(prop::sample::select(&WORDS[..]), 1..6).prop_map(|words| words.join(" "))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime of one thread");
    runtime.block_on(test);
}
