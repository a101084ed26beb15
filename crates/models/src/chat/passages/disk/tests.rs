use testing::fuzz;

use super::*;

fn key(number: i32) -> Key {
    Key::of_model(&[]).followed_by(&[number])
}

fn place(disk: &Disk, key: Key) -> PathBuf {
    path(&disk.folder, key)
}

/// What there is of a state, which is used.
fn get(disk: &mut Disk, key: Key) -> Option<State> {
    let Place::Has(state) = read(&disk.folder, key) else { return None };
    disk.note_used(key);
    Some(state)
}

fn state(number: u8) -> State {
    State { tokens: 3, bytes: vec![number; 1_000] }
}

const SIZE: u64 = 1_000 + HEAD_BYTES as u64;

fn on_disk(folder: &Path) -> u64 {
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn what_was_written_is_there_after_a_restart_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(folder.path().to_owned(), 1 << 20).unwrap();
    disk.put(key(1), &state(1)).unwrap();
    assert!(place(&disk, key(1)).exists() && !place(&disk, key(2)).exists());
    let mut disk = Disk::open(folder.path().to_owned(), 1 << 20).unwrap();
    assert_eq!(disk.bytes(), SIZE);
    assert!(get(&mut disk, key(1)) == Some(state(1)));
    assert!(get(&mut disk, key(2)).is_none());
}

#[test]
fn a_damaged_or_foreign_file_is_never_used_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(folder.path().to_owned(), 1 << 20).unwrap();
    let damages: [fn(&mut Vec<u8>); 6] = [
        |file| file.truncate(HEAD_BYTES - 1),
        |file| file.truncate(500),
        |file| file.clear(),
        |file| file.push(0),
        |file| file[0] ^= 1,
        |file| file[700] ^= 64,
    ];
    for damage in damages {
        disk.put(key(1), &state(1)).unwrap();
        let path = place(&disk, key(1));
        let mut file = fs::read(&path).unwrap();
        damage(&mut file);
        fs::write(&path, file).unwrap();
        assert!(read(folder.path(), key(1)) == Place::Damaged);
        disk.remove(key(1));
        assert!(read(folder.path(), key(1)) == Place::Empty);
        assert_eq!(disk.bytes(), 0);
    }
    // A whole file under the name of another.
    disk.put(key(1), &state(1)).unwrap();
    disk.put(key(2), &state(2)).unwrap();
    fs::copy(place(&disk, key(2)), place(&disk, key(1))).unwrap();
    assert!(get(&mut disk, key(1)).is_none());
    assert!(get(&mut disk, key(2)).is_some());
}

#[test]
fn the_folder_stays_within_its_bytes_and_those_used_longest_ago_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(folder.path().to_owned(), 40 * SIZE).unwrap();
    for number in 0..10_000 {
        disk.put(key(number), &state(1)).unwrap();
        assert!(disk.bytes() <= 40 * SIZE);
        if number % 20 == 0 {
            // One that is used again and again stays.
            assert!(get(&mut disk, key(0)).is_some(), "{number}");
        }
        if number % 1_000 == 0 {
            assert!(on_disk(folder.path()) <= 40 * SIZE);
        }
    }
    assert!(get(&mut disk, key(0)).is_some());
    let smaller = Disk::open(folder.path().to_owned(), 2 * SIZE).unwrap();
    assert_eq!((smaller.bytes(), on_disk(folder.path())), (2 * SIZE, 2 * SIZE));
    assert!(place(&smaller, key(0)).exists());
}

#[test]
fn what_another_process_wrote_is_found_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = Disk::open(folder.path().to_owned(), 100 * SIZE).unwrap();
    let mut theirs = Disk::open(folder.path().to_owned(), 100 * SIZE).unwrap();
    theirs.put(key(1), &state(1)).unwrap();
    assert!(place(&ours, key(1)).exists() && get(&mut ours, key(1)).is_some());
    assert_eq!(ours.bytes(), SIZE);
}

#[test]
fn what_somebody_is_writing_is_neither_used_nor_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(folder.path().to_owned(), 1 << 20).unwrap();
    disk.put(key(1), &state(1)).unwrap();
    let part = place(&disk, key(1)).with_extension("77.part");
    fs::write(&part, [1; 100]).unwrap();
    let disk = Disk::open(folder.path().to_owned(), 1 << 20).unwrap();
    assert_eq!(disk.bytes(), SIZE);
    assert!(part.exists());
}

#[test]
fn fuzz_nearly_right_files() {
    let right = State { tokens: 3, bytes: vec![7; 60] };
    let (head, checksum) = head(key(1), &right);
    let file = [head.as_slice(), &checksum.to_le_bytes(), &right.bytes].concat();
    assert!(unpack(key(1), &file) == Some(right.clone()));
    fuzz(&[&file], &["wsstate1"], |bytes| {
        assert!(unpack(key(1), bytes).is_none_or(|state| bytes == file && state == right));
    });
}
