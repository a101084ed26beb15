//! Shared text buffers for streamed tokens.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A slice of a shared buffer. The tokens of one network read share one allocation, so that a token costs a
/// reference count instead of a `String`.
#[derive(Clone)]
pub struct Text {
    buffer: Arc<str>,
    start: u32,
    end: u32,
}

impl Text {
    /// The part `range` of `buffer`, which must lie on character boundaries.
    ///
    /// # Panics
    /// If it does not, or if the buffer is larger than 4 GiB.
    pub fn slice(buffer: &Arc<str>, range: Range<usize>) -> Self {
        assert!(buffer.get(range.clone()).is_some(), "a text lies on character boundaries of its buffer");
        let index = |at| u32::try_from(at).expect("a text buffer is smaller than 4 GiB");
        Self { buffer: buffer.clone(), start: index(range.start), end: index(range.end) }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.buffer[self.start as usize..self.end as usize]
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let buffer = Arc::from(text);
        Self::slice(&buffer, 0..text.len())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_one_buffer_compare_by_their_text() {
        let buffer: Arc<str> = Arc::from("héllo");
        assert_eq!(Text::slice(&buffer, 0..3), Text::from("hé"));
        assert_eq!(&*Text::slice(&buffer, 3..6), "llo");
    }

    #[test]
    #[should_panic(expected = "character boundaries")]
    fn a_slice_never_splits_a_character() {
        let _ = Text::slice(&Arc::from("é"), 0..1);
    }
}
