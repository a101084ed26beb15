//! Atomic writes: a file is written under a temporary name and renamed when it is complete.

use std::fs::{self, DirEntry};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Age after which a temporary file belongs to a process that was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

/// Writes a file, and creates its folder if that is missing. Concurrent writers, in this process or on another machine,
/// use different temporary names; the last rename wins.
pub(super) fn write_atomically(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let part = path.with_extension(format!("{:016x}.part", RandomState::new().hash_one(())));
    let moved = write(&part).and_then(|()| fs::rename(&part, path));
    if moved.is_err() {
        let _ = fs::remove_file(&part);
    }
    moved
}

/// Deletes a temporary file whose writer was killed.
pub(super) fn remove_if_abandoned(file: &DirEntry) {
    let path = file.path();
    let modified = file.metadata().and_then(|metadata| metadata.modified());
    let is_old = modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > ABANDONED_AFTER));
    if is_old && path.extension() == Some("part".as_ref()) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete_and_a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a").join("file.gguf");
        let failed = write_atomically(&path, |part| {
            fs::write(part, "half")?;
            assert!(!path.exists());
            Err(io::Error::other("the disk is full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 0);
        write_atomically(&path, |part| fs::write(part, "whole")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn only_old_temporary_files_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::now() - 2 * ABANDONED_AFTER;
        for (name, is_old) in [("old.7.part", true), ("new.7.part", false), ("old.gguf", true)] {
            let file = File::create(folder.path().join(name)).unwrap();
            if is_old {
                file.set_modified(long_ago).unwrap();
            }
        }
        fs::read_dir(folder.path()).unwrap().flatten().for_each(|file| remove_if_abandoned(&file));
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["new.7.part", "old.gguf"]);
    }
}
