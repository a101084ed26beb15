//! Segments are filled, closed, copied forward and deleted.

use std::sync::Arc;

use domain::{Event, Step, Timestamp};
use tempfile::TempDir;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1);

/// The size of a frame beside its text, at most.
const FRAME_OVERHEAD: u64 = 24 + 20;

const LIMITS: JournalLimits = JournalLimits { segment_bytes: 1_000, journal_bytes: 4_000 };

fn journal_in_folder(durability: Durability) -> (TempDir, SegmentJournal) {
    let folder = tempfile::tempdir().unwrap();
    let journal = SegmentJournal::create(folder.path(), LIMITS, durability).unwrap();
    (folder, journal)
}

fn start(journal: &SegmentJournal) -> PromptId {
    let prompt = PromptId::new(NOW);
    journal.start(prompt, text(0, "beginning "));
    prompt
}

/// A batch of one text.
fn text(position: u64, text: &str) -> Batch {
    [Event { position, at: NOW, step: Step::Text(text.into()) }].into()
}

/// Appends a text, and deletes obsolete segments.
fn append_text(journal: &SegmentJournal, prompt: PromptId, words: &str) {
    let batch = text(journal.state().running[&prompt].next_position(), words);
    let appended = journal.append(prompt, batch).unwrap().unwrap();
    appended.obsolete.iter().for_each(|path| delete_segment(path));
}

/// Appends this many bytes, and deletes obsolete segments.
fn append_bytes(journal: &SegmentJournal, prompt: PromptId, bytes: usize) {
    append_text(journal, prompt, &".".repeat(bytes));
}

/// The text of a running log.
fn text_in_log(journal: &SegmentJournal, prompt: PromptId) -> Option<String> {
    journal.log(prompt).as_deref().map(text_of)
}

fn text_of(log: &[Batch]) -> String {
    let texts = log.iter().flat_map(|batch| batch.iter()).map(|event| match &event.step {
        Step::Text(text) => text.to_string(),
        step => panic!("{step:?}"),
    });
    texts.collect()
}

fn remove(journal: &SegmentJournal, prompt: PromptId) {
    journal.remove(prompt).iter().for_each(|path| delete_segment(path));
}

/// The sizes of the files on disk, by number.
fn sizes(folder: &TempDir) -> Vec<u64> {
    let numbers = segment_file::numbers_in(folder.path()).unwrap();
    numbers
        .iter()
        .map(|number| fs::metadata(segment_file::path(folder.path(), *number)).unwrap().len())
        .collect()
}

/// The text of all frames of a prompt, in the order they were written.
fn recovered_text(folder: &TempDir, prompt: PromptId) -> String {
    let frames = recover(folder.path(), |_| true).unwrap().logs.remove(&prompt).unwrap_or_default();
    text_of(&log_codec::decode(&frames.concat()).unwrap())
}

#[test]
fn appended_batches_are_on_disk_and_the_first_batch_is_only_in_the_claim() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    let (one, other) = (start(&journal), start(&journal));
    for (prompt, words) in [(one, "a"), (other, "x"), (one, "bc"), (other, "yz")] {
        append_text(&journal, prompt, words);
    }
    assert_eq!(recovered_text(&folder, one), "abc");
    assert_eq!(recovered_text(&folder, other), "xyz");
    assert_eq!(text_in_log(&journal, one).unwrap(), "beginning abc");
    assert_eq!(sizes(&folder), [journal.bytes()]);
}

#[test]
fn a_batch_for_a_prompt_that_does_not_run_is_refused() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    let prompt = start(&journal);
    remove(&journal, prompt);
    assert!(journal.append(prompt, text(1, "late")).unwrap().is_none());
    assert_eq!((text_in_log(&journal, prompt), sizes(&folder)), (None, vec![]));
}

#[test]
fn a_batch_that_does_not_continue_its_log_is_refused() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    let prompt = start(&journal);
    append_text(&journal, prompt, "a");
    for position in [0, 1, 3] {
        assert!(journal.append(prompt, text(position, "x")).unwrap().is_none());
    }
    assert!(journal.append(prompt, Batch::default()).unwrap().is_none());
    append_text(&journal, prompt, "b");
    assert_eq!(recovered_text(&folder, prompt), "ab");
}

#[test]
fn a_full_segment_is_closed_and_deleted_when_its_last_prompt_has_ended() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    let (one, other) = (start(&journal), start(&journal));
    append_bytes(&journal, one, 500);
    append_bytes(&journal, other, 500);
    append_bytes(&journal, one, 500);
    assert_eq!(sizes(&folder).len(), 2);
    remove(&journal, other);
    assert_eq!(sizes(&folder).len(), 2, "the first segment still has a running prompt");
    remove(&journal, one);
    assert_eq!(sizes(&folder).len(), 1, "the active segment stays");
    append_bytes(&journal, start(&journal), 10);
    assert_eq!(sizes(&folder), [journal.bytes()]);
}

#[test]
fn closed_segments_are_not_held_open() {
    let (_folder, journal) = journal_in_folder(Durability::Process);
    for _ in 0..20 {
        let prompt = start(&journal);
        append_bytes(&journal, prompt, 1_000);
        remove(&journal, prompt);
    }
    assert_eq!(journal.begin_sync().1.count(), 0);
}

#[test]
fn a_long_prompt_among_short_ones_is_copied_forward_and_the_bound_holds() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    let (long, mut expected) = (start(&journal), String::new());
    let largest_frame = 500 + FRAME_OVERHEAD;
    for round in 0..2_000_usize {
        if round % 20 == 0 {
            append_bytes(&journal, long, 1);
            expected.push('.');
        }
        let short = start(&journal);
        append_bytes(&journal, short, round % 500);
        remove(&journal, short);
        let bytes: u64 = sizes(&folder).into_iter().sum();
        assert!(bytes <= LIMITS.journal_bytes + largest_frame, "{bytes} bytes in round {round}");
    }
    assert!(recovered_text(&folder, long).ends_with(&expected), "the last copy is complete");
}

#[test]
fn running_logs_larger_than_the_bound_are_kept_and_copied_rarely() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    let prompts: Vec<_> = (0..8).map(|_| start(&journal)).collect();
    let mut deleted = 0;
    for round in 1..=200 {
        for prompt in &prompts {
            let appended = journal.append(*prompt, text(round, &".".repeat(20))).unwrap().unwrap();
            for path in appended.obsolete {
                deleted += fs::metadata(&path).unwrap().len();
                delete_segment(&path);
            }
        }
        let running = 8 * round * (20 + FRAME_OVERHEAD);
        assert!(journal.bytes() <= LIMITS.journal_bytes.max(2 * running) + 1_000, "in round {round}");
    }
    let (written, frames) = (journal.bytes() + deleted, 8 * 200 * (20 + FRAME_OVERHEAD));
    assert!(written < 4 * frames, "{written} bytes for {frames}");
    for prompt in prompts {
        assert!(recovered_text(&folder, prompt).ends_with(&".".repeat(200 * 20)));
    }
}

#[test]
fn a_retracted_batch_is_gone_from_the_log() {
    let (_folder, journal) = journal_in_folder(Durability::Process);
    let prompt = start(&journal);
    append_bytes(&journal, prompt, 3);
    append_text(&journal, prompt, "lost");
    journal.retract(prompt, 2);
    append_bytes(&journal, prompt, 1);
    assert_eq!(text_in_log(&journal, prompt).unwrap(), "beginning ....");
}

#[test]
fn segment_numbers_continue_after_the_files_in_the_folder() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    append_bytes(&journal, start(&journal), 1_000);
    append_bytes(&journal, start(&journal), 1_000);
    drop(journal);
    let again = SegmentJournal::create(folder.path(), LIMITS, Durability::Process).unwrap();
    append_bytes(&again, start(&again), 10);
    assert_eq!(segment_file::numbers_in(folder.path()).unwrap(), [1, 2, 3]);
}

/// Fills segments until a long log has been copied out of the first one.
fn copy_forward(journal: &SegmentJournal) -> PromptId {
    let long = start(journal);
    append_bytes(journal, long, 10);
    while journal.state().running[&long].oldest_segment == Some(1) {
        let short = start(journal);
        append_bytes(journal, short, 500);
        remove(journal, short);
    }
    long
}

fn sync(journal: &SegmentJournal) -> Vec<PathBuf> {
    journal.begin_sync();
    journal.sync_succeeded()
}

#[test]
fn with_power_durability_a_segment_is_deleted_only_once_its_copies_are_on_disk() {
    let (folder, journal) = journal_in_folder(Durability::Power);
    copy_forward(&journal);
    assert!(segment_file::path(folder.path(), 1).exists());

    let (up_to, files) = journal.begin_sync();
    assert!(files.count() > 1, "the segments and their folder");
    let short = start(&journal);
    append_bytes(&journal, short, 1_000);
    append_bytes(&journal, short, 10);
    assert_eq!(journal.remove(short), [] as [PathBuf; 0], "the sync is still running");
    let obsolete = journal.sync_succeeded();
    assert_eq!(obsolete[0], segment_file::path(folder.path(), 1), "also while other prompts go on writing");
    assert_eq!(journal.begin_sync().0, up_to + 2);
    assert!(journal.sync_succeeded().iter().all(|path| !obsolete.contains(path)));
}

#[test]
fn after_a_failed_sync_the_segment_is_closed_and_running_logs_are_rewritten() {
    let (folder, journal) = journal_in_folder(Durability::Power);
    let (prompt, other) = (start(&journal), start(&journal));
    append_bytes(&journal, prompt, 10);
    append_bytes(&journal, other, 10);
    journal.begin_sync();
    assert_eq!(journal.sync_failed(), 2, "both may be lost");
    assert!(journal.has_failed());
    append_bytes(&journal, prompt, 10);
    assert_eq!(sizes(&folder).len(), 2);
    let obsolete = sync(&journal);
    assert_eq!(
        obsolete,
        [segment_file::path(folder.path(), 1)],
        "all running logs of the first are in the second"
    );
    obsolete.iter().for_each(|path| delete_segment(path));
    assert_eq!(recovered_text(&folder, prompt).len(), 10 + 10, "the copy and the next batch");
    assert_eq!(recovered_text(&folder, other).len(), 10);
    assert!(journal.has_failed(), "one successful write proves nothing");
    journal.probe().unwrap();
    assert!(!journal.has_failed());
    assert_eq!(journal.begin_sync().1.count(), 1, "the probe is synced");
    assert_eq!(sizes(&folder).iter().sum::<u64>(), journal.bytes(), "the probe was truncated away");
}

#[test]
fn a_possibly_only_copy_outlives_a_failed_sync_and_the_next_ones() {
    let (folder, journal) = journal_in_folder(Durability::Power);
    let original = segment_file::path(folder.path(), 1);
    let long = copy_forward(&journal);
    journal.begin_sync();
    let meanwhile = start(&journal);
    append_bytes(&journal, meanwhile, 10);
    let written = journal.state().sequence;
    assert_eq!(journal.sync_failed(), written, "writes made during the sync may be lost, too");
    remove(&journal, meanwhile);
    assert!(sync(&journal).is_empty() && original.exists(), "nothing was rewritten yet");

    append_bytes(&journal, long, 10);
    assert!(original.exists(), "it was rewritten, and is not on the disk yet");
    assert!(sync(&journal).contains(&original));
}

#[test]
fn after_a_failed_sync_logs_are_rewritten_first_even_if_an_attempt_failed_in_between() {
    let (folder, journal) = journal_in_folder(Durability::Power);
    let (one, other) = (start(&journal), start(&journal));
    append_bytes(&journal, one, 10);
    append_bytes(&journal, other, 10);
    journal.begin_sync();
    journal.sync_failed();
    // A segment to which nothing has been copied yet.
    journal.open_segment(&mut journal.state()).unwrap();
    append_bytes(&journal, one, 10);
    let second = fs::read(segment_file::path(folder.path(), 2)).unwrap();
    fs::remove_file(segment_file::path(folder.path(), 1)).unwrap();
    assert_eq!((recovered_text(&folder, one).len(), recovered_text(&folder, other).len()), (20, 10));
    assert_eq!(second.len() as u64, sizes(&folder)[0]);
}

#[test]
fn obsolete_segments_are_still_deleted_after_a_write_fails() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    let (one, other) = (start(&journal), start(&journal));
    append_bytes(&journal, one, 1_000);
    journal.state().running.remove(&one);
    // The next write finds the segment full and opens another, which is not writable.
    journal.open_segment(&mut journal.state()).unwrap();
    let unwritable = File::open(segment_file::path(folder.path(), 2)).unwrap();
    let mut state = journal.state();
    journal.retire_segments(&mut state);
    state.active.as_mut().unwrap().file = Arc::new(unwritable);
    drop(state);
    assert!(journal.append(other, text(1, "x")).is_err());
    assert_eq!(journal.remove(other)[0], segment_file::path(folder.path(), 1));
}

#[test]
fn a_missing_folder_is_an_error_and_the_journal_recovers_once_it_is_back() {
    let (folder, journal) = journal_in_folder(Durability::Process);
    let elsewhere = folder.path().with_extension("elsewhere");
    fs::rename(folder.path(), &elsewhere).unwrap();
    let prompt = start(&journal);
    assert!(journal.append(prompt, text(1, "text")).is_err());
    assert_eq!(
        text_in_log(&journal, prompt).unwrap(),
        "beginning ",
        "a batch that is not on disk is not in the log"
    );
    assert!(journal.has_failed() && journal.probe().is_err());

    journal.append_end(prompt, text(1, "end"));
    assert_eq!(text_in_log(&journal, prompt).unwrap(), "beginning end", "but the end that readers see is");
    fs::rename(&elsewhere, folder.path()).unwrap();
    journal.probe().unwrap();
    assert!(!journal.has_failed());
}
