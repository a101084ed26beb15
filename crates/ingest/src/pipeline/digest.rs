//! A digest of everything that goes into a document: whoever has the digest need not parse or cut it again.

use domain::{DocumentLocation, Metadata};
use ring::digest::{self, Context, SHA256};

use crate::chunk::Strategy;
use crate::names::Site;

/// Counted up whenever the same bytes come to other chunks or names, so that files are read again.
const FORMAT: &str = "2";

/// What names a text exactly.
pub(super) fn of_text(text: &[u8]) -> String {
    let hash = digest::digest(&SHA256, text);
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How documents are cut: what all their digests begin with.
#[derive(Clone)]
pub(super) struct Recipe(Context);

/// What goes into a document beside how it is cut.
pub(super) struct Ingredients<'a> {
    pub(super) kind: domain::SourceKind,
    pub(super) place: &'a DocumentLocation,
    /// The path that its names are made of.
    pub(super) path: &'a str,
    pub(super) title: Option<&'a str>,
    pub(super) metadata: &'a Metadata,
    pub(super) site: Option<&'a Site>,
    /// What names its text exactly.
    pub(super) version: &'a str,
}

impl Recipe {
    /// Tokens are counted as a model does, so chunks depend on the model.
    pub(super) fn new(strategy: Strategy, model: &str) -> Self {
        let mut recipe = Self(Context::new(&SHA256));
        recipe.add(FORMAT);
        recipe.add(&format!("{strategy:?}"));
        recipe.add(model);
        recipe
    }

    pub(super) fn digest(&self, document: &Ingredients<'_>) -> [u8; 32] {
        let mut recipe = self.clone();
        recipe.add(&format!("{:?}", document.kind));
        for text in [&document.place.collection, &document.place.repo_url, &document.place.file_path] {
            recipe.add(text);
        }
        recipe.add(document.path);
        recipe.add(document.version);
        for optional in [
            document.title,
            document.site.map(|site| site.folder.as_str()),
            document.site.map(|site| site.route_base.as_str()),
        ] {
            recipe.add(if optional.is_some() { "given" } else { "" });
            recipe.add(optional.unwrap_or_default());
        }
        for (name, value) in document.metadata {
            recipe.add(name);
            recipe.add(value);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(recipe.0.finish().as_ref());
        digest
    }

    /// Adds a text with its length, so that texts cannot run into each other.
    fn add(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Budget;

    #[expect(clippy::needless_pass_by_value, reason = "it is made for this call")]
    fn digest(document: Ingredients<'_>) -> [u8; 32] {
        Recipe::new(Strategy::Words, "model").digest(&document)
    }

    #[test]
    fn everything_that_goes_into_a_document_changes_its_digest() {
        let place = DocumentLocation {
            collection: "c".to_owned(),
            repo_url: "https://example.org".to_owned(),
            file_path: "docs/a.md".to_owned(),
        };
        let elsewhere = DocumentLocation { collection: "d".to_owned(), ..place.clone() };
        let metadata = Metadata::from([("name".to_owned(), "5".to_owned())]);
        let (none, site) = (Metadata::new(), Site::default());
        let document = || Ingredients {
            kind: domain::SourceKind::Folder,
            place: &place,
            path: "a.md",
            title: Some("Title"),
            metadata: &metadata,
            site: None,
            version: "abc",
        };
        let digests = [
            digest(document()),
            digest(Ingredients { kind: domain::SourceKind::Git, ..document() }),
            digest(Ingredients { place: &elsewhere, ..document() }),
            digest(Ingredients { path: "b.md", ..document() }),
            digest(Ingredients { title: Some(""), ..document() }),
            digest(Ingredients { title: None, ..document() }),
            digest(Ingredients { metadata: &none, ..document() }),
            digest(Ingredients { site: Some(&site), ..document() }),
            digest(Ingredients { version: "abd", ..document() }),
        ];
        for (number, digest) in digests.iter().enumerate() {
            assert!(!digests[..number].contains(digest), "{number}");
        }
        assert_eq!(digests[0], digest(document()));
    }

    #[test]
    fn how_documents_are_cut_changes_all_digests() {
        let structure = Strategy::Structure(Budget::default());
        let recipes = [(Strategy::Words, "model"), (structure, "model"), (structure, "other")];
        let digests =
            recipes.map(|(strategy, model)| Recipe::new(strategy, model).0.finish().as_ref().to_vec());
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
    }
}
