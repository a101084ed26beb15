use super::super::Manifest;
use super::*;

const RIGHT: &[u8] = b"spring";
const WRONG: &[u8] = b"autumn";

/// A model of one file with the content `RIGHT`.
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
fn a_defect_is_reported_with_the_expected_hash_and_the_command_that_repairs_it() {
    let (folder, model) = (tempfile::tempdir().unwrap(), model());
    let path = folder.path().join("f");
    let check = |expected: &str| {
        let defect = verify(&path, &model.files[0], VerifyMode::TrustStamp).unwrap_err();
        let message = FileError::new(&model, &model.files[0], path.clone(), defect).to_string();
        let sha256 = model.files[0].sha256.to_string();
        for part in [path.to_str().unwrap(), expected, &sha256, "`wellspring models pull m`"] {
            assert!(message.contains(part), "{part:?} is not in: {message}");
        }
    };
    check("is missing");
    fs::write(&path, &RIGHT[1..]).unwrap();
    check("has 5 bytes; expected 6 bytes");
    fs::write(&path, WRONG).unwrap();
    check(&format!("has the sha256 {}", Sha256::of(&mut { WRONG }).unwrap()));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let defect = verify(&path, &model.files[0], VerifyMode::Hash).unwrap_err();
    assert!(matches!(defect, FileDefect::WrongSize(_) | FileDefect::Unreadable(_)), "{defect}");
}

#[test]
fn a_stamp_replaces_hashing_until_the_modification_time_changes() {
    let (folder, model) = (tempfile::tempdir().unwrap(), model());
    let (path, file) = (folder.path().join("f"), &model.files[0]);
    let then = SystemTime::now() - Duration::from_secs(60);
    write(&path, RIGHT, then);
    verify(&path, file, VerifyMode::TrustStamp).unwrap();

    write(&path, WRONG, then);
    verify(&path, file, VerifyMode::TrustStamp).unwrap();
    let hashed = verify(&path, file, VerifyMode::Hash);
    assert!(matches!(hashed, Err(FileDefect::WrongHash(_))), "{hashed:?}");

    write(&path, WRONG, then + Duration::from_secs(1));
    let changed = verify(&path, file, VerifyMode::TrustStamp);
    assert!(matches!(changed, Err(FileDefect::WrongHash(_))), "{changed:?}");
}

#[test]
fn a_file_that_was_just_written_gets_no_stamp() {
    let (folder, model) = (tempfile::tempdir().unwrap(), model());
    let (path, now) = (folder.path().join("f"), SystemTime::now());
    write(&path, RIGHT, now);
    verify(&path, &model.files[0], VerifyMode::TrustStamp).unwrap();
    write(&path, WRONG, now);
    let again = verify(&path, &model.files[0], VerifyMode::TrustStamp);
    assert!(matches!(again, Err(FileDefect::WrongHash(_))), "{again:?}");
}
