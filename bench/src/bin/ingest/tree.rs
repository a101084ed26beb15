//! A synthetic tree of files: pieces of this project's own documents and code, each file different.

use std::fs;
use std::path::{Path, PathBuf};

const PROSE: &str = include_str!("../../../../ARCHITECTURE.md");
const CODE: &str = include_str!("../../../../crates/ingest/src/pipeline/read.rs");

/// Lines of a file.
const LINES: usize = 60;

/// Writes the files, one of prose for every three of code, and returns their folder.
pub(crate) fn grow(root: &Path, files: usize) -> PathBuf {
    for number in 0..files {
        let (text, extension) = if number % 4 == 0 { (PROSE, "md") } else { (CODE, "rs") };
        let lines: Vec<&str> = text.lines().collect();
        let first = number * 7 % (lines.len() - LINES);
        let folder = root.join(format!("part{}", number % 50));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let comment = if extension == "md" { "#" } else { "//" };
        let text = format!("{comment} File {number}\n\n{}\n", lines[first..first + LINES].join("\n"));
        fs::write(folder.join(format!("file{number}.{extension}")), text).expect("a file can be written");
    }
    root.to_owned()
}
