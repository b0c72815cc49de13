//! Bytes with an address: read with a limit, written so that a crash leaves all or nothing.

use opengpu_crypto::ContentHasher;
use opengpu_types::ArtifactId;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Bytes read at once while an address is found.
const PART: usize = 256 * 1024;

/// The bytes of a file, if they are not too many.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    take(open(path)?, limit)
}

/// All bytes of a stream, if they are not too many.
pub fn take(stream: impl io::Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

/// The address of a file's bytes, however many.
pub fn address(path: &Path) -> io::Result<ArtifactId> {
    let mut file = open(path)?;
    let mut hasher = ContentHasher::default();
    let mut part = vec![0; PART];
    loop {
        let length = file.read(&mut part)?;
        let Some(read) = part.get(..length).filter(|read| !read.is_empty()) else {
            return Ok(ArtifactId(hasher.finish()));
        };
        hasher.update(read);
    }
}

/// Writes a file beside its place and moves it there.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What is there and no file is written to and not replaced: a pipe, or the null device.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Folders and devices are no artifacts, and opening a pipe would wait for ever.
fn open(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    File::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_under_their_address_and_within_their_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let bytes = vec![7; PART + 1];
        write(&path, &bytes).unwrap();
        let length = u64::try_from(bytes.len()).unwrap();
        assert_eq!(read(&path, length).unwrap(), bytes);
        assert!(read(&path, length - 1).is_err());
        assert_eq!(address(&path).unwrap(), ArtifactId::of(&bytes));
        assert!(read(folder.path(), 10).is_err(), "a folder is no artifact");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_written_to_and_stays_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read(path).unwrap()
        });
        write(&path, b"abc").unwrap();
        assert!(!std::fs::metadata(&path).unwrap().is_file(), "the pipe was replaced");
        assert_eq!(reader.join().unwrap(), b"abc");
    }
}
