//! Damaged files and full disks.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

use domain::{Catalog, StorageErrorKind};
use rusqlite::Connection;
use storage::{Durability, SqliteCatalog};

use super::fixtures::{MODEL, check_integrity, document, open, put, revision};
use crate::damage::LogCapture;
use crate::faults::{Disk, may_mount};
use crate::harness::who;

/// Opens a catalog, and returns what it logged.
fn open_with_log(folder: &Path) -> (SqliteCatalog, String) {
    let log = LogCapture::default();
    let catalog = log.during(|| open(folder));
    (catalog, log.text())
}

/// The databases that were set aside.
fn aside(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_log = |name: &String| name.ends_with("-wal") || name.ends_with("-shm");
    names.filter(|name| name.contains(".corrupt-") && !is_log(name)).collect()
}

/// Checks that a damaged file is set aside and logged, and that the catalog starts empty.
async fn check_set_aside(folder: &Path, damaged: &[u8]) {
    let (catalog, log) = open_with_log(folder);
    let [name] = &aside(folder)[..] else { panic!("{:?}", aside(folder)) };
    assert!(log.contains("ERROR") && log.contains(name.as_str()), "{log}");
    assert_eq!(fs::read(folder.join(name)).unwrap(), damaged);
    assert_eq!(catalog.documents(&who(), None, 0, 9).await, Ok((vec![], 0)));
    put(&catalog, &document("again", &["text"])).await;
    drop(catalog);
    let (_, log) = open_with_log(folder);
    assert!(!log.contains("damaged"), "damage is logged once: {log}");
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_its_followers_start_over() {
    for damage in ["no database", "cut"] {
        let folder = tempfile::tempdir().unwrap();
        let catalog = open(folder.path());
        put(&catalog, &document("a", &["text"])).await;
        let followed = revision(&catalog).await;
        drop(catalog);
        let path = folder.path().join("knowledge.db");
        let mut bytes = fs::read(&path).unwrap();
        match damage {
            "cut" => bytes.truncate(bytes.len() / 2),
            _ => bytes[..100].fill(0xff),
        }
        fs::write(&path, &bytes).unwrap();
        check_set_aside(folder.path(), &bytes).await;
        let changes = open(folder.path()).changes_since(followed, MODEL, 9).await.unwrap();
        assert!(changes.revision == 0 && changes.more, "{changes:?}");
    }
}

#[test]
fn one_of_many_processes_sets_a_damaged_file_aside() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("knowledge.db"), [0xff; 10_000]).unwrap();
        let starting = Arc::new(Barrier::new(4));
        let opener = |_| {
            let (path, starting) = (folder.path().to_owned(), starting.clone());
            thread::spawn(move || {
                starting.wait();
                SqliteCatalog::open(&path, Durability::Process).err()
            })
        };
        let openers: Vec<_> = (0..4).map(opener).collect();
        let refused: Vec<_> = openers.into_iter().filter_map(|opener| opener.join().unwrap()).collect();
        assert!(refused.len() < 4, "{refused:?}");
        assert!(
            refused.iter().all(|error| error.to_string().contains("another process is setting it aside")),
            "{refused:?}"
        );
        assert_eq!(aside(folder.path()).len(), 1);
        open(folder.path());
    }
}

#[tokio::test]
async fn damage_found_while_running_is_an_error_and_the_next_start_sets_the_file_aside() {
    let folder = tempfile::tempdir().unwrap();
    let new = document("a", &["text"]);
    put(&open(folder.path()), &new).await;
    let path = folder.path().join("knowledge.db");
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = 'texts'";
    let page: usize = Connection::open(&path).unwrap().query_row(page, [], |row| row.get(0)).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[(page - 1) * 8192..page * 8192].fill(0xaa);
    fs::write(&path, &bytes).unwrap();

    let catalog = open(folder.path());
    let error = catalog.document(&who(), new.document.id).await.unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Damaged);
    let message = error.to_string();
    assert!(message.starts_with("knowledge.db: ") && message.contains("damaged"), "{message}");
    assert_eq!(catalog.documents(&who(), None, 0, 9).await.unwrap().1, 1, "other tables can be read");
    let second = open(folder.path());
    let message = catalog.put(&who(), vec![document("b", &["text"])]).await.unwrap_err().to_string();
    assert!(message.contains("set aside") && message.contains("restart"), "{message}");
    put(&second, &document("b", &["text"])).await;
    assert_eq!(aside(folder.path()).len(), 1);
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_loses_nothing() {
    if !may_mount("catalog::damage::a_full_disk_refuses_writes_and_loses_nothing") {
        return;
    }
    let disk = Disk::new(2_048);
    let catalog = open(disk.path());
    let before = document("before", &["text"]);
    put(&catalog, &before).await;
    disk.fill();
    let large = document("large", &[&"word ".repeat(100_000)]);
    let error = catalog.put(&who(), vec![large.clone()]).await.unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Full);
    let message = error.to_string();
    assert!(message.starts_with("knowledge.db: ") && message.contains("free space"), "{message}");
    assert!(
        catalog.document(&who(), before.document.id).await.unwrap().is_some(),
        "documents can still be read"
    );
    disk.free();
    put(&catalog, &large).await;
    drop(catalog);
    check_integrity(disk.path());
}

#[test]
fn a_folder_that_cannot_be_created_is_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "no folder").unwrap();
    let Err(error) = SqliteCatalog::open(&path, Durability::Power) else { panic!("it is a file") };
    let message = error.to_string();
    assert!(message.starts_with(path.to_str().unwrap()), "{message}");
}
