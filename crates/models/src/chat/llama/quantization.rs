//! The quantizations of a GGUF file's tensors, and conversion of a file to other quantizations.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

use llama_cpp_sys_2 as sys;

use super::log;
use crate::chat::load_error::ModelError;

/// Bytes of a tensor that are in memory at once while it is converted.
const SLAB_BYTES: usize = 64 << 20;

/// The number format of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantization(sys::ggml_type);

impl Quantization {
    /// Blocks of 32 numbers of 4 bits, each block with a scale and an offset.
    #[cfg(test)]
    pub(crate) const Q4_1: Self = Self(sys::GGML_TYPE_Q4_1);
    /// Blocks of 32 numbers of 5 bits, each block with a scale.
    pub(crate) const Q5_0: Self = Self(sys::GGML_TYPE_Q5_0);
    /// The same with an offset.
    pub(crate) const Q5_1: Self = Self(sys::GGML_TYPE_Q5_1);
    /// Blocks of 32 numbers of 8 bits, each block with a scale.
    pub(crate) const Q8_0: Self = Self(sys::GGML_TYPE_Q8_0);
}

/// A tensor of a file.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: CString,
    pub(crate) quantization: Quantization,
    pub(crate) bytes: usize,
}

/// The tensors of a GGUF file. Reads the header only.
pub(crate) fn tensors(path: &Path) -> Result<Vec<Tensor>, ModelError> {
    log::start();
    log::take_errors();
    let path = c_path(path)?;
    // SAFETY: the path ends with a zero; the file's head is freed below, and names are copied before.
    unsafe {
        let params = sys::gguf_init_params { no_alloc: true, ctx: ptr::null_mut() };
        let head = NonNull::new(sys::gguf_init_from_file(path.as_ptr(), params))
            .ok_or_else(|| ModelError::Rejected(format!("it is not a GGUF file: {}", log::take_errors())))?;
        let tensor = |number| Tensor {
            name: CStr::from_ptr(sys::gguf_get_tensor_name(head.as_ptr(), number)).to_owned(),
            quantization: Quantization(sys::gguf_get_tensor_type(head.as_ptr(), number)),
            bytes: sys::gguf_get_tensor_size(head.as_ptr(), number),
        };
        let tensors = (0..sys::gguf_get_n_tensors(head.as_ptr())).map(tensor).collect();
        sys::gguf_free(head.as_ptr());
        Ok(tensors)
    }
}

/// Writes a copy of a model's file in which the tensors of `replaced` quantizations have the quantization `into`. All
/// other tensors stay as they are, to the bit.
pub(crate) fn requantize(
    from: &Path,
    to: &Path,
    replaced: &[Quantization],
    into: Quantization,
    threads: usize,
) -> Result<(), ModelError> {
    let others = tensors(from)?.into_iter().filter(|tensor| !replaced.contains(&tensor.quantization));
    let others: Vec<_> = others.map(|tensor| (pattern(&tensor.name), tensor.quantization.0)).collect();
    let of = |(pattern, quantization): &(CString, sys::ggml_type)| sys::llama_model_tensor_override {
        pattern: pattern.as_ptr(),
        type_: *quantization,
    };
    let end = sys::llama_model_tensor_override { pattern: ptr::null(), type_: 0 };
    let overrides: Vec<_> = others.iter().map(of).chain([end]).collect();
    let (from, to) = (c_path(from)?, c_path(to)?);
    // SAFETY: paths and patterns end with zeros, the list with a null; all outlive the call.
    let failed = unsafe {
        let mut params = sys::llama_model_quantize_default_params();
        params.nthread = i32::try_from(threads).unwrap_or(1);
        params.ftype = file_type(into)?;
        params.allow_requantize = true;
        params.tt_overrides = overrides.as_ptr();
        params.max_buf_size = SLAB_BYTES;
        sys::llama_model_quantize(from.as_ptr(), to.as_ptr(), &raw const params)
    };
    match failed {
        0 => Ok(()),
        _ => Err(ModelError::Rejected(format!("it cannot be converted: {}", log::take_errors()))),
    }
}

fn file_type(quantization: Quantization) -> Result<sys::llama_ftype, ModelError> {
    match quantization.0 {
        sys::GGML_TYPE_Q5_0 => Ok(sys::LLAMA_FTYPE_MOSTLY_Q5_0),
        sys::GGML_TYPE_Q8_0 => Ok(sys::LLAMA_FTYPE_MOSTLY_Q8_0),
        other => Err(ModelError::Rejected(format!("files of quantization {other} are not supported"))),
    }
}

/// A regular expression that matches exactly this name.
fn pattern(name: &CStr) -> CString {
    let mut pattern = vec![b'^'];
    for &byte in name.to_bytes() {
        if !byte.is_ascii_alphanumeric() && byte != b'_' {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'$');
    CString::new(pattern).unwrap_or_default()
}

/// A path as llama.cpp takes it.
pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
