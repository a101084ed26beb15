//! What the catalog promises, on disk and in memory.

use domain::{
    Catalog, Chunk, ChunkKind, KnownFile, NewDocument, Principal, PutOutcome, StoredChunk, StoredDocument,
};
use storage::Knowledge;

use super::library::{MODEL, digested, document, document_at, embed, open, place, put, revision, vector_of};
use crate::world::{at, stranger, who};

macro_rules! on_disk_and_in_memory {
    ($($check:ident),+ $(,)?) => {
        mod on_disk {
            $(#[tokio::test]
            async fn $check() {
                let folder = tempfile::tempdir().unwrap();
                super::$check(&super::open(folder.path())).await;
            })+
        }

        mod in_memory {
            $(#[tokio::test]
            async fn $check() {
                super::$check(&storage::Knowledge::in_memory()).await;
            })+
        }
    };
}

on_disk_and_in_memory!(
    a_document_comes_back_as_it_was_filed,
    a_document_that_did_not_change_is_left_alone_and_takes_no_revision,
    a_document_that_is_replaced_keeps_the_vectors_of_what_it_still_says,
    a_removed_document_is_gone_with_all_it_had,
    chunks_without_vectors_are_told_by_document,
    lists_are_newest_first_and_count_everything,
    a_root_is_known_by_its_paths_and_digests,
    pieces_come_in_the_order_they_were_asked_for,
    a_piece_has_the_last_words_before_it,
    nobody_sees_what_another_tenant_has,
    what_is_filed_together_is_filed_wholly_or_not_at_all,
    a_chunk_that_lacks_a_vector_is_found_until_it_has_one,
);

/// A document in which every field has something.
fn rich() -> NewDocument {
    let mut new = document_at(place("docs/ß.md"), &["Über naïve Leute", "日本 🙂"], 7);
    let document = &mut new.document;
    document.language = Some("rust".into());
    document.url = Some("/docs/ß".into());
    document.module = Some("docs".into());
    document.tags = vec!["one".into(), "\"two\"".into()];
    document.metadata = [("team".into(), "\"sky\"".into()), ("stars".into(), "5".into())].into();
    new.chunks[1].kind = Some(ChunkKind::Subsection);
    new.chunks[1].section = Some("A section".into());
    new.chunks[1].subsection = Some("fn main".into());
    new.chunks[1].anchor = Some("main".into());
    new.chunks[1].context = "impl Main".into();
    digested(new)
}

async fn find(knowledge: &Knowledge, new: &NewDocument) -> Option<StoredDocument> {
    knowledge.document(&who(), new.document.id).await.unwrap()
}

async fn pieces(knowledge: &Knowledge, new: &NewDocument) -> Vec<StoredChunk> {
    let ids: Vec<_> = new.chunks.iter().map(|chunk| chunk.id).collect();
    knowledge.pieces(&who(), &ids).await.unwrap()
}

async fn a_document_comes_back_as_it_was_filed(knowledge: &Knowledge) {
    let new = rich();
    assert_eq!(put(knowledge, &new).await, PutOutcome::Added);
    let filed = find(knowledge, &new).await.unwrap();
    assert_eq!(
        filed,
        StoredDocument {
            document: new.document.clone(),
            created_at: at(7),
            updated_at: at(7),
            chunk_count: 2
        }
    );
    let mut bare = new.document.clone();
    bare.text.clear();
    let piece = |chunk: &Chunk, text: &str, before: &str| StoredChunk {
        chunk: chunk.clone(),
        text: text.to_owned(),
        before: before.to_owned(),
        document: bare.clone(),
    };
    assert_eq!(
        pieces(knowledge, &new).await,
        [piece(&new.chunks[0], "Über naïve Leute", ""), piece(&new.chunks[1], "日本 🙂", "Über naïve Leute")]
    );
    assert!(find(knowledge, &document("other", &[])).await.is_none());
}

async fn a_document_that_did_not_change_is_left_alone_and_takes_no_revision(knowledge: &Knowledge) {
    let new = rich();
    put(knowledge, &new).await;
    let before = revision(knowledge).await;
    let mut later = new.clone();
    later.at = at(100);
    assert_eq!(put(knowledge, &later).await, PutOutcome::Unchanged);
    assert_eq!(find(knowledge, &new).await.unwrap().updated_at, at(7));
    assert_eq!(revision(knowledge).await, before);
    assert_eq!(knowledge.remove(&who(), &[place("nowhere").document()]).await, Ok(0));
    knowledge.put_vectors(MODEL, vec![]).await.unwrap();
    assert_eq!(revision(knowledge).await, before);

    let both = vec![later, document("new", &["text"])];
    assert_eq!(knowledge.put(&who(), both).await.unwrap(), [PutOutcome::Unchanged, PutOutcome::Added]);
    assert_eq!(revision(knowledge).await, before + 1);
}

async fn a_document_that_is_replaced_keeps_the_vectors_of_what_it_still_says(knowledge: &Knowledge) {
    let first = document_at(place("a"), &["kept", "dropped", "moved"], 1);
    put(knowledge, &first).await;
    embed(knowledge, 9).await;
    let before = revision(knowledge).await;
    let mut second = document_at(place("a"), &["moved", "kept", "added"], 2);
    second.document.title = "Anew".into();
    let second = digested(second);
    assert_eq!(put(knowledge, &second).await, PutOutcome::Replaced);

    let filed = find(knowledge, &second).await.unwrap();
    assert_eq!((filed.created_at, filed.updated_at, filed.chunk_count), (at(1), at(2), 3));
    assert_eq!(filed.document, second.document);
    let told: Vec<_> =
        pieces(knowledge, &second).await.into_iter().map(|piece| (piece.chunk, piece.text)).collect();
    let expected: Vec<_> =
        second.chunks.iter().cloned().zip(["moved", "kept", "added"].map(String::from)).collect();
    assert_eq!(told, expected);

    let changes = knowledge.changes_since(before, MODEL, 100).await.unwrap();
    assert_eq!(changes.removed, [(who(), first.chunks[1].id)]);
    let vectors: Vec<_> =
        changes.added.iter().map(|chunk| (chunk.text.as_str(), chunk.vector.clone())).collect();
    let vector = |number: usize| Some(vector_of(second.chunks[number].id));
    assert_eq!(vectors, [("moved", vector(0)), ("kept", vector(1)), ("added", None)]);
    assert!(changes.added.iter().all(|chunk| chunk.title == "Anew"));
    let missing = knowledge.unembedded(MODEL, 9).await.unwrap();
    assert_eq!(missing.iter().map(|missing| missing.text.as_str()).collect::<Vec<_>>(), ["Anew\nadded"]);
}

async fn chunks_without_vectors_are_told_by_document(knowledge: &Knowledge) {
    let (one, other) = (document("one", &["a", "b"]), document("other", &["c"]));
    knowledge.put(&who(), vec![one.clone(), other.clone()]).await.unwrap();
    embed(knowledge, 1).await;
    let texts = async |who: Principal, documents: &[_]| {
        let missing = knowledge.unembedded_of(&who, documents, MODEL).await.unwrap();
        missing.into_iter().map(|missing| missing.text).collect::<Vec<_>>()
    };
    let ids = [one.document.id, place("nowhere").document(), other.document.id];
    assert_eq!(texts(who(), &ids).await, ["About one\nb", "About other\nc"]);
    assert_eq!(texts(who(), &ids[..2]).await, ["About one\nb"]);
    assert!(texts(stranger(), &ids).await.is_empty());
}

async fn a_removed_document_is_gone_with_all_it_had(knowledge: &Knowledge) {
    let (gone, stays) = (document("gone", &["a", "b"]), document("stays", &["a"]));
    knowledge.put(&who(), vec![gone.clone(), stays.clone()]).await.unwrap();
    embed(knowledge, 9).await;
    let before = revision(knowledge).await;
    let ids = [gone.document.id, place("nowhere").document(), gone.document.id];
    assert_eq!(knowledge.remove(&who(), &ids).await, Ok(1));
    assert_eq!(find(knowledge, &gone).await, None);
    assert_eq!(pieces(knowledge, &gone).await, []);
    let mut removed = knowledge.changes_since(before, MODEL, 9).await.unwrap().removed;
    removed.sort();
    let mut expected: Vec<_> = gone.chunks.iter().map(|chunk| (who(), chunk.id)).collect();
    expected.sort();
    assert_eq!(removed, expected);
    assert_eq!(put(knowledge, &gone).await, PutOutcome::Added);
    assert_eq!(knowledge.unembedded(MODEL, 9).await.unwrap().len(), 2, "its vectors are gone, too");
}

async fn lists_are_newest_first_and_count_everything(knowledge: &Knowledge) {
    for number in 0..5 {
        let mut there = place(&format!("{number}"));
        there.repo_url = format!("repo {}", number % 2);
        there.collection = format!("collection {}", number % 3);
        put(knowledge, &document_at(there, &["text"], number)).await;
    }
    let page = async |repo_url, skip, limit| {
        let (page, count) = knowledge.documents(&who(), repo_url, skip, limit).await.unwrap();
        assert!(page.iter().all(|filed| filed.document.text.is_empty() && filed.chunk_count == 1));
        let paths = page.into_iter().map(|filed| filed.document.place.file_path).collect::<Vec<_>>();
        (paths.concat(), count)
    };
    assert_eq!(page(None, 0, usize::MAX).await, ("43210".into(), 5));
    assert_eq!(page(None, 1, 2).await, ("32".into(), 5));
    assert_eq!(page(Some("repo 0"), 0, 2).await, ("42".into(), 3));
    assert_eq!(page(Some("repo 0"), 2, 2).await, ("0".into(), 3));
    assert_eq!(page(Some("repo 7"), 0, 2).await, (String::new(), 0));
    assert_eq!(page(None, u64::MAX, 2).await, (String::new(), 5));
    let collections = knowledge.collections(&who()).await.unwrap();
    let named = |name: &str, count| (name.to_owned(), count);
    assert_eq!(collections, [named("collection 0", 2), named("collection 1", 2), named("collection 2", 1)]);
}

async fn a_root_is_known_by_its_paths_and_digests(knowledge: &Knowledge) {
    let (b, a) = (document("b", &["two"]), document("a", &["one"]));
    let mut elsewhere = place("c");
    elsewhere.collection = "other".into();
    let elsewhere = document_at(elsewhere, &["three"], 0);
    knowledge.put(&who(), vec![b.clone(), a.clone(), elsewhere]).await.unwrap();
    let known = |new: &NewDocument| KnownFile {
        file_path: new.document.place.file_path.clone(),
        document: new.document.id,
        digest: new.digest,
    };
    let root = place("").repo_url;
    assert_eq!(knowledge.known(&who(), "default", &root).await.unwrap(), [known(&a), known(&b)]);
    assert_eq!(knowledge.known(&who(), "default", "nowhere").await.unwrap(), []);
}

async fn pieces_come_in_the_order_they_were_asked_for(knowledge: &Knowledge) {
    let (one, two) = (document("one", &["a", "b"]), document("two", &["c"]));
    knowledge.put(&who(), vec![one.clone(), two.clone()]).await.unwrap();
    let gone = document("gone", &["x"]).chunks[0].id;
    let asked = [one.chunks[1].id, gone, two.chunks[0].id, one.chunks[0].id, one.chunks[1].id];
    let pieces = knowledge.pieces(&who(), &asked).await.unwrap();
    assert_eq!(pieces.iter().map(|piece| piece.text.as_str()).collect::<String>(), "bcab");
}

async fn a_piece_has_the_last_words_before_it(knowledge: &Knowledge) {
    let (words, letters) = ("some more words ".repeat(100), "日本".repeat(200));
    let new = document("long", &["first", &words, "second", &letters, "third"]);
    put(knowledge, &new).await;
    let pieces = pieces(knowledge, &new).await;
    let before: Vec<_> = pieces.iter().map(|piece| piece.before.as_str()).collect();
    assert_eq!(before[..2], ["", "first"]);
    let is_whole = ["some", "more", "words"].iter().any(|word| before[2].starts_with(word));
    assert!(words.trim_end().ends_with(before[2]) && is_whole, "whole words: {:?}", before[2]);
    assert!((380..=400).contains(&before[2].len()), "{}", before[2].len());
    assert!(letters.ends_with(before[4]) && before[4].len() > 390, "whole characters: {:?}", before[4]);
}

async fn nobody_sees_what_another_tenant_has(knowledge: &Knowledge) {
    let (ours, theirs) = (document("same", &["ours", "both"]), document("same", &["theirs", "both"]));
    knowledge.put(&who(), vec![ours.clone()]).await.unwrap();
    knowledge.put(&stranger(), vec![theirs.clone()]).await.unwrap();
    assert_eq!(find(knowledge, &ours).await.unwrap().document, ours.document);
    let (page, count) = knowledge.documents(&stranger(), None, 0, 9).await.unwrap();
    assert_eq!((page.len(), count), (1, 1));
    let texts = |pieces: Vec<StoredChunk>| pieces.into_iter().map(|piece| piece.text).collect::<Vec<_>>();
    let asked = [ours.chunks[0].id, theirs.chunks[0].id, ours.chunks[1].id];
    assert_eq!(texts(knowledge.pieces(&who(), &asked).await.unwrap()), ["ours", "both"]);
    assert_eq!(texts(knowledge.pieces(&stranger(), &asked).await.unwrap()), ["theirs", "both"]);
    assert_eq!(knowledge.matching(&stranger(), &Default::default()).await.unwrap().documents.len(), 1);
    assert_eq!(knowledge.remove(&stranger(), &[ours.document.id]).await, Ok(1));
    assert_eq!(pieces(knowledge, &ours).await.len(), 2);
    assert_eq!(knowledge.collections(&stranger()).await.unwrap(), []);
}

async fn what_is_filed_together_is_filed_wholly_or_not_at_all(knowledge: &Knowledge) {
    let good = document("good", &["text"]);
    let before = revision(knowledge).await;
    let mut outside = document("outside", &["text"]);
    outside.chunks[0].bytes.end += 100;
    let message = knowledge.put(&who(), vec![good.clone(), outside]).await.unwrap_err().to_string();
    assert!(message.starts_with("outside: chunk") && message.contains("no piece"), "{message}");
    let mut twice = document("twice", &["text"]);
    twice.chunks.push(twice.chunks[0].clone());
    let message = knowledge.put(&who(), vec![good.clone(), twice]).await.unwrap_err().to_string();
    assert!(message.starts_with("twice: two of its chunks"), "{message}");
    assert_eq!(find(knowledge, &good).await, None);
    assert_eq!(revision(knowledge).await, before);
}

async fn a_chunk_that_lacks_a_vector_is_found_until_it_has_one(knowledge: &Knowledge) {
    put(knowledge, &document("a", &["1", "2", "3"])).await;
    let texts = async |model, limit| {
        let missing = knowledge.unembedded(model, limit).await.unwrap();
        missing.into_iter().map(|missing| missing.text).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(texts(MODEL, 2).await, "About a\n1, About a\n2");
    let missing = knowledge.unembedded(MODEL, 9).await.unwrap();
    let vector = |number: usize| vec![(missing[number].clone(), vec![1.0])];
    knowledge.put_vectors(MODEL, vector(1)).await.unwrap();
    assert_eq!(texts(MODEL, 9).await, "About a\n1, About a\n3");
    knowledge.put_vectors(MODEL, vector(0)).await.unwrap();
    put(knowledge, &document("b", &["4"])).await;
    assert_eq!(texts(MODEL, 9).await, "About a\n3, About b\n4");
    knowledge.put_vectors(MODEL, vector(2)).await.unwrap();
    assert_eq!(texts(MODEL, 9).await, "About b\n4");
    assert_eq!(texts("another", usize::MAX).await, "About a\n1, About a\n2, About a\n3, About b\n4");

    put(knowledge, &document("a", &["1"])).await;
    let before = revision(knowledge).await;
    knowledge.put_vectors("another", vector(1)).await.unwrap();
    assert_eq!(revision(knowledge).await, before, "the vector of a chunk that is gone is dropped");
}
