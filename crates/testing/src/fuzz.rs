//! Fuzzing: inputs that are nearly right, made of right ones, for parsers that must take or refuse anything. Some
//! hundred inputs, the same every time; with `WELLSPRING_SOAK` a minute of ever new ones. What fails is shrunk.

use std::env;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::{Index, select};
use proptest::strategy::{Just, Strategy};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use proptest::{prop_oneof, test_runner};

/// Inputs that are tried each time.
const SHARE: u32 = 300;

/// How long a soak goes on for one parser.
const SOAK: Duration = Duration::from_secs(60);

/// No parser takes so long for an input, however busy the machine is.
const LONGEST: Duration = Duration::from_secs(10);

/// Changes of one input.
const EDITS: usize = 12;

/// The longest piece that an edit takes away, or takes twice.
const PIECE: usize = 64;

/// Gives `check` inputs that are made of `seeds`, with `words` that mean something to the parser strewn in. It must
/// not panic, and must come back soon.
///
/// # Panics
/// If it does, with the shortest input that was found.
pub fn fuzz(seeds: &[&[u8]], words: &[&str], check: impl Fn(&[u8])) {
    let inputs = inputs(seeds, words);
    let try_all = |mut runner: TestRunner| {
        let ended = runner.run(&inputs, |input| {
            let began = Instant::now();
            check(&input);
            let took = began.elapsed();
            if took < LONGEST { Ok(()) } else { Err(TestCaseError::fail(format!("it took {took:?}"))) }
        });
        if let Err(test_runner::TestError::Fail(reason, input)) = ended {
            panic!("{reason}\nthe input: {:?}", String::from_utf8_lossy(&input));
        }
    };
    let config = Config { cases: SHARE, failure_persistence: None, ..Config::default() };
    if env::var_os("WELLSPRING_SOAK").is_none() {
        try_all(TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)));
        return;
    }
    let (began, mut tried) = (Instant::now(), 0);
    while began.elapsed() < SOAK {
        try_all(TestRunner::new(config.clone()));
        tried += SHARE;
    }
    println!("{tried} inputs in {:?}", began.elapsed());
}

/// The same for a parser of texts; what is no UTF-8 any more comes with replacement characters.
///
/// # Panics
/// As [`fuzz`] does.
pub fn fuzz_text(seeds: &[&str], words: &[&str], check: impl Fn(&str)) {
    let seeds: Vec<_> = seeds.iter().map(|seed| seed.as_bytes()).collect();
    fuzz(&seeds, words, |input| check(&String::from_utf8_lossy(input)));
}

/// What is done to an input, at a place in it.
#[derive(Clone, Debug)]
enum Edit {
    Overwrite(u8),
    Insert(Vec<u8>),
    TakeAway(usize),
    Repeat(usize),
    /// From here on it is another seed, from there on.
    GoOnAs(Vec<u8>, Index),
    End,
}

fn inputs(seeds: &[&[u8]], words: &[&str]) -> impl Strategy<Value = Vec<u8>> + use<> {
    let owned: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    let mut words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    // What has been too much for many a parser.
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
        2 => (1..PIECE).prop_map(Edit::TakeAway),
        2 => (1..PIECE).prop_map(Edit::Repeat),
        1 => (select(owned.clone()), any::<Index>()).prop_map(|(seed, from)| Edit::GoOnAs(seed, from)),
        1 => Just(Edit::End),
    ];
    (select(owned), vec((any::<Index>(), edit), 0..EDITS)).prop_map(|(mut input, edits)| {
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
            Self::TakeAway(length) => drop(input.drain(piece(*length, input))),
            Self::Repeat(length) => {
                let piece = input[piece(*length, input)].to_vec();
                drop(input.splice(at..at, piece));
            }
            Self::GoOnAs(seed, from) => {
                input.truncate(at);
                input.extend(&seed[from.index(seed.len() + 1)..]);
            }
            Self::End => input.truncate(at),
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
    fn inputs_are_many_and_the_same_every_time() {
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
    fn what_a_parser_cannot_bear_is_found_and_told() {
        let found =
            catch_unwind(|| fuzz_text(&["a,b,c"], &["\u{1}"], |text| assert!(!text.contains('\u{1}'))));
        let told = *found.unwrap_err().downcast::<String>().expect("a text");
        assert!(told.contains("the input: ") && told.contains("\\u{1}"), "{told}");
    }
}
