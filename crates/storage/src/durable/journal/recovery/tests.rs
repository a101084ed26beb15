//! Segments with torn tails, cut headers, flipped bits and overwritten bytes.

use domain::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use tempfile::TempDir;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

fn prompt() -> PromptId {
    PromptId::new(NOW)
}

/// A segment with these frames.
fn segment<'a>(frames: impl IntoIterator<Item = (PromptId, &'a [u8])>) -> Vec<u8> {
    let (mut segment, mut frame) = (HEADER.to_vec(), Vec::new());
    for (prompt, batches) in frames {
        frame::encode(&mut frame, prompt, |body| body.extend(batches));
        segment.extend(&frame);
    }
    segment
}

fn read(bytes: &[u8]) -> (Vec<(PromptId, Vec<u8>)>, SegmentCondition) {
    let mut frames = Vec::new();
    let condition = read_segment(bytes, |prompt, batches| frames.push((prompt, batches.to_vec())));
    (frames, condition)
}

fn folder_with(segments: &[&[u8]]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (number, bytes) in (1..).zip(segments) {
        fs::write(segment_file::path(folder.path(), number), bytes).unwrap();
    }
    folder
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_segment_cut_at_any_byte_of_its_last_frame_keeps_the_frames_before_it() {
    let (one, other) = (prompt(), prompt());
    let before = segment([(one, &b"first"[..]), (other, b"second")]);
    let whole = segment([(one, &b"first"[..]), (other, b"second"), (one, b"the last frame")]);
    let expected = [(one, b"first".to_vec()), (other, b"second".to_vec())];
    assert_eq!(read(&before), (expected.to_vec(), SegmentCondition::Valid));
    for length in before.len() + 1..whole.len() {
        let (frames, condition) = read(&whole[..length]);
        assert_eq!(frames, expected, "cut at {length}");
        assert_eq!(condition, SegmentCondition::TornTail { at: before.len() }, "cut at {length}");
    }
}

#[test]
fn a_segment_cut_in_its_header_is_torn_and_empty() {
    for length in 0..HEADER.len() {
        assert_eq!(read(&HEADER[..length]), (vec![], SegmentCondition::TornTail { at: 0 }));
    }
    assert_eq!(read(&HEADER), (vec![], SegmentCondition::Valid));
}

#[test]
fn zeros_behind_the_last_frame_are_a_torn_tail() {
    let mut bytes = segment([(prompt(), &b"first"[..])]);
    let at = bytes.len();
    bytes.extend([0; 1_000]);
    assert_eq!(read(&bytes).1, SegmentCondition::TornTail { at });
}

#[test]
fn a_flipped_bit_costs_its_frame_and_no_other() {
    let prompts = [prompt(), prompt(), prompt()];
    let frames = prompts.map(|prompt| (prompt, &b"some batches"[..]));
    let whole = segment(frames);
    let frame_length = (whole.len() - HEADER.len()) / 3;
    for at in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        let (read, condition) = read(&bytes);
        let Some(in_frames) = (at / 8).checked_sub(HEADER.len()) else {
            let in_magic = at / 8 < MAGIC_BYTES;
            assert_eq!(
                (read.len(), condition),
                (if in_magic { 3 } else { 0 }, SegmentCondition::Damaged { at: 0 })
            );
            continue;
        };
        let hit = in_frames / frame_length;
        let kept: Vec<_> = read.into_iter().map(|(prompt, _)| prompt).collect();
        let expected: Vec<_> = (0..3).filter(|index| *index != hit).map(|index| prompts[index]).collect();
        assert_eq!(kept, expected);
        let begins_at = HEADER.len() + hit * frame_length;
        if hit < 2 {
            assert_eq!(condition, SegmentCondition::Damaged { at: begins_at });
        } else {
            // A length that grew looks like a torn write.
            assert!(
                matches!(condition, SegmentCondition::Damaged { at } | SegmentCondition::TornTail { at } if at == begins_at)
            );
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_written_over_a_segment_leave_the_frames_before_and_behind_them(
        lengths in vec(0..60_usize, 1..12),
        at in any::<Index>(),
        garbage in vec(any::<u8>(), 1..100),
    ) {
        let prompts: Vec<_> = lengths.iter().map(|_| prompt()).collect();
        let batches: Vec<_> = lengths.iter().map(|length| vec![b'.'; *length]).collect();
        let mut bytes = segment(prompts.iter().copied().zip(batches.iter().map(Vec::as_slice)));
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + garbage.len());
        bytes[at..end].copy_from_slice(&garbage[..end - at]);

        let (frames, _) = read(&bytes);
        let mut begins = HEADER.len();
        let mut untouched = Vec::new();
        for (prompt, batches) in prompts.iter().zip(&batches) {
            let ends = begins + 24 + batches.len();
            if ends <= at || begins >= end {
                untouched.push(*prompt);
            }
            begins = ends;
        }
        let kept: Vec<_> = frames.iter().map(|(prompt, _)| *prompt).collect();
        let newer_format = bytes[..MAGIC_BYTES] == HEADER[..MAGIC_BYTES] && bytes[..HEADER.len()] != HEADER;
        if !newer_format {
            prop_assert!(untouched.iter().all(|prompt| kept.contains(prompt)), "{untouched:?} {kept:?}");
        }
        for (prompt, read) in &frames {
            let index = prompts.iter().position(|known| known == prompt);
            prop_assert_eq!(index.map(|index| &batches[index]), Some(read));
        }
    }

    #[test]
    fn any_bytes_can_be_read(bytes in vec(any::<u8>(), 0..500)) {
        prop_assert!(read(&bytes).0.is_empty());
    }
}

#[test]
fn the_segment_of_a_newer_release_is_not_read() {
    let mut bytes = segment([(prompt(), &b"batches"[..])]);
    bytes[MAGIC_BYTES] = 2;
    assert_eq!(read(&bytes), (vec![], SegmentCondition::Damaged { at: 0 }));
}

#[test]
fn recovery_reads_the_wanted_prompts_from_all_segments_in_order() {
    let (wanted, other) = (prompt(), prompt());
    let segments: Vec<_> = (0..12_u8).map(|n| segment([(wanted, &[n][..]), (other, b"x")])).collect();
    let folder = folder_with(&segments.iter().map(Vec::as_slice).collect::<Vec<_>>());
    fs::write(folder.path().join("notes.txt"), "not ours").unwrap();
    let recovered = recover(folder.path(), |prompt| prompt == wanted).unwrap();
    assert_eq!(recovered.logs, HashMap::from([(wanted, (0..12).map(|byte| vec![byte]).collect())]));
    recovered.clear(NOW).unwrap();
    assert_eq!(names(&folder), ["notes.txt"]);
}

#[test]
fn recovery_moves_no_file_before_its_logs_are_stored() {
    let (one, valid) = (prompt(), segment([(prompt(), &b"valid"[..])]));
    let mut damaged = segment([(one, &b"first"[..]), (prompt(), b"second"), (prompt(), b"third")]);
    damaged[HEADER.len() + 30] ^= 0xff;
    let damage_in_the_middle = damaged.clone();
    let folder = folder_with(&[&valid, &damage_in_the_middle]);
    for _ in 0..2 {
        recover(folder.path(), |_| true).unwrap();
        assert_eq!(names(&folder), ["000000000001.log", "000000000002.log"]);
    }
    recover(folder.path(), |_| true).unwrap().clear(NOW).unwrap();
    let aside = format!("000000000002.log.corrupt-{}", NOW.micros());
    assert_eq!(names(&folder), [aside.as_str()]);
    assert_eq!(fs::read(folder.path().join(&aside)).unwrap(), damage_in_the_middle);
    assert!(
        recover(folder.path(), |_| true).unwrap().logs.is_empty(),
        "a segment that was set aside is not read again"
    );
}

#[test]
fn a_journal_without_a_history_is_set_aside_whole() {
    let valid = segment([(prompt(), &b"valid"[..])]);
    let folder = folder_with(&[&valid, &valid]);
    recover(folder.path(), |_| false).unwrap().set_aside(NOW).unwrap();
    let aside = |number: u32| format!("{number:012}.log.corrupt-{}", NOW.micros());
    assert_eq!(names(&folder), [aside(1), aside(2)]);
}

#[test]
fn a_missing_folder_is_an_empty_journal() {
    let folder = tempfile::tempdir().unwrap();
    assert!(recover(&folder.path().join("journal"), |_| true).unwrap().logs.is_empty());
}

#[test]
fn fuzz_nearly_valid_segments() {
    let seeds = [
        segment([(prompt(), &b"first"[..]), (prompt(), b"second"), (prompt(), b"")]),
        segment([(prompt(), &[0; 300][..])]),
    ];
    let seeds: Vec<_> = seeds.iter().map(Vec::as_slice).collect();
    testing::fuzz(&seeds, &["\u{1}\0\0\0"], |bytes| {
        let (frames, condition) = read(bytes);
        assert!(frames.iter().map(|(_, batches)| batches.len()).sum::<usize>() <= bytes.len());
        if let SegmentCondition::TornTail { at } | SegmentCondition::Damaged { at } = condition {
            assert!(at <= bytes.len());
        }
    });
}
