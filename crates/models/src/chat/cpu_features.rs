//! Whether this processor has the features that llama.cpp was compiled for. Checked before any of it runs: an
//! unsupported instruction ends the process.

use super::llama::required_cpu_features;
use super::load_error::LoadError;

/// Fails with the names of the missing features.
pub(super) fn check() -> Result<(), LoadError> {
    let missing = required_cpu_features().into_iter().filter(|feature| !feature.is_detected);
    let missing: Vec<_> = missing.map(|feature| feature.name).collect();
    if missing.is_empty() { Ok(()) } else { Err(LoadError::UnsupportedCpu(missing.join(", "))) }
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
        let compiled: Vec<_> = required_cpu_features().iter().map(|feature| feature.name).collect();
        assert!(compiled.contains(&"AVX2") && compiled.contains(&"FMA"), "{compiled:?}");
    }
}
