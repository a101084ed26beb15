//! Filters, tenants and nearest neighbours are exact: random histories of revisions, compared with a plain
//! model.

use std::collections::BTreeMap;

use domain::{Candidate, ChunkId, DocumentId, FilterMatches, IndexQuery, IndexedChunk, Principal};
use proptest::collection::vec;
use proptest::prelude::*;
use retrieval::EmbeddedIndex;

use crate::fixtures::{MODEL, apply, chunk, document, id, query, search, tenant, vector};

const WORDS: [&str; 8] = ["cat", "dog", "bird", "sleep", "eat", "fly", "house", "tree"];

/// More than there are chunks.
const ALL: usize = 1000;

/// One revision: chunks that are added or replaced, and chunks that are removed.
#[derive(Clone, Debug)]
struct Revision {
    added: Vec<IndexedChunk>,
    removed: Vec<(Principal, ChunkId)>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_filtered_search_equals_an_unfiltered_search_without_the_other_chunks(
        history in history(),
        text in text(),
        bits in 0_u32..8,
        by_chunk in any::<bool>(),
    ) {
        run(async {
            let index = index_of(&history).await;
            let numbers = (0..8).filter(|number| number & bits == bits);
            let documents: Vec<DocumentId> = numbers.map(document).collect();
            let all = search(&index, IndexQuery { limit: ALL, ..query(&text) }).await;
            let is_chosen = |chunk: ChunkId| !by_chunk || chunk.0.as_bytes().last().is_some_and(|byte| byte % 2 == 0);
            let chosen = all.iter().map(|candidate| candidate.chunk).filter(|chunk| is_chosen(*chunk)).collect();
            let within = FilterMatches { documents: documents.clone(), chunks: by_chunk.then_some(chosen) };
            for limit in [1, 3, 10] {
                let filter = IndexQuery { within: Some(within.clone()), limit, ..query(&text) };
                let filtered = search(&index, filter).await;
                let passes = |candidate: &Candidate| {
                    documents.contains(&candidate.document) && is_chosen(candidate.chunk)
                };
                assert_same(&filtered, &all, passes, limit);
            }
        });
    }

    #[test]
    fn results_depend_on_the_tenants_chunks_alone(history in history(), text in text()) {
        run(async {
            let index = index_of(&history).await;
            let ours = EmbeddedIndex::in_memory(MODEL).unwrap();
            let local: Vec<IndexedChunk> =
                remaining(&history).into_values().filter(|chunk| chunk.who == Principal::local()).collect();
            apply(&ours, vec![], local).await;
            assert_eq!(search(&index, query(&text)).await, search(&ours, query(&text)).await);
        });
    }

    #[test]
    fn dense_search_finds_the_exact_nearest_neighbours(
        history in history(),
        text in text(),
        limit in 1_usize..10,
    ) {
        run(async {
            let index = index_of(&history).await;
            let question = vector(&text);
            let mut nearest: Vec<(f32, ChunkId)> = remaining(&history)
                .into_values()
                .filter(|chunk| chunk.who == Principal::local())
                .filter_map(|chunk| Some((cosine(&question, &chunk.vector?), chunk.chunk)))
                .collect();
            nearest.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
            nearest.truncate(limit);

            let mut candidates = search(&index, IndexQuery { limit, ..query(&text) }).await;
            candidates.retain(|candidate| candidate.dense.is_some());
            candidates.sort_by_key(|candidate| candidate.dense);
            let found = candidates.iter().map(|candidate| (candidate.cosine.unwrap(), candidate.chunk));
            assert_eq!(found.collect::<Vec<_>>(), nearest);
        });
    }
}

/// Both rankings of `filtered` are those of `all` without what does not pass, with the same scores.
fn assert_same(filtered: &[Candidate], all: &[Candidate], passes: impl Fn(&Candidate) -> bool, limit: usize) {
    assert!(filtered.iter().all(&passes));
    let lexical = |candidate: &Candidate| candidate.lexical;
    let dense = |candidate: &Candidate| candidate.dense.zip(candidate.cosine);
    assert_eq!(ranking(filtered, lexical, &passes, limit), ranking(all, lexical, &passes, limit));
    assert_eq!(ranking(filtered, dense, &passes, limit), ranking(all, dense, &passes, limit));
}

/// The first chunks of a ranking that pass, each with its score.
fn ranking(
    candidates: &[Candidate],
    rank: impl Fn(&Candidate) -> Option<(usize, f32)>,
    passes: impl Fn(&Candidate) -> bool,
    limit: usize,
) -> Vec<(ChunkId, f32)> {
    let passing = candidates.iter().filter(|candidate| passes(candidate));
    let mut ranked: Vec<_> = passing
        .filter_map(|candidate| rank(candidate).map(|(rank, score)| (rank, candidate.chunk, score)))
        .collect();
    ranked.sort_by_key(|(rank, ..)| *rank);
    ranked.into_iter().map(|(_, chunk, score)| (chunk, score)).take(limit).collect()
}

async fn index_of(history: &[Revision]) -> EmbeddedIndex {
    let index = EmbeddedIndex::in_memory(MODEL).expect("an index in memory");
    for revision in history {
        apply(&index, revision.removed.clone(), revision.added.clone()).await;
    }
    index
}

/// The chunks after the last revision.
fn remaining(history: &[Revision]) -> BTreeMap<(Principal, ChunkId), IndexedChunk> {
    let mut chunks = BTreeMap::new();
    for revision in history {
        for key in &revision.removed {
            chunks.remove(key);
        }
        chunks.extend(revision.added.iter().map(|chunk| ((chunk.who.clone(), chunk.chunk), chunk.clone())));
    }
    chunks
}

/// The dot product, summed in the index's order.
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

/// A revision contains a chunk at most once.
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
