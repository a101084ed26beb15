//! What the index promises, by example.

use std::fs;

use domain::{CatalogChanges, FilterMatches, Index, IndexQuery};
use proptest::prelude::*;
use retrieval::{EmbeddedIndex, Unusable};

use crate::world::{MODEL, apply, chunk, document, found, found_by_words, id, question, tenant, vector};

#[tokio::test]
async fn a_chunk_is_found_by_its_words_and_by_its_meaning() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "fn parseHttpUrl()"), chunk(2, "cats sleep")]).await;

    for text in ["parse url", "parseHttpUrl", "HTTP", "parsing urls"] {
        assert_eq!(found_by_words(&index, text).await, [id(1)], "{text}");
    }
    let candidates = found(&index, question("cats sleep")).await;
    assert_eq!(candidates[0].chunk, id(2));
    assert_eq!(candidates[0].dense, Some(0));
    assert!((candidates[0].cosine.unwrap() - 1.0).abs() < 1e-6);
    assert_eq!((candidates[1].chunk, candidates[1].lexical, candidates[1].dense), (id(1), None, Some(1)));
}

#[tokio::test]
async fn title_path_and_what_stands_above_are_searched_too() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    let mut above = chunk(1, "text");
    above.title = "Installation".to_owned();
    above.file_path = "docs/linux.md".to_owned();
    above.context = "impl Parser".to_owned();
    apply(&index, vec![], vec![above, chunk(2, "other")]).await;

    for text in ["installation", "linux", "parser"] {
        assert_eq!(found_by_words(&index, text).await, [id(1)], "{text}");
    }
}

#[tokio::test]
async fn a_chunk_is_found_by_words_before_it_has_a_vector() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    let mut bare = chunk(1, "cats sleep");
    bare.vector = None;
    apply(&index, vec![], vec![bare, chunk(2, "dogs")]).await;
    let candidates = found(&index, question("cats sleep")).await;
    assert_eq!((candidates[0].chunk, candidates[0].dense, candidates[0].cosine), (id(1), None, None));

    apply(&index, vec![], vec![chunk(1, "cats sleep")]).await;
    let candidates = found(&index, question("cats sleep")).await;
    assert_eq!(candidates.len(), 2, "a chunk is there once");
    assert_eq!((candidates[0].chunk, candidates[0].dense), (id(1), Some(0)));
}

#[tokio::test]
async fn what_is_removed_or_replaced_is_gone() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats"), chunk(2, "cats")]).await;
    let removed = vec![(tenant("local"), id(1)), (tenant("stranger"), id(2))];
    apply(&index, removed, vec![]).await;
    assert_eq!(found_by_words(&index, "cats").await, [id(2)]);

    apply(&index, vec![], vec![chunk(2, "dogs")]).await;
    assert_eq!(found_by_words(&index, "cats").await, []);
    assert_eq!(found(&index, question("dogs")).await.len(), 1);
}

#[tokio::test]
async fn equal_chunks_are_in_the_order_of_their_ids() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], [3, 1, 2].map(|number| chunk(number, "cats")).to_vec()).await;
    let candidates = found(&index, IndexQuery { limit: 2, ..question("cats") }).await;
    assert_eq!(candidates.iter().map(|candidate| candidate.chunk).collect::<Vec<_>>(), [id(1), id(2)]);
    assert_eq!(candidates.iter().map(|candidate| candidate.dense).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

#[tokio::test]
async fn only_chunks_of_the_given_documents_are_found() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats"), chunk(2, "cats")]).await;
    for (documents, expected) in
        [(vec![document(2)], vec![id(2)]), (vec![], vec![]), (vec![document(9)], vec![])]
    {
        let within = Some(FilterMatches { documents, chunks: None });
        let search = IndexQuery { within, ..question("cats") };
        let chunks: Vec<_> = found(&index, search).await.iter().map(|candidate| candidate.chunk).collect();
        assert_eq!(chunks, expected);
    }
}

#[tokio::test]
async fn an_index_is_reopened_at_its_revision() {
    let folder = tempfile::tempdir().unwrap();
    let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    apply(&index, vec![], vec![chunk(2, "dogs")]).await;
    let before = found(&index, question("cats and dogs")).await;
    drop(index);

    let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    assert_eq!(index.revision(), 2);
    assert_eq!(found(&index, question("cats and dogs")).await, before);
}

#[tokio::test]
async fn a_revision_that_is_there_already_changes_nothing() {
    let index = EmbeddedIndex::in_memory(MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    let again = CatalogChanges { revision: 1, added: vec![chunk(2, "cats")], ..CatalogChanges::default() };
    index.apply(again).await.unwrap();
    assert_eq!(found_by_words(&index, "cats").await, [id(1)]);
}

#[tokio::test]
async fn an_index_of_another_model_is_refused_with_the_command_that_rebuilds_it() {
    let folder = tempfile::tempdir().unwrap();
    let index = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    apply(&index, vec![], vec![chunk(1, "cats")]).await;
    drop(index);

    let refused = EmbeddedIndex::open(folder.path(), "another").unwrap_err();
    assert!(matches!(refused, Unusable::OtherModel { .. }));
    assert!(refused.is_mended_by_beginning_anew());
    assert!(refused.to_string().contains("run `wellspring reindex`"), "{refused}");

    let index = EmbeddedIndex::begin_anew(folder.path(), "another").unwrap();
    assert_eq!(index.revision(), 0);
    assert_eq!(found_by_words(&index, "cats").await, []);
}

#[tokio::test]
async fn a_damaged_index_is_told_and_can_be_begun_anew() {
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
    assert!(matches!(refused, Unusable::Damaged(_)), "{refused}");
    EmbeddedIndex::begin_anew(folder.path(), MODEL).unwrap();
}

#[tokio::test]
async fn no_file_that_is_cut_short_breaks_the_start() {
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
            Ok(index) => drop(index.search(question("cats")).await),
            Err(refused) => {
                assert!(refused.is_mended_by_beginning_anew(), "{:?}: {refused}", file.file_name());
            }
        }
    }
}

#[test]
fn an_index_has_one_user_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = EmbeddedIndex::open(folder.path(), MODEL).unwrap();
    assert!(matches!(EmbeddedIndex::open(folder.path(), MODEL), Err(Unusable::InUse)));
    drop(first);
    EmbeddedIndex::open(folder.path(), MODEL).unwrap();
}

#[tokio::test]
async fn vectors_that_do_not_fit_the_others_are_refused_whole() {
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
        assert!(refused.to_string().contains("wellspring reindex"), "{}", refused.to_string());
    }
    assert_eq!((index.revision(), found_by_words(&index, "dogs").await), (1, vec![]));

    let short = IndexQuery { vector: Some(vec![1.0]), ..question("cats") };
    assert!(index.search(short).await.unwrap_err().message.contains("wellspring reindex"));
}

#[tokio::test]
async fn a_search_sees_one_revision_while_others_are_taken_in() {
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
            let candidates = found(&index, question("shared")).await;
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
    fn no_text_breaks_the_index(
        texts in prop::collection::vec("\\PC{0,50}", 1..5),
        question_text in "\\PC{0,50}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let index = EmbeddedIndex::in_memory(MODEL).unwrap();
            let chunks: Vec<_> = (0..).zip(&texts).map(|(number, text)| chunk(number, text)).collect();
            let count = chunks.len();
            apply(&index, vec![], chunks).await;
            assert_eq!(found(&index, question(&question_text)).await.len(), count);
        });
    }
}
