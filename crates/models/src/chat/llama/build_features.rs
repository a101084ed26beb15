//! The version of llama.cpp that is linked, and the processor features it was compiled for. Asking executes none of them.

use std::ffi::CStr;
use std::mem;

use llama_cpp_sys_2 as sys;

use super::log;

/// A processor feature that the library uses without a check at run time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuFeature {
    pub(crate) name: &'static str,
    /// Whether this processor has it.
    pub(crate) is_detected: bool,
}

/// The features that the library was compiled for. AMX is not among them: the library checks for it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn required_cpu_features() -> Vec<CpuFeature> {
    use std::arch::is_x86_feature_detected as has;
    let avx512 = [has!("avx512f"), has!("avx512cd"), has!("avx512vl"), has!("avx512dq"), has!("avx512bw")];
    // SAFETY: these return a constant.
    let features = unsafe {
        [
            // Code compiled for AVX uses all earlier extensions.
            ("AVX", sys::ggml_cpu_has_avx(), has!("avx") && has!("sse4.2")),
            ("AVX2", sys::ggml_cpu_has_avx2(), has!("avx2")),
            ("BMI2", sys::ggml_cpu_has_bmi2(), has!("bmi2")),
            ("FMA", sys::ggml_cpu_has_fma(), has!("fma")),
            ("F16C", sys::ggml_cpu_has_f16c(), has!("f16c")),
            ("AVX-512 (F, CD, VL, DQ, BW)", sys::ggml_cpu_has_avx512(), avx512 == [true; 5]),
            ("AVX-512 VBMI", sys::ggml_cpu_has_avx512_vbmi(), has!("avx512vbmi")),
            ("AVX-512 VNNI", sys::ggml_cpu_has_avx512_vnni(), has!("avx512vnni")),
            ("AVX-512 BF16", sys::ggml_cpu_has_avx512_bf16(), has!("avx512bf16")),
            ("AVX-VNNI", sys::ggml_cpu_has_avx_vnni(), has!("avxvnni")),
        ]
    };
    let compiled = features.into_iter().filter(|(_, is_compiled, _)| *is_compiled != 0);
    compiled.map(|(name, _, is_detected)| CpuFeature { name, is_detected }).collect()
}

/// On other architectures llama.cpp is compiled for the baseline.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn required_cpu_features() -> Vec<CpuFeature> {
    Vec::new()
}

/// The version of the library.
pub(crate) fn version() -> String {
    // SAFETY: the text ends with a zero and lives as long as the process.
    let own = unsafe { CStr::from_ptr(sys::ggml_version()) };
    format!("{CRATE} {}", own.to_string_lossy())
}

/// The crate that brings it, as the workspace pins it.
const CRATE: &str = "llama-cpp-sys-2 0.1.160";

/// Whether the library multiplies tiles of weights with AMX: compiled in, and permitted by the kernel.
pub(crate) fn has_amx() -> bool {
    log::start();
    // SAFETY: the library is ready. The function found by this name has this type; its list ends with a null.
    unsafe {
        let device = sys::ggml_backend_dev_by_type(sys::GGML_BACKEND_DEVICE_TYPE_CPU);
        if device.is_null() {
            return false;
        }
        let registry = sys::ggml_backend_dev_backend_reg(device);
        let name = c"ggml_backend_dev_get_extra_bufts".as_ptr();
        let found = sys::ggml_backend_reg_get_proc_address(registry, name);
        let extra: sys::ggml_backend_dev_get_extra_bufts_t = mem::transmute(found);
        let Some(extra) = extra else { return false };
        let mut kinds = extra(device);
        while !kinds.is_null() && !(*kinds).is_null() {
            if CStr::from_ptr(sys::ggml_backend_buft_name(*kinds)) == c"AMX" {
                return true;
            }
            kinds = kinds.add(1);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_the_workspace_pins() {
        let (name, version) = CRATE.split_once(' ').unwrap();
        let pinned = format!("{name} = {{ version = \"={version}\"");
        assert!(include_str!("../../../../../Cargo.toml").contains(&pinned), "{pinned}");
        assert!(super::version().starts_with(CRATE), "{}", super::version());
    }
}
