//! The version of llama.cpp that is linked, and the processor features it was compiled for. Asking executes none of them.

use std::ffi::CStr;
use std::mem;

use llama_cpp_sys_2 as sys;

use super::log;

/// An instruction set that not every processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuFeature {
    Avx,
    Avx2,
    Bmi2,
    Fma,
    F16c,
    Avx512,
    Avx512Vbmi,
    Avx512Vnni,
    Avx512Bf16,
    AvxVnni,
}

/// The features that the library uses without a check at run time. AMX is not among them: it is checked for.
pub(crate) fn required_cpu_features() -> Vec<CpuFeature> {
    // SAFETY: these return a constant.
    let compiled = unsafe {
        [
            (CpuFeature::Avx, sys::ggml_cpu_has_avx()),
            (CpuFeature::Avx2, sys::ggml_cpu_has_avx2()),
            (CpuFeature::Bmi2, sys::ggml_cpu_has_bmi2()),
            (CpuFeature::Fma, sys::ggml_cpu_has_fma()),
            (CpuFeature::F16c, sys::ggml_cpu_has_f16c()),
            (CpuFeature::Avx512, sys::ggml_cpu_has_avx512()),
            (CpuFeature::Avx512Vbmi, sys::ggml_cpu_has_avx512_vbmi()),
            (CpuFeature::Avx512Vnni, sys::ggml_cpu_has_avx512_vnni()),
            (CpuFeature::Avx512Bf16, sys::ggml_cpu_has_avx512_bf16()),
            (CpuFeature::AvxVnni, sys::ggml_cpu_has_avx_vnni()),
        ]
    };
    compiled.into_iter().filter(|(_, has)| *has != 0).map(|(feature, _)| feature).collect()
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
