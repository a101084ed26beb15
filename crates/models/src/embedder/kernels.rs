//! The arithmetic that the embedder spends its time in. This file picks the
//! instructions once, by what the processor has; `avx2` and `avx512` wrap the few that take raw addresses, and
//! nothing else has `unsafe`. The rest is plain code, compiled for each of them and for any processor.
#![expect(unsafe_code, reason = "wide instructions are only sound on processors that have them")]

mod arithmetic;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod full;
mod quantized;

#[cfg(test)]
mod tests;

pub(crate) use attention::{AttentionSpace, Heads};
pub(crate) use full::{FullMatrix, Rows};
pub(crate) use quantized::{QuantizedMatrix, QuantizedRows};

/// Columns that a kernel computes at once: two registers of eight numbers.
pub(crate) const PANEL: usize = 16;

/// Rows that a kernel computes at once: with two registers a row, twelve sums stay in registers.
pub(crate) const BLOCK: usize = 6;

/// What happens to a product and its bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// It replaces what was there.
    Store,
    /// Its GELU replaces what was there.
    Gelu,
    /// It is added to what was there.
    Add,
}

/// The instructions that kernels may use. That only `available` makes those that not every processor has is what
/// makes them sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, VL and VNNI, beside all of AVX2's.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Kind {
    /// From those that any processor has to the best ones.
    const ALL: &[Self] = &[
        Self::Portable,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
    ];

    fn is_present(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_present()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
        }
    }
}

/// A safe entry to a kernel that is plain code, generic over whether it may fuse multiplication and addition.
macro_rules! entry {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) = $module:ident::$kernel:ident) => {
        $(#[$doc])*
        pub(crate) fn $name(self, $($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn wide($($argument: $type),*) {
                $module::$kernel::<true>($($argument),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl")]
            fn widest($($argument: $type),*) {
                $module::$kernel::<true>($($argument),*);
            }
            match self.0 {
                Kind::Portable => $module::$kernel::<false>($($argument),*),
                // SAFETY: the processor has AVX2 and FMA, or there were no such value.
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2 => unsafe { wide($($argument),*) },
                // SAFETY: the processor has AVX-512 as well, or there were no such value.
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512 => unsafe { widest($($argument),*) },
            }
        }
    };
}

impl Instructions {
    /// Those that any processor has.
    pub(crate) const PORTABLE: Self = Self(Kind::Portable);

    /// The best ones of this processor.
    pub(crate) fn detect() -> Self {
        Self::available().last().unwrap_or(Self::PORTABLE)
    }

    /// All that this processor has, the best ones last.
    fn available() -> impl Iterator<Item = Self> {
        Kind::ALL.iter().copied().filter(|kind| kind.is_present()).map(Self)
    }

    /// Whether products of quantized numbers are faster than others.
    pub(crate) fn prefer_quantized(self) -> bool {
        self.0 != Kind::Portable
    }

    entry! {
        /// Brings each row of `width` numbers to mean zero and variance one, then to `gain` and `bias`.
        layer_norm(rows: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) = arithmetic::layer_norm
    }

    entry! {
        /// Rounds rows to 16 bits, each by a scale of its own, so that no product with `matrix` can overflow.
        quantize(rows: Rows<'_>, matrix: &QuantizedMatrix, into: &mut QuantizedRows) = quantized::quantize
    }

    entry! {
        /// `out = finish(rows × matrix + bias)`.
        multiply_full(rows: Rows<'_>, matrix: &FullMatrix, finish: Finish, out: &mut [f32]) = full::multiply
    }

    entry! {
        /// Self-attention within one text.
        attend(heads: Heads<'_>, space: &mut AttentionSpace, out: &mut [f32]) = attention::attend
    }

    /// `out = finish(rows × matrix + bias)`.
    pub(crate) fn multiply_quantized(
        self,
        rows: &QuantizedRows,
        matrix: &QuantizedMatrix,
        finish: Finish,
        out: &mut [f32],
    ) {
        assert_eq!(rows.pairs(), matrix.pairs(), "rows and matrix have one depth");
        assert_eq!(out.len(), rows.count() * matrix.columns(), "there is one number a row and column");
        match self.0 {
            Kind::Portable => quantized::multiply(rows, matrix, finish, out),
            // SAFETY: the processor has AVX2 and FMA, or there were no such value.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { avx2::multiply(rows, matrix, finish, out) },
            // SAFETY: the processor has AVX-512 with VNNI, or there were no such value.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { avx512::multiply(rows, matrix, finish, out) },
        }
    }
}
