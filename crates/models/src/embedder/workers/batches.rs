//! Which texts are embedded together: whole ones, longest first, without padding, so that a batch fills the
//! processor's second cache and no more.

/// Tokens of a batch, unless one text alone has more.
const BATCH_TOKENS: usize = 256;

/// The places of the texts of each batch, given the tokens of each text.
pub(super) fn batches(lengths: &[usize]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(lengths[*place]));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for place in order {
        match batches.last_mut() {
            Some(batch) if lengths[place] <= room => batch.push(place),
            _ => {
                batches.push(vec![place]);
                room = BATCH_TOKENS;
            }
        }
        room = room.saturating_sub(lengths[place]);
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_is_in_one_batch_and_only_a_long_text_exceeds_one(
            lengths in prop::collection::vec(1_usize..600, 0..60),
        ) {
            let batches = batches(&lengths);
            let mut places: Vec<usize> = batches.concat();
            places.sort_unstable();
            prop_assert_eq!(places, (0..lengths.len()).collect::<Vec<_>>());
            for batch in batches {
                let tokens: usize = batch.iter().map(|place| lengths[*place]).sum();
                prop_assert!(tokens <= BATCH_TOKENS || batch.len() == 1);
            }
        }
    }

    #[test]
    fn the_longest_texts_go_first() {
        assert_eq!(batches(&[3, 200, 100, 300]), [vec![3], vec![1], vec![2, 0]]);
    }
}
