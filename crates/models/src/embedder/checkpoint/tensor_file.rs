//! Named tensors in a file, read one at a time. The file formats provide the index of names; the checkpoint
//! asks for names and shapes. Every length is checked against the file before memory is allocated.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::embedder::invalid_model::{InvalidModel, ModelProblem, UnsupportedModel};

/// Largest header, config or tokenizer.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 20;

/// A file that is read by ranges, which must lie within it.
#[derive(Debug)]
pub(crate) struct BoundedFile {
    file: File,
    path: PathBuf,
    length: u64,
}

impl BoundedFile {
    pub(crate) fn open(path: &Path) -> Result<Self, InvalidModel> {
        let unreadable = |error| InvalidModel::new(path, ModelProblem::Unreadable(error));
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        Ok(Self { file, path: path.to_owned(), length })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes of a range. `part` names them in the error if the file ends before.
    pub(crate) fn read(&mut self, range: Range<u64>, part: &str) -> Result<Vec<u8>, InvalidModel> {
        if range.end > self.length {
            let (needed, length) = (range.end, self.length);
            let truncated = ModelProblem::Truncated { part: part.to_owned(), needed, length };
            return Err(InvalidModel::new(&self.path, truncated));
        }
        let length = usize::try_from(range.end - range.start)
            .map_err(|_| InvalidModel::new(&self.path, UnsupportedModel::TooLarge(part.to_owned())))?;
        let mut bytes = vec![0; length];
        self.file
            .seek(SeekFrom::Start(range.start))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|error| InvalidModel::new(&self.path, ModelProblem::Unreadable(error)))?;
        Ok(bytes)
    }

    /// The bytes of a header, config or tokenizer, whose size is bounded.
    pub(crate) fn read_description(
        &mut self,
        start: u64,
        length: u64,
        part: &'static str,
    ) -> Result<Vec<u8>, InvalidModel> {
        let end = start.saturating_add(length);
        if end <= self.length && length > MAX_DESCRIPTION_BYTES {
            return Err(InvalidModel::malformed(&self.path, part, format!("it has {length} bytes")));
        }
        self.read(start..end, part)
    }
}

/// How a tensor's numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// 32-bit floats.
    F32,
    /// 16-bit floats of IEEE 754.
    F16,
    /// Bfloat16: the upper halves of 32-bit floats.
    Bf16,
    /// All integers, then the scale of each group of them as a 32-bit float.
    Int8 { group: usize },
}

/// The position and encoding of a tensor.
#[derive(Clone, Debug)]
pub(crate) struct TensorEntry {
    pub(crate) encoding: Encoding,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Range<u64>,
}

/// A file with an index of its tensors.
#[derive(Debug)]
pub(crate) struct TensorFile {
    file: BoundedFile,
    entries: HashMap<String, TensorEntry>,
}

/// Integers with a scale for each group of them.
pub(crate) struct Groups {
    pub(crate) values: Vec<i8>,
    pub(crate) scales: Vec<f32>,
    pub(crate) group: usize,
}

impl TensorFile {
    pub(crate) fn new(file: BoundedFile, entries: HashMap<String, TensorEntry>) -> Self {
        Self { file, entries }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Whether the tensor is stored as groups of integers.
    pub(crate) fn is_grouped(&self, name: &str) -> bool {
        matches!(self.entries.get(name), Some(TensorEntry { encoding: Encoding::Int8 { .. }, .. }))
    }

    /// The numbers of a tensor, which must have this shape.
    pub(crate) fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, InvalidModel> {
        let entry = self.entry(name, shape)?;
        let numbers: Vec<f32> = match entry.encoding {
            Encoding::Int8 { .. } => {
                let Groups { values, scales, group } = self.read_groups(name, shape)?;
                let groups = values.chunks(group).zip(scales);
                groups.flat_map(|(values, scale)| values.iter().map(move |v| f32::from(*v) * scale)).collect()
            }
            Encoding::F32 => self.read_numbers(name, &entry, f32::from_le_bytes)?,
            Encoding::F16 => self.read_numbers(name, &entry, |b| f16_to_f32(u16::from_le_bytes(b)))?,
            Encoding::Bf16 => self.read_numbers(name, &entry, |[a, b]| f32::from_le_bytes([0, 0, a, b]))?,
        };
        self.finite(name, numbers)
    }

    /// The groups of a tensor as they are stored.
    ///
    /// # Panics
    /// If the tensor is not stored in groups.
    pub(crate) fn read_groups(&mut self, name: &str, shape: &[usize]) -> Result<Groups, InvalidModel> {
        let entry = self.entry(name, shape)?;
        let Encoding::Int8 { group } = entry.encoding else { panic!("{name} is not stored in groups") };
        let count: usize = entry.shape.iter().product();
        let expected = count as u64 + 4 * count.div_ceil(group) as u64;
        let bytes = self.sized(name, &entry, expected)?;
        let (values, scales) = bytes.split_at(count);
        let scales = scales.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let scales = self.finite(name, scales)?;
        Ok(Groups { values: values.iter().map(|byte| byte.cast_signed()).collect(), scales, group })
    }

    fn read_numbers<const WIDTH: usize>(
        &mut self,
        name: &str,
        entry: &TensorEntry,
        decode: impl Fn([u8; WIDTH]) -> f32,
    ) -> Result<Vec<f32>, InvalidModel> {
        let count: usize = entry.shape.iter().product();
        let bytes = self.sized(name, entry, (count * WIDTH) as u64)?;
        Ok(bytes.as_chunks().0.iter().map(|number| decode(*number)).collect())
    }

    fn entry(&self, name: &str, shape: &[usize]) -> Result<TensorEntry, InvalidModel> {
        let Some(entry) = self.entries.get(name) else {
            return Err(InvalidModel::new(self.path(), ModelProblem::MissingTensor(name.to_owned())));
        };
        if entry.shape != shape {
            let (expected, found) = (shape.to_vec(), entry.shape.clone());
            let problem = ModelProblem::TensorShape { name: name.to_owned(), expected, found };
            return Err(InvalidModel::new(self.path(), problem));
        }
        Ok(entry.clone())
    }

    fn sized(&mut self, name: &str, entry: &TensorEntry, expected: u64) -> Result<Vec<u8>, InvalidModel> {
        let length = entry.bytes.end - entry.bytes.start;
        if length != expected {
            let reason = format!("tensor {name} has {length} bytes and needs {expected}");
            return Err(InvalidModel::malformed(self.path(), "header", reason));
        }
        self.file.read(entry.bytes.clone(), &format!("tensor {name}"))
    }

    fn finite(&self, name: &str, numbers: Vec<f32>) -> Result<Vec<f32>, InvalidModel> {
        if numbers.iter().all(|number| number.is_finite()) {
            return Ok(numbers);
        }
        Err(InvalidModel::new(self.path(), ModelProblem::TensorNumbers(name.to_owned())))
    }
}

/// A 16-bit float of IEEE 754.
fn f16_to_f32(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff) / 1024.0;
    match exponent {
        0 => sign * fraction * 2.0_f32.powi(-14),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction) * 2.0_f32.powi(exponent - 15),
    }
}
