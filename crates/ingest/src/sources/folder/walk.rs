//! Walks a folder by the rules that git and everybody else know: `.gitignore`, hidden files, no links.

use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

use crate::sources::{Entry, File, Limits, Skip, SourceError, rules};

/// A folder that is to be walked.
pub(super) struct Walk<'a> {
    /// It has no links in it.
    pub(super) root: &'a Path,
    /// How deep; none for all of it.
    pub(super) depth: Option<usize>,
    /// Whether what the folders above it say holds in it.
    pub(super) is_in_repository: bool,
    pub(super) limits: Limits,
}

impl Walk<'_> {
    /// All entries, by path.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, SourceError> {
        let mut entries = Vec::new();
        let walk = WalkBuilder::new(self.root)
            .max_depth(self.depth)
            .hidden(false)
            .ignore(false)
            .git_global(false)
            .require_git(false)
            .parents(self.is_in_repository)
            .follow_links(false)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(|entry| !is_left_out_folder(entry))
            .build();
        for found in walk {
            if entries.len() == self.limits.files {
                let files = self.limits.files;
                return Err(SourceError(format!("it has more than {files} files: read a part of it")));
            }
            entries.extend(match found {
                Ok(found) => self.entry(&found),
                Err(error) => Some(self.failed(&error)),
            });
        }
        Ok(entries)
    }

    fn entry(&self, found: &DirEntry) -> Option<Entry> {
        let kind = found.file_type()?;
        if kind.is_dir() {
            return None;
        }
        let Some(path) = self.path(found.path()) else {
            let path = found.path().to_string_lossy().into_owned();
            return Some(Entry::Failed { path, message: "its name is not UTF-8: rename it".to_owned() });
        };
        if !kind.is_file() {
            return Some(Entry::Skipped { path, reason: Skip::Link });
        }
        let name = path.rsplit('/').next().unwrap_or(&path);
        let is_oversized = || found.metadata().is_ok_and(|about| about.len() > self.limits.file_bytes);
        let reason = rules::of_file(name).or_else(|| is_oversized().then_some(Skip::Oversized));
        Some(match reason {
            Some(reason) => Entry::Skipped { path, reason },
            None => Entry::File(File { path, version: None }),
        })
    }

    fn failed(&self, error: &ignore::Error) -> Entry {
        let path = path_of(error).and_then(|path| self.path(path)).unwrap_or_default();
        Entry::Failed { path, message: format!("it cannot be looked at: {error}") }
    }

    /// A path in the folder, with slashes.
    fn path(&self, path: &Path) -> Option<String> {
        let parts = path.strip_prefix(self.root).ok()?.components();
        let parts = parts.map(|part| part.as_os_str().to_str()).collect::<Option<Vec<_>>>()?;
        Some(parts.join("/"))
    }
}

fn is_left_out_folder(entry: &DirEntry) -> bool {
    let is_folder = entry.depth() > 0 && entry.file_type().is_some_and(|kind| kind.is_dir());
    let name = entry.file_name().to_string_lossy();
    is_folder && (rules::of_folder(&name).is_some() || is_cache(entry.path()))
}

/// Whether a program says of a folder that it can be made again.
fn is_cache(folder: &Path) -> bool {
    folder.join("CACHEDIR.TAG").is_file()
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _ => None,
    }
}
