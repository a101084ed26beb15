//! Whether this processor has the features that llama.cpp was compiled for. Checked before any of it runs: an
//! unsupported instruction ends the process.

use super::llama::{CpuFeature, required_cpu_features};
use super::load_error::LoadError;

/// Fails with the names of the missing features.
pub(super) fn check() -> Result<(), LoadError> {
    let missing = required_cpu_features().into_iter().filter(|&feature| !is_detected(feature)).map(name);
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() { Ok(()) } else { Err(LoadError::UnsupportedCpu(missing.join(", "))) }
}

#[cfg(target_arch = "x86_64")]
fn is_detected(feature: CpuFeature) -> bool {
    use std::arch::is_x86_feature_detected as has;
    match feature {
        // Code compiled for AVX uses all earlier extensions.
        CpuFeature::Avx => has!("avx") && has!("sse4.2"),
        CpuFeature::Avx2 => has!("avx2"),
        CpuFeature::Bmi2 => has!("bmi2"),
        CpuFeature::Fma => has!("fma"),
        CpuFeature::F16c => has!("f16c"),
        CpuFeature::Avx512 => {
            let core = has!("avx512f") && has!("avx512cd") && has!("avx512vl");
            core && has!("avx512dq") && has!("avx512bw")
        }
        CpuFeature::Avx512Vbmi => has!("avx512vbmi"),
        CpuFeature::Avx512Vnni => has!("avx512vnni"),
        CpuFeature::Avx512Bf16 => has!("avx512bf16"),
        CpuFeature::AvxVnni => has!("avxvnni"),
    }
}

/// On other architectures llama.cpp is compiled for the baseline.
#[cfg(not(target_arch = "x86_64"))]
fn is_detected(_: CpuFeature) -> bool {
    true
}

fn name(feature: CpuFeature) -> &'static str {
    match feature {
        CpuFeature::Avx => "AVX",
        CpuFeature::Avx2 => "AVX2",
        CpuFeature::Bmi2 => "BMI2",
        CpuFeature::Fma => "FMA",
        CpuFeature::F16c => "F16C",
        CpuFeature::Avx512 => "AVX-512 (F, CD, VL, DQ, BW)",
        CpuFeature::Avx512Vbmi => "AVX-512 VBMI",
        CpuFeature::Avx512Vnni => "AVX-512 VNNI",
        CpuFeature::Avx512Bf16 => "AVX-512 BF16",
        CpuFeature::AvxVnni => "AVX-VNNI",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_features_are_named() {
        let message = LoadError::UnsupportedCpu("AVX2, FMA".to_owned()).to_string();
        assert!(message.starts_with("this processor lacks AVX2, FMA, which"), "{message}");
    }

    #[test]
    fn this_processor_runs_this_build() {
        assert!(check().is_ok());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_compiled_features_are_known() {
        let compiled = required_cpu_features();
        assert!(compiled.contains(&CpuFeature::Avx2) && compiled.contains(&CpuFeature::Fma), "{compiled:?}");
    }
}
