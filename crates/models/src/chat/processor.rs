//! Whether this processor has the instructions that llama.cpp was compiled for. Asked before anything of it runs,
//! since a processor that meets an instruction it does not know ends the process.

/// Fails with the names of the instructions that are missing.
pub(super) fn check() -> Result<(), String> {
    told(&missing())
}

#[cfg(target_arch = "x86_64")]
fn missing() -> Vec<&'static str> {
    let needed = [
        ("SSE4.2", is_x86_feature_detected!("sse4.2")),
        ("AVX", is_x86_feature_detected!("avx")),
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("BMI2", is_x86_feature_detected!("bmi2")),
        ("FMA", is_x86_feature_detected!("fma")),
        ("F16C", is_x86_feature_detected!("f16c")),
    ];
    needed.into_iter().filter(|(_, is_there)| !is_there).map(|(name, _)| name).collect()
}

/// Elsewhere llama.cpp is compiled for what every such processor has.
#[cfg(not(target_arch = "x86_64"))]
fn missing() -> Vec<&'static str> {
    Vec::new()
}

fn told(missing: &[&str]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "this processor lacks {}, which models in the process need: \
         use a provider that is a server of its own (kind = \"ollama\" or \"openai\")",
        missing.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_processor_lacks_is_named() {
        assert_eq!(told(&[]), Ok(()));
        let message = told(&["AVX2", "FMA"]).unwrap_err();
        assert!(message.starts_with("this processor lacks AVX2, FMA, which"), "{message}");
    }
}
