//! Whether a root is that of a Docusaurus site, and where its pages are shown.

use crate::names::Site;

/// Whether this is the name of a site's settings.
pub(super) fn is_config(name: &str) -> bool {
    name.strip_prefix("docusaurus.config.").is_some_and(|extension| !extension.contains('/'))
}

/// The site that is asked for, else the one whose settings lie in the root.
pub(super) fn of<'a>(asked: Option<&Site>, mut names: impl Iterator<Item = &'a str>) -> Option<Site> {
    asked.cloned().or_else(|| names.any(is_config).then(Site::default))
}
