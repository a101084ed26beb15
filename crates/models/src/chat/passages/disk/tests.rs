use super::*;

fn key(number: i32) -> Key {
    Key::of_model(&[]).followed_by(&[number])
}

fn put(disk: &mut Disk, key: Key, state: &State) {
    write(&disk.path(key), key, state).unwrap();
    disk.note_written(key, state).unwrap();
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
    put(&mut disk, key(1), &state(1));
    assert!(disk.has(key(1)) && !disk.has(key(2)));
    let mut disk = Disk::open(folder.path().to_owned(), 1 << 20).unwrap();
    assert_eq!(disk.bytes(), SIZE);
    assert!(disk.get(key(1)) == Some(state(1)));
    assert!(disk.get(key(2)).is_none());
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
        put(&mut disk, key(1), &state(1));
        let path = disk.path(key(1));
        let mut file = fs::read(&path).unwrap();
        damage(&mut file);
        fs::write(&path, file).unwrap();
        assert!(disk.get(key(1)).is_none());
        assert!(!path.exists());
        assert_eq!(disk.bytes(), 0);
    }
    // A whole file under the name of another.
    put(&mut disk, key(1), &state(1));
    put(&mut disk, key(2), &state(2));
    fs::copy(disk.path(key(2)), disk.path(key(1))).unwrap();
    assert!(disk.get(key(1)).is_none());
    assert!(disk.get(key(2)).is_some());
}

#[test]
fn the_folder_stays_within_its_bytes_and_those_used_longest_ago_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(folder.path().to_owned(), 40 * SIZE).unwrap();
    for number in 0..10_000 {
        put(&mut disk, key(number), &state(1));
        assert!(disk.bytes() <= 40 * SIZE);
        if number % 20 == 0 {
            // One that is used again and again stays.
            assert!(disk.get(key(0)).is_some(), "{number}");
        }
        if number % 1_000 == 0 {
            assert!(on_disk(folder.path()) <= 40 * SIZE);
        }
    }
    assert!(disk.get(key(0)).is_some());
    let smaller = Disk::open(folder.path().to_owned(), 2 * SIZE).unwrap();
    assert_eq!((smaller.bytes(), on_disk(folder.path())), (2 * SIZE, 2 * SIZE));
    assert!(smaller.has(key(0)));
}

#[test]
fn what_another_process_wrote_is_found_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = Disk::open(folder.path().to_owned(), 100 * SIZE).unwrap();
    let mut theirs = Disk::open(folder.path().to_owned(), 100 * SIZE).unwrap();
    put(&mut theirs, key(1), &state(1));
    assert!(ours.has(key(1)) && ours.get(key(1)).is_some());
    assert_eq!(ours.bytes(), SIZE);
}

#[test]
fn what_somebody_is_writing_is_neither_used_nor_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(folder.path().to_owned(), 1 << 20).unwrap();
    put(&mut disk, key(1), &state(1));
    let part = disk.path(key(1)).with_extension("77.part");
    fs::write(&part, [1; 100]).unwrap();
    let disk = Disk::open(folder.path().to_owned(), 1 << 20).unwrap();
    assert_eq!(disk.bytes(), SIZE);
    assert!(part.exists());
}
