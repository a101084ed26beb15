use super::super::rotation::RotatedPairs;
use super::*;

const ROTATION: Rotation =
    Rotation { pairs: RotatedPairs::Halves, head: 4, rotated: 4, base: 100.0, scale: 1.0 };

impl AsRef<Self> for KvState {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A serialized sequence of two layers, each with a key of one head and a value of two numbers.
fn sequence(first_position: u32, values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_numbers(&mut bytes, &[77, 3, 1, number(values.len())]);
    for index in 0..number(values.len()) {
        put_numbers(&mut bytes, &[first_position + index, 1, 3]);
    }
    put_numbers(&mut bytes, &[0, 2, 0, 0]);
    for layer in [1.0, 2.0] {
        put_row_header(&mut bytes, 8);
        for value in values {
            f32_to_f16(&[value * layer, 0.0, value + layer, 1.0], &mut bytes);
        }
    }
    for layer in [1.0, 2.0] {
        put_row_header(&mut bytes, 4);
        values.iter().for_each(|value| f32_to_f16(&[*value, layer], &mut bytes));
    }
    bytes
}

fn layout() -> KvLayout {
    KvLayout::of(&sequence(0, &[1.0]), ROTATION).unwrap()
}

#[test]
fn a_serialized_sequence_survives_the_round_trip() {
    let serialized = sequence(0, &[1.0, 2.0, 3.0]);
    let state = layout().parse(&serialized).unwrap();
    assert_eq!((state.tokens, state.bytes.len()), (3, layout().bytes(3)));
    let mut joined = layout().join::<KvState>(&state, &[], || true).unwrap();
    // The sequence number differs, which llama.cpp ignores.
    let mut expected = serialized;
    for at in [4, 24, 36, 48] {
        expected[at..at + 4].fill(0);
        joined[at..at + 4].fill(0);
    }
    assert_eq!(joined, expected);
}

#[test]
fn passages_are_joined_one_after_the_other_with_rotated_keys() {
    let layout = layout();
    let state = |values: &[f32]| layout.parse(&sequence(0, values)).unwrap();
    // Each passage was computed after the prefix.
    let first = state(&[1.0, 2.0, 3.0]);
    let passages = [layout.slice(&first, 2..3), layout.slice(&state(&[1.0, 2.0, 4.0, 5.0]), 2..4)];
    let joined = layout.join(&layout.slice(&first, 0..2), &passages, || true).unwrap();
    let joined = layout.parse(&joined).unwrap();
    assert_eq!(joined.tokens, 5);
    let plain = state(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(layout.values(&joined, 1), layout.values(&plain, 1));
    for layer in 0..2 {
        let (keys, expected) =
            (f16_to_f32(layout.keys(&joined, layer)), f16_to_f32(layout.keys(&plain, layer)));
        assert_eq!(keys[..12], expected[..12], "the prefix and the first passage are not shifted");
        let mut rotated = expected[12..].to_vec();
        ROTATION.by(1).apply(&mut rotated);
        assert!(relative_difference(&keys[12..], &rotated) < 0.01);
        assert!(relative_difference(&keys[12..], &expected[12..]) > 0.1);
    }
    assert!(layout.join(&plain, &passages, || false).is_none(), "it is no longer needed");
}

#[test]
fn differences_tell_a_shifted_state_from_an_unshifted_one() {
    let layout = layout();
    let state = layout.parse(&sequence(0, &[3.0, 4.0])).unwrap();
    let mut shifted = state.clone();
    let mut keys = f16_to_f32(&state.bytes[..32]);
    ROTATION.by(-7).apply(&mut keys);
    let mut rotated = Vec::new();
    f32_to_f16(&keys, &mut rotated);
    shifted.bytes[..32].copy_from_slice(&rotated);
    let differ = |by, is: fn(&f32) -> bool| layout.differences(&state, &shifted, by).iter().all(is);
    assert!(differ(-7, |&difference| difference < 0.01));
    assert!(differ(7, |&difference| difference > 0.1) && differ(0, |&difference| difference > 0.1));
}

#[test]
fn tokens_are_parsed_in_the_order_of_their_positions() {
    let in_order = sequence(4, &[1.0, 2.0, 3.0]);
    let mut mixed = sequence(4, &[2.0, 3.0, 1.0]);
    for (at, position) in [(16, 5_u32), (28, 6), (40, 4)] {
        mixed[at..at + 4].copy_from_slice(&position.to_le_bytes());
    }
    assert!(layout().parse(&mixed) == layout().parse(&in_order));
    mixed[16..20].copy_from_slice(&7_u32.to_le_bytes());
    assert!(layout().parse(&mixed).is_none(), "a gap");
}

#[test]
fn other_layouts_are_rejected() {
    let good = sequence(0, &[1.0, 2.0]);
    for end in 0..good.len() {
        assert!(layout().parse(&good[..end]).is_none(), "cut at {end}");
    }
    // Two streams, two sequences in a cell, transposed values, other formats and row sizes, another magic number.
    for (at, number) in [(8, 2_u32), (20, 2), (40, 1), (48, 64), (56, 8), (60, 9), (0, 78)] {
        let mut other = good.clone();
        other[at..at + 4].copy_from_slice(&number.to_le_bytes());
        assert!(layout().parse(&other).is_none(), "at {at}");
    }
    assert!(layout().parse(&[good.as_slice(), &[0]].concat()).is_none());
    assert!(KvLayout::of(&good, Rotation { head: 3, rotated: 2, ..ROTATION }).is_none());
    assert!(KvLayout::of(&good, Rotation { rotated: 5, ..ROTATION }).is_none());
}
