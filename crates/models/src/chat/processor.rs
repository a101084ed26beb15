//! Whether this processor has the instructions that llama.cpp was compiled for. Asked before anything of it runs,
//! since a processor that meets an instruction it does not know ends the process.

use super::llama::{Instructions, instructions};

/// Fails with the names of the instructions that are missing.
pub(super) fn check() -> Result<(), String> {
    let missing = instructions().into_iter().filter(|&instructions| !is_here(instructions)).map(name);
    told(&missing.collect::<Vec<_>>())
}

#[cfg(target_arch = "x86_64")]
fn is_here(instructions: Instructions) -> bool {
    use std::arch::is_x86_feature_detected as has;
    match instructions {
        // What is compiled for AVX uses all that came before it.
        Instructions::Avx => has!("avx") && has!("sse4.2"),
        Instructions::Avx2 => has!("avx2"),
        Instructions::Bmi2 => has!("bmi2"),
        Instructions::Fma => has!("fma"),
        Instructions::F16c => has!("f16c"),
        Instructions::Avx512 => {
            let core = has!("avx512f") && has!("avx512cd") && has!("avx512vl");
            core && has!("avx512dq") && has!("avx512bw")
        }
        Instructions::Avx512Vbmi => has!("avx512vbmi"),
        Instructions::Avx512Vnni => has!("avx512vnni"),
        Instructions::Avx512Bf16 => has!("avx512bf16"),
        Instructions::AvxVnni => has!("avxvnni"),
    }
}

/// Elsewhere llama.cpp is compiled for what every such processor has.
#[cfg(not(target_arch = "x86_64"))]
fn is_here(_: Instructions) -> bool {
    true
}

fn name(instructions: Instructions) -> &'static str {
    match instructions {
        Instructions::Avx => "AVX",
        Instructions::Avx2 => "AVX2",
        Instructions::Bmi2 => "BMI2",
        Instructions::Fma => "FMA",
        Instructions::F16c => "F16C",
        Instructions::Avx512 => "AVX-512 (F, CD, VL, DQ, BW)",
        Instructions::Avx512Vbmi => "AVX-512 VBMI",
        Instructions::Avx512Vnni => "AVX-512 VNNI",
        Instructions::Avx512Bf16 => "AVX-512 BF16",
        Instructions::AvxVnni => "AVX-VNNI",
    }
}

fn told(missing: &[&str]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "this processor lacks {}, which this build of Wellspring uses for models in the process: build it on this \
         machine, or with `make NATIVE=0` for any with AVX2, or use a provider that is a server of its own (kind = \
         \"ollama\" or \"openai\")",
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

    #[test]
    fn this_build_runs_on_the_processor_that_tests_it() {
        assert_eq!(check(), Ok(()));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_the_library_was_compiled_for_is_known() {
        let compiled = instructions();
        assert!(
            compiled.contains(&Instructions::Avx2) && compiled.contains(&Instructions::Fma),
            "{compiled:?}"
        );
    }
}
