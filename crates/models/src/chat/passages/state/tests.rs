use super::super::rotation::Pairs;
use super::*;

const ROTATION: Rotation = Rotation { pairs: Pairs::Halves, head: 4, rotated: 4, base: 100.0, scale: 1.0 };

/// What llama.cpp gives away for tokens of two layers, each with a key of one head and a value of two numbers.
fn sequence(first_place: u32, numbers: &[f32]) -> Vec<u8> {
    let tokens = u32::try_from(numbers.len()).unwrap();
    let mut bytes = Vec::new();
    for number in [77, 3, 1, tokens] {
        bytes.extend(number.to_le_bytes());
    }
    for place in 0..tokens {
        for number in [first_place + place, 1, 3] {
            bytes.extend(number.to_le_bytes());
        }
    }
    for number in [0_u32, 2, 0, 0] {
        bytes.extend(number.to_le_bytes());
    }
    for layer in [1.0, 2.0] {
        head(&mut bytes, 8);
        for number in numbers {
            to_halves(&[number * layer, 0.0, number + layer, 1.0], &mut bytes);
        }
    }
    for layer in [1.0, 2.0] {
        head(&mut bytes, 4);
        numbers.iter().for_each(|number| to_halves(&[*number, layer], &mut bytes));
    }
    bytes
}

fn shape() -> Shape {
    Shape::of(&sequence(0, &[1.0]), ROTATION).unwrap()
}

#[test]
fn what_is_given_away_is_taken_in_as_it_was() {
    let given = sequence(0, &[1.0, 2.0, 3.0]);
    let state = shape().read(&given).unwrap();
    assert_eq!((state.tokens, state.bytes.len()), (3, shape().bytes(3)));
    let mut joined = shape().join(&[Placed { state: &state, computed_at: 0 }], 0, || true).unwrap();
    // The sequence has another number, which nobody reads.
    let number = |bytes: &mut Vec<u8>, at: usize| bytes[at..at + 4].copy_from_slice(&0_u32.to_le_bytes());
    let mut expected = given;
    for at in [4, 24, 36, 48] {
        number(&mut expected, at);
        number(&mut joined, at);
    }
    assert_eq!(joined, expected);
}

#[test]
fn pieces_stand_one_behind_the_other_with_their_keys_turned() {
    let shape = shape();
    let state = |place, numbers: &[f32]| shape.read(&sequence(place, numbers)).unwrap();
    let (base, first, second) = (state(0, &[1.0, 2.0]), state(2, &[3.0]), state(2, &[4.0, 5.0]));
    let piece = |state, computed_at| Placed { state, computed_at };
    let joined = shape.join(&[piece(&base, 0), piece(&first, 2), piece(&second, 2)], 0, || true).unwrap();
    let joined = shape.read(&joined).unwrap();
    assert_eq!(joined.tokens, 5);
    let plain = state(0, &[1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(shape.values(&joined, 1), shape.values(&plain, 1));
    for layer in 0..2 {
        let (keys, expected) =
            (from_halves(shape.keys(&joined, layer)), from_halves(shape.keys(&plain, layer)));
        assert_eq!(keys[..12], expected[..12], "they stand where they were computed");
        let mut turned = expected[12..].to_vec();
        ROTATION.turn(1).apply(&mut turned);
        assert!(difference_of(&keys[12..], &turned) < 0.01);
        assert!(difference_of(&keys[12..], &expected[12..]) > 0.1);
    }
}

#[test]
fn a_state_that_was_moved_is_told_from_one_that_was_not() {
    let shape = shape();
    let state = shape.read(&sequence(0, &[3.0, 4.0])).unwrap();
    let joined = shape.join(&[Placed { state: &state, computed_at: 7 }], 0, || true).unwrap();
    let moved = shape.read(&joined).unwrap();
    let differ = |places, is: fn(&f32) -> bool| shape.differences(&state, &moved, places).iter().all(is);
    assert!(differ(-7, |&most| most < 0.01));
    assert!(differ(7, |&most| most > 0.1) && differ(0, |&most| most > 0.1));
}

#[test]
fn tokens_are_read_in_the_order_of_their_places() {
    let in_order = sequence(4, &[1.0, 2.0, 3.0]);
    let mut mixed = sequence(4, &[2.0, 3.0, 1.0]);
    for (at, place) in [(16, 5_u32), (28, 6), (40, 4)] {
        mixed[at..at + 4].copy_from_slice(&place.to_le_bytes());
    }
    assert!(shape().read(&mixed) == shape().read(&in_order));
    mixed[16..20].copy_from_slice(&7_u32.to_le_bytes());
    assert!(shape().read(&mixed).is_none(), "a gap");
}

#[test]
fn whatever_looks_otherwise_is_not_taken() {
    let good = sequence(0, &[1.0, 2.0]);
    for end in 0..good.len() {
        assert!(shape().read(&good[..end]).is_none(), "cut at {end}");
    }
    // Two streams, two sequences in a cell, values transposed, other forms, another mark.
    for (at, number) in [(8, 2_u32), (20, 2), (40, 1), (48, 64), (56, 8), (0, 78)] {
        let mut other = good.clone();
        other[at..at + 4].copy_from_slice(&number.to_le_bytes());
        assert!(shape().read(&other).is_none(), "at {at}");
    }
    assert!(shape().read(&[good.as_slice(), &[0]].concat()).is_none());
    assert!(Shape::of(&good, Rotation { head: 3, rotated: 2, ..ROTATION }).is_none());
    assert!(Shape::of(&good, Rotation { rotated: 5, ..ROTATION }).is_none());
}
