//! The contract of the catalog, on disk and in memory.

use domain::{
    Catalog, Chunk, ChunkKind, KnownFile, NewDocument, Principal, PutOutcome, StoredChunk, StoredDocument,
};
use storage::SqliteCatalog;

use super::fixtures::{
    MODEL, digested, document, document_at, embed, location_of, open, put, revision, vector_of,
};
use crate::harness::{at, stranger, who};

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
                super::$check(&storage::SqliteCatalog::in_memory()).await;
            })+
        }
    };
}

on_disk_and_in_memory!(
    a_document_is_stored_as_it_was_put,
    an_unchanged_document_takes_no_revision,
    a_replaced_document_keeps_the_vectors_of_unchanged_chunks,
    a_removed_document_is_gone_with_its_chunks_and_vectors,
    chunks_without_vectors_are_listed_by_document,
    lists_are_newest_first_with_the_count_of_all,
    the_files_of_a_root_are_listed_with_their_digests,
    chunks_come_in_the_requested_order,
    a_tenant_sees_no_documents_of_another,
    a_put_is_atomic,
    a_chunk_without_a_vector_is_listed_until_it_has_one,
);

/// A document with a value in every field.
fn full_document() -> NewDocument {
    let mut new = document_at(location_of("docs/ß.md"), &["Über naïve Leute", "日本 🙂"], 7);
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

async fn find(catalog: &SqliteCatalog, new: &NewDocument) -> Option<StoredDocument> {
    catalog.document(&who(), new.document.id).await.unwrap()
}

async fn stored_chunks(catalog: &SqliteCatalog, new: &NewDocument) -> Vec<StoredChunk> {
    let ids: Vec<_> = new.chunks.iter().map(|chunk| chunk.id).collect();
    catalog.chunks(&who(), &ids).await.unwrap()
}

async fn a_document_is_stored_as_it_was_put(catalog: &SqliteCatalog) {
    let new = full_document();
    assert_eq!(put(catalog, &new).await, PutOutcome::Added);
    let stored = find(catalog, &new).await.unwrap();
    assert_eq!(
        stored,
        StoredDocument {
            document: new.document.clone(),
            created_at: at(7),
            updated_at: at(7),
            chunk_count: 2
        }
    );
    let mut without_text = new.document.clone();
    without_text.text.clear();
    let stored_chunk = |chunk: &Chunk, text: &str| StoredChunk {
        chunk: chunk.clone(),
        text: text.to_owned(),
        document: without_text.clone(),
    };
    assert_eq!(
        stored_chunks(catalog, &new).await,
        [stored_chunk(&new.chunks[0], "Über naïve Leute"), stored_chunk(&new.chunks[1], "日本 🙂")]
    );
    assert!(find(catalog, &document("other", &[])).await.is_none());
}

async fn an_unchanged_document_takes_no_revision(catalog: &SqliteCatalog) {
    let new = full_document();
    put(catalog, &new).await;
    let before = revision(catalog).await;
    let mut later = new.clone();
    later.at = at(100);
    assert_eq!(put(catalog, &later).await, PutOutcome::Unchanged);
    assert_eq!(find(catalog, &new).await.unwrap().updated_at, at(7));
    assert_eq!(revision(catalog).await, before);
    assert_eq!(catalog.remove(&who(), &[location_of("nowhere").document()]).await, Ok(0));
    catalog.put_vectors(MODEL, vec![]).await.unwrap();
    assert_eq!(revision(catalog).await, before);

    let both = vec![later, document("new", &["text"])];
    assert_eq!(catalog.put(&who(), both).await.unwrap(), [PutOutcome::Unchanged, PutOutcome::Added]);
    assert_eq!(revision(catalog).await, before + 1);
}

async fn a_replaced_document_keeps_the_vectors_of_unchanged_chunks(catalog: &SqliteCatalog) {
    let first = document_at(location_of("a"), &["kept", "dropped", "moved"], 1);
    put(catalog, &first).await;
    embed(catalog, 9).await;
    let before = revision(catalog).await;
    let mut second = document_at(location_of("a"), &["moved", "kept", "added"], 2);
    second.document.title = "Anew".into();
    let second = digested(second);
    assert_eq!(put(catalog, &second).await, PutOutcome::Replaced);

    let stored = find(catalog, &second).await.unwrap();
    assert_eq!((stored.created_at, stored.updated_at, stored.chunk_count), (at(1), at(2), 3));
    assert_eq!(stored.document, second.document);
    let stored: Vec<_> =
        stored_chunks(catalog, &second).await.into_iter().map(|stored| (stored.chunk, stored.text)).collect();
    let expected: Vec<_> =
        second.chunks.iter().cloned().zip(["moved", "kept", "added"].map(String::from)).collect();
    assert_eq!(stored, expected);

    let changes = catalog.changes_since(before, MODEL, 100).await.unwrap();
    assert_eq!(changes.removed, [(who(), first.chunks[1].id)]);
    let vectors: Vec<_> =
        changes.added.iter().map(|chunk| (chunk.text.as_str(), chunk.vector.clone())).collect();
    let vector = |number: usize| Some(vector_of(second.chunks[number].id));
    assert_eq!(vectors, [("moved", vector(0)), ("kept", vector(1)), ("added", None)]);
    assert!(changes.added.iter().all(|chunk| chunk.title == "Anew"));
    let missing = catalog.unembedded(MODEL, 9).await.unwrap();
    assert_eq!(missing.iter().map(|missing| missing.text.as_str()).collect::<Vec<_>>(), ["Anew\nadded"]);
}

async fn chunks_without_vectors_are_listed_by_document(catalog: &SqliteCatalog) {
    let (one, other) = (document("one", &["a", "b"]), document("other", &["c"]));
    catalog.put(&who(), vec![one.clone(), other.clone()]).await.unwrap();
    embed(catalog, 1).await;
    let texts = async |who: Principal, documents: &[_]| {
        let missing = catalog.unembedded_of(&who, documents, MODEL).await.unwrap();
        missing.into_iter().map(|missing| missing.text).collect::<Vec<_>>()
    };
    let ids = [one.document.id, location_of("nowhere").document(), other.document.id];
    assert_eq!(texts(who(), &ids).await, ["About one\nb", "About other\nc"]);
    assert_eq!(texts(who(), &ids[..2]).await, ["About one\nb"]);
    assert!(texts(stranger(), &ids).await.is_empty());
}

async fn a_removed_document_is_gone_with_its_chunks_and_vectors(catalog: &SqliteCatalog) {
    let (gone, stays) = (document("gone", &["a", "b"]), document("stays", &["a"]));
    catalog.put(&who(), vec![gone.clone(), stays.clone()]).await.unwrap();
    embed(catalog, 9).await;
    let before = revision(catalog).await;
    let ids = [gone.document.id, location_of("nowhere").document(), gone.document.id];
    assert_eq!(catalog.remove(&who(), &ids).await, Ok(1));
    assert_eq!(find(catalog, &gone).await, None);
    assert_eq!(stored_chunks(catalog, &gone).await, []);
    let mut removed = catalog.changes_since(before, MODEL, 9).await.unwrap().removed;
    removed.sort();
    let mut expected: Vec<_> = gone.chunks.iter().map(|chunk| (who(), chunk.id)).collect();
    expected.sort();
    assert_eq!(removed, expected);
    assert_eq!(put(catalog, &gone).await, PutOutcome::Added);
    assert_eq!(catalog.unembedded(MODEL, 9).await.unwrap().len(), 2, "its vectors are gone, too");
}

async fn lists_are_newest_first_with_the_count_of_all(catalog: &SqliteCatalog) {
    for number in 0..5 {
        let mut location = location_of(&format!("{number}"));
        location.repo_url = format!("repo {}", number % 2);
        location.collection = format!("collection {}", number % 3);
        put(catalog, &document_at(location, &["text"], number)).await;
    }
    let page = async |repo_url, skip, limit| {
        let (page, count) = catalog.documents(&who(), repo_url, skip, limit).await.unwrap();
        assert!(page.iter().all(|stored| stored.document.text.is_empty() && stored.chunk_count == 1));
        let paths = page.into_iter().map(|stored| stored.document.place.file_path).collect::<Vec<_>>();
        (paths.concat(), count)
    };
    assert_eq!(page(None, 0, usize::MAX).await, ("43210".into(), 5));
    assert_eq!(page(None, 1, 2).await, ("32".into(), 5));
    assert_eq!(page(Some("repo 0"), 0, 2).await, ("42".into(), 3));
    assert_eq!(page(Some("repo 0"), 2, 2).await, ("0".into(), 3));
    assert_eq!(page(Some("repo 7"), 0, 2).await, (String::new(), 0));
    assert_eq!(page(None, u64::MAX, 2).await, (String::new(), 5));
    let collections = catalog.collections(&who()).await.unwrap();
    let named = |name: &str, count| (name.to_owned(), count);
    assert_eq!(collections, [named("collection 0", 2), named("collection 1", 2), named("collection 2", 1)]);
}

async fn the_files_of_a_root_are_listed_with_their_digests(catalog: &SqliteCatalog) {
    let (b, a) = (document("b", &["two"]), document("a", &["one"]));
    let mut elsewhere = location_of("c");
    elsewhere.collection = "other".into();
    let elsewhere = document_at(elsewhere, &["three"], 0);
    catalog.put(&who(), vec![b.clone(), a.clone(), elsewhere]).await.unwrap();
    let known = |new: &NewDocument| KnownFile {
        file_path: new.document.place.file_path.clone(),
        document: new.document.id,
        digest: new.digest,
    };
    let root = location_of("").repo_url;
    assert_eq!(catalog.known(&who(), "default", &root).await.unwrap(), [known(&a), known(&b)]);
    assert_eq!(catalog.known(&who(), "default", "nowhere").await.unwrap(), []);
}

async fn chunks_come_in_the_requested_order(catalog: &SqliteCatalog) {
    let (one, two) = (document("one", &["a", "b"]), document("two", &["c"]));
    catalog.put(&who(), vec![one.clone(), two.clone()]).await.unwrap();
    let gone = document("gone", &["x"]).chunks[0].id;
    let asked = [one.chunks[1].id, gone, two.chunks[0].id, one.chunks[0].id, one.chunks[1].id];
    let chunks = catalog.chunks(&who(), &asked).await.unwrap();
    assert_eq!(chunks.iter().map(|chunk| chunk.text.as_str()).collect::<String>(), "bcab");
}

async fn a_tenant_sees_no_documents_of_another(catalog: &SqliteCatalog) {
    let (ours, theirs) = (document("same", &["ours", "both"]), document("same", &["theirs", "both"]));
    catalog.put(&who(), vec![ours.clone()]).await.unwrap();
    catalog.put(&stranger(), vec![theirs.clone()]).await.unwrap();
    assert_eq!(find(catalog, &ours).await.unwrap().document, ours.document);
    let (page, count) = catalog.documents(&stranger(), None, 0, 9).await.unwrap();
    assert_eq!((page.len(), count), (1, 1));
    let texts = |chunks: Vec<StoredChunk>| chunks.into_iter().map(|chunk| chunk.text).collect::<Vec<_>>();
    let asked = [ours.chunks[0].id, theirs.chunks[0].id, ours.chunks[1].id];
    assert_eq!(texts(catalog.chunks(&who(), &asked).await.unwrap()), ["ours", "both"]);
    assert_eq!(texts(catalog.chunks(&stranger(), &asked).await.unwrap()), ["theirs", "both"]);
    assert_eq!(catalog.matching(&stranger(), &Default::default()).await.unwrap().documents.len(), 1);
    assert_eq!(catalog.remove(&stranger(), &[ours.document.id]).await, Ok(1));
    assert_eq!(stored_chunks(catalog, &ours).await.len(), 2);
    assert_eq!(catalog.collections(&stranger()).await.unwrap(), []);
}

async fn a_put_is_atomic(catalog: &SqliteCatalog) {
    let good = document("good", &["text"]);
    let before = revision(catalog).await;
    let mut outside = document("outside", &["text"]);
    outside.chunks[0].bytes.end += 100;
    let message = catalog.put(&who(), vec![good.clone(), outside]).await.unwrap_err().to_string();
    assert!(message.starts_with("outside: chunk") && message.contains("not a range"), "{message}");
    let mut twice = document("twice", &["text"]);
    twice.chunks.push(twice.chunks[0].clone());
    let message = catalog.put(&who(), vec![good.clone(), twice]).await.unwrap_err().to_string();
    assert!(message.starts_with("twice: two of its chunks"), "{message}");
    assert_eq!(find(catalog, &good).await, None);
    assert_eq!(revision(catalog).await, before);
}

async fn a_chunk_without_a_vector_is_listed_until_it_has_one(catalog: &SqliteCatalog) {
    put(catalog, &document("a", &["1", "2", "3"])).await;
    let texts = async |model, limit| {
        let missing = catalog.unembedded(model, limit).await.unwrap();
        missing.into_iter().map(|missing| missing.text).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(texts(MODEL, 2).await, "About a\n1, About a\n2");
    let missing = catalog.unembedded(MODEL, 9).await.unwrap();
    let vector = |number: usize| vec![(missing[number].clone(), vec![1.0])];
    catalog.put_vectors(MODEL, vector(1)).await.unwrap();
    assert_eq!(texts(MODEL, 9).await, "About a\n1, About a\n3");
    catalog.put_vectors(MODEL, vector(0)).await.unwrap();
    put(catalog, &document("b", &["4"])).await;
    assert_eq!(texts(MODEL, 9).await, "About a\n3, About b\n4");
    catalog.put_vectors(MODEL, vector(2)).await.unwrap();
    assert_eq!(texts(MODEL, 9).await, "About b\n4");
    assert_eq!(texts("another", usize::MAX).await, "About a\n1, About a\n2, About a\n3, About b\n4");

    put(catalog, &document("a", &["1"])).await;
    let before = revision(catalog).await;
    catalog.put_vectors("another", vector(1)).await.unwrap();
    assert_eq!(revision(catalog).await, before, "a vector of a removed chunk is dropped");
}
