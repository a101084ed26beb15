//! The index by example: what it finds, how it opens, and which files and changes it rejects.

use std::fs;

use domain::{CatalogChanges, FilterMatches, Index, IndexQuery};
use proptest::prelude::*;
use retrieval::{EmbeddedIndex, OpenIndexError};

use crate::fixtures::{MODEL, apply, chunk, document, id, query, search, search_lexical, tenant, vector};

#[tokio::test]
async fn a_chunk_is_found_by_its_terms_and_by_its_vector() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "fn parseHttpUrl()"), chunk(2, "cats sleep")]).await;

    for text in ["parse url", "parseHttpUrl", "HTTP", "parsing urls"] {
        assert_eq!(search_lexical(&index, text).await, [id(1)], "{text}");
    }
    let candidates = search(&index, query("cats sleep")).await;
    assert_eq!(candidates[0].chunk, id(2));
    assert_eq!(candidates[0].dense, Some(0));
    assert!((candidates[0].cosine.unwrap() - 1.0).abs() < 1e-6);
    assert_eq!((candidates[1].chunk, candidates[1].lexical, candidates[1].dense), (id(1), None, Some(1)));
}

#[tokio::test]
async fn title_path_and_context_are_searched_too() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    let mut above = chunk(1, "text");
    above.title = "Installation".to_owned();
    above.file_path = "docs/linux.md".to_owned();
    above.context = "impl Parser".to_owned();
    apply(&index, vec![], vec![above, chunk(2, "other")]).await;

    for text in ["installation", "linux", "parser"] {
        assert_eq!(search_lexical(&index, text).await, [id(1)], "{text}");
    }
}

#[tokio::test]
async fn a_chunk_without_a_vector_is_found_by_its_terms() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    let mut bare = chunk(1, "cats sleep");
    bare.vector = None;
    apply(&index, vec![], vec![bare, chunk(2, "dogs")]).await;
    let candidates = search(&index, query("cats sleep")).await;
    assert_eq!((candidates[0].chunk, candidates[0].dense, candidates[0].cosine), (id(1), None, None));

    apply(&index, vec![], vec![chunk(1, "cats sleep")]).await;
    let candidates = search(&index, query("cats sleep")).await;
    assert_eq!(candidates.len(), 2, "a chunk is found once");
    assert_eq!((candidates[0].chunk, candidates[0].dense), (id(1), Some(0)));
}

#[tokio::test]
async fn a_removed_or_replaced_chunk_is_not_found() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats"), chunk(2, "cats")]).await;
    let removed = vec![(tenant("local"), id(1)), (tenant("stranger"), id(2))];
    apply(&index, removed, vec![]).await;
    assert_eq!(search_lexical(&index, "cats").await, [id(2)]);

    apply(&index, vec![], vec![chunk(2, "dogs")]).await;
    assert_eq!(search_lexical(&index, "cats").await, []);
    assert_eq!(search(&index, query("dogs")).await.len(), 1);
}

#[tokio::test]
async fn equal_chunks_are_ordered_by_id() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], [3, 1, 2].map(|number| chunk(number, "cats")).to_vec()).await;
    let candidates = search(&index, IndexQuery { limit: 2, ..query("cats") }).await;
    assert_eq!(candidates.iter().map(|candidate| candidate.chunk).collect::<Vec<_>>(), [id(1), id(2)]);
    assert_eq!(candidates.iter().map(|candidate| candidate.dense).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

#[tokio::test]
async fn a_filter_restricts_the_search_to_its_documents() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats"), chunk(2, "cats")]).await;
    for (documents, expected) in
        [(vec![document(2)], vec![id(2)]), (vec![], vec![]), (vec![document(9)], vec![])]
    {
        let within = Some(FilterMatches { documents, chunks: None });
        let filtered = IndexQuery { within, ..query("cats") };
        let chunks: Vec<_> = search(&index, filtered).await.iter().map(|candidate| candidate.chunk).collect();
        assert_eq!(chunks, expected);
    }
}

#[tokio::test]
async fn an_index_reopens_at_its_last_revision() {
    let folder = tempfile::tempdir().unwrap();
    let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    apply(&index, vec![], vec![chunk(2, "dogs")]).await;
    let before = search(&index, query("cats and dogs")).await;
    drop(index);

    let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    assert_eq!(index.revision(), 2);
    assert_eq!(search(&index, query("cats and dogs")).await, before);
}

#[tokio::test]
async fn applying_a_revision_again_changes_nothing() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    let again = CatalogChanges { revision: 1, added: vec![chunk(2, "cats")], ..CatalogChanges::default() };
    index.apply(again).await.unwrap();
    assert_eq!(search_lexical(&index, "cats").await, [id(1)]);
}

#[tokio::test]
async fn opening_an_index_of_another_model_fails_with_the_command_that_rebuilds_it() {
    let folder = tempfile::tempdir().unwrap();
    let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    drop(index);

    let refused = EmbeddedIndex::open(folder.path(), "another").unwrap_err();
    assert!(matches!(refused, OpenIndexError::OtherModel { .. }));
    assert!(refused.to_string().contains("run `wellspring reindex`"), "{refused}");

    let index = EmbeddedIndex::recreate(folder.path(), "another").unwrap();
    assert_eq!(index.revision(), 0);
    assert_eq!(search_lexical(&index, "cats").await, []);
}

#[tokio::test]
async fn a_damaged_index_fails_to_open_and_can_be_recreated() {
    let folder = tempfile::tempdir().unwrap();
    let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    drop(index);
    let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let rows =
        files.into_iter().find(|file| file.extension().is_some_and(|ending| ending == "rows")).unwrap();
    let mut bytes = fs::read(&rows).unwrap();
    bytes[0] ^= 1;
    fs::write(&rows, bytes).unwrap();

    let refused = EmbeddedIndex::open(folder.path(), MODEL).unwrap_err();
    assert!(matches!(refused, OpenIndexError::Damaged(_)), "{refused}");
    EmbeddedIndex::recreate(folder.path(), MODEL).unwrap();
}

#[tokio::test]
async fn a_truncated_file_opens_or_fails_with_the_command_that_rebuilds_the_index() {
    let sound = tempfile::tempdir().unwrap();
    let index = EmbeddedIndex::open(sound.path(), MODEL).unwrap();
    apply(&index, vec![], (0..20).map(|number| chunk(number, "cats sleep")).collect()).await;
    apply(&index, vec![(tenant("local"), id(1))], vec![]).await;
    drop(index);
    for file in fs::read_dir(sound.path()).unwrap().map(|file| file.unwrap()) {
        let cut = tempfile::tempdir().unwrap();
        for file in fs::read_dir(sound.path()).unwrap().map(|file| file.unwrap()) {
            fs::copy(file.path(), cut.path().join(file.file_name())).unwrap();
        }
        let length = file.metadata().unwrap().len();
        fs::File::options()
            .write(true)
            .open(cut.path().join(file.file_name()))
            .unwrap()
            .set_len(length / 2)
            .unwrap();
        match EmbeddedIndex::open(cut.path(), MODEL) {
            Ok(index) => drop(index.search(query("cats")).await),
            Err(refused) => {
                let message = refused.to_string();
                assert!(message.contains("run `wellspring reindex`"), "{:?}: {message}", file.file_name());
            }
        }
    }
}

#[test]
fn an_index_folder_is_open_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    assert!(matches!(EmbeddedIndex::open(folder.path(), MODEL), Err(OpenIndexError::InUse)));
    drop(first);
    EmbeddedIndex::open(folder.path(), MODEL).unwrap();
}

#[tokio::test]
async fn a_revision_with_a_vector_of_another_dimension_or_of_nan_is_rejected_whole() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    for bad in [vec![1.0; 3], vec![f32::NAN; vector("cats").len()]] {
        let mut misfit = chunk(3, "misfit");
        misfit.vector = Some(bad);
        let changes = CatalogChanges {
            revision: 2,
            added: vec![chunk(2, "dogs"), misfit],
            ..CatalogChanges::default()
        };
        let refused = index.apply(changes).await.unwrap_err();
        assert!(refused.to_string().contains("wellspring reindex"), "{refused}");
    }
    assert_eq!((index.revision(), search_lexical(&index, "dogs").await), (1, vec![]));

    let short = IndexQuery { vector: Some(vec![1.0]), ..query("cats") };
    assert!(index.search(short).await.unwrap_err().message.contains("wellspring reindex"));
}

#[tokio::test]
async fn a_search_sees_one_revision_while_others_are_applied() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    let revision =
        |number: u32| (0..20).map(move |at| chunk(at, &format!("shared revision{number}"))).collect();
    apply(&index, vec![], revision(0)).await;
    let write = async {
        for number in 1..30 {
            apply(&index, vec![], revision(number)).await;
        }
    };
    let read = async {
        while index.revision() < 30 {
            let candidates = search(&index, query("shared")).await;
            assert_eq!(candidates.len(), 20);
            let first = candidates[0].cosine;
            assert!(candidates.iter().all(|candidate| candidate.cosine == first), "revisions are mixed");
        }
    };
    tokio::join!(write, read);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_text_can_be_indexed_and_searched(
        texts in prop::collection::vec("\\PC{0,50}", 1..5),
        question in "\\PC{0,50}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let index = EmbeddedIndex::in_memory(MODEL).unwrap();
            let chunks: Vec<_> = (0..).zip(&texts).map(|(number, text)| chunk(number, text)).collect();
            let count = chunks.len();
            apply(&index, vec![], chunks).await;
            assert_eq!(search(&index, query(&question)).await.len(), count);
        });
    }
}
