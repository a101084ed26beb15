//! The embedder's hot loops: matrix products, attention, layer norms. [`Instructions`] detects the
//! processor's instruction set. Most kernels are plain code that is compiled for each instruction set and
//! vectorized by the compiler; `avx2` and `avx512` contain the quantized products in intrinsics. `unsafe` is
//! in those two and in the dispatch below, nowhere else.
#![expect(unsafe_code, reason = "wide instructions are only sound on processors that have them")]

mod arithmetic;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod f32_matrix;
mod quantized_matrix;

#[cfg(test)]
mod tests;

pub(crate) use attention::{AttentionBuffers, Heads};
pub(crate) use f32_matrix::{F32Matrix, Rows};
pub(crate) use quantized_matrix::{QuantizedMatrix, QuantizedRows};

/// Columns of a tile: two AVX2 registers of eight numbers.
pub(crate) const PANEL: usize = 16;

/// Rows of a tile: with two registers for each row, twelve sums stay in registers.
pub(crate) const BLOCK: usize = 6;

/// What is done with a matrix product after the bias is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epilogue {
    /// The product replaces the output.
    Store,
    /// The product's GELU replaces the output.
    Gelu,
    /// The product is added to the output.
    Add,
}

/// The instruction set that kernels use. Only [`available`](Self::available) makes values beyond `PORTABLE`,
/// and only for what the processor has; the dispatch to `unsafe` kernels relies on that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions(InstructionSet);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstructionSet {
    Portable,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, VL and VNNI, beside all of AVX2's.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// From the slowest to the fastest.
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

/// Defines a method that dispatches to a kernel in plain code, compiled for each instruction set. The kernel
/// is generic over whether multiplication and addition are fused.
macro_rules! entry {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) = $module:ident::$kernel:ident) => {
        $(#[$doc])*
        pub(crate) fn $name(self, $($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn for_avx2($($argument: $type),*) {
                $module::$kernel::<true>($($argument),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl")]
            fn for_avx512($($argument: $type),*) {
                $module::$kernel::<true>($($argument),*);
            }
            match self.0 {
                InstructionSet::Portable => $module::$kernel::<false>($($argument),*),
                // SAFETY: this value exists only if the processor has AVX2 and FMA.
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx2 => unsafe { for_avx2($($argument),*) },
                // SAFETY: this value exists only if the processor has AVX-512 as well.
                #[cfg(target_arch = "x86_64")]
                InstructionSet::Avx512 => unsafe { for_avx512($($argument),*) },
            }
        }
    };
}

impl Instructions {
    /// Instructions that every processor has.
    pub(crate) const PORTABLE: Self = Self(InstructionSet::Portable);

    /// The fastest instruction set of this processor.
    pub(crate) fn detect() -> Self {
        Self::available().last().unwrap_or(Self::PORTABLE)
    }

    /// All instruction sets of this processor, the fastest last.
    fn available() -> impl Iterator<Item = Self> {
        InstructionSet::ALL.iter().copied().filter(|kind| kind.is_present()).map(Self)
    }

    /// Whether quantized products are faster than those of 32-bit floats.
    pub(crate) fn prefer_quantized(self) -> bool {
        self.0 != InstructionSet::Portable
    }

    entry! {
        /// Layer norm of each row: mean 0 and variance 1, then `gain` and `bias`.
        layer_norm(rows: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) = arithmetic::layer_norm
    }

    entry! {
        /// Quantizes rows to 16 bits, each with a scale of its own, so that no product with `matrix`
        /// overflows.
        quantize(rows: Rows<'_>, matrix: &QuantizedMatrix, into: &mut QuantizedRows) = quantized_matrix::quantize
    }

    entry! {
        /// `out = epilogue(rows × matrix + bias)` in 32-bit floats.
        multiply_f32(rows: Rows<'_>, matrix: &F32Matrix, epilogue: Epilogue, out: &mut [f32]) = f32_matrix::multiply
    }

    entry! {
        /// Self-attention within one text.
        attend(heads: Heads<'_>, buffers: &mut AttentionBuffers, out: &mut [f32]) = attention::attend
    }

    /// `out = epilogue(rows × matrix + bias)` in 16-bit integers.
    pub(crate) fn multiply_quantized(
        self,
        rows: &QuantizedRows,
        matrix: &QuantizedMatrix,
        epilogue: Epilogue,
        out: &mut [f32],
    ) {
        assert_eq!(rows.pairs(), matrix.pairs(), "rows and matrix have one depth");
        assert_eq!(
            out.len(),
            rows.count() * matrix.columns(),
            "the output has one number for each row and column"
        );
        match self.0 {
            InstructionSet::Portable => quantized_matrix::multiply(rows, matrix, epilogue, out),
            // SAFETY: this value exists only if the processor has AVX2 and FMA.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { avx2::multiply(rows, matrix, epilogue, out) },
            // SAFETY: this value exists only if the processor has AVX-512 with VNNI.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { avx512::multiply(rows, matrix, epilogue, out) },
        }
    }
}
