//! Counts of values by their size. Whole numbers, so that sums stay exact: seconds are kept as microseconds.

/// How many values were up to each bound, and what they sum up to.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One for each bound, and one for what is above all of them.
    counts: Vec<u64>,
    sum: u64,
}

impl Histogram {
    /// No values yet. The bounds rise.
    pub(super) fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0 }
    }

    pub(super) fn observe(&mut self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Each bound, and how many values were up to it.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let so_far = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        self.bounds.iter().copied().zip(so_far)
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What they sum up to.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_every_bound_that_it_does_not_exceed() {
        let mut histogram = Histogram::new(&[10, 20, 50]);
        [0, 10, 11, 50, 51, 1_000].into_iter().for_each(|value| histogram.observe(value));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(10, 2), (20, 3), (50, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (6, 1_122));
    }
}
