//! The k best of many scored items, in a reproducible order: by score, then by chunk id.

use domain::ChunkId;

/// Collects the best items that are pushed.
pub(super) struct TopK<T> {
    limit: usize,
    /// At most twice the limit, unsorted between cuts.
    items: Vec<Scored<T>>,
    /// Items with a lower score are not among the best.
    floor: f32,
}

/// An item with its score and the chunk id that breaks ties.
pub(super) struct Scored<T> {
    pub(super) score: f32,
    pub(super) chunk: ChunkId,
    pub(super) item: T,
}

impl<T> TopK<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, items: Vec::new(), floor: f32::NEG_INFINITY }
    }

    /// Adds an item if it may be among the best. The chunk id is computed only then.
    pub(super) fn push(&mut self, score: f32, chunk: impl FnOnce() -> ChunkId, item: T) {
        if score < self.floor || self.limit == 0 {
            return;
        }
        self.items.push(Scored { score, chunk: chunk(), item });
        if self.items.len() >= 2 * self.limit {
            self.cut();
        }
    }

    /// The best items, best first.
    pub(super) fn into_sorted(mut self) -> Vec<Scored<T>> {
        self.cut();
        self.items
    }

    fn cut(&mut self) {
        self.items.sort_unstable_by(|left, right| {
            right.score.total_cmp(&left.score).then_with(|| left.chunk.cmp(&right.chunk))
        });
        self.items.truncate(self.limit);
        if self.items.len() == self.limit {
            self.floor = self.items.last().map_or(f32::NEG_INFINITY, |worst| worst.score);
        }
    }
}

/// The k-th largest value, or negative infinity if there are fewer than `k`.
pub(super) fn kth_largest(k: usize, values: impl Iterator<Item = f32>) -> f32 {
    let mut largest = Vec::with_capacity(2 * k);
    let mut floor = f32::NEG_INFINITY;
    for value in values {
        if value <= floor {
            continue;
        }
        largest.push(value);
        if largest.len() >= 2 * k {
            floor = truncate_to_largest(&mut largest, k);
        }
    }
    floor.max(truncate_to_largest(&mut largest, k))
}

/// Truncates to the `k` largest values and returns the smallest of them.
fn truncate_to_largest(values: &mut Vec<f32>, k: usize) -> f32 {
    let Some(last) = k.checked_sub(1).filter(|&last| last < values.len()) else {
        return f32::NEG_INFINITY;
    };
    let (_, &mut smallest, _) = values.select_nth_unstable_by(last, |left, right| right.total_cmp(left));
    values.truncate(k);
    smallest
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    proptest! {
        #[test]
        fn the_top_k_are_the_first_of_all_items_in_order(
            pushed in vec((0_u8..10, any::<u16>()), 0..100),
            limit in 0_usize..20,
        ) {
            let mut best = TopK::new(limit);
            for &(score, id) in &pushed {
                best.push(f32::from(score), || chunk(id), ());
            }
            let best = best.into_sorted().into_iter().map(|scored| (scored.score, scored.chunk));

            let mut all: Vec<_> = pushed.iter().map(|&(score, id)| (f32::from(score), chunk(id))).collect();
            all.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
            all.truncate(limit);
            prop_assert_eq!(best.collect::<Vec<_>>(), all);
        }

        #[test]
        fn the_kth_largest_value_is_that_of_the_sorted_values(
            values in vec(0_u8..50, 0..100),
            k in 1_usize..20,
        ) {
            let found = kth_largest(k, values.iter().copied().map(f32::from));
            let mut sorted = values;
            sorted.sort_unstable_by(|left, right| right.cmp(left));
            let expected = sorted.get(k - 1).map_or(f32::NEG_INFINITY, |&value| f32::from(value));
            prop_assert_eq!(found, expected);
        }
    }

    fn chunk(id: u16) -> ChunkId {
        ChunkId(Uuid::from_u128(id.into()))
    }
}
