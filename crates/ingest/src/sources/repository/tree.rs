//! The files of a commit, with their objects and sizes, told by git in one answer.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::command::Git;
use crate::sources::{Entry, File, Limits, Skip, SourceError, rules};

/// Bytes of one line; a path cannot be that long.
const LINE_BYTES: usize = 64 << 10;

/// All entries of a commit, by path.
pub(super) fn entries(git: &Git, commit: &str, limits: Limits) -> Result<Vec<Entry>, SourceError> {
    let failed =
        |reason: &str| SourceError(format!("the files of commit {commit} cannot be listed: {reason}"));
    let listing =
        git.command(&["ls-tree", "-r", "-z", "-l", "--full-tree", commit]).stdout(Stdio::piped()).spawn();
    let mut listing = listing.map_err(|error| failed(&error.to_string()))?;
    let told = listing.stdout.take().map(BufReader::new);
    let mut lines = told.into_iter().flat_map(|told| told.split(0));
    let mut entries = Vec::new();
    let problem = loop {
        match lines.next() {
            None => break None,
            Some(Err(error)) => break Some(error.to_string()),
            Some(Ok(_)) if entries.len() == limits.files => {
                break Some(format!("there are more than {}", limits.files));
            }
            Some(Ok(line)) if line.len() > LINE_BYTES => break Some("a path is too long".to_owned()),
            Some(Ok(line)) => entries.extend(entry(&line, limits)),
        }
    };
    drop(lines);
    let ended = listing.wait().map_err(|error| failed(&error.to_string()))?;
    match problem {
        Some(problem) => Err(failed(&problem)),
        None if !ended.success() => Err(failed("git says that the repository is damaged")),
        None => Ok(entries),
    }
}

/// `mode kind object size<tab>path`.
fn entry(line: &[u8], limits: Limits) -> Option<Entry> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let about = std::str::from_utf8(&line[..tab]).ok()?;
    let mut about = about.split_ascii_whitespace();
    let (mode, kind, object, size) = (about.next()?, about.next()?, about.next()?, about.next()?);
    let Ok(path) = std::str::from_utf8(&line[tab + 1..]) else {
        let path = String::from_utf8_lossy(&line[tab + 1..]).into_owned();
        return Some(Entry::Failed { path, message: "its name is not UTF-8: rename it".to_owned() });
    };
    let path = path.to_owned();
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some(Entry::Failed { path, message: "its path leads out of the repository".to_owned() });
    }
    let is_oversized = || size.parse().is_ok_and(|size: u64| size > limits.file_bytes);
    let reason = if kind != "blob" || mode == "120000" {
        Some(Skip::Link)
    } else {
        rules::of_path(&path).or_else(|| is_oversized().then_some(Skip::Oversized))
    };
    Some(match reason {
        Some(reason) => Entry::Skipped { path, reason },
        None => Entry::File(File { path, version: Some(object.to_owned()) }),
    })
}

#[cfg(test)]
mod tests {
    use testing::fuzz;

    use super::*;

    fn check(line: &[u8], expected: &Entry) {
        let limits = Limits { file_bytes: 100, ..Limits::default() };
        assert_eq!(entry(line, limits).as_ref(), Some(expected), "{}", line.escape_ascii());
    }

    fn skipped(path: &str, reason: Skip) -> Entry {
        Entry::Skipped { path: path.to_owned(), reason }
    }

    #[test]
    fn a_line_is_a_file_whatever_its_name() {
        for path in ["a.md", "deep/er/a b\n\t.rs", "日本語"] {
            let file = File { path: path.to_owned(), version: Some("abc".to_owned()) };
            check(format!("100644 blob abc      42\t{path}").as_bytes(), &Entry::File(file));
        }
    }

    #[test]
    fn links_modules_and_large_files_are_left_out() {
        check(b"120000 blob abc 5\tlink.md", &skipped("link.md", Skip::Link));
        check(b"160000 commit abc       -\tmodule", &skipped("module", Skip::Link));
        check(b"100644 blob abc 101\tlarge.md", &skipped("large.md", Skip::Oversized));
        check(b"100644 blob abc 5\tnode_modules/a.js", &skipped("node_modules/a.js", Skip::Generated));
    }

    #[test]
    fn a_path_that_leads_out_is_refused() {
        for path in ["../a.md", "a/../../b.md", "a//b.md"] {
            let message = "its path leads out of the repository".to_owned();
            let expected = Entry::Failed { path: path.to_owned(), message };
            check(format!("100644 blob abc 5\t{path}").as_bytes(), &expected);
        }
        assert!(matches!(
            entry(b"100644 blob abc 5\tcaf\xe9.md", Limits::default()),
            Some(Entry::Failed { .. })
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
            if let Some(Entry::File(file)) = entry(line, Limits::default()) {
                assert!(file.path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{}", file.path);
            }
        });
    }
}
