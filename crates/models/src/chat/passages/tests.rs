//! Kept passages against prompts that are read as a whole, with the real small model.

use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use super::super::llama::{ContextSize, Decoded, Weights};
use super::super::tests;
use super::*;
use crate::chat::Keep;
use crate::chat::llama::Parse;
use crate::chat::prompt::Piece;

const INSTRUCTIONS: &str =
    "You answer questions about software from the passages that you are given, and from nothing else.\n";
const PASSAGES: [&str; 3] = [
    "A mutex is a lock that at most one thread holds at a time. Whoever wants it while it is held waits.\n",
    "The journal keeps the logs of running prompts. Each batch is written before any reader sees it.\n",
    "Port 8080 is where the server listens unless the settings say otherwise, on loopback alone.\n",
];
const LEAD: &str = "This comes before, and is left out.\n";
const QUESTION: &str = "Question: what is a mutex?\nAnswer:";

/// A context, and two sequences of it beside those of the passages.
struct Bench {
    context: Context,
    passages: Passages,
    whole: Sequence,
    joined: Sequence,
}

impl Bench {
    fn new(weights: &Arc<Weights>, folder: Option<&Path>) -> Self {
        let size = ContextSize { tokens: 4_096, batch: 512, sequences: 10, threads: 1 };
        let mut context = Context::new(weights.clone(), size).unwrap();
        let mut sequences: Vec<_> = context.sequences().collect();
        let shape = shape_of(&mut context, [sequences[0], sequences[1]]).unwrap();
        let (whole, joined) = (sequences.pop().unwrap(), sequences.pop().unwrap());
        let keep = Keep { passages: true, put_off: false, memory_bytes: 64 << 20, disk_bytes: 1 << 30 };
        let store = Store::open(folder.map(PathBuf::from), keep, Arc::default());
        let passages = Passages::new(shape, Key::of_model(&["a model"]), store, sequences).unwrap();
        Self { context, passages, whole, joined }
    }

    /// What follows a prompt that is read as a whole.
    fn read_whole(&mut self, prompt: &Prompt) -> Vec<f32> {
        self.context.cut(self.whole, 0);
        self.read(self.whole, 0, &prompt.tokens)
    }

    /// What follows a prompt that is joined from its pieces, and how many of its tokens were there before.
    fn read_joined(&mut self, prompt: &Prompt) -> (Vec<f32>, usize) {
        let gathering = self.gather(prompt);
        self.context.cut(self.joined, 0);
        assert!(self.passages.join(&mut self.context, &gathering.parts(), self.joined, || true));
        let place = prompt.after_pieces();
        (self.read(self.joined, place, &prompt.tokens[place..]), gathering.cached())
    }

    fn gather(&mut self, prompt: &Prompt) -> Gathering {
        let mut gathering = self.passages.look(prompt.clone(), || true).expect("it has pieces");
        self.passages.want(&gathering);
        while !gathering.is_whole() {
            let mut batch = Batch::default();
            let parts = self.passages.fill(&mut self.context, &mut batch, 512, false);
            assert_eq!(self.context.decode(&mut batch, &|| false), Decoded::Done);
            for (part, tokens) in parts {
                if let Some((key, state)) = self.passages.go_on(&mut self.context, part, tokens) {
                    gathering.take(key, &state);
                }
            }
        }
        gathering
    }

    /// What a sequence has of its first tokens, so many; it forgets the others.
    fn state_of_first(&mut self, sequence: Sequence, tokens: usize) -> State {
        self.context.cut(sequence, tokens);
        self.passages.shape.read(&self.context.state(sequence).unwrap()).unwrap()
    }

    fn read(&mut self, sequence: Sequence, place: usize, tokens: &[Token]) -> Vec<f32> {
        let (mut batch, mut last) = (Batch::default(), 0);
        for (number, &token) in tokens.iter().enumerate() {
            last = batch.push(sequence, place + number, token, number + 1 == tokens.len());
        }
        assert_eq!(self.context.decode(&mut batch, &|| false), Decoded::Done);
        self.context.logits(last).unwrap().to_vec()
    }
}

fn prompt(weights: &Weights, passages: &[&str]) -> Prompt {
    let tokens_of = |text| weights.vocabulary().tokens(text, Parse::Plain).unwrap();
    let (mut tokens, mut pieces) = (tokens_of(INSTRUCTIONS), Vec::new());
    for passage in passages {
        let start = tokens.len();
        tokens.extend(tokens_of(passage));
        pieces.push(Piece { place: start..tokens.len(), lead: tokens_of(LEAD) });
    }
    tokens.extend(tokens_of(QUESTION));
    Prompt { tokens, pieces, answer_tokens: 10 }
}

/// The largest difference, measured by how far the numbers lie apart.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    let (least, most) =
        a.iter().fold((f32::MAX, f32::MIN), |(least, most), &one| (least.min(one), most.max(one)));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / (most - least)
}

fn likeliest(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap()
}

#[test]
fn one_passage_right_after_the_instructions_is_as_if_the_whole_prompt_were_read() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    for passage in PASSAGES {
        let prompt = prompt(&weights, &[passage]);
        let whole = bench.read_whole(&prompt);
        bench.context.cut(bench.whole, 0);
        let (joined, _) = bench.read_joined(&prompt);
        assert!(difference(&whole, &joined) < 1e-4, "{}", difference(&whole, &joined));
        assert_eq!(likeliest(&whole), likeliest(&joined), "{passage}");
        // Where others have taken the first places of the context, numbers are added up in another order.
        bench.context.cut(bench.joined, 0);
        bench.read_whole(&prompt);
        let (beside, _) = bench.read_joined(&prompt);
        assert!(difference(&whole, &beside) < 0.05, "{}", difference(&whole, &beside));
        bench.context.cut(bench.joined, 0);
    }
}

#[test]
fn what_was_kept_is_as_if_it_were_computed_now() {
    let weights = tests::weights();
    let folder = tempfile::tempdir().unwrap();
    let prompt = prompt(&weights, &PASSAGES);
    let (fresh, cached) = Bench::new(&weights, Some(folder.path())).read_joined(&prompt);
    assert_eq!(cached, 0);
    // Another process finds the files: whoever is dropped has written them.
    let mut later = Bench::new(&weights, Some(folder.path()));
    let (restored, cached) = later.read_joined(&prompt);
    assert_eq!(cached, prompt.after_pieces());
    assert!(difference(&fresh, &restored) < 1e-4, "{}", difference(&fresh, &restored));
    let given = later.context.state(later.whole);
    assert!(given.is_none_or(|given| later.passages.shape.read(&given).is_none()), "it is empty");
    // To the last bit: what is put into a sequence is what comes out of it.
    let parts = later.gather(&prompt).parts();
    assert!(later.passages.join(&mut later.context, &parts, later.whole, || true));
    let given = later.context.state(later.whole).unwrap();
    let placed: Vec<_> = parts.iter().map(KeptPart::placed).collect();
    let joined = later.passages.shape.join(&placed, 0, || true).unwrap();
    assert!(later.passages.shape.read(&given) == later.passages.shape.read(&joined));
    assert!(fs::read_dir(folder.path()).unwrap().count() > 0);
}

#[test]
fn a_passage_that_follows_others_is_what_it_is_behind_its_lead() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let [a, b, _] = PASSAGES;
    let two = prompt(&weights, &[a, b]);
    let joined = bench.gather(&two).parts();
    // The same tokens in one piece, of which the end is the passage.
    let mut behind = two.base().to_vec();
    behind.extend(&two.pieces[1].lead);
    let left_out = behind.len();
    behind.extend(&two.tokens[two.pieces[1].place.clone()]);
    bench.read(bench.whole, 0, &behind);
    bench.context.cut_front(bench.whole, left_out);
    let shape = &bench.passages.shape;
    let expected = shape.read(&bench.context.state(bench.whole).unwrap()).unwrap();
    assert_eq!(joined[2].computed_at, left_out);
    let differences = shape.differences(&expected, &joined[2].state, 0);
    assert!(differences.iter().all(|&difference| difference < 0.01), "{differences:?}");
    // And that is not what it is as the first one.
    let alone = bench.gather(&prompt(&weights, &[b]));
    let alone = &alone.parts()[1].state;
    let moved = i32::try_from(two.pieces[1].lead.len()).unwrap();
    let differences = bench.passages.shape.differences(alone, &expected, moved);
    assert!(differences.iter().any(|&difference| difference > 0.05), "{differences:?}");
}

#[test]
fn a_prompt_that_is_read_around_what_is_kept_is_the_same_however_that_is_put_in() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let prompt = prompt(&weights, &PASSAGES);
    let (at_once, _) = bench.read_joined(&prompt);
    let parts = bench.gather(&prompt).parts();
    bench.context.cut(bench.joined, 0);
    for part in &parts {
        assert!(bench.passages.join(&mut bench.context, slice::from_ref(part), bench.joined, || true));
    }
    let question = &prompt.tokens[prompt.after_pieces()..];
    let one_by_one = bench.read(bench.joined, prompt.after_pieces(), question);
    assert!(difference(&at_once, &one_by_one) < 0.01, "{}", difference(&at_once, &one_by_one));
    // The second passage is computed where it stands, behind the first one: as in the whole prompt, and not as it is kept.
    bench.read_whole(&prompt);
    let second = prompt.pieces[1].place.clone();
    let whole = bench.state_of_first(bench.whole, second.end);
    let kept = bench.state_of_first(bench.joined, second.end);
    bench.context.cut(bench.joined, second.start);
    bench.read(bench.joined, second.start, &prompt.tokens[second.clone()]);
    let around = bench.state_of_first(bench.joined, second.end);
    let differs = |state: &State| {
        let differences = bench.passages.shape.differences(&whole, state, 0);
        differences.into_iter().fold(0.0, f32::max)
    };
    assert!(differs(&around) < 0.1 && differs(&kept) > 0.2, "{} {}", differs(&around), differs(&kept));
    assert!(bench.passages.join(&mut bench.context, &parts[3..], bench.joined, || true));
    let answer = bench.read(bench.joined, prompt.after_pieces(), question);
    bench.context.cut(bench.joined, 0);
    // As if the whole prompt were read up to the third one, and not if that is put in with keys turned elsewhere.
    bench.read_whole(&prompt);
    let mut answer_behind_whole = |third: KeptPart| {
        bench.context.cut(bench.whole, second.end);
        assert!(bench.passages.join(&mut bench.context, &[third], bench.whole, || true));
        bench.read(bench.whole, prompt.after_pieces(), question)
    };
    let expected = answer_behind_whole(parts[3].clone());
    let elsewhere =
        answer_behind_whole(KeptPart { computed_at: parts[3].computed_at + 7, ..parts[3].clone() });
    let differences = [expected, elsewhere].map(|other| difference(&answer, &other));
    assert!(differences[0] < 0.05 && differences[1] > 0.08, "{differences:?}");
}

#[test]
fn passages_serve_in_any_order_and_a_changed_one_is_another() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let [a, b, c] = PASSAGES;
    let first = prompt(&weights, &[a, b, c]);
    assert_eq!(bench.read_joined(&first).1, 0);
    let swapped = prompt(&weights, &[a, c, b]);
    assert_eq!(bench.read_joined(&swapped).1, swapped.after_pieces());
    // Whichever is the first one for the first time is another one there, and so is the one that was.
    let turned = prompt(&weights, &[c, a, b]);
    let anew = turned.pieces[0].place.len() + turned.pieces[1].place.len();
    assert_eq!(bench.read_joined(&turned).1, turned.after_pieces() - anew);
    let both = prompt(&weights, &[c, b, a]);
    assert_eq!(bench.read_joined(&both).1, both.after_pieces());
    let changed = b.replace("Each batch", "No batch");
    let changed = prompt(&weights, &[a, &changed, c]);
    let piece = changed.pieces[1].place.len();
    assert_eq!(bench.read_joined(&changed).1, changed.after_pieces() - piece);
}

#[test]
fn tokens_that_lie_scattered_in_the_context_are_kept_in_their_order() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let prompt = prompt(&weights, &PASSAGES);
    let orderly = bench.read_whole(&prompt);
    let given = bench.context.state(bench.whole).unwrap();
    // Two sequences take turns, then one goes and leaves its gaps to a third.
    bench.context.cut(bench.whole, 0);
    for (number, &token) in prompt.tokens.iter().enumerate() {
        bench.read(bench.joined, number, &[token]);
        bench.read(bench.whole, number, &[token]);
    }
    let half = prompt.tokens.len() / 2;
    bench.context.cut(bench.joined, half);
    bench.context.cut(bench.joined, 0);
    let scattered = bench.read_whole(&prompt);
    let shape = &bench.passages.shape;
    let scattered_state = shape.read(&bench.context.state(bench.whole).unwrap()).unwrap();
    let orderly_state = shape.read(&given).unwrap();
    let differences = shape.differences(&orderly_state, &scattered_state, 0);
    assert!(differences.iter().all(|&difference| difference < 0.1), "{differences:?}");
    assert!(difference(&orderly, &scattered) < 0.01);
}

#[test]
fn what_is_too_long_behind_its_lead_serves_as_the_first_one() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let mut prompt = prompt(&weights, &PASSAGES[..1]);
    let length = prompt.after_pieces();
    prompt.pieces[0].lead = vec![prompt.tokens[0]; TOKENS - length + 1];
    let read = bench.passages.want_ahead(&prompt, Room::Left).unwrap();
    let bytes = bench.passages.shape.bytes(prompt.pieces[0].place.len()) as u64;
    assert_eq!(read, Read { passages: 1, bytes, held: 0, too_long: 0 });
    assert!(bench.passages.look(prompt.clone(), || true).is_ok());
    prompt.pieces.push(prompt.pieces[0].clone());
    assert!(bench.passages.look(prompt, || true).is_err(), "a prompt that it follows in is read as a whole");
}

#[test]
fn what_is_put_off_is_bounded() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    for number in 0..MOST_PUT_OFF {
        let others = PASSAGES.map(|passage| format!("{number}: {passage}"));
        let prompt = prompt(&weights, &others.each_ref().map(String::as_str));
        let gathering = bench.passages.look(prompt, || true).unwrap_or_else(|_| panic!("it has pieces"));
        let fits = 3 * (number + 1) <= MOST_PUT_OFF;
        assert_eq!(bench.passages.can_put_off(&gathering), fits);
        bench.passages.want_later(&gathering);
        assert!(!bench.passages.can_put_off(&gathering), "it was, or there is no room");
    }
    assert_eq!(bench.passages.strands.len(), MOST_PUT_OFF);
    assert!(bench.passages.has_work(true) && !bench.passages.has_work(false), "nobody waits for it");
}

#[test]
fn what_is_to_be_computed_anyway_stays_when_whoever_waits_for_it_leaves() {
    let weights = tests::weights();
    let mut bench = Bench::new(&weights, None);
    let [anyway, first_anyway, wanted_alone] = PASSAGES.map(|passage| {
        let prompt = prompt(&weights, &[passage]);
        bench.passages.look(prompt, || true).unwrap_or_else(|_| panic!("it has a piece"))
    });
    bench.passages.want_later(&anyway);
    bench.passages.want(&anyway);
    bench.passages.want(&first_anyway);
    bench.passages.want_later(&first_anyway);
    bench.passages.want(&wanted_alone);
    assert_eq!(bench.passages.strands.len(), 3);
    bench.passages.retain(&mut bench.context, |_| false);
    let is_left = |gathering: &Gathering| !bench.passages.can_put_off(gathering);
    assert!(is_left(&anyway) && is_left(&first_anyway) && !is_left(&wanted_alone));
    assert!(bench.passages.has_work(true) && !bench.passages.has_work(false), "nobody waits for it");
}
