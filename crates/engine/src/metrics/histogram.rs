//! A histogram of whole numbers, so that sums stay exact; times are in microseconds.

/// Counts of values by size, in buckets with fixed upper bounds.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One count for each bound, and one for the values above all of them.
    counts: Vec<u64>,
    sum: u64,
}

impl Histogram {
    /// An empty histogram. The bounds must ascend.
    pub(super) fn new(bounds: &'static [u64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0 }
    }

    pub(super) fn observe(&mut self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Each upper bound with the number of values up to it, cumulative as in Prometheus.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let cumulative = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        self.bounds.iter().copied().zip(cumulative)
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the values; saturates at `u64::MAX`.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_every_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::new(&[10, 20, 50]);
        [0, 10, 11, 50, 51, 1_000].into_iter().for_each(|value| histogram.observe(value));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(10, 2), (20, 3), (50, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (6, 1_122));
    }
}
