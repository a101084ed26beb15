//! The digest of all that determines a document's stored form. A document whose digest the catalog has need
//! not be parsed or chunked.

use domain::{DocumentLocation, Metadata, SourceKind};
use ring::digest::{self, Context, SHA256};

use crate::chunk::{ChunkBudget, ChunkStrategy};
use crate::names::DocusaurusSite;

/// Increased whenever the same bytes yield other chunks or names, so that every file is read again.
const FORMAT: &str = "2";

/// The hash of a text, which identifies its content.
pub(super) fn content_version(text: &[u8]) -> String {
    let hash = digest::digest(&SHA256, text);
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The common beginning of all digests: the strategy and the model.
#[derive(Clone)]
pub(super) struct DigestContext(Context);

/// The inputs of a document's digest beside strategy and model.
pub(super) struct DigestInput<'a> {
    pub(super) kind: SourceKind,
    pub(super) place: &'a DocumentLocation,
    /// The path relative to the source, from which the names are derived.
    pub(super) path: &'a str,
    pub(super) title: Option<&'a str>,
    pub(super) metadata: &'a Metadata,
    pub(super) site: Option<&'a DocusaurusSite>,
    /// Identifies the content of the text.
    pub(super) version: &'a str,
}

impl DigestContext {
    /// Chunks depend on the model, because its token counter bounds them.
    pub(super) fn new(strategy: ChunkStrategy, model: &str) -> Self {
        let mut context = Self(Context::new(&SHA256));
        context.add(FORMAT);
        context.add(&strategy_name(strategy));
        context.add(model);
        context
    }

    pub(super) fn digest(&self, document: &DigestInput<'_>) -> [u8; 32] {
        let mut context = self.clone();
        context.add(kind_name(document.kind));
        for text in [&document.place.collection, &document.place.repo_url, &document.place.file_path] {
            context.add(text);
        }
        context.add(document.path);
        context.add(document.version);
        for optional in [
            document.title,
            document.site.map(|site| site.folder.as_str()),
            document.site.map(|site| site.route_base.as_str()),
        ] {
            context.add(if optional.is_some() { "given" } else { "" });
            context.add(optional.unwrap_or_default());
        }
        for (name, value) in document.metadata {
            context.add(name);
            context.add(value);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.0.finish().as_ref());
        digest
    }

    /// Adds a text with its length, so that adjacent texts cannot be confused.
    fn add(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }
}

// The names of kinds and strategies are part of every digest: if one changes, the documents with it are parsed again.

fn kind_name(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Api => "Api",
        SourceKind::Folder => "Folder",
        SourceKind::Git => "Git",
        SourceKind::Web => "Web",
    }
}

fn strategy_name(strategy: ChunkStrategy) -> String {
    match strategy {
        ChunkStrategy::Structure(ChunkBudget { max_tokens, min_tokens }) => {
            format!("Structure(Budget {{ most: {max_tokens}, least: {min_tokens} }})")
        }
        ChunkStrategy::Words => "Words".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "callers create it for this call")]
    fn digest(document: DigestInput<'_>) -> [u8; 32] {
        DigestContext::new(ChunkStrategy::Words, "model").digest(&document)
    }

    #[test]
    fn every_input_changes_the_digest() {
        let place = DocumentLocation {
            collection: "c".to_owned(),
            repo_url: "https://example.org".to_owned(),
            file_path: "docs/a.md".to_owned(),
        };
        let elsewhere = DocumentLocation { collection: "d".to_owned(), ..place.clone() };
        let metadata = Metadata::from([("name".to_owned(), "5".to_owned())]);
        let (none, site) = (Metadata::new(), DocusaurusSite::default());
        let document = || DigestInput {
            kind: SourceKind::Folder,
            place: &place,
            path: "a.md",
            title: Some("Title"),
            metadata: &metadata,
            site: None,
            version: "abc",
        };
        let digests = [
            digest(document()),
            digest(DigestInput { kind: SourceKind::Git, ..document() }),
            digest(DigestInput { place: &elsewhere, ..document() }),
            digest(DigestInput { path: "b.md", ..document() }),
            digest(DigestInput { title: Some(""), ..document() }),
            digest(DigestInput { title: None, ..document() }),
            digest(DigestInput { metadata: &none, ..document() }),
            digest(DigestInput { site: Some(&site), ..document() }),
            digest(DigestInput { version: "abd", ..document() }),
        ];
        for (number, digest) in digests.iter().enumerate() {
            assert!(!digests[..number].contains(digest), "{number}");
        }
        assert_eq!(digests[0], digest(document()));
    }

    #[test]
    fn the_digest_of_a_document_is_stable_between_versions() {
        let place = DocumentLocation {
            collection: "c".to_owned(),
            repo_url: "https://example.org".to_owned(),
            file_path: "docs/a.md".to_owned(),
        };
        let metadata = Metadata::from([("name".to_owned(), "5".to_owned())]);
        let structure = ChunkStrategy::Structure(ChunkBudget { max_tokens: 350, min_tokens: 60 });
        let digest = DigestContext::new(structure, "model").digest(&DigestInput {
            kind: SourceKind::Folder,
            place: &place,
            path: "a.md",
            title: Some("Title"),
            metadata: &metadata,
            site: None,
            version: "abc",
        });
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "b8bde2e93d8c61f7ff9790663fffc8894d03cbb316a931aff1820bde4ea01e30");
    }

    #[test]
    fn strategy_and_model_change_every_digest() {
        let structure = ChunkStrategy::Structure(ChunkBudget::default());
        let contexts = [(ChunkStrategy::Words, "model"), (structure, "model"), (structure, "other")];
        let digests = contexts
            .map(|(strategy, model)| DigestContext::new(strategy, model).0.finish().as_ref().to_vec());
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
    }
}
