//! What an index says of itself: it is committed with every revision, so that what is found after a crash is
//! what the label says.

use std::fmt;

/// The number of how chunks are kept: words, scores, files. Another number means that the index is made anew.
const FORMAT: u32 = 1;

/// What an index says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    format: u32,
    pub(crate) revision: u64,
    pub(crate) model: String,
}

impl Label {
    pub(crate) fn new(revision: u64, model: &str) -> Self {
        Self { format: FORMAT, revision, model: model.to_owned() }
    }

    /// None if nobody wrote it like that.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let format = words.next()?.parse().ok()?;
        let revision = words.next()?.parse().ok()?;
        Some(Self { format, revision, model: words.next()?.to_owned() })
    }

    pub(crate) fn is_of_this_format(&self) -> bool {
        self.format == FORMAT
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.format, self.revision, self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_as_it_was_written() {
        for model in ["granite-embedding-30m-english", "a name with spaces", ""] {
            let label = Label::new(17, model);
            assert_eq!(Label::parse(&label.to_string()), Some(label));
        }
    }

    #[test]
    fn other_texts_are_no_labels() {
        for text in ["", "1", "1 2", "x 2 model", "1 -2 model"] {
            assert_eq!(Label::parse(text), None, "{text}");
        }
    }

    #[test]
    fn fuzz_nearly_right_labels() {
        testing::fuzz_text(&["1 42 granite", "2 0 "], &[" ", "1", "-"], |text| {
            if let Some(label) = Label::parse(text) {
                assert_eq!(Label::parse(&label.to_string()), Some(label));
            }
        });
    }
}
