//! The header of a GGUF file: what it says about the model, and where each tensor lies.
//!
//! A model comes from a stranger, so nothing in its header is believed before it is checked: counts
//! and lengths against limits and against what the file still holds, tensors against the end of the
//! file and against each other. No size from the file is allocated before that.
//!
//! This file knows nothing of models: which keys and tensors must be there is `network.rs`'s and
//! `vocabulary.rs`'s business.
//!
//! ```text
//!   "GGUF" version tensors keys | key kind value ... | name shape kind place ... | padding | data
//! ```

use candle_core::quantized::GgmlDType;
use std::collections::BTreeMap;
use std::io::{self, Read};

/// Keys of a header.
const KEYS: u64 = 4_096;
/// Tensors of a model.
const TENSORS: u64 = 65_536;
/// Values in one list; the largest vocabularies have a quarter of it, their merges a half.
const LIST: u64 = 1 << 20;
/// Bytes of one text, as long as the longest chat templates times ten.
const TEXT: u64 = 1 << 20;
/// Bytes of the whole header.
const HEADER: u64 = 128 << 20;
/// Bytes to which tensors may be aligned.
const ALIGNMENT: u64 = 4_096;
/// Dimensions of a tensor.
const DIMENSIONS: u32 = 4;

/// Why the header of a model cannot be used. All of it is the fault of the file.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// Another kind of file.
    #[error("this is no GGUF file")]
    Magic,
    /// Versions 2 and 3 are known.
    #[error("GGUF version {found} is not supported")]
    Version {
        /// What the file says.
        found: u32,
    },
    /// The file ends inside of its header.
    #[error("the file ends in its header, at byte {position}")]
    Truncated {
        /// Where more was expected.
        position: u64,
    },
    /// Something is larger than anything a model needs.
    #[error("{found} {what}, at most {limit}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// What the file says.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A text is not UTF-8.
    #[error("a text at byte {position} is not UTF-8")]
    Text {
        /// Where it starts.
        position: u64,
    },
    /// A kind of value that the format does not have, or a list of lists.
    #[error("the value of {key:?} has the unknown kind {kind}")]
    Kind {
        /// The key.
        key: String,
        /// What the file says.
        kind: u32,
    },
    /// The same name twice.
    #[error("{name:?} appears twice")]
    Twice {
        /// The key or the tensor.
        name: String,
    },
    /// Not a power of two, or too large.
    #[error("an alignment of {found} bytes")]
    Alignment {
        /// What the file says.
        found: u64,
    },
    /// A tensor whose numbers cannot be right.
    #[error("tensor {name:?}: {reason}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: TensorFault,
    },
    /// The file could not be read.
    #[error("reading the header: {0}")]
    Read(#[from] io::Error),
}

/// What is wrong with a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorFault {
    /// None, or more than four dimensions, or one of them is zero.
    #[error("its shape is empty or has too many dimensions")]
    Shape,
    /// A kind of number that is not supported.
    #[error("kind {0} is not supported")]
    Kind(u32),
    /// The number of values or bytes is beyond what can be counted.
    #[error("its size cannot be counted")]
    Size,
    /// Rows are stored in whole blocks.
    #[error("a row is not a whole number of blocks")]
    Block,
    /// The place is not a multiple of the alignment.
    #[error("it is not aligned")]
    Unaligned,
    /// It reaches beyond the end of the file.
    #[error("it reaches beyond the end of the file")]
    Beyond,
    /// Two tensors share bytes.
    #[error("it overlaps another tensor")]
    Overlap,
}

/// One value of the header.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Whole(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    Wholes(Vec<i128>),
    /// Lists that no model of ours needs; their bytes were checked and passed over.
    Other,
}

/// Where a tensor lies, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    /// Rows first, as everybody but this format writes it.
    pub(super) shape: Vec<usize>,
    pub(super) kind: GgmlDType,
    /// From the start of the file.
    pub(super) start: u64,
    pub(super) size: u64,
}

/// A header of which every number was checked.
#[derive(Clone, Debug)]
pub(super) struct Header {
    values: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Tensor>,
}

impl Header {
    /// Reads and checks the header of a file of `length` bytes.
    pub(super) fn read(file: impl Read, length: u64) -> Result<Self, HeaderError> {
        let mut bytes = Bytes { file, position: 0, end: length.min(HEADER) };
        if bytes.array::<4>()? != *b"GGUF" {
            return Err(HeaderError::Magic);
        }
        let version = bytes.u32()?;
        if !matches!(version, 2 | 3) {
            return Err(HeaderError::Version { found: version });
        }
        let tensor_count = within("tensors", bytes.u64()?, TENSORS)?;
        let key_count = within("keys", bytes.u64()?, KEYS)?;
        let mut values = BTreeMap::new();
        for _ in 0..key_count {
            let key = bytes.text()?;
            let kind = bytes.u32()?;
            let value = bytes.value(&key, kind)?;
            if values.insert(key.clone(), value).is_some() {
                return Err(HeaderError::Twice { name: key });
            }
        }
        let alignment = alignment(&values)?;
        let mut claims = BTreeMap::new();
        for _ in 0..tensor_count {
            let name = bytes.text()?;
            let claim = bytes.claim()?;
            if claims.insert(name.clone(), claim).is_some() {
                return Err(HeaderError::Twice { name });
            }
        }
        let data = bytes.position.checked_next_multiple_of(alignment);
        let data = data.ok_or(HeaderError::Alignment { found: alignment })?;
        let tensors = place(claims, data, alignment, length)?;
        Ok(Self { values, tensors })
    }

    /// The same header with another value.
    #[cfg(test)]
    pub(super) fn with(mut self, key: &str, value: Value) -> Self {
        self.values.insert(key.to_owned(), value);
        self
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        match self.value(key)? {
            Value::Whole(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(super) fn float(&self, key: &str) -> Option<f64> {
        match self.value(key)? {
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.values()
    }
}

fn within(what: &'static str, found: u64, limit: u64) -> Result<u64, HeaderError> {
    if found > limit {
        return Err(HeaderError::TooMany { what, found, limit });
    }
    Ok(found)
}

fn alignment(values: &BTreeMap<String, Value>) -> Result<u64, HeaderError> {
    let found = match values.get("general.alignment") {
        None => 32,
        Some(Value::Whole(found)) => u64::try_from(*found).unwrap_or(0),
        Some(_) => 0,
    };
    if !found.is_power_of_two() || found > ALIGNMENT {
        return Err(HeaderError::Alignment { found });
    }
    Ok(found)
}

/// What the file says about a tensor, unchecked.
struct Claim {
    /// Innermost first.
    sides: Vec<u64>,
    kind: u32,
    offset: u64,
}

/// Checks each claim, then that no two of them share bytes.
fn place(
    claims: BTreeMap<String, Claim>,
    data: u64,
    alignment: u64,
    length: u64,
) -> Result<BTreeMap<String, Tensor>, HeaderError> {
    let mut tensors = BTreeMap::new();
    for (name, claim) in claims {
        match locate(&claim, data, alignment, length) {
            Ok(tensor) => tensors.insert(name, tensor),
            Err(reason) => return Err(HeaderError::Tensor { name, reason }),
        };
    }
    let mut places: Vec<(u64, u64, &String)> =
        tensors.iter().map(|(name, tensor)| (tensor.start, tensor.size, name)).collect();
    places.sort_unstable();
    let mut free = data;
    for (start, size, name) in places {
        if start < free {
            let reason = TensorFault::Overlap;
            return Err(HeaderError::Tensor { name: name.clone(), reason });
        }
        free = start.saturating_add(size);
    }
    Ok(tensors)
}

fn locate(claim: &Claim, data: u64, alignment: u64, length: u64) -> Result<Tensor, TensorFault> {
    if claim.sides.is_empty() || claim.sides.contains(&0) {
        return Err(TensorFault::Shape);
    }
    let kind = kind(claim.kind).ok_or(TensorFault::Kind(claim.kind))?;
    let block = u64::try_from(kind.block_size()).map_err(|_| TensorFault::Size)?;
    let bytes = u64::try_from(kind.type_size()).map_err(|_| TensorFault::Size)?;
    let row = claim.sides.first().ok_or(TensorFault::Shape)?;
    if !row.is_multiple_of(block) {
        return Err(TensorFault::Block);
    }
    let values = claim.sides.iter().try_fold(1u64, |product, side| product.checked_mul(*side));
    let blocks = values.and_then(|values| values.checked_div(block)).ok_or(TensorFault::Size)?;
    let size = blocks.checked_mul(bytes).ok_or(TensorFault::Size)?;
    if !claim.offset.is_multiple_of(alignment) {
        return Err(TensorFault::Unaligned);
    }
    let start = data.checked_add(claim.offset).ok_or(TensorFault::Beyond)?;
    let end = start.checked_add(size).ok_or(TensorFault::Beyond)?;
    if end > length {
        return Err(TensorFault::Beyond);
    }
    let shape: Result<_, _> = claim.sides.iter().rev().map(|side| usize::try_from(*side)).collect();
    Ok(Tensor { shape: shape.map_err(|_| TensorFault::Size)?, kind, start, size })
}

/// The kinds of numbers that can be multiplied here.
const fn kind(number: u32) -> Option<GgmlDType> {
    Some(match number {
        0 => GgmlDType::F32,
        1 => GgmlDType::F16,
        2 => GgmlDType::Q4_0,
        3 => GgmlDType::Q4_1,
        6 => GgmlDType::Q5_0,
        7 => GgmlDType::Q5_1,
        8 => GgmlDType::Q8_0,
        10 => GgmlDType::Q2K,
        11 => GgmlDType::Q3K,
        12 => GgmlDType::Q4K,
        13 => GgmlDType::Q5K,
        14 => GgmlDType::Q6K,
        30 => GgmlDType::BF16,
        _ => return None,
    })
}

/// Reads on, and knows where it is.
struct Bytes<R> {
    file: R,
    position: u64,
    /// Where the header must have ended.
    end: u64,
}

impl<R: Read> Bytes<R> {
    /// Claims the next `count` bytes, before anything is allocated for them.
    fn pass(&mut self, count: u64) -> Result<(), HeaderError> {
        let position = self.position.checked_add(count).filter(|position| *position <= self.end);
        let Some(position) = position else {
            return Err(HeaderError::Truncated { position: self.position });
        };
        self.position = position;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        self.pass(N as u64)?;
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, HeaderError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, HeaderError> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, HeaderError> {
        let start = self.position;
        let length = within("bytes in a text", self.u64()?, TEXT)?;
        self.pass(length)?;
        let length = usize::try_from(length).map_err(|_| HeaderError::Text { position: start })?;
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| HeaderError::Text { position: start })
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<Value, HeaderError> {
        Ok(match kind {
            6 => Value::Float(f64::from(f32::from_le_bytes(self.array()?))),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            7 => Value::Bool(self.array::<1>()? != [0]),
            8 => Value::Text(self.text()?),
            9 => return self.list(key),
            _ => Value::Whole(self.whole(key, kind)?),
        })
    }

    fn whole(&mut self, key: &str, kind: u32) -> Result<i128, HeaderError> {
        Ok(match kind {
            0 => u8::from_le_bytes(self.array()?).into(),
            1 => i8::from_le_bytes(self.array()?).into(),
            2 => u16::from_le_bytes(self.array()?).into(),
            3 => i16::from_le_bytes(self.array()?).into(),
            4 => self.u32()?.into(),
            5 => i32::from_le_bytes(self.array()?).into(),
            10 => self.u64()?.into(),
            11 => i64::from_le_bytes(self.array()?).into(),
            _ => return Err(HeaderError::Kind { key: key.into(), kind }),
        })
    }

    fn list(&mut self, key: &str) -> Result<Value, HeaderError> {
        let kind = self.u32()?;
        let count = within("values in a list", self.u64()?, LIST)?;
        // Each value takes a byte at least, so what follows ends with the file.
        Ok(match kind {
            8 => Value::Texts((0..count).map(|_| self.text()).collect::<Result<_, _>>()?),
            6 | 7 | 12 => {
                for _ in 0..count {
                    self.value(key, kind)?;
                }
                Value::Other
            }
            9 => return Err(HeaderError::Kind { key: key.into(), kind }),
            _ => {
                Value::Wholes((0..count).map(|_| self.whole(key, kind)).collect::<Result<_, _>>()?)
            }
        })
    }

    fn claim(&mut self) -> Result<Claim, HeaderError> {
        let count = self.u32()?;
        within("dimensions", count.into(), DIMENSIONS.into())?;
        let sides = (0..count).map(|_| self.u64()).collect::<Result<_, _>>()?;
        Ok(Claim { sides, kind: self.u32()?, offset: self.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header with one key and two tensors of 32 bytes, and their data.
    fn file() -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(2u64.to_le_bytes());
        bytes.extend(2u64.to_le_bytes());
        text(&mut bytes, "name");
        bytes.extend(8u32.to_le_bytes());
        text(&mut bytes, "tiny");
        text(&mut bytes, "ids");
        bytes.extend(9u32.to_le_bytes());
        bytes.extend(5u32.to_le_bytes());
        bytes.extend(3u64.to_le_bytes());
        [-1i32, 0, 1].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        tensor(&mut bytes, "a", &[4, 2], 0, 0);
        tensor(&mut bytes, "b", &[8], 0, 32);
        pad(&mut bytes, 64);
        bytes
    }

    /// Fills up to the place of the data, and adds so many bytes of it.
    fn pad(bytes: &mut Vec<u8>, data: usize) {
        bytes.resize(bytes.len().checked_next_multiple_of(32).unwrap(), 0);
        bytes.extend(std::iter::repeat_n(7, data));
    }

    fn text(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }

    fn tensor(bytes: &mut Vec<u8>, name: &str, sides: &[u64], kind: u32, offset: u64) {
        text(bytes, name);
        bytes.extend(u32::try_from(sides.len()).unwrap().to_le_bytes());
        sides.iter().for_each(|side| bytes.extend(side.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
    }

    /// A file with one tensor, followed by `data` bytes.
    fn with(sides: &[u64], kind: u32, offset: u64, data: usize) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        tensor(&mut bytes, "t", sides, kind, offset);
        pad(&mut bytes, data);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
        Header::read(bytes, bytes.len() as u64)
    }

    fn fault(bytes: &[u8]) -> TensorFault {
        match read(bytes) {
            Err(HeaderError::Tensor { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_good_header_reads_back() {
        let header = read(&file()).unwrap();
        assert_eq!(header.text("name"), Some("tiny"));
        assert_eq!(header.value("ids"), Some(&Value::Wholes(vec![-1, 0, 1])));
        let tensor = header.tensor("a").unwrap();
        assert_eq!((tensor.shape.as_slice(), tensor.size), ([2, 4].as_slice(), 32));
        assert_eq!(header.tensor("b").unwrap().start, tensor.start + 32);
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error() {
        let whole = file();
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn tensors_that_lie_about_their_place_are_found() {
        assert!(read(&with(&[8], 0, 0, 32)).is_ok());
        assert_eq!(fault(&with(&[8], 0, 0, 31)), TensorFault::Beyond);
        assert_eq!(fault(&with(&[8], 0, 32, 32)), TensorFault::Beyond);
        assert_eq!(fault(&with(&[8], 0, u64::MAX - 31, 32)), TensorFault::Beyond);
        assert_eq!(fault(&with(&[8], 0, 8, 64)), TensorFault::Unaligned);
        assert_eq!(fault(&with(&[1 << 40, 1 << 40], 0, 0, 32)), TensorFault::Size);
        assert_eq!(fault(&with(&[1 << 62], 0, 0, 32)), TensorFault::Size);
        assert_eq!(fault(&with(&[1 << 40], 0, 0, 32)), TensorFault::Beyond);
        assert_eq!(fault(&with(&[8, 0], 0, 0, 32)), TensorFault::Shape);
        assert_eq!(fault(&with(&[], 0, 0, 32)), TensorFault::Shape);
        assert_eq!(fault(&with(&[31], 8, 0, 64)), TensorFault::Block);
        assert_eq!(fault(&with(&[8], 99, 0, 32)), TensorFault::Kind(99));
    }

    #[test]
    fn two_tensors_do_not_share_bytes() {
        let mut bytes = file();
        let place = bytes.windows(8).rposition(|bytes| bytes == 32u64.to_le_bytes()).unwrap();
        bytes[place..place + 8].copy_from_slice(&0u64.to_le_bytes());
        assert_eq!(fault(&bytes), TensorFault::Overlap);
    }

    #[test]
    fn a_count_beyond_its_limit_is_refused_before_anything_is_read() {
        for (place, what) in [(8, "tensors"), (16, "keys"), (24, "bytes in a text")] {
            let mut bytes = file();
            bytes[place..place + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            match read(&bytes) {
                Err(HeaderError::TooMany { what: found, .. }) => assert_eq!(found, what),
                other => panic!("{what}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_change_of_a_byte_makes_it_fail_badly(place in 0usize..200, byte: u8) {
            let mut bytes = file();
            if let Some(changed) = bytes.get_mut(place) {
                *changed = byte;
            }
            if let Ok(header) = read(&bytes) {
                for tensor in header.tensors() {
                    let end = tensor.start.checked_add(tensor.size);
                    prop_assert!(end.is_some_and(|end| end <= bytes.len() as u64));
                }
            }
        }
    }
}
