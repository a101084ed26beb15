//! Dot products of a query with many quantized vectors, the hot loop of a dense search. This is the only
//! module of the crate with `unsafe`: AVX2 instructions, after a check that the processor has them, on slices
//! whose lengths are checked. The AVX2 and the portable kernel give the same numbers.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "AVX2 instructions are only reachable through unsafe functions")
)]

/// The largest magnitude of a number in a quantized vector.
pub(super) const MAX_BYTE: i8 = 127;

/// The largest magnitude of a number in a quantized query of this dimension: no sum of products overflows.
pub(super) fn max_query_number(dimension: usize) -> i16 {
    let fits = i32::MAX / i32::from(MAX_BYTE) / i32::try_from(dimension.max(1)).unwrap_or(i32::MAX);
    i16::try_from(fits).unwrap_or(i16::MAX)
}

/// One dot product for each row. A row has as many signed bytes as the query has numbers.
///
/// # Panics
/// If `rows` and `products` differ in their number of rows.
pub(super) fn dot_products(query: &[i16], rows: &[u8], products: &mut [i32]) {
    assert_eq!(rows.len(), query.len() * products.len(), "a row is as long as the query");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, and the lengths fit.
        unsafe { avx2(query, rows, products) };
        return;
    }
    portable(query, rows, products);
}

fn portable(query: &[i16], rows: &[u8], products: &mut [i32]) {
    for (row, product) in rows.chunks_exact(query.len().max(1)).zip(products) {
        *product = scalar(query, row);
    }
}

fn scalar(query: &[i16], row: &[u8]) -> i32 {
    query.iter().zip(row).map(|(&query, &number)| i32::from(query) * i32::from(number.cast_signed())).sum()
}

/// # Safety
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(query: &[i16], rows: &[u8], products: &mut [i32]) {
    use std::arch::x86_64::{
        __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_shuffle_epi32, _mm256_add_epi32,
        _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_loadu_si256,
        _mm256_madd_epi16, _mm256_setzero_si256,
    };
    const STEP: usize = 16;

    let dimension = query.len();
    let whole = dimension - dimension % STEP;
    for (row, product) in rows.chunks_exact(dimension.max(1)).zip(products) {
        let step = |at: usize, sum: __m256i| {
            // SAFETY: `at + STEP` is at most `dimension`, the length of both; loads need no alignment.
            let (numbers, queries) = unsafe {
                (
                    _mm_loadu_si128(row.as_ptr().add(at).cast()),
                    _mm256_loadu_si256(query.as_ptr().add(at).cast()),
                )
            };
            _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_cvtepi8_epi16(numbers), queries))
        };
        // Two sums, so that one addition does not wait for the other.
        let (mut even, mut odd) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        let mut at = 0;
        while at + 2 * STEP <= whole {
            even = step(at, even);
            odd = step(at + STEP, odd);
            at += 2 * STEP;
        }
        if at < whole {
            even = step(at, even);
        }
        let eight = _mm256_add_epi32(even, odd);
        let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b_01_00_11_10>(four));
        let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b_00_00_00_01>(two));
        *product = _mm_cvtsi128_si32(one) + scalar(&query[whole..], &row[whole..]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_kernel_gives_the_sums_of_a_plain_loop((query, rows) in case()) {
            let count = rows.len() / query.len();
            let expected: Vec<i64> = rows.chunks(query.len()).map(|row| {
                let pairs = query.iter().zip(row);
                pairs.map(|(&query, &number)| i64::from(query) * i64::from(number.cast_signed())).sum()
            }).collect();
            for kernel in [dot_products, portable] {
                let mut products = vec![0; count];
                kernel(&query, &rows, &mut products);
                prop_assert_eq!(products.into_iter().map(i64::from).collect::<Vec<_>>(), expected.clone());
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for dimension in [1, 384, 1024, 4096] {
            let query = vec![max_query_number(dimension); dimension];
            let rows = vec![(-MAX_BYTE).cast_unsigned(); dimension];
            let mut products = [0];
            dot_products(&query, &rows, &mut products);
            let expected = -i64::from(query[0]) * i64::from(MAX_BYTE) * i64::try_from(dimension).unwrap();
            assert_eq!(i64::from(products[0]), expected);
        }
    }

    fn case() -> impl Strategy<Value = (Vec<i16>, Vec<u8>)> {
        (1_usize..100, 0_usize..5).prop_flat_map(|(dimension, count)| {
            (vec(any::<i16>(), dimension), vec(any::<u8>(), dimension * count))
        })
    }
}
