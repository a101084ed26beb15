//! Journals that are torn, cut, flipped and overwritten.

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

/// A segment with these records.
fn segment<'a>(records: impl IntoIterator<Item = (PromptId, &'a [u8])>) -> Vec<u8> {
    let (mut segment, mut record) = (HEADER.to_vec(), Vec::new());
    for (prompt, batches) in records {
        frame::fill(&mut record, prompt, |body| body.extend(batches));
        segment.extend(&record);
    }
    segment
}

fn read(bytes: &[u8]) -> (Vec<(PromptId, Vec<u8>)>, Condition) {
    let mut records = Vec::new();
    let condition = read_segment(bytes, |prompt, batches| records.push((prompt, batches.to_vec())));
    (records, condition)
}

fn folder_with(segments: &[&[u8]]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (number, bytes) in (1..).zip(segments) {
        fs::write(path_of(folder.path(), number), bytes).unwrap();
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
fn a_segment_that_is_cut_at_any_byte_of_its_last_record_keeps_the_records_before_it() {
    let (one, other) = (prompt(), prompt());
    let before = segment([(one, &b"first"[..]), (other, b"second")]);
    let whole = segment([(one, &b"first"[..]), (other, b"second"), (one, b"the last record")]);
    let expected = [(one, b"first".to_vec()), (other, b"second".to_vec())];
    assert_eq!(read(&before), (expected.to_vec(), Condition::Sound));
    for length in before.len() + 1..whole.len() {
        let (records, condition) = read(&whole[..length]);
        assert_eq!(records, expected, "cut at {length}");
        assert_eq!(condition, Condition::Torn { at: before.len() }, "cut at {length}");
    }
}

#[test]
fn a_segment_that_is_cut_in_its_header_is_torn_and_empty() {
    for length in 0..HEADER.len() {
        assert_eq!(read(&HEADER[..length]), (vec![], Condition::Torn { at: 0 }));
    }
    assert_eq!(read(&HEADER), (vec![], Condition::Sound));
}

#[test]
fn zeros_behind_the_last_record_are_a_write_that_did_not_get_through() {
    let mut bytes = segment([(prompt(), &b"first"[..])]);
    let at = bytes.len();
    bytes.extend([0; 1_000]);
    assert_eq!(read(&bytes).1, Condition::Torn { at });
}

#[test]
fn any_flipped_bit_costs_its_record_and_no_other() {
    let prompts = [prompt(), prompt(), prompt()];
    let records = prompts.map(|prompt| (prompt, &b"some batches"[..]));
    let whole = segment(records);
    let record_length = (whole.len() - HEADER.len()) / 3;
    for at in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        let (read, condition) = read(&bytes);
        let Some(in_records) = (at / 8).checked_sub(HEADER.len()) else {
            let in_magic = at / 8 < MAGIC;
            assert_eq!((read.len(), condition), (if in_magic { 3 } else { 0 }, Condition::Damaged { at: 0 }));
            continue;
        };
        let hit = in_records / record_length;
        let kept: Vec<_> = read.into_iter().map(|(prompt, _)| prompt).collect();
        let expected: Vec<_> = (0..3).filter(|index| *index != hit).map(|index| prompts[index]).collect();
        assert_eq!(kept, expected);
        let begins_at = HEADER.len() + hit * record_length;
        if hit < 2 {
            assert_eq!(condition, Condition::Damaged { at: begins_at });
        } else {
            // A length that grew looks like a write that did not get through.
            assert!(
                matches!(condition, Condition::Damaged { at } | Condition::Torn { at } if at == begins_at)
            );
        }
    }
}

proptest! {
    #[test]
    fn whatever_bytes_are_written_over_a_segment_records_before_and_behind_them_are_kept(
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

        let (records, _) = read(&bytes);
        let mut begins = HEADER.len();
        let mut untouched = Vec::new();
        for (prompt, batches) in prompts.iter().zip(&batches) {
            let ends = begins + 24 + batches.len();
            if ends <= at || begins >= end {
                untouched.push(*prompt);
            }
            begins = ends;
        }
        let kept: Vec<_> = records.iter().map(|(prompt, _)| *prompt).collect();
        let foreign = bytes[..MAGIC] == HEADER[..MAGIC] && bytes[..HEADER.len()] != HEADER;
        if !foreign {
            prop_assert!(untouched.iter().all(|prompt| kept.contains(prompt)), "{untouched:?} {kept:?}");
        }
        for (prompt, read) in &records {
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
    bytes[MAGIC] = 2;
    assert_eq!(read(&bytes), (vec![], Condition::Damaged { at: 0 }));
}

#[test]
fn only_wanted_prompts_are_read_through_all_segments_in_their_order() {
    let (wanted, other) = (prompt(), prompt());
    let segments: Vec<_> = (0..12_u8).map(|n| segment([(wanted, &[n][..]), (other, b"x")])).collect();
    let folder = folder_with(&segments.iter().map(Vec::as_slice).collect::<Vec<_>>());
    fs::write(folder.path().join("notes.txt"), "not ours").unwrap();
    let recovered = recover(folder.path(), |prompt| prompt == wanted).unwrap();
    assert_eq!(recovered.logs, HashMap::from([(wanted, (0..12).map(|byte| vec![byte]).collect())]));
    recovered.clear_away(NOW).unwrap();
    assert_eq!(names(&folder), ["notes.txt"]);
}

#[test]
fn nothing_is_moved_before_what_was_read_is_kept() {
    let (one, sound) = (prompt(), segment([(prompt(), &b"sound"[..])]));
    let mut damaged = segment([(one, &b"first"[..]), (prompt(), b"second"), (prompt(), b"third")]);
    damaged[HEADER.len() + 30] ^= 0xff;
    let damage_in_the_middle = damaged.clone();
    let folder = folder_with(&[&sound, &damage_in_the_middle]);
    for _ in 0..2 {
        recover(folder.path(), |_| true).unwrap();
        assert_eq!(names(&folder), ["000000000001.log", "000000000002.log"]);
    }
    recover(folder.path(), |_| true).unwrap().clear_away(NOW).unwrap();
    let aside = format!("000000000002.log.corrupt-{}", NOW.micros());
    assert_eq!(names(&folder), [aside.as_str()]);
    assert_eq!(fs::read(folder.path().join(&aside)).unwrap(), damage_in_the_middle);
    assert!(recover(folder.path(), |_| true).unwrap().logs.is_empty(), "it is not read again");
}

#[test]
fn a_journal_that_nobody_knows_is_set_aside_whole() {
    let sound = segment([(prompt(), &b"sound"[..])]);
    let folder = folder_with(&[&sound, &sound]);
    recover(folder.path(), |_| false).unwrap().set_aside(NOW).unwrap();
    let aside = |number: u32| format!("{number:012}.log.corrupt-{}", NOW.micros());
    assert_eq!(names(&folder), [aside(1), aside(2)]);
}

#[test]
fn a_folder_that_is_not_there_has_nothing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(recover(&folder.path().join("journal"), |_| true).unwrap().logs.is_empty());
}

#[test]
fn fuzz_nearly_right_segments() {
    let seeds = [
        segment([(prompt(), &b"first"[..]), (prompt(), b"second"), (prompt(), b"")]),
        segment([(prompt(), &[0; 300][..])]),
    ];
    let seeds: Vec<_> = seeds.iter().map(Vec::as_slice).collect();
    testing::fuzz(&seeds, &["\u{1}\0\0\0"], |bytes| {
        let (records, condition) = read(bytes);
        assert!(records.iter().map(|(_, batches)| batches.len()).sum::<usize>() <= bytes.len());
        if let Condition::Torn { at } | Condition::Damaged { at } = condition {
            assert!(at <= bytes.len());
        }
    });
}
