//! The frame of a snapshot: sections behind their lengths, each within a limit.

use super::SnapshotError;
use commonware_codec::{Codec, Copying, DecodeExt as _};
use std::io::{Read, Write};

/// First bytes of the file.
pub(super) const MAGIC: &[u8; 8] = b"oGPUsnp1";
/// Largest section: a block.
const MAX_SECTION: u32 = 4 * 1024 * 1024;

/// Writes a count.
pub(super) fn write_count(out: &mut impl Write, count: u64) -> Result<(), SnapshotError> {
    Ok(out.write_all(&count.to_be_bytes())?)
}

/// Writes bytes behind their length.
pub(super) fn write_section(out: &mut impl Write, bytes: &[u8]) -> Result<(), SnapshotError> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MAX_SECTION);
    let length = length.ok_or(SnapshotError::Malformed("a section is too long"))?;
    out.write_all(&length.to_be_bytes())?;
    Ok(out.write_all(bytes)?)
}

/// Reads exactly so many bytes.
pub(super) fn read_array<const N: usize>(input: &mut impl Read) -> Result<[u8; N], SnapshotError> {
    let mut bytes = [0; N];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(SnapshotError::Malformed("it ends early"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads a count.
pub(super) fn read_count(input: &mut impl Read) -> Result<u64, SnapshotError> {
    Ok(u64::from_be_bytes(read_array(input)?))
}

/// Reads bytes behind their length.
pub(super) fn read_section(input: &mut impl Read) -> Result<Vec<u8>, SnapshotError> {
    let length = u32::from_be_bytes(read_array(input)?);
    if length > MAX_SECTION {
        return Err(SnapshotError::Malformed("a section is too long"));
    }
    let mut bytes = Vec::new();
    input.take(u64::from(length)).read_to_end(&mut bytes)?;
    if bytes.len() == usize::try_from(length).unwrap_or(usize::MAX) {
        Ok(bytes)
    } else {
        Err(SnapshotError::Malformed("it ends early"))
    }
}

/// Reads a value behind its length.
pub(super) fn read_value<T: Codec<Cfg = ()>>(
    input: &mut impl Read,
    name: &'static str,
) -> Result<T, SnapshotError> {
    T::decode(Copying(&read_section(input)?[..])).map_err(|_| SnapshotError::Malformed(name))
}
