//! The label that every commit carries: the format of the index, the revision and the embedding model. It is
//! committed with the revision, so that after a crash it describes exactly what is there.

use std::fmt;

/// Version of the index's format: how texts become terms, how rows are stored, which files there are. An
/// index of another version has to be rebuilt.
const FORMAT_VERSION: u32 = 1;

/// The label of a commit, written as `FORMAT REVISION MODEL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitLabel {
    format_version: u32,
    pub(crate) revision: u64,
    pub(crate) model: String,
}

impl CommitLabel {
    pub(crate) fn new(revision: u64, model: &str) -> Self {
        Self { format_version: FORMAT_VERSION, revision, model: model.to_owned() }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let format_version = words.next()?.parse().ok()?;
        let revision = words.next()?.parse().ok()?;
        Some(Self { format_version, revision, model: words.next()?.to_owned() })
    }

    pub(crate) fn has_current_format(&self) -> bool {
        self.format_version == FORMAT_VERSION
    }
}

impl fmt::Display for CommitLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.format_version, self.revision, self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_parsed_as_it_was_written() {
        for model in ["granite-embedding-30m-english", "a name with spaces", ""] {
            let label = CommitLabel::new(17, model);
            assert_eq!(CommitLabel::parse(&label.to_string()), Some(label));
        }
    }

    #[test]
    fn malformed_labels_are_rejected() {
        for text in ["", "1", "1 2", "x 2 model", "1 -2 model"] {
            assert_eq!(CommitLabel::parse(text), None, "{text}");
        }
    }

    #[test]
    fn fuzz_nearly_right_labels() {
        testing::fuzz_text(&["1 42 granite", "2 0 "], &[" ", "1", "-"], |text| {
            if let Some(label) = CommitLabel::parse(text) {
                assert_eq!(CommitLabel::parse(&label.to_string()), Some(label));
            }
        });
    }
}
