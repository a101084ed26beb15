//! Finds the configuration of a Docusaurus site in the root of a source.

use super::{ReadError, SourceEntry, SourceFile};
use crate::media;
use crate::names::DocusaurusSite;

/// The given site, or else the one whose `docusaurus.config.*` is among the entries.
pub(super) fn find_site(
    given: Option<&DocusaurusSite>,
    entries: &[SourceEntry],
    read: impl FnOnce(&SourceFile) -> Result<Vec<u8>, ReadError>,
) -> Option<DocusaurusSite> {
    if let Some(given) = given {
        return Some(given.clone());
    }
    let config = entries.iter().find_map(|entry| match entry {
        SourceEntry::File(file) if is_config(&file.path) => Some(file),
        SourceEntry::File(_) | SourceEntry::Skipped { .. } | SourceEntry::Failed { .. } => None,
    })?;
    let bytes = read(config).unwrap_or_default();
    Some(DocusaurusSite::from_config(media::decode(&bytes).unwrap_or_default()))
}

fn is_config(path: &str) -> bool {
    path.strip_prefix("docusaurus.config.").is_some_and(|extension| !extension.contains('/'))
}
