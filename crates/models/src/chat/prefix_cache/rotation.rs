//! Rotary position embedding: a key in the KV cache is rotated by its token's position, so that a key moves to another
//! position by a further rotation. Pure.

use std::f32::consts::TAU;

/// How a model rotates keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rotation {
    /// Which two dimensions are rotated together.
    pub(crate) pairs: RotatedPairs,
    /// Dimensions of a head.
    pub(crate) head: usize,
    /// How many of them are rotated.
    pub(crate) rotated: usize,
    /// The base of the angular frequencies.
    pub(crate) base: f32,
    /// Scale of the positions.
    pub(crate) scale: f32,
}

/// Which two dimensions are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RotatedPairs {
    /// Adjacent ones.
    Neighbours,
    /// One of the first half and its counterpart in the second half.
    Halves,
}

/// The rotation of keys by a number of positions.
pub(super) struct Shift {
    rotation: Rotation,
    /// Cosine and sine of each pair's angle.
    angles: Vec<(f32, f32)>,
}

impl Rotation {
    /// Whether its parameters are consistent.
    pub(super) fn is_valid(&self) -> bool {
        let Self { head, rotated, base, scale, .. } = *self;
        rotated > 0 && rotated.is_multiple_of(2) && rotated <= head && base > 1.0 && scale > 0.0
    }

    /// The rotation by a number of positions; back if it is negative.
    pub(super) fn by(self, positions: i32) -> Shift {
        let angle = |pair: usize| {
            // In double precision: a single-precision angle of many turns has few digits left.
            let frequency = f64::from(self.base).powf(-2.0 * pair as f64 / self.rotated as f64);
            let angle = f64::from(positions) * f64::from(self.scale) * frequency;
            #[expect(clippy::cast_possible_truncation, reason = "an angle of less than a turn")]
            let angle = (angle % f64::from(TAU)) as f32;
            (angle.cos(), angle.sin())
        };
        Shift { rotation: self, angles: (0..self.rotated / 2).map(angle).collect() }
    }
}

impl Shift {
    /// Rotates the keys of consecutive heads.
    pub(super) fn apply(&self, keys: &mut [f32]) {
        let Rotation { pairs, head, rotated, .. } = self.rotation;
        for key in keys.chunks_exact_mut(head) {
            match pairs {
                RotatedPairs::Halves => {
                    let (first, second) = key[..rotated].split_at_mut(rotated / 2);
                    for ((a, b), angle) in first.iter_mut().zip(second).zip(&self.angles) {
                        (*a, *b) = rotate(*a, *b, *angle);
                    }
                }
                RotatedPairs::Neighbours => {
                    for (pair, angle) in key[..rotated].chunks_exact_mut(2).zip(&self.angles) {
                        (pair[0], pair[1]) = rotate(pair[0], pair[1], *angle);
                    }
                }
            }
        }
    }
}

fn rotate(a: f32, b: f32, (cosine, sine): (f32, f32)) -> (f32, f32) {
    (a * cosine - b * sine, a * sine + b * cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(pairs: RotatedPairs) -> Rotation {
        Rotation { pairs, head: 6, rotated: 4, base: 10_000.0, scale: 1.0 }
    }

    fn close(a: &[f32], b: &[f32]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5)
    }

    #[test]
    fn rotations_add_up_and_their_inverse_restores_the_keys() {
        for pairs in [RotatedPairs::Halves, RotatedPairs::Neighbours] {
            let keys: Vec<f32> = (0..12_u8).map(f32::from).collect();
            let rotated = |shifts: &[i32]| {
                let mut keys = keys.clone();
                shifts.iter().for_each(|&shift| rotation(pairs).by(shift).apply(&mut keys));
                keys
            };
            assert!(close(&rotated(&[7, -7]), &keys));
            assert!(close(&rotated(&[3, 4]), &rotated(&[7])));
            assert!(!close(&rotated(&[7]), &keys));
        }
    }

    #[test]
    fn the_first_pair_rotates_by_one_radian_per_position_and_the_rest_of_a_head_stays() {
        let mut keys = vec![1.0, 0.0, 0.0, 0.0, 5.0, 6.0];
        rotation(RotatedPairs::Halves).by(1).apply(&mut keys);
        assert!(close(&keys, &[1_f32.cos(), 0.0, 1_f32.sin(), 0.0, 5.0, 6.0]), "{keys:?}");
        let mut keys = vec![1.0, 0.0, 1.0, 0.0, 5.0, 6.0];
        rotation(RotatedPairs::Neighbours).by(1).apply(&mut keys);
        let slow = 0.01_f32;
        assert!(close(&keys, &[1_f32.cos(), 1_f32.sin(), slow.cos(), slow.sin(), 5.0, 6.0]), "{keys:?}");
    }
}
