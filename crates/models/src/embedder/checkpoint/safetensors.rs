//! The index of a safetensors file: the length of a JSON header, the header, then the tensors.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::tensor_file::{BoundedFile, Encoding, TensorEntry, TensorFile};
use crate::embedder::invalid_model::InvalidModel;

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// Opens a file and reads its index. Tensors of integer types are skipped, since they are not weights.
pub(super) fn open(path: &Path) -> Result<TensorFile, InvalidModel> {
    let mut file = BoundedFile::open(path)?;
    let length = file.read(0..8, "the header's length")?;
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes were read"));
    let header = file.read_description(8, length, "header")?;
    let malformed = |reason: String| InvalidModel::malformed(path, "header", reason);
    let header: HashMap<String, Value> =
        serde_json::from_slice(&header).map_err(|error| InvalidModel::malformed(path, "header", error))?;
    let mut entries = HashMap::with_capacity(header.len());
    for (name, tensor) in header {
        if name == "__metadata__" {
            continue;
        }
        let Tensor { dtype, shape, data_offsets: [start, end] } =
            Tensor::deserialize(tensor).map_err(|error| malformed(format!("tensor {name}: {error}")))?;
        let encoding = match dtype.as_str() {
            "F32" => Encoding::F32,
            "F16" => Encoding::F16,
            "BF16" => Encoding::Bf16,
            _ => continue,
        };
        let data = 8 + length;
        if start > end || data.checked_add(end).is_none() {
            return Err(malformed(format!("tensor {name} lies from {start} to {end}")));
        }
        entries.insert(name, TensorEntry { encoding, shape, bytes: data + start..data + end });
    }
    Ok(TensorFile::new(file, entries))
}
