//! Several processes on one folder, as several catalogs: no write is lost, readers do not wait for writers, and a
//! process that dies leaves a consistent file.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

use domain::{Catalog, PutOutcome};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::fixtures::{MODEL, check_integrity, document, embed, open, put, revision};
use crate::harness::who;

#[tokio::test]
async fn concurrent_writers_lose_nothing_and_share_the_revisions() {
    let folder = tempfile::tempdir().unwrap();
    let (documents, mut writers) = (40, JoinSet::new());
    let begun = revision(&open(folder.path())).await;
    for writer in 0..2 {
        let catalog = open(folder.path());
        writers.spawn(async move {
            for number in 0..documents {
                let path = format!("{writer}/{number}");
                assert_eq!(put(&catalog, &document(&path, &["one", "two"])).await, PutOutcome::Added);
                // Both writers put this one.
                let shared = document("shared", &[&path]);
                put(&catalog, &shared).await;
            }
        });
    }
    writers.join_all().await;
    let catalog = open(folder.path());
    let (_, count) = catalog.documents(&who(), None, 0, 1).await.unwrap();
    assert_eq!(count, 2 * documents + 1);
    let changes = catalog.changes_since(0, MODEL, usize::MAX).await.unwrap();
    assert_eq!(changes.added.len() as u64, 2 * 2 * documents + 1);
    assert_eq!(changes.revision, begun + 2 * 2 * documents, "each put had a revision of its own");
    check_integrity(folder.path());
}

#[tokio::test]
async fn a_document_put_by_one_process_is_seen_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let (server, ingest) = (open(folder.path()), open(folder.path()));
    put(&server, &document("a", &["text"])).await;
    embed(&server, 9).await;
    assert_eq!(embed(&server, 9).await, []);
    put(&ingest, &document("b", &["words"])).await;
    assert_eq!(embed(&server, 9).await.len(), 1);
    assert_eq!(revision(&server).await, revision(&ingest).await);
}

#[tokio::test]
async fn readers_do_not_wait_for_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let new = document("a", &["text"]);
    put(&catalog, &new).await;
    let writer = Connection::open(folder.path().join("knowledge.db")).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE; UPDATE documents SET title = 'half done'").unwrap();
    let stored = catalog.document(&who(), new.document.id).await.unwrap().unwrap();
    assert_eq!(stored.document.title, "About a");
    assert_eq!(catalog.chunks(&who(), &[new.chunks[0].id]).await.unwrap().len(), 1);
    assert_eq!(catalog.matching(&who(), &Default::default()).await.unwrap().documents.len(), 1);
    assert_eq!(catalog.changes_since(0, MODEL, 9).await.unwrap().added.len(), 1);
}

#[test]
fn many_processes_can_open_a_new_folder_at_once() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let starting = Arc::new(Barrier::new(4));
        let openers: Vec<_> = (0..4)
            .map(|_| {
                let (path, starting) = (folder.path().to_owned(), starting.clone());
                thread::spawn(move || {
                    starting.wait();
                    drop(open(&path));
                })
            })
            .collect();
        openers.into_iter().for_each(|opener| opener.join().unwrap());
        check_integrity(folder.path());
    }
}

/// A copy of a folder, as a process that is killed now would leave it.
fn crash_copy(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The index of the write-ahead log is rebuilt from the log.
        if !path.ends_with("knowledge.db-shm") {
            fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    copy
}

#[tokio::test]
async fn a_process_that_dies_leaves_whole_revisions_and_the_next_run_completes_them() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let documents: Vec<_> = (0..20)
        .map(|number| document(&format!("{}", number % 7), &["same", &format!("text {number}")]))
        .collect();
    let mut copies = Vec::new();
    for new in &documents {
        put(&catalog, new).await;
        copies.push(crash_copy(folder.path()));
        embed(&catalog, 2).await;
        copies.push(crash_copy(folder.path()));
    }
    let expected = catalog.changes_since(0, MODEL, usize::MAX).await.unwrap().added;
    for (number, copy) in copies.iter().enumerate() {
        tear_the_log(copy.path(), number);
        let survivor = open(copy.path());
        for new in &documents {
            put(&survivor, new).await;
        }
        while !embed(&survivor, 9).await.is_empty() {}
        let mut added = survivor.changes_since(0, MODEL, usize::MAX).await.unwrap().added;
        let mut expected = expected.clone();
        added.sort_by_key(|chunk| chunk.chunk);
        expected.sort_by_key(|chunk| chunk.chunk);
        assert_eq!(added, expected, "copy {number}");
        drop(survivor);
        check_integrity(copy.path());
    }
}

/// Cuts the end off the write-ahead log, like a write that was cut short.
fn tear_the_log(folder: &Path, number: usize) {
    let path = folder.join("knowledge.db-wal");
    let log = fs::read(&path).unwrap_or_default();
    let torn = log.len().saturating_sub(number * 777);
    fs::write(path, &log[..torn]).unwrap();
}
