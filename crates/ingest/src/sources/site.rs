//! The Docusaurus site whose settings lie in a source's root.

use super::{Entry, File, Unread};
use crate::media;
use crate::names::Site;

/// The site that is asked for, else the one whose settings are among these entries.
pub(super) fn of(
    asked: Option<&Site>,
    entries: &[Entry],
    read: impl FnOnce(&File) -> Result<Vec<u8>, Unread>,
) -> Option<Site> {
    if let Some(asked) = asked {
        return Some(asked.clone());
    }
    let settings = entries.iter().find_map(|entry| match entry {
        Entry::File(file) if is_settings(&file.path) => Some(file),
        Entry::File(_) | Entry::Skipped { .. } | Entry::Failed { .. } => None,
    })?;
    let bytes = read(settings).unwrap_or_default();
    Some(Site::with_settings(media::decode(&bytes).unwrap_or_default()))
}

fn is_settings(path: &str) -> bool {
    path.strip_prefix("docusaurus.config.").is_some_and(|extension| !extension.contains('/'))
}
