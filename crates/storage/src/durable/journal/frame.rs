//! The format of a segment: a header, then frames. A frame is its length, the CRC-32C of what follows, the prompt's id
//! and encoded batches.

use domain::PromptId;
use uuid::Uuid;

/// What every segment begins with: the magic bytes and the format's number.
pub(super) const HEADER: [u8; 8] = *b"WSJ\0\x01\0\0\0";

/// How many bytes of the header are magic.
pub(super) const MAGIC_BYTES: usize = 4;

/// Length and checksum, before the body.
const HEAD_BYTES: usize = 8;
/// The prompt's id, at the start of the body.
const PROMPT_ID_BYTES: usize = 16;

/// Replaces the content of `frame` with a frame of the batches that `encode_batches` appends to it.
pub(super) fn encode(frame: &mut Vec<u8>, prompt: PromptId, encode_batches: impl FnOnce(&mut Vec<u8>)) {
    frame.clear();
    frame.extend([0; HEAD_BYTES]);
    frame.extend(prompt.0.as_bytes());
    encode_batches(frame);
    let body = &frame[HEAD_BYTES..];
    let length = u32::try_from(body.len()).expect("a log is far smaller than 4 GiB");
    let checksum = crc32c::crc32c(body);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame[4..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// The frame at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// Complete, and its checksum matches.
    Valid { prompt: PromptId, batches: &'a [u8], length: usize },
    /// Longer than the bytes.
    Truncated,
    /// Complete, and its checksum does not match.
    Corrupt,
}

/// Decodes the frame at the start of `bytes`.
pub(super) fn decode(bytes: &[u8]) -> Frame<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Frame::Truncated };
    let [l0, l1, l2, l3, checksum @ ..] = *head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let Some(body) = rest.get(..length) else { return Frame::Truncated };
    match body.split_first_chunk::<PROMPT_ID_BYTES>() {
        Some((prompt, batches)) if crc32c::crc32c(body) == u32::from_le_bytes(checksum) => {
            let length = HEAD_BYTES + body.len();
            Frame::Valid { prompt: PromptId(Uuid::from_bytes(*prompt)), batches, length }
        }
        _ => Frame::Corrupt,
    }
}

/// The offset of the next valid frame in bytes that don't start with one. Tries every byte, and skips offsets where
/// the id cannot be a UUIDv7 before it computes any checksum.
pub(super) fn find_valid(bytes: &[u8]) -> Option<usize> {
    let may_begin = |at: &usize| {
        let (version, variant) = (bytes.get(at + HEAD_BYTES + 6), bytes.get(at + HEAD_BYTES + 8));
        version.is_some_and(|byte| byte >> 4 == 7) && variant.is_some_and(|byte| byte >> 6 == 0b10)
    };
    (0..bytes.len()).filter(may_begin).find(|at| matches!(decode(&bytes[*at..]), Frame::Valid { .. }))
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn frame(batches: &[u8]) -> (PromptId, Vec<u8>) {
        let prompt = PromptId::new(Timestamp::from_micros(1_790_000_000_000_000));
        let mut frame = Vec::new();
        encode(&mut frame, prompt, |body| body.extend(batches));
        (prompt, frame)
    }

    proptest! {
        #[test]
        fn a_frame_with_any_flipped_bit_is_not_valid(
            batches in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let (prompt, mut frame) = frame(&batches);
            let expected = Frame::Valid { prompt, batches: &batches, length: frame.len() };
            prop_assert_eq!(decode(&frame), expected);
            let at = at.index(frame.len());
            frame[at] ^= 1 << bit;
            let is_valid = matches!(decode(&frame), Frame::Valid { .. });
            prop_assert!(!is_valid);
        }

        #[test]
        fn any_bytes_can_be_decoded(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            decode(&bytes);
            prop_assert_eq!(find_valid(&bytes), None, "a checksum does not match by accident");
        }
    }

    #[test]
    fn a_frame_that_is_cut_anywhere_is_truncated() {
        let (_, frame) = frame(b"some batches");
        for length in 0..frame.len() {
            assert_eq!(decode(&frame[..length]), Frame::Truncated);
        }
    }

    #[test]
    fn a_valid_frame_is_found_behind_garbage() {
        let (_, frame) = frame(b"some batches");
        for garbage in 0..40_u8 {
            let mut bytes: Vec<u8> = (0..garbage).map(|byte| byte.wrapping_mul(73)).collect();
            bytes.extend(&frame);
            assert_eq!(find_valid(&bytes), Some(garbage.into()));
        }
        assert_eq!(find_valid(&frame[1..]), None);
    }
}
