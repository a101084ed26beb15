//! SHA-256 hashes of files.

use std::fmt;
use std::io::{self, Read};

use ring::digest;
use serde::Deserialize;

/// A SHA-256 hash, written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha256([u8; digest::SHA256_OUTPUT_LEN]);

/// Computes a hash over bytes that arrive in parts.
#[derive(Clone)]
pub(super) struct Hasher(digest::Context);

impl Sha256 {
    /// The hash of everything that a reader gives.
    pub(crate) fn of(reader: &mut impl Read) -> io::Result<Self> {
        let mut hasher = Hasher::new();
        hasher.read(reader)?;
        Ok(hasher.finish())
    }
}

impl Hasher {
    pub(super) fn new() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds everything that a reader gives, and returns the number of bytes.
    pub(super) fn read(&mut self, reader: &mut impl Read) -> io::Result<u64> {
        let (mut buffer, mut total) = (vec![0; 256 * 1024], 0);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(total),
                Ok(read) => {
                    self.update(&buffer[..read]);
                    total += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn finish(self) -> Sha256 {
        let digest = self.0.finish();
        Sha256(digest.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }
}

/// A text that is not a SHA-256 hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a SHA-256 of 64 hexadecimal digits")]
pub struct InvalidSha256(String);

impl TryFrom<String> for Sha256 {
    type Error = InvalidSha256;

    fn try_from(text: String) -> Result<Self, InvalidSha256> {
        // `from_str_radix` accepts a sign, which is not a digit.
        let digits = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..64).step_by(2).map(byte).collect();
        let bytes = bytes.filter(|_| digits).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(InvalidSha256(text))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_hash_is_written_as_it_is_read() {
        assert_eq!(Sha256::try_from(EMPTY.to_owned()).unwrap().to_string(), EMPTY);
        assert_eq!(Sha256::of(&mut io::empty()).unwrap().to_string(), EMPTY);
    }

    #[test]
    fn a_text_that_is_not_a_hash_is_rejected() {
        for text in [String::new(), EMPTY[1..].to_owned(), format!("{EMPTY}00"), EMPTY.replace('e', "+")] {
            assert_eq!(Sha256::try_from(text.clone()), Err(InvalidSha256(text)));
        }
    }
}
