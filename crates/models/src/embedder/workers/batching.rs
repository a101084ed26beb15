//! Groups texts into batches: longest first, without splitting or padding, so that the numbers of a batch fit
//! the processor's L2 cache.

use std::cmp::Reverse;

/// Tokens of a batch, at most; a longer text is a batch of its own.
const BATCH_TOKENS: usize = 256;

/// The batches, as positions of texts, given the number of tokens of each text.
pub(super) fn batches(lengths: &[usize]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&text| Reverse(lengths[text]));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for text in order {
        match batches.last_mut() {
            Some(batch) if lengths[text] <= room => batch.push(text),
            _ => {
                batches.push(vec![text]);
                room = BATCH_TOKENS;
            }
        }
        room = room.saturating_sub(lengths[text]);
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_is_in_one_batch_and_only_a_long_text_exceeds_the_limit(
            lengths in prop::collection::vec(1_usize..600, 0..60),
        ) {
            let batches = batches(&lengths);
            let mut texts: Vec<usize> = batches.concat();
            texts.sort_unstable();
            prop_assert_eq!(texts, (0..lengths.len()).collect::<Vec<_>>());
            for batch in batches {
                let tokens: usize = batch.iter().map(|text| lengths[*text]).sum();
                prop_assert!(tokens <= BATCH_TOKENS || batch.len() == 1);
            }
        }
    }

    #[test]
    fn the_longest_texts_come_first() {
        assert_eq!(batches(&[3, 200, 100, 300]), [vec![3], vec![1], vec![2, 0]]);
    }
}
