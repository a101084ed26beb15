//! Segments as they fill, close, are copied from and deleted.

use domain::{Event, Step, Timestamp};
use tempfile::TempDir;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1);

/// What a record has beside its text, at most.
const RECORD: u64 = 24 + 20;

const LIMITS: JournalLimits = JournalLimits { segment_bytes: 1_000, journal_bytes: 4_000 };

fn journal(durability: Durability) -> (TempDir, Segments) {
    let folder = tempfile::tempdir().unwrap();
    let segments = Segments::create(folder.path(), LIMITS, durability).unwrap();
    (folder, segments)
}

fn start(segments: &Segments) -> PromptId {
    let prompt = PromptId::new(NOW);
    segments.start(prompt, text(0, "beginning "));
    prompt
}

/// A batch of one text.
fn text(position: u64, text: &str) -> Batch {
    [Event { position, at: NOW, step: Step::Text(text.into()) }].into()
}

/// Appends a text, and deletes what nobody needs any more.
fn say(segments: &Segments, prompt: PromptId, words: &str) {
    let batch = text(segments.state().running[&prompt].next_position(), words);
    let appended = segments.append(prompt, batch).unwrap().unwrap();
    appended.unneeded.iter().for_each(|path| remove(path));
}

/// Appends so many bytes, and deletes what nobody needs any more.
fn append(segments: &Segments, prompt: PromptId, bytes: usize) {
    say(segments, prompt, &".".repeat(bytes));
}

/// The text of a running log.
fn said(segments: &Segments, prompt: PromptId) -> Option<String> {
    segments.log(prompt).as_deref().map(text_of)
}

fn text_of(log: &[Batch]) -> String {
    let texts = log.iter().flat_map(|batch| batch.iter()).map(|event| match &event.step {
        Step::Text(text) => text.to_string(),
        step => panic!("{step:?}"),
    });
    texts.collect()
}

fn finish(segments: &Segments, prompt: PromptId) {
    segments.finish(prompt).iter().for_each(|path| remove(path));
}

/// The sizes of the files on disk, by number.
fn sizes(folder: &TempDir) -> Vec<u64> {
    let numbers = numbers_in(folder.path()).unwrap();
    numbers.iter().map(|number| fs::metadata(path_of(folder.path(), *number)).unwrap().len()).collect()
}

/// The text of all records of a prompt, in the order they were written.
fn recovered(folder: &TempDir, prompt: PromptId) -> String {
    let records = recover(folder.path(), |_| true).unwrap().logs.remove(&prompt).unwrap_or_default();
    text_of(&codec::decode(&records.concat()).unwrap())
}

#[test]
fn what_is_appended_is_on_disk_without_the_beginning_that_the_claim_has() {
    let (folder, segments) = journal(Durability::Process);
    let (one, other) = (start(&segments), start(&segments));
    for (prompt, words) in [(one, "a"), (other, "x"), (one, "bc"), (other, "yz")] {
        say(&segments, prompt, words);
    }
    assert_eq!(recovered(&folder, one), "abc");
    assert_eq!(recovered(&folder, other), "xyz");
    assert_eq!(said(&segments, one).unwrap(), "beginning abc");
    assert_eq!(sizes(&folder), [segments.bytes()]);
}

#[test]
fn a_prompt_that_is_not_running_takes_nothing() {
    let (folder, segments) = journal(Durability::Process);
    let prompt = start(&segments);
    finish(&segments, prompt);
    assert!(segments.append(prompt, text(1, "late")).unwrap().is_none());
    assert_eq!((said(&segments, prompt), sizes(&folder)), (None, vec![]));
}

#[test]
fn a_batch_that_does_not_continue_its_log_is_not_taken() {
    let (folder, segments) = journal(Durability::Process);
    let prompt = start(&segments);
    say(&segments, prompt, "a");
    for position in [0, 1, 3] {
        assert!(segments.append(prompt, text(position, "x")).unwrap().is_none());
    }
    assert!(segments.append(prompt, Batch::default()).unwrap().is_none());
    say(&segments, prompt, "b");
    assert_eq!(recovered(&folder, prompt), "ab");
}

#[test]
fn a_full_segment_is_closed_and_deleted_when_its_last_prompt_has_ended() {
    let (folder, segments) = journal(Durability::Process);
    let (one, other) = (start(&segments), start(&segments));
    append(&segments, one, 500);
    append(&segments, other, 500);
    append(&segments, one, 500);
    assert_eq!(sizes(&folder).len(), 2);
    finish(&segments, other);
    assert_eq!(sizes(&folder).len(), 2, "one needs the first segment still");
    finish(&segments, one);
    assert_eq!(sizes(&folder).len(), 1, "the active one stays");
    append(&segments, start(&segments), 10);
    assert_eq!(sizes(&folder), [segments.bytes()]);
}

#[test]
fn closed_files_are_not_kept_open() {
    let (_folder, segments) = journal(Durability::Process);
    for _ in 0..20 {
        let prompt = start(&segments);
        append(&segments, prompt, 1_000);
        finish(&segments, prompt);
    }
    assert_eq!(segments.begin_sync().1.count(), 0);
}

#[test]
fn a_long_prompt_among_short_ones_is_copied_forward_and_the_bound_holds() {
    let (folder, segments) = journal(Durability::Process);
    let (long, mut expected) = (start(&segments), String::new());
    let largest_record = 500 + RECORD;
    for round in 0..2_000_usize {
        if round % 20 == 0 {
            append(&segments, long, 1);
            expected.push('.');
        }
        let short = start(&segments);
        append(&segments, short, round % 500);
        finish(&segments, short);
        let bytes: u64 = sizes(&folder).into_iter().sum();
        assert!(bytes <= LIMITS.journal_bytes + largest_record, "{bytes} bytes in round {round}");
    }
    assert!(recovered(&folder, long).ends_with(&expected), "the last copy is whole");
}

#[test]
fn running_logs_larger_than_the_bound_are_kept_and_not_copied_all_the_time() {
    let (folder, segments) = journal(Durability::Process);
    let prompts: Vec<_> = (0..8).map(|_| start(&segments)).collect();
    let mut deleted = 0;
    for round in 1..=200 {
        for prompt in &prompts {
            let appended = segments.append(*prompt, text(round, &".".repeat(20))).unwrap().unwrap();
            for path in appended.unneeded {
                deleted += fs::metadata(&path).unwrap().len();
                remove(&path);
            }
        }
        let running = 8 * round * (20 + RECORD);
        assert!(segments.bytes() <= LIMITS.journal_bytes.max(2 * running) + 1_000, "in round {round}");
    }
    let (written, records) = (segments.bytes() + deleted, 8 * 200 * (20 + RECORD));
    assert!(written < 4 * records, "{written} bytes for {records}");
    for prompt in prompts {
        assert!(recovered(&folder, prompt).ends_with(&".".repeat(200 * 20)));
    }
}

#[test]
fn what_is_taken_back_is_gone_from_the_log() {
    let (_folder, segments) = journal(Durability::Process);
    let prompt = start(&segments);
    append(&segments, prompt, 3);
    say(&segments, prompt, "lost");
    segments.retract(prompt, 2);
    append(&segments, prompt, 1);
    assert_eq!(said(&segments, prompt).unwrap(), "beginning ....");
}

#[test]
fn numbers_go_on_behind_the_files_that_are_there() {
    let (folder, segments) = journal(Durability::Process);
    append(&segments, start(&segments), 1_000);
    append(&segments, start(&segments), 1_000);
    drop(segments);
    let again = Segments::create(folder.path(), LIMITS, Durability::Process).unwrap();
    append(&again, start(&again), 10);
    assert_eq!(numbers_in(folder.path()).unwrap(), [1, 2, 3]);
}

/// Fills segments until a long log has been copied out of the first one.
fn copy_forward(segments: &Segments) -> PromptId {
    let long = start(segments);
    append(segments, long, 10);
    while segments.state().running[&long].oldest == Some(1) {
        let short = start(segments);
        append(segments, short, 500);
        finish(segments, short);
    }
    long
}

fn sync(segments: &Segments) -> Vec<PathBuf> {
    segments.begin_sync();
    segments.synced()
}

#[test]
fn at_the_level_power_a_file_is_deleted_only_when_what_was_copied_from_it_is_on_the_disk() {
    let (folder, segments) = journal(Durability::Power);
    copy_forward(&segments);
    assert!(path_of(folder.path(), 1).exists());

    let (up_to, files) = segments.begin_sync();
    assert!(files.count() > 1, "the segments, and their folder");
    let short = start(&segments);
    append(&segments, short, 1_000);
    append(&segments, short, 10);
    assert_eq!(segments.finish(short), [] as [PathBuf; 0], "the sync is under way");
    let unneeded = segments.synced();
    assert_eq!(unneeded[0], path_of(folder.path(), 1), "also while others go on writing");
    assert_eq!(segments.begin_sync().0, up_to + 2);
    assert!(segments.synced().iter().all(|path| !unneeded.contains(path)));
}

#[test]
fn after_a_sync_that_failed_nothing_follows_in_the_same_file_and_what_runs_is_written_anew() {
    let (folder, segments) = journal(Durability::Power);
    let (prompt, other) = (start(&segments), start(&segments));
    append(&segments, prompt, 10);
    append(&segments, other, 10);
    segments.begin_sync();
    assert_eq!(segments.sync_failed(), 2, "both may be lost");
    assert!(segments.has_failed());
    append(&segments, prompt, 10);
    assert_eq!(sizes(&folder).len(), 2);
    let unneeded = sync(&segments);
    assert_eq!(unneeded, [path_of(folder.path(), 1)], "all that ran in the first is in the second");
    unneeded.iter().for_each(|path| remove(path));
    assert_eq!(recovered(&folder, prompt).len(), 10 + 10, "the copy, and what followed");
    assert_eq!(recovered(&folder, other).len(), 10);
    assert!(segments.has_failed(), "one write that works proves nothing");
    segments.try_out().unwrap();
    assert!(!segments.has_failed());
    assert_eq!(segments.begin_sync().1.count(), 1, "what was tried out is synced");
    assert_eq!(sizes(&folder).iter().sum::<u64>(), segments.bytes(), "the probe was taken back");
}

#[test]
fn what_may_be_the_only_good_copy_outlives_a_sync_that_failed_and_those_that_follow() {
    let (folder, segments) = journal(Durability::Power);
    let original = path_of(folder.path(), 1);
    let long = copy_forward(&segments);
    segments.begin_sync();
    let meanwhile = start(&segments);
    append(&segments, meanwhile, 10);
    let written = segments.state().written;
    assert_eq!(segments.sync_failed(), written, "what came meanwhile may be lost, too");
    finish(&segments, meanwhile);
    assert!(sync(&segments).is_empty() && original.exists(), "nothing was written anew yet");

    append(&segments, long, 10);
    assert!(original.exists(), "it was, and is not on the disk yet");
    assert!(sync(&segments).contains(&original));
}

#[test]
fn what_is_in_doubt_is_written_anew_before_anything_else_also_after_a_try_that_failed() {
    let (folder, segments) = journal(Durability::Power);
    let (one, other) = (start(&segments), start(&segments));
    append(&segments, one, 10);
    append(&segments, other, 10);
    segments.begin_sync();
    segments.sync_failed();
    // A segment that is there, and to which nothing has been copied.
    segments.open_segment(&mut segments.state()).unwrap();
    append(&segments, one, 10);
    let second = fs::read(path_of(folder.path(), 2)).unwrap();
    fs::remove_file(path_of(folder.path(), 1)).unwrap();
    assert_eq!((recovered(&folder, one).len(), recovered(&folder, other).len()), (20, 10));
    assert_eq!(second.len() as u64, sizes(&folder)[0]);
}

#[test]
fn segments_that_are_not_needed_are_not_forgotten_when_a_write_fails() {
    let (folder, segments) = journal(Durability::Process);
    let (one, other) = (start(&segments), start(&segments));
    append(&segments, one, 1_000);
    segments.state().running.remove(&one);
    // The next record finds the segment full and opens another, which takes no writes.
    segments.open_segment(&mut segments.state()).unwrap();
    let unwritable = File::open(path_of(folder.path(), 2)).unwrap();
    let mut state = segments.state();
    segments.hold_back_unneeded(&mut state);
    state.active.as_mut().unwrap().file = Arc::new(unwritable);
    drop(state);
    assert!(segments.append(other, text(1, "x")).is_err());
    assert_eq!(segments.finish(other)[0], path_of(folder.path(), 1));
}

#[test]
fn a_folder_that_is_gone_is_an_error_and_when_it_is_back_so_is_the_journal() {
    let (folder, segments) = journal(Durability::Process);
    let elsewhere = folder.path().with_extension("elsewhere");
    fs::rename(folder.path(), &elsewhere).unwrap();
    let prompt = start(&segments);
    assert!(segments.append(prompt, text(1, "text")).is_err());
    assert_eq!(said(&segments, prompt).unwrap(), "beginning ", "what is not on disk is not in the log");
    assert!(segments.has_failed() && segments.try_out().is_err());

    segments.conclude(prompt, text(1, "told"));
    assert_eq!(said(&segments, prompt).unwrap(), "beginning told", "but what readers were told is");
    fs::rename(&elsewhere, folder.path()).unwrap();
    segments.try_out().unwrap();
    assert!(!segments.has_failed());
}
