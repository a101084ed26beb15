//! Recognizes messages that a server sends twice, by the id or number that the server gives them. Equal texts are not
//! enough, since models do repeat themselves.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// Number of messages that are remembered.
const REMEMBERED: usize = 64;

/// The newest messages, by id and by sequence number.
#[derive(Default)]
pub(super) struct Duplicates {
    hasher: RandomState,
    seen: VecDeque<Seen>,
    ids_are_reused: bool,
    highest_number: Option<u64>,
}

struct Seen {
    id: u64,
    data: u64,
}

impl Duplicates {
    /// Whether a message with this id and this data came before. Once different messages share an id, ids are ignored.
    pub(super) fn has_seen(&mut self, id: &[u8], data: &[u8]) -> bool {
        if id.is_empty() || self.ids_are_reused {
            return false;
        }
        let message = Seen { id: self.hasher.hash_one(id), data: self.hasher.hash_one(data) };
        if let Some(before) = self.seen.iter().rev().find(|seen| seen.id == message.id) {
            self.ids_are_reused = before.data != message.data;
            return !self.ids_are_reused;
        }
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(message);
        false
    }

    /// Whether a frame with this or a higher sequence number came before.
    pub(super) fn has_passed(&mut self, number: Option<u64>) -> bool {
        if number.is_none() {
            return false;
        }
        let has_passed = number <= self.highest_number;
        self.highest_number = self.highest_number.max(number);
        has_passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_message_under_the_same_id_is_a_duplicate() {
        let mut duplicates = Duplicates::default();
        assert!(!duplicates.has_seen(b"1", b"ha"));
        assert!(!duplicates.has_seen(b"2", b"ha"));
        assert!(duplicates.has_seen(b"1", b"ha"));
        assert!(duplicates.has_seen(b"2", b"ha"));
    }

    #[test]
    fn an_id_of_different_messages_is_ignored() {
        let mut duplicates = Duplicates::default();
        assert!(!duplicates.has_seen(b"chat-1", b"a"));
        assert!(!duplicates.has_seen(b"chat-1", b"ha"));
        assert!(!duplicates.has_seen(b"chat-1", b"ha"));
    }

    #[test]
    fn messages_without_an_id_are_never_duplicates() {
        let mut duplicates = Duplicates::default();
        assert!(!duplicates.has_seen(b"", b"ha"));
        assert!(!duplicates.has_seen(b"", b"ha"));
        assert!(!duplicates.has_passed(None) && !duplicates.has_passed(None));
    }

    #[test]
    fn a_number_that_does_not_grow_is_a_duplicate() {
        let mut duplicates = Duplicates::default();
        let passed = [0, 1, 1, 0, 2].map(|number| duplicates.has_passed(Some(number)));
        assert_eq!(passed, [false, false, true, true, false]);
    }
}
