//! Files that are damaged and disks that are full.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

use domain::Catalog;
use rusqlite::Connection;
use storage::{Durability, Knowledge};

use super::library::{MODEL, check_integrity, document, open, put, revision};
use crate::damage::Said;
use crate::faults::{Disk, may_mount};
use crate::world::who;

/// Opens a catalog, and tells what it said.
fn open_and_hear(folder: &Path) -> (Knowledge, String) {
    let said = Said::default();
    let knowledge = said.hear(|| open(folder));
    (knowledge, said.text())
}

/// The databases that were set aside.
fn aside(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_log = |name: &String| name.ends_with("-wal") || name.ends_with("-shm");
    names.filter(|name| name.contains(".corrupt-") && !is_log(name)).collect()
}

/// Checks that a damaged file is set aside and named, and that the catalog begins anew.
async fn check_that_it_is_set_aside(folder: &Path, damaged: &[u8]) {
    let (knowledge, said) = open_and_hear(folder);
    let [name] = &aside(folder)[..] else { panic!("{:?}", aside(folder)) };
    assert!(said.contains("ERROR") && said.contains(name.as_str()), "{said}");
    assert_eq!(fs::read(folder.join(name)).unwrap(), damaged);
    assert_eq!(knowledge.documents(&who(), None, 0, 9).await, Ok((vec![], 0)));
    put(&knowledge, &document("again", &["text"])).await;
    drop(knowledge);
    let (_, said) = open_and_hear(folder);
    assert!(!said.contains("damaged"), "it is told once: {said}");
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_whoever_followed_it_begins_anew() {
    for damage in ["no database", "cut"] {
        let folder = tempfile::tempdir().unwrap();
        let knowledge = open(folder.path());
        put(&knowledge, &document("a", &["text"])).await;
        let followed = revision(&knowledge).await;
        drop(knowledge);
        let path = folder.path().join("knowledge.db");
        let mut bytes = fs::read(&path).unwrap();
        match damage {
            "cut" => bytes.truncate(bytes.len() / 2),
            _ => bytes[..100].fill(0xff),
        }
        fs::write(&path, &bytes).unwrap();
        check_that_it_is_set_aside(folder.path(), &bytes).await;
        let changes = open(folder.path()).changes_since(followed, MODEL, 9).await.unwrap();
        assert!(changes.revision == 0 && changes.more, "{changes:?}");
    }
}

#[test]
fn of_many_who_open_a_damaged_file_at_once_one_sets_it_aside() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("knowledge.db"), [0xff; 10_000]).unwrap();
        let starting = Arc::new(Barrier::new(4));
        let opener = |_| {
            let (path, starting) = (folder.path().to_owned(), starting.clone());
            thread::spawn(move || {
                starting.wait();
                Knowledge::open(&path, Durability::Process).err()
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
async fn damage_that_shows_later_is_an_error_and_the_next_start_sets_the_file_aside() {
    let folder = tempfile::tempdir().unwrap();
    let new = document("a", &["text"]);
    put(&open(folder.path()), &new).await;
    let path = folder.path().join("knowledge.db");
    let page = "SELECT rootpage FROM sqlite_schema WHERE name = 'texts'";
    let page: usize = Connection::open(&path).unwrap().query_row(page, [], |row| row.get(0)).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[(page - 1) * 8192..page * 8192].fill(0xaa);
    fs::write(&path, &bytes).unwrap();

    let knowledge = open(folder.path());
    let message = knowledge.document(&who(), new.document.id).await.unwrap_err().to_string();
    assert!(message.starts_with("knowledge.db: ") && message.contains("damaged"), "{message}");
    assert_eq!(knowledge.documents(&who(), None, 0, 9).await.unwrap().1, 1, "the rest goes on");
    let beside = open(folder.path());
    let message = knowledge.put(&who(), vec![document("b", &["text"])]).await.unwrap_err().to_string();
    assert!(message.contains("set aside") && message.contains("restart"), "{message}");
    put(&beside, &document("b", &["text"])).await;
    assert_eq!(aside(folder.path()).len(), 1);
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing_until_there_is_room() {
    if !may_mount("knowledge::damage::a_full_disk_refuses_and_loses_nothing_until_there_is_room") {
        return;
    }
    let disk = Disk::new(2_048);
    let knowledge = open(disk.path());
    let before = document("before", &["text"]);
    put(&knowledge, &before).await;
    disk.fill();
    let large = document("large", &[&"word ".repeat(100_000)]);
    let message = knowledge.put(&who(), vec![large.clone()]).await.unwrap_err().to_string();
    assert!(message.starts_with("knowledge.db: ") && message.contains("make room"), "{message}");
    assert!(knowledge.document(&who(), before.document.id).await.unwrap().is_some(), "reading goes on");
    disk.free();
    put(&knowledge, &large).await;
    drop(knowledge);
    check_integrity(disk.path());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "no folder").unwrap();
    let Err(error) = Knowledge::open(&path, Durability::Power) else { panic!("it is a file") };
    let message = error.to_string();
    assert!(message.starts_with(path.to_str().unwrap()), "{message}");
}
