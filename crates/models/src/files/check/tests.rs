//! Files that are right, wrong, and stamped.

use super::super::Manifest;
use super::*;

const RIGHT: &[u8] = b"spring";
const WRONG: &[u8] = b"autumn";

/// A model of one file, which holds `RIGHT`.
fn model() -> Model {
    let manifest = format!(
        "[[models]]\nname = 'm'\npurpose = 'chat'\nlicence = 'MIT'\nupstream = 'a/m'\n\
         [[models.files]]\nname = 'f'\nbytes = {}\nsha256 = '{}'\n\
         places = [{{ wheels = [{{ package = 'p', version = '1', path = 'f' }}] }}]",
        RIGHT.len(),
        Sha256::of(&mut { RIGHT }).unwrap()
    );
    Manifest::parse(&manifest).unwrap().models.remove(0)
}

fn write(path: &Path, bytes: &[u8], modified: SystemTime) {
    fs::write(path, bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_hash_and_what_to_do() {
    let (folder, model) = (tempfile::tempdir().unwrap(), model());
    let path = folder.path().join("f");
    let told = |expected: &str| {
        let flaw = check(&path, &model.files[0], Depth::Stamped).unwrap_err();
        let told = UnusableFile::new(&model, &model.files[0], path.clone(), flaw).to_string();
        let sha256 = model.files[0].sha256.to_string();
        for part in [path.to_str().unwrap(), expected, &sha256, "`wellspring models pull m`"] {
            assert!(told.contains(part), "{part:?} is not in: {told}");
        }
    };
    told("is missing");
    fs::write(&path, &RIGHT[1..]).unwrap();
    told("has 5 bytes; expected are 6 bytes");
    fs::write(&path, WRONG).unwrap();
    told(&format!("has the sha256 {}", Sha256::of(&mut { WRONG }).unwrap()));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(check(&path, &model.files[0], Depth::Full), Err(Flaw::Size(_) | Flaw::Unreadable(_))));
}

#[test]
fn a_file_that_was_found_right_is_believed_until_its_time_changes() {
    let (folder, model) = (tempfile::tempdir().unwrap(), model());
    let (path, file) = (folder.path().join("f"), &model.files[0]);
    let then = SystemTime::now() - Duration::from_secs(60);
    write(&path, RIGHT, then);
    assert_eq!(check(&path, file, Depth::Stamped), Ok(()));

    write(&path, WRONG, then);
    assert_eq!(check(&path, file, Depth::Stamped), Ok(()), "the stamp is believed");
    assert!(matches!(check(&path, file, Depth::Full), Err(Flaw::Hash(_))), "and the file is not");

    write(&path, WRONG, then + Duration::from_secs(1));
    assert!(matches!(check(&path, file, Depth::Stamped), Err(Flaw::Hash(_))));
}

#[test]
fn a_file_that_was_just_written_is_read_again() {
    let (folder, model) = (tempfile::tempdir().unwrap(), model());
    let (path, now) = (folder.path().join("f"), SystemTime::now());
    write(&path, RIGHT, now);
    assert_eq!(check(&path, &model.files[0], Depth::Stamped), Ok(()));
    write(&path, WRONG, now);
    assert!(matches!(check(&path, &model.files[0], Depth::Stamped), Err(Flaw::Hash(_))));
}
