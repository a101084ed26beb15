//! Keys at another place. What a model keeps of a token to be found by, its key, is rotated by the token's place; so
//! a key that was computed at one place is moved to another by rotating it on. Pure.

use std::f32::consts::TAU;

/// How a model rotates keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rotation {
    /// Which two numbers are rotated together.
    pub(crate) pairs: Pairs,
    /// So many numbers each head has.
    pub(crate) head: usize,
    /// So many of these are rotated.
    pub(crate) rotated: usize,
    /// How much slower each pair turns than the one before, over all of them.
    pub(crate) base: f32,
    /// How far a place is from the next.
    pub(crate) scale: f32,
}

/// Which two numbers are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// A number and the next.
    Neighbours,
    /// A number of the first half and the one at its place in the second.
    Halves,
}

/// The sines and cosines of a move by some places.
pub(super) struct Turn {
    rotation: Rotation,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rotation {
    /// Whether its numbers fit each other.
    pub(super) fn is_sound(&self) -> bool {
        let Self { head, rotated, base, scale, .. } = *self;
        rotated > 0 && rotated.is_multiple_of(2) && rotated <= head && base > 1.0 && scale > 0.0
    }

    /// The way over so many places; back if it is negative.
    pub(super) fn turn(self, places: i32) -> Turn {
        let angle = |pair: usize| {
            // In double precision, as an angle of many turns keeps few digits.
            let speed = f64::from(self.base).powf(-2.0 * pair as f64 / self.rotated as f64);
            let angle = f64::from(places) * f64::from(self.scale) * speed;
            #[expect(clippy::cast_possible_truncation, reason = "an angle of less than a turn")]
            let angle = (angle % f64::from(TAU)) as f32;
            angle
        };
        let angles: Vec<f32> = (0..self.rotated / 2).map(angle).collect();
        Turn {
            rotation: self,
            cosines: angles.iter().map(|angle| angle.cos()).collect(),
            sines: angles.iter().map(|angle| angle.sin()).collect(),
        }
    }
}

impl Turn {
    /// Rotates keys, head after head.
    pub(super) fn apply(&self, keys: &mut [f32]) {
        let Rotation { pairs, head, rotated, .. } = self.rotation;
        for key in keys.chunks_exact_mut(head) {
            match pairs {
                Pairs::Halves => {
                    let (first, second) = key[..rotated].split_at_mut(rotated / 2);
                    let turns = self.cosines.iter().zip(&self.sines);
                    for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(turns) {
                        (*a, *b) = (*a * cosine - *b * sine, *a * sine + *b * cosine);
                    }
                }
                Pairs::Neighbours => {
                    let turns = self.cosines.iter().zip(&self.sines);
                    for (pair, (cosine, sine)) in key[..rotated].chunks_exact_mut(2).zip(turns) {
                        (pair[0], pair[1]) =
                            (pair[0] * cosine - pair[1] * sine, pair[0] * sine + pair[1] * cosine);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(pairs: Pairs) -> Rotation {
        Rotation { pairs, head: 6, rotated: 4, base: 10_000.0, scale: 1.0 }
    }

    fn close(a: &[f32], b: &[f32]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5)
    }

    #[test]
    fn a_turn_and_the_way_back_change_nothing_and_turns_add_up() {
        for pairs in [Pairs::Halves, Pairs::Neighbours] {
            let keys: Vec<f32> = (0..12_u8).map(f32::from).collect();
            let turned = |turns: &[i32]| {
                let mut keys = keys.clone();
                turns.iter().for_each(|&places| rotation(pairs).turn(places).apply(&mut keys));
                keys
            };
            assert!(close(&turned(&[7, -7]), &keys));
            assert!(close(&turned(&[3, 4]), &turned(&[7])));
            assert!(!close(&turned(&[7]), &keys));
        }
    }

    #[test]
    fn the_first_pair_turns_by_one_radian_a_place_and_the_rest_of_a_head_stays() {
        let mut keys = vec![1.0, 0.0, 0.0, 0.0, 5.0, 6.0];
        rotation(Pairs::Halves).turn(1).apply(&mut keys);
        assert!(close(&keys, &[1_f32.cos(), 0.0, 1_f32.sin(), 0.0, 5.0, 6.0]), "{keys:?}");
        let mut keys = vec![1.0, 0.0, 1.0, 0.0, 5.0, 6.0];
        rotation(Pairs::Neighbours).turn(1).apply(&mut keys);
        let slow = 0.01_f32;
        assert!(close(&keys, &[1_f32.cos(), 1_f32.sin(), slow.cos(), slow.sin(), 5.0, 6.0]), "{keys:?}");
    }
}
