//! Named tensors in a file, read one at a time, so that a model is never in memory twice. It does not know what
//! they mean: formats make the index, a checkpoint asks for names and shapes. Every length is checked against
//! the file before memory is taken.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::invalid::{InvalidModel, Problem};

/// Largest part of a file that describes the rest.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 20;

/// A file, read by ranges that lie within it.
#[derive(Debug)]
pub(crate) struct BoundedFile {
    file: File,
    path: PathBuf,
    length: u64,
}

impl BoundedFile {
    pub(crate) fn open(path: &Path) -> Result<Self, InvalidModel> {
        let unreadable = |error| InvalidModel::new(path, Problem::Unreadable(error));
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

    /// The bytes of a range; `what` names them if the file ends before.
    pub(crate) fn read(&mut self, range: Range<u64>, what: &str) -> Result<Vec<u8>, InvalidModel> {
        if range.end > self.length {
            let short = Problem::Short { what: what.to_owned(), needed: range.end, length: self.length };
            return Err(InvalidModel::new(&self.path, short));
        }
        let length = usize::try_from(range.end - range.start).map_err(|_| {
            InvalidModel::unsupported(&self.path, format!("{what} is larger than this machine can address"))
        })?;
        let mut bytes = vec![0; length];
        self.file
            .seek(SeekFrom::Start(range.start))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|error| InvalidModel::new(&self.path, Problem::Unreadable(error)))?;
        Ok(bytes)
    }

    /// The bytes of a description that begins at `start`, which is bounded.
    pub(crate) fn read_description(
        &mut self,
        start: u64,
        length: u64,
        what: &'static str,
    ) -> Result<Vec<u8>, InvalidModel> {
        let end = start.saturating_add(length);
        if end <= self.length && length > MAX_DESCRIPTION_BYTES {
            return Err(InvalidModel::description(&self.path, what, format!("it has {length} bytes")));
        }
        self.read(start..end, what)
    }
}

/// How a tensor's numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// 32-bit floats.
    F32,
    /// 16-bit floats of IEEE 754.
    F16,
    /// The upper halves of 32-bit floats.
    Bf16,
    /// All whole numbers, then the scale of each group as a 32-bit float.
    Int8 { group: usize },
}

/// Where a tensor lies and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) encoding: Encoding,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Range<u64>,
}

/// A file with an index of its tensors.
#[derive(Debug)]
pub(crate) struct Tensors {
    file: BoundedFile,
    entries: HashMap<String, Entry>,
}

/// Whole numbers that share a scale group by group.
pub(crate) struct Groups {
    pub(crate) values: Vec<i8>,
    pub(crate) scales: Vec<f32>,
    pub(crate) group: usize,
}

impl Tensors {
    pub(crate) fn new(file: BoundedFile, entries: HashMap<String, Entry>) -> Self {
        Self { file, entries }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Whether the tensor is written in groups.
    pub(crate) fn is_grouped(&self, name: &str) -> bool {
        matches!(self.entries.get(name), Some(Entry { encoding: Encoding::Int8 { .. }, .. }))
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
            Encoding::F16 => self.read_numbers(name, &entry, |b| half(u16::from_le_bytes(b)))?,
            Encoding::Bf16 => self.read_numbers(name, &entry, |[a, b]| f32::from_le_bytes([0, 0, a, b]))?,
        };
        self.finite(name, numbers)
    }

    /// The numbers of a tensor as they are written.
    ///
    /// # Panics
    /// If the tensor is not written in groups.
    pub(crate) fn read_groups(&mut self, name: &str, shape: &[usize]) -> Result<Groups, InvalidModel> {
        let entry = self.entry(name, shape)?;
        let Encoding::Int8 { group } = entry.encoding else { panic!("{name} is not written in groups") };
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
        entry: &Entry,
        decode: impl Fn([u8; WIDTH]) -> f32,
    ) -> Result<Vec<f32>, InvalidModel> {
        let count: usize = entry.shape.iter().product();
        let bytes = self.sized(name, entry, (count * WIDTH) as u64)?;
        Ok(bytes.as_chunks().0.iter().map(|number| decode(*number)).collect())
    }

    fn entry(&self, name: &str, shape: &[usize]) -> Result<Entry, InvalidModel> {
        let Some(entry) = self.entries.get(name) else {
            return Err(InvalidModel::new(self.path(), Problem::MissingTensor(name.to_owned())));
        };
        if entry.shape != shape {
            let (expected, found) = (shape.to_vec(), entry.shape.clone());
            let problem = Problem::TensorShape { name: name.to_owned(), expected, found };
            return Err(InvalidModel::new(self.path(), problem));
        }
        Ok(entry.clone())
    }

    fn sized(&mut self, name: &str, entry: &Entry, expected: u64) -> Result<Vec<u8>, InvalidModel> {
        let length = entry.bytes.end - entry.bytes.start;
        if length != expected {
            let reason = format!("tensor {name} has {length} bytes and needs {expected}");
            return Err(InvalidModel::description(self.path(), "header", reason));
        }
        self.file.read(entry.bytes.clone(), &format!("tensor {name}"))
    }

    fn finite(&self, name: &str, numbers: Vec<f32>) -> Result<Vec<f32>, InvalidModel> {
        if numbers.iter().all(|number| number.is_finite()) {
            return Ok(numbers);
        }
        Err(InvalidModel::new(self.path(), Problem::TensorNumbers(name.to_owned())))
    }
}

/// The number that 16 bits of IEEE 754 stand for.
fn half(bits: u16) -> f32 {
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
