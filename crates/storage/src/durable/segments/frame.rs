//! The form of a segment: a header, then records. A record is its length, the crc32c of what follows, the
//! prompt's id and encoded batches.

use domain::PromptId;
use uuid::Uuid;

/// What every segment begins with: a magic word and the format's number.
pub(super) const HEADER: [u8; 8] = *b"WSJ\0\x01\0\0\0";

/// The magic word alone.
pub(super) const MAGIC: usize = 4;

/// Length and checksum before, and the prompt's id in, every record.
const HEAD: usize = 8;
const PROMPT_ID: usize = 16;

/// Makes `record` the record of the batches that `encode` appends to it.
pub(super) fn fill(record: &mut Vec<u8>, prompt: PromptId, encode: impl FnOnce(&mut Vec<u8>)) {
    record.clear();
    record.extend([0; HEAD]);
    record.extend(prompt.0.as_bytes());
    encode(record);
    let body = &record[HEAD..];
    let length = u32::try_from(body.len()).expect("a log is far smaller than 4 GiB");
    let checksum = crc32c::crc32c(body);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[4..HEAD].copy_from_slice(&checksum.to_le_bytes());
}

/// The record that bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// It is whole, and its checksum is right.
    Sound { prompt: PromptId, batches: &'a [u8], length: usize },
    /// It is longer than the bytes are.
    Cut,
    /// It is whole, and wrong.
    Wrong,
}

/// Looks at the record that bytes begin with.
pub(super) fn look(bytes: &[u8]) -> Frame<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Frame::Cut };
    let [l0, l1, l2, l3, checksum @ ..] = *head;
    let Some(body) = rest.get(..u32::from_le_bytes([l0, l1, l2, l3]) as usize) else { return Frame::Cut };
    match body.split_first_chunk::<PROMPT_ID>() {
        Some((prompt, batches)) if crc32c::crc32c(body) == u32::from_le_bytes(checksum) => {
            Frame::Sound { prompt: PromptId(Uuid::from_bytes(*prompt)), batches, length: HEAD + body.len() }
        }
        _ => Frame::Wrong,
    }
}

/// Where the next sound record begins in bytes that don't begin with one. Looked for at every byte, so what
/// cannot be the id of a prompt is passed over before any checksum is computed.
pub(super) fn next_sound(bytes: &[u8]) -> Option<usize> {
    let may_begin = |at: &usize| {
        let (version, variant) = (bytes.get(at + HEAD + 6), bytes.get(at + HEAD + 8));
        version.is_some_and(|byte| byte >> 4 == 7) && variant.is_some_and(|byte| byte >> 6 == 0b10)
    };
    (0..bytes.len()).filter(may_begin).find(|at| matches!(look(&bytes[*at..]), Frame::Sound { .. }))
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn record(batches: &[u8]) -> (PromptId, Vec<u8>) {
        let prompt = PromptId::new(Timestamp::from_micros(1_790_000_000_000_000));
        let mut record = Vec::new();
        fill(&mut record, prompt, |body| body.extend(batches));
        (prompt, record)
    }

    proptest! {
        #[test]
        fn a_record_with_any_flipped_bit_is_not_sound(
            batches in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let (prompt, mut record) = record(&batches);
            let expected = Frame::Sound { prompt, batches: &batches, length: record.len() };
            prop_assert_eq!(look(&record), expected);
            let at = at.index(record.len());
            record[at] ^= 1 << bit;
            let is_sound = matches!(look(&record), Frame::Sound { .. });
            prop_assert!(!is_sound);
        }

        #[test]
        fn whatever_the_bytes_are_looking_at_them_is_safe(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            look(&bytes);
            prop_assert_eq!(next_sound(&bytes), None, "a checksum is not right by accident");
        }
    }

    #[test]
    fn a_record_that_is_cut_anywhere_is_cut() {
        let (_, record) = record(b"some batches");
        for length in 0..record.len() {
            assert_eq!(look(&record[..length]), Frame::Cut);
        }
    }

    #[test]
    fn a_sound_record_is_found_behind_garbage() {
        let (_, record) = record(b"some batches");
        for garbage in 0..40_u8 {
            let mut bytes: Vec<u8> = (0..garbage).map(|byte| byte.wrapping_mul(73)).collect();
            bytes.extend(&record);
            assert_eq!(next_sound(&bytes), Some(garbage.into()));
        }
        assert_eq!(next_sound(&record[1..]), None);
    }
}
