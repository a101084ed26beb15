//! The best of many, in an order that is always the same: by score, then by id.

use domain::ChunkId;

/// Keeps the best that it is offered.
pub(crate) struct Best<T> {
    limit: usize,
    kept: Vec<Scored<T>>,
    /// What is worse than this is not among the best.
    floor: f32,
}

/// Something that was found.
pub(crate) struct Scored<T> {
    pub(crate) score: f32,
    pub(crate) chunk: ChunkId,
    pub(crate) what: T,
}

impl<T> Best<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), floor: f32::NEG_INFINITY }
    }

    /// Takes it if it is among the best so far. Its id is only asked for then.
    pub(crate) fn offer(&mut self, score: f32, chunk: impl FnOnce() -> ChunkId, what: T) {
        if score < self.floor || self.limit == 0 {
            return;
        }
        self.kept.push(Scored { score, chunk: chunk(), what });
        if self.kept.len() >= 2 * self.limit {
            self.cut();
        }
    }

    /// The best, in order.
    pub(crate) fn into_sorted(mut self) -> Vec<Scored<T>> {
        self.cut();
        self.kept
    }

    fn cut(&mut self) {
        self.kept.sort_unstable_by(|left, right| {
            right.score.total_cmp(&left.score).then_with(|| left.chunk.cmp(&right.chunk))
        });
        self.kept.truncate(self.limit);
        if self.kept.len() == self.limit {
            self.floor = self.kept.last().map_or(f32::NEG_INFINITY, |worst| worst.score);
        }
    }
}

/// The value that `count` values reach; if there are fewer, every value does.
pub(crate) fn reached_by(count: usize, values: impl Iterator<Item = f32>) -> f32 {
    let mut kept = Vec::with_capacity(2 * count);
    let mut floor = f32::NEG_INFINITY;
    for value in values {
        if value <= floor {
            continue;
        }
        kept.push(value);
        if kept.len() >= 2 * count {
            floor = keep_largest(&mut kept, count);
        }
    }
    floor.max(keep_largest(&mut kept, count))
}

fn keep_largest(values: &mut Vec<f32>, count: usize) -> f32 {
    let Some(last) = count.checked_sub(1).filter(|&last| last < values.len()) else {
        return f32::NEG_INFINITY;
    };
    let (_, &mut least, _) = values.select_nth_unstable_by(last, |left, right| right.total_cmp(left));
    values.truncate(count);
    least
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    proptest! {
        #[test]
        fn the_best_are_the_first_of_all_in_order(
            offers in vec((0_u8..10, any::<u16>()), 0..100),
            limit in 0_usize..20,
        ) {
            let mut best = Best::new(limit);
            for &(score, id) in &offers {
                best.offer(f32::from(score), || chunk(id), ());
            }
            let best = best.into_sorted().into_iter().map(|scored| (scored.score, scored.chunk));

            let mut all: Vec<_> = offers.iter().map(|&(score, id)| (f32::from(score), chunk(id))).collect();
            all.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
            all.truncate(limit);
            prop_assert_eq!(best.collect::<Vec<_>>(), all);
        }

        #[test]
        fn as_many_values_as_asked_for_reach_what_is_told(
            values in vec(0_u8..50, 0..100),
            count in 1_usize..20,
        ) {
            let told = reached_by(count, values.iter().copied().map(f32::from));
            let mut sorted = values;
            sorted.sort_unstable_by(|left, right| right.cmp(left));
            let expected = sorted.get(count - 1).map_or(f32::NEG_INFINITY, |&value| f32::from(value));
            prop_assert_eq!(told, expected);
        }
    }

    fn chunk(id: u16) -> ChunkId {
        ChunkId(Uuid::from_u128(id.into()))
    }
}
