//! Sampling: picks the next token from the logits.

use std::hash::{BuildHasher, RandomState};

use super::llama::Token;

/// Min-p: tokens less likely than this share of the most likely one are never picked.
const MIN_P: f32 = 0.05;

/// Picks tokens. The same seed and logits give the same tokens.
pub(super) struct Sampler {
    temperature: f32,
    random: u64,
}

impl Sampler {
    /// A greedy sampler at temperature 0; else a random one, seeded by the operating system without a seed.
    pub(super) fn new(temperature: f32, seed: Option<u64>) -> Self {
        Self { temperature, random: seed.unwrap_or_else(|| RandomState::new().hash_one(0)) }
    }

    /// The next token; none if there are no finite logits.
    pub(super) fn pick(&mut self, logits: &[f32]) -> Option<Token> {
        let (best, highest) = most_likely(logits)?;
        if self.temperature <= 0.0 {
            return Token::try_from(best).ok();
        }
        let (part, temperature) = (self.next_part(), self.temperature);
        let weights = logits.iter().map(|logit| ((logit - highest) / temperature).exp());
        let candidates = weights.enumerate().filter(|(_, weight)| *weight >= MIN_P);
        let mut left = part * candidates.clone().map(|(_, weight)| weight).sum::<f32>();
        for (token, weight) in candidates {
            left -= weight;
            if left < 0.0 {
                return Token::try_from(token).ok();
            }
        }
        Token::try_from(best).ok()
    }

    /// A number from 0 up to 1: SplitMix64, of which the first 24 bits fill a float.
    fn next_part(&mut self) -> f32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        #[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
        let part = (mixed >> 40) as f32 / (1_u32 << 24) as f32;
        part
    }
}

/// The most likely token, the first of several, and its logit.
fn most_likely(logits: &[f32]) -> Option<(usize, f32)> {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let best = logits.iter().position(|&logit| logit == highest)?;
    highest.is_finite().then_some((best, highest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_0_picks_the_most_likely_token_and_the_first_of_equals() {
        let mut sampler = Sampler::new(0.0, None);
        assert_eq!(sampler.pick(&[0.5, 2.0, -1.0, 2.0]), Some(1));
        assert_eq!(sampler.pick(&[-3.0]), Some(0));
    }

    #[test]
    fn without_finite_logits_there_is_no_token() {
        for logits in [&[][..], &[f32::NAN, f32::NAN], &[f32::INFINITY, 0.0], &[f32::NEG_INFINITY]] {
            assert_eq!(Sampler::new(0.7, None).pick(logits), None, "{logits:?}");
        }
    }

    #[test]
    fn tokens_are_picked_by_their_probability_and_unlikely_ones_never() {
        let mut sampler = Sampler::new(1.0, Some(7));
        let mut times = [0; 4];
        // 1 : 1/e : 1/100 : 1, of which the third is below the minimum.
        for _ in 0..10_000 {
            let token = sampler.pick(&[0.0, -1.0, -4.6, 0.0]).unwrap();
            times[usize::try_from(token).unwrap()] += 1;
        }
        assert_eq!(times[2], 0);
        for (seen, expected) in [(times[0], 4_223), (times[1], 1_554), (times[3], 4_223)] {
            assert!((i32::abs(seen - expected)) < 200, "{times:?}");
        }
    }

    #[test]
    fn the_same_seed_picks_the_same_tokens() {
        let logits: Vec<f32> = (0..50_u8).map(|token| f32::from(token % 7)).collect();
        let picked = |seed| {
            let mut sampler = Sampler::new(1.5, Some(seed));
            (0..20).map(|_| sampler.pick(&logits)).collect::<Vec<_>>()
        };
        assert_eq!(picked(1), picked(1));
        assert_ne!(picked(1), picked(2));
    }
}
