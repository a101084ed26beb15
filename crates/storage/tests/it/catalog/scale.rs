//! Many documents: durations are printed. `WELLSPRING_SOAK` makes it ten times as many: 10,000 documents of 10 chunks with
//! vectors of 384 dimensions.

use std::env;
use std::fs;
use std::time::Instant;

use domain::{Catalog, ChunkId, FilterField, Filters, NewDocument};
use storage::SqliteCatalog;

use super::fixtures::{MODEL, digested, document, open};
use crate::harness::who;
use crate::scale::Times;

const CHUNKS: u64 = 10;
const DIMENSIONS: usize = 384;

fn documents() -> u64 {
    if env::var_os("WELLSPRING_SOAK").is_some() { 10_000 } else { 1_000 }
}

fn numbered(number: u64) -> NewDocument {
    let paragraph = |part| format!("Part {part} of document {number}. {}", "Some words of it. ".repeat(50));
    let paragraphs: Vec<_> = (0..CHUNKS).map(paragraph).collect();
    let paragraphs: Vec<_> = paragraphs.iter().map(String::as_str).collect();
    let mut new = document(&format!("folder {}/file {number}.md", number % 100), &paragraphs);
    new.document.language = number.is_multiple_of(2).then(|| "rust".to_owned());
    new.document.metadata = [("team".to_owned(), format!("\"team {}\"", number % 20))].into();
    digested(new)
}

#[tokio::test]
async fn many_chunks_are_put_embedded_followed_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let ids = put(&catalog).await;
    embed(&catalog).await;
    follow(&catalog, ids.len()).await;
    find(&catalog, &ids).await;
    drop(catalog);
    let bytes = fs::metadata(folder.path().join("knowledge.db")).unwrap().len();
    println!("{} chunks take {} MiB", ids.len(), bytes >> 20);
}

async fn put(catalog: &SqliteCatalog) -> Vec<ChunkId> {
    let (mut putting, mut ids) = (Times::default(), Vec::new());
    for thousand in 0..documents() / 1_000 {
        let new: Vec<_> = (thousand * 1_000..).take(1_000).map(numbered).collect();
        ids.extend(new.iter().flat_map(|new| new.chunks.iter().map(|chunk| chunk.id)));
        putting.time(catalog.put(&who(), new)).await.unwrap();
    }
    putting.print("putting 1,000 documents");
    let (first, mut again) = ((0..1_000).map(numbered).collect(), Times::default());
    again.time(catalog.put(&who(), first)).await.unwrap();
    again.print("putting 1,000 documents again");
    ids
}

async fn embed(catalog: &SqliteCatalog) {
    let (mut looking, mut putting) = (Times::default(), Times::default());
    loop {
        let missing = looking.time(catalog.unembedded(MODEL, 10_000)).await.unwrap();
        if missing.is_empty() {
            break;
        }
        let vector = |number| vec![number as f32; DIMENSIONS];
        let vectors =
            missing.into_iter().enumerate().map(|(number, missing)| (missing, vector(number))).collect();
        putting.time(catalog.put_vectors(MODEL, vectors)).await.unwrap();
    }
    looking.print("looking for 10,000 chunks without a vector");
    let mut nothing = Times::default();
    for _ in 0..100 {
        assert_eq!(nothing.time(catalog.unembedded(MODEL, 10_000)).await, Ok(vec![]));
    }
    nothing.print("looking when there are none");
    putting.print("adding 10,000 vectors");
}

async fn follow(catalog: &SqliteCatalog, chunks: usize) {
    for _ in 0..3 {
        let began = Instant::now();
        let changes = catalog.changes_since(0, MODEL, usize::MAX).await.unwrap();
        println!("all changes: {:?}", began.elapsed());
        assert_eq!(changes.added.len(), chunks);
        assert!(changes.added.iter().all(|chunk| chunk.vector.as_ref().unwrap().len() == DIMENSIONS));
        let mut nothing = Times::default();
        for _ in 0..100 {
            nothing.time(catalog.changes_since(changes.revision, MODEL, 10_000)).await.unwrap();
        }
        nothing.print("no changes");
    }
}

async fn find(catalog: &SqliteCatalog, ids: &[ChunkId]) {
    let mut reading = Times::default();
    for round in 0..500 {
        let some: Vec<_> =
            (0..30).map(|number| ids[(round * 7_919 + number * 104_729) % ids.len()]).collect();
        assert_eq!(reading.time(catalog.chunks(&who(), &some)).await.unwrap().len(), 30);
    }
    reading.print("30 chunks");
    let filter = |field, value: &str| -> Filters { [(field, [value.to_owned()].into())].into() };
    for (what, filters, expected) in [
        ("all documents", Filters::new(), documents()),
        ("a language", filter(FilterField::Language, "rust"), documents() / 2),
        ("a metadata entry", filter(FilterField::Metadata("team".into()), "team 7"), documents() / 20),
        ("a glob", filter(FilterField::FilePath, "folder 1?/**"), documents() / 10),
        ("a collection", filter(FilterField::Collection, "default"), documents()),
        ("a title", filter(FilterField::Title, "About folder 7/file 7.md"), 1),
    ] {
        let mut matching = Times::default();
        for _ in 0..20 {
            let found = matching.time(catalog.matching(&who(), &filters)).await.unwrap();
            assert_eq!(found.documents.len() as u64, expected, "{what}");
        }
        matching.print(&format!("matching {what}"));
    }
}
