//! Upper bounds of the histograms' buckets: microseconds, or tokens in [`SESSION_TOKENS`].

/// From a cached answer to a model that had to be loaded first.
pub(super) const FIRST_TOKEN: &[u64] = &[
    1_000, 5_000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000, 250_000, 500_000, 750_000, 1_000_000,
    2_500_000, 5_000_000, 7_500_000, 10_000_000, 30_000_000, 60_000_000,
];

/// From 10,000 tokens a second to one in two and a half seconds.
pub(super) const INTER_TOKEN: &[u64] = &[
    100, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 75_000, 100_000, 150_000, 200_000, 300_000,
    400_000, 500_000, 750_000, 1_000_000, 2_500_000,
];

/// Whole prompts.
pub(super) const REQUEST: &[u64] = &[
    10_000,
    20_000,
    40_000,
    80_000,
    160_000,
    320_000,
    640_000,
    1_280_000,
    2_560_000,
    5_120_000,
    10_240_000,
    20_480_000,
    40_960_000,
    81_920_000,
    163_840_000,
    327_680_000,
    600_000_000,
];

/// Stages of retrieval, and cancels, which should take at most 200 ms.
pub(super) const STAGE: &[u64] = &[
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Tokens of a session.
pub(super) const SESSION_TOKENS: &[u64] =
    &[0, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000];
