//! What the library was compiled for. It tells that without using any of it.

use std::ffi::CStr;
use std::mem;

use llama_cpp_sys_2 as sys;

use super::log;

/// Instructions that not every processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
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

/// The instructions that it uses wherever it likes. AMX is none of them: where that is missing, it does without.
pub(crate) fn instructions() -> Vec<Instructions> {
    // SAFETY: these return a constant.
    let compiled = unsafe {
        [
            (Instructions::Avx, sys::ggml_cpu_has_avx()),
            (Instructions::Avx2, sys::ggml_cpu_has_avx2()),
            (Instructions::Bmi2, sys::ggml_cpu_has_bmi2()),
            (Instructions::Fma, sys::ggml_cpu_has_fma()),
            (Instructions::F16c, sys::ggml_cpu_has_f16c()),
            (Instructions::Avx512, sys::ggml_cpu_has_avx512()),
            (Instructions::Avx512Vbmi, sys::ggml_cpu_has_avx512_vbmi()),
            (Instructions::Avx512Vnni, sys::ggml_cpu_has_avx512_vnni()),
            (Instructions::Avx512Bf16, sys::ggml_cpu_has_avx512_bf16()),
            (Instructions::AvxVnni, sys::ggml_cpu_has_avx_vnni()),
        ]
    };
    compiled.into_iter().filter(|(_, has)| *has != 0).map(|(instructions, _)| instructions).collect()
}

/// Which version of the library it is.
pub(crate) fn version() -> String {
    // SAFETY: the text ends with a zero and lives as long as the process.
    let own = unsafe { CStr::from_ptr(sys::ggml_version()) };
    format!("{CRATE} {}", own.to_string_lossy())
}

/// The crate that brings it, as the workspace pins it.
const CRATE: &str = "llama-cpp-sys-2 0.1.160";

/// Whether it multiplies whole tiles of weights at once (AMX): compiled for it, and allowed to.
pub(crate) fn multiplies_tiles() -> bool {
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
