use std::path::Path;

use testing::fuzz;

use super::*;

fn key(number: i32) -> CacheKey {
    CacheKey::of_model(&[]).followed_by(&[number])
}

fn state(number: u8) -> KvState {
    KvState { tokens: 3, bytes: vec![number; 1_000] }
}

const SIZE: u64 = 1_000 + HEADER_BYTES as u64;

fn open(folder: &Path, max_bytes: u64) -> DiskTier {
    DiskTier::open(folder.to_owned(), max_bytes).unwrap()
}

fn on_disk(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn states_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = open(folder.path(), 1 << 20);
    disk.put(key(1), &state(1)).unwrap();
    assert!(disk.contains(key(1)) && !disk.contains(key(2)));
    let mut disk = open(folder.path(), 1 << 20);
    assert_eq!(disk.bytes(), SIZE);
    assert!(disk.get(key(1)) == Some(state(1)));
    assert!(disk.get(key(2)).is_none());
}

#[test]
fn a_damaged_or_foreign_file_is_deleted_and_never_used() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = open(folder.path(), 1 << 20);
    let damages: [fn(&mut Vec<u8>); 6] = [
        |file| file.truncate(HEADER_BYTES - 1),
        |file| file.truncate(500),
        |file| file.clear(),
        |file| file.push(0),
        |file| file[0] ^= 1,
        |file| file[700] ^= 64,
    ];
    for damage in damages {
        disk.put(key(1), &state(1)).unwrap();
        let path = disk.path(key(1));
        let mut file = fs::read(&path).unwrap();
        damage(&mut file);
        fs::write(&path, file).unwrap();
        assert!(disk.get(key(1)).is_none());
        assert!(!path.exists());
        assert_eq!(disk.bytes(), 0);
    }
    // An intact file under the name of another.
    disk.put(key(1), &state(1)).unwrap();
    disk.put(key(2), &state(2)).unwrap();
    fs::copy(disk.path(key(2)), disk.path(key(1))).unwrap();
    assert!(disk.get(key(1)).is_none());
    assert!(disk.get(key(2)).is_some());
}

#[test]
fn the_folder_stays_within_its_bound_and_the_least_recently_used_are_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = open(folder.path(), 40 * SIZE);
    for number in 0..10_000 {
        disk.put(key(number), &state(1)).unwrap();
        assert!(disk.bytes() <= 40 * SIZE);
        if number % 20 == 0 {
            // A state in use stays.
            assert!(disk.get(key(0)).is_some(), "{number}");
        }
        if number % 1_000 == 0 {
            assert!(on_disk(folder.path()) <= 40 * SIZE);
        }
    }
    assert!(disk.get(key(0)).is_some());
    let smaller = open(folder.path(), 2 * SIZE);
    assert_eq!((smaller.bytes(), on_disk(folder.path())), (2 * SIZE, 2 * SIZE));
    assert!(smaller.contains(key(0)));
}

#[test]
fn files_of_another_process_are_used_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ours, mut theirs) = (open(folder.path(), 100 * SIZE), open(folder.path(), 100 * SIZE));
    theirs.put(key(1), &state(1)).unwrap();
    assert!(ours.contains(key(1)) && ours.get(key(1)).is_some());
    (2..9).for_each(|number| ours.put(key(number), &state(1)).unwrap());
    assert_eq!(ours.bytes(), 8 * SIZE);
}

#[test]
fn processes_that_share_a_folder_keep_it_within_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let mut processes = [open(folder.path(), 40 * SIZE), open(folder.path(), 40 * SIZE)];
    for number in 0..1_000 {
        processes[usize::try_from(number % 2).unwrap()].put(key(number), &state(1)).unwrap();
        // Between two scans, each may have written a share of the bound.
        assert!(on_disk(folder.path()) <= 40 * SIZE + 2 * (40 * SIZE / SCAN_SHARE + SIZE), "{number}");
    }
}

#[test]
fn a_file_that_is_being_written_is_neither_used_nor_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = open(folder.path(), 1 << 20);
    disk.put(key(1), &state(1)).unwrap();
    let part = disk.path(key(1)).with_extension("77.part");
    fs::write(&part, [1; 100]).unwrap();
    assert_eq!(open(folder.path(), 1 << 20).bytes(), SIZE);
    assert!(part.exists());
}

#[test]
fn fuzz_nearly_right_files() {
    let right = KvState { tokens: 3, bytes: vec![7; 60] };
    let file = [header(key(1), &right).as_slice(), &right.bytes].concat();
    assert!(decode(key(1), &file) == Some(right.clone()));
    fuzz(&[&file], &["wsprefx1"], |bytes| {
        assert!(decode(key(1), bytes).is_none_or(|state| bytes == file && state == right));
    });
}
