//! Walks a folder by the rules of git: `.gitignore`, no hidden files, no links.

use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

use crate::sources::{SkipReason, SourceEntry, SourceError, SourceFile, SourceLimits, skip_rules};

pub(super) struct Walk<'a> {
    /// The canonical path of the folder.
    pub(super) root: &'a Path,
    /// The root as errors show it.
    pub(super) shown: &'a str,
    /// Maximum depth; `None` for the whole tree.
    pub(super) depth: Option<usize>,
    /// Whether the `.gitignore` files of parent folders apply.
    pub(super) is_in_repository: bool,
    pub(super) limits: SourceLimits,
}

impl Walk<'_> {
    /// All files and skipped files, sorted by path.
    pub(super) fn entries(&self) -> Result<Vec<SourceEntry>, SourceError> {
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
            .filter_entry(|entry| !is_skipped_folder(entry))
            .build();
        for found in walk {
            if entries.len() == self.limits.files {
                let path = self.shown.to_owned();
                return Err(SourceError::TooManyFiles { path, limit: self.limits.files });
            }
            entries.extend(match found {
                Ok(found) => self.entry(&found),
                Err(error) => Some(self.failed(&error)),
            });
        }
        Ok(entries)
    }

    fn entry(&self, found: &DirEntry) -> Option<SourceEntry> {
        let kind = found.file_type()?;
        if kind.is_dir() {
            return None;
        }
        let Some(path) = self.path(found.path()) else {
            let path = found.path().to_string_lossy().into_owned();
            return Some(SourceEntry::Failed {
                path,
                message: "its name is not UTF-8: rename it".to_owned(),
            });
        };
        if !kind.is_file() {
            return Some(SourceEntry::Skipped { path, reason: SkipReason::Link });
        }
        let name = path.rsplit('/').next().unwrap_or(&path);
        let is_oversized = || found.metadata().is_ok_and(|metadata| metadata.len() > self.limits.file_bytes);
        let reason =
            skip_rules::by_file_name(name).or_else(|| is_oversized().then_some(SkipReason::Oversized));
        Some(match reason {
            Some(reason) => SourceEntry::Skipped { path, reason },
            None => SourceEntry::File(SourceFile { path, version: None }),
        })
    }

    fn failed(&self, error: &ignore::Error) -> SourceEntry {
        let path = path_of(error).and_then(|path| self.path(path)).unwrap_or_default();
        SourceEntry::Failed { path, message: format!("it cannot be examined: {error}") }
    }

    /// The path relative to the root, with slashes; `None` if it is not UTF-8.
    fn path(&self, path: &Path) -> Option<String> {
        let parts = path.strip_prefix(self.root).ok()?.components();
        let parts = parts.map(|part| part.as_os_str().to_str()).collect::<Option<Vec<_>>>()?;
        Some(parts.join("/"))
    }
}

fn is_skipped_folder(entry: &DirEntry) -> bool {
    let is_folder = entry.depth() > 0 && entry.file_type().is_some_and(|kind| kind.is_dir());
    let name = entry.file_name().to_string_lossy();
    is_folder && (skip_rules::by_folder_name(&name).is_some() || is_cache(entry.path()))
}

/// Whether the folder is marked as a cache, by the `CACHEDIR.TAG` convention.
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
