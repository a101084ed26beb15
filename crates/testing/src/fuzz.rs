//! Mutation fuzzing for parsers that must accept or reject any input. A run has 300 deterministic inputs;
//! with `WELLSPRING_SOAK` it tries random ones for a minute. A failing input is shrunk.

use std::env;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::{Index, select};
use proptest::strategy::{Just, Strategy};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use proptest::{prop_oneof, test_runner};

/// Inputs of one run.
const CASES: u32 = 300;

/// How long a soak goes on for one parser.
const SOAK_TIME: Duration = Duration::from_secs(60);

/// Maximum time of a parser for one input, also on a busy machine.
const MAX_CASE_TIME: Duration = Duration::from_secs(10);

/// Maximum edits of one input.
const MAX_EDITS: usize = 12;

/// Maximum bytes that an edit deletes or repeats.
const MAX_EDIT_BYTES: usize = 64;

/// Calls `check` with mutations of `seeds`, into which `words` that are special to the parser are inserted.
/// `check` must not panic and must return within ten seconds.
///
/// # Panics
/// If it does not. The message has the shortest failing input that was found.
pub fn fuzz(seeds: &[&[u8]], words: &[&str], check: impl Fn(&[u8])) {
    let inputs = inputs(seeds, words);
    let try_all = |mut runner: TestRunner| {
        let ended = runner.run(&inputs, |input| {
            let began = Instant::now();
            check(&input);
            let took = began.elapsed();
            if took < MAX_CASE_TIME { Ok(()) } else { Err(TestCaseError::fail(format!("it took {took:?}"))) }
        });
        if let Err(test_runner::TestError::Fail(reason, input)) = ended {
            panic!("{reason}\nthe input: {:?}", String::from_utf8_lossy(&input));
        }
    };
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    if env::var_os("WELLSPRING_SOAK").is_none() {
        try_all(TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)));
        return;
    }
    let (began, mut tried) = (Instant::now(), 0);
    while began.elapsed() < SOAK_TIME {
        try_all(TestRunner::new(config.clone()));
        tried += CASES;
    }
    println!("{tried} inputs in {:?}", began.elapsed());
}

/// Calls `check` with mutated texts. Bytes that are not UTF-8 become replacement characters.
///
/// # Panics
/// As [`fuzz`] does.
pub fn fuzz_text(seeds: &[&str], words: &[&str], check: impl Fn(&str)) {
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.as_bytes()).collect();
    fuzz(&seeds, words, |input| check(&String::from_utf8_lossy(input)));
}

/// A mutation at a position of the input.
#[derive(Clone, Debug)]
enum Edit {
    Overwrite(u8),
    Insert(Vec<u8>),
    Delete(usize),
    Repeat(usize),
    /// Continues with the rest of another seed, from a position of it.
    SpliceSeed(Vec<u8>, Index),
    Truncate,
}

fn inputs(seeds: &[&[u8]], words: &[&str]) -> impl Strategy<Value = Vec<u8>> + use<> {
    let owned: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    let mut words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    // Inputs that often break parsers.
    let usual = [
        "",
        "\0",
        "\n",
        "\r\n",
        "\u{feff}",
        "\u{2028}",
        "🙂",
        "e\u{301}",
        "-1",
        "1e999",
        "18446744073709551616",
    ];
    words.extend(usual.map(|word| word.as_bytes().to_vec()));
    let edit = prop_oneof![
        3 => any::<u8>().prop_map(Edit::Overwrite),
        4 => select(words).prop_map(Edit::Insert),
        1 => vec(any::<u8>(), 1..8).prop_map(Edit::Insert),
        2 => (1..MAX_EDIT_BYTES).prop_map(Edit::Delete),
        2 => (1..MAX_EDIT_BYTES).prop_map(Edit::Repeat),
        1 => (select(owned.clone()), any::<Index>()).prop_map(|(seed, from)| Edit::SpliceSeed(seed, from)),
        1 => Just(Edit::Truncate),
    ];
    (select(owned), vec((any::<Index>(), edit), 0..MAX_EDITS)).prop_map(|(mut input, edits)| {
        edits.iter().for_each(|(place, edit)| edit.apply(&mut input, place));
        input
    })
}

impl Edit {
    fn apply(&self, input: &mut Vec<u8>, place: &Index) {
        let at = place.index(input.len() + 1);
        let piece = |length: usize, input: &[u8]| at..input.len().min(at + length);
        match self {
            Self::Overwrite(byte) => input.get_mut(at).into_iter().for_each(|old| *old = *byte),
            Self::Insert(bytes) => drop(input.splice(at..at, bytes.iter().copied())),
            Self::Delete(length) => drop(input.drain(piece(*length, input))),
            Self::Repeat(length) => {
                let piece = input[piece(*length, input)].to_vec();
                drop(input.splice(at..at, piece));
            }
            Self::SpliceSeed(seed, from) => {
                input.truncate(at);
                input.extend(&seed[from.index(seed.len() + 1)..]);
            }
            Self::Truncate => input.truncate(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn inputs_are_diverse_and_deterministic() {
        let tried = || {
            let inputs = RefCell::new(BTreeSet::new());
            fuzz(&[b"one, two", b"{}"], &["three"], |input| {
                inputs.borrow_mut().insert(input.to_vec());
            });
            inputs.into_inner()
        };
        let first = tried();
        assert!(first.len() > 200, "{}", first.len());
        let has =
            |word: &[u8]| first.iter().any(|input| input.windows(word.len()).any(|piece| piece == word));
        assert!(has(b"three") && has(b"one, two") && has(b"{}"));
        assert!(env::var_os("WELLSPRING_SOAK").is_some() || first == tried());
    }

    #[test]
    fn a_failing_input_is_found_and_shown() {
        let found =
            catch_unwind(|| fuzz_text(&["a,b,c"], &["\u{1}"], |text| assert!(!text.contains('\u{1}'))));
        let message = *found.unwrap_err().downcast::<String>().expect("a text");
        assert!(message.contains("the input: ") && message.contains("\\u{1}"), "{message}");
    }
}
