//! Lists the files of a commit with their object ids and sizes, from one `git ls-tree`.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use super::git::Git;
use crate::sources::{GitError, SkipReason, SourceEntry, SourceError, SourceFile, SourceLimits, skip_rules};

/// Maximum bytes of a line, which is larger than any path on disk.
const LINE_BYTES: usize = 64 << 10;

/// All entries of a commit, sorted by path.
pub(super) fn entries(
    git: &Git,
    commit: &str,
    limits: SourceLimits,
) -> Result<Vec<SourceEntry>, SourceError> {
    list(git, commit, limits).map_err(|source| SourceError::List { commit: commit.to_owned(), source })
}

fn list(git: &Git, commit: &str, limits: SourceLimits) -> Result<Vec<SourceEntry>, GitError> {
    let mut command = git.command(&["ls-tree", "-r", "-z", "-l", "--full-tree", commit]);
    let mut listing = command.stdout(Stdio::piped()).spawn()?;
    // Reading ends, and so closes the pipe, before the wait, so that git cannot block on a full pipe.
    let entries = listing.stdout.take().map_or(Ok(Vec::new()), |stdout| parse(stdout, limits));
    let status = listing.wait()?;
    let entries = entries?;
    if status.success() { Ok(entries) } else { Err(GitError::Damaged) }
}

fn parse(listing: impl Read, limits: SourceLimits) -> Result<Vec<SourceEntry>, GitError> {
    let mut entries = Vec::new();
    for line in BufReader::new(listing).split(0) {
        let line = line?;
        if entries.len() == limits.files {
            return Err(GitError::TooManyFiles { limit: limits.files });
        }
        if line.len() > LINE_BYTES {
            return Err(GitError::PathTooLong);
        }
        entries.extend(entry(&line, limits));
    }
    Ok(entries)
}

/// Parses `mode kind object size<tab>path`.
fn entry(line: &[u8], limits: SourceLimits) -> Option<SourceEntry> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let fields = std::str::from_utf8(&line[..tab]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let (mode, kind, object, size) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let Ok(path) = std::str::from_utf8(&line[tab + 1..]) else {
        let path = String::from_utf8_lossy(&line[tab + 1..]).into_owned();
        return Some(SourceEntry::Failed { path, message: "its name is not UTF-8: rename it".to_owned() });
    };
    let path = path.to_owned();
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some(SourceEntry::Failed {
            path,
            message: "its path leads out of the repository".to_owned(),
        });
    }
    let is_oversized = || size.parse().is_ok_and(|size: u64| size > limits.file_bytes);
    let reason = if kind != "blob" || mode == "120000" {
        Some(SkipReason::Link)
    } else {
        skip_rules::by_path(&path).or_else(|| is_oversized().then_some(SkipReason::Oversized))
    };
    Some(match reason {
        Some(reason) => SourceEntry::Skipped { path, reason },
        None => SourceEntry::File(SourceFile { path, version: Some(object.to_owned()) }),
    })
}

#[cfg(test)]
mod tests {
    use testing::fuzz;

    use super::*;

    fn check(line: &[u8], expected: &SourceEntry) {
        let limits = SourceLimits { file_bytes: 100, ..SourceLimits::default() };
        assert_eq!(entry(line, limits).as_ref(), Some(expected), "{}", line.escape_ascii());
    }

    fn skipped(path: &str, reason: SkipReason) -> SourceEntry {
        SourceEntry::Skipped { path: path.to_owned(), reason }
    }

    #[test]
    fn a_file_name_may_contain_any_character() {
        for path in ["a.md", "deep/er/a b\n\t.rs", "日本語"] {
            let file = SourceFile { path: path.to_owned(), version: Some("abc".to_owned()) };
            check(format!("100644 blob abc      42\t{path}").as_bytes(), &SourceEntry::File(file));
        }
    }

    #[test]
    fn links_submodules_and_large_files_are_skipped() {
        check(b"120000 blob abc 5\tlink.md", &skipped("link.md", SkipReason::Link));
        check(b"160000 commit abc       -\tmodule", &skipped("module", SkipReason::Link));
        check(b"100644 blob abc 101\tlarge.md", &skipped("large.md", SkipReason::Oversized));
        check(b"100644 blob abc 5\tnode_modules/a.js", &skipped("node_modules/a.js", SkipReason::Generated));
    }

    #[test]
    fn a_path_that_leaves_the_repository_is_rejected() {
        for path in ["../a.md", "a/../../b.md", "a//b.md"] {
            let message = "its path leads out of the repository".to_owned();
            let expected = SourceEntry::Failed { path: path.to_owned(), message };
            check(format!("100644 blob abc 5\t{path}").as_bytes(), &expected);
        }
        assert!(matches!(
            entry(b"100644 blob abc 5\tcaf\xe9.md", SourceLimits::default()),
            Some(SourceEntry::Failed { .. })
        ));
    }

    #[test]
    fn fuzz_nearly_right_listings() {
        let object = "8f94139338f9404f26296befa88755fc2598c289";
        let seeds = [
            format!("100644 blob {object}     234\tdocs/guide.md"),
            format!("120000 blob {object}      12\tlink"),
            format!("160000 commit {object}       -\tmodule"),
        ];
        let seeds: Vec<_> = seeds.iter().map(String::as_bytes).collect();
        fuzz(&seeds, &["\t", "..", "/", "//", "-", "blob", " "], |line| {
            if let Some(SourceEntry::File(file)) = entry(line, SourceLimits::default()) {
                assert!(file.path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{}", file.path);
            }
        });
    }
}
