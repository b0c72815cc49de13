//! A folder as one byte string: a tar file, in the form in which programs read it as their input.
//!
//! Whoever packs the same files gets the same bytes: they are ordered by name, have no times and no
//! owners, and of their rights only that to run them. Names of more than 100 bytes take GNU's form.
//!
//! Whoever unpacks one has it from a stranger. Only plain files and folders are taken, each once, within
//! a new folder and within limits; an archive holds its files as they are, so nothing swells. All of it
//! is read before anything is written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::path::{Component, Path, PathBuf};
use tar::{EntryType, Header};

/// Most files and folders of an archive.
pub const MOST_ENTRIES: usize = 100_000;
/// Bytes of a path in an archive.
const LONGEST: usize = 1024;
/// Folders above a file.
const DEEPEST: usize = 32;

/// Why bytes are not the archive of a folder.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// No tar file, or a damaged one.
    #[error("it is not the tar file of a folder, or a damaged one")]
    Malformed,
    /// A name that leads elsewhere, or that not every system has.
    #[error("`{0}` is no name of a file in a folder")]
    Name(String),
    /// A link, a device, or what nobody knows.
    #[error("`{0}` is neither a file nor a folder")]
    Kind(String),
    /// The same name again, or a file where a folder is.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// Over [`MOST_ENTRIES`].
    #[error("it has more than {MOST_ENTRIES} files and folders")]
    TooMany,
    /// More bytes than are allowed.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// Packs files into an archive.
pub struct Packer {
    archive: tar::Builder<Vec<u8>>,
    limit: u64,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Packer {
    /// An archive of at most so many bytes.
    pub fn new(limit: u64) -> Self {
        Self { archive: tar::Builder::new(Vec::new()), limit }
    }

    /// Adds a file of this size. Names must come in order.
    pub fn add(
        &mut self,
        name: &str,
        executable: bool,
        size: u64,
        bytes: impl Read,
    ) -> Result<(), ArchiveError> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(if executable { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(size);
        let room = self.limit.saturating_sub(length(self.archive.get_ref()));
        if size > room {
            return Err(ArchiveError::TooLarge(self.limit));
        }
        let mut bytes = Counted { stream: bytes.take(size), count: 0 };
        self.archive.append_data(&mut header, name, &mut bytes)?;
        if bytes.count != size {
            return Err(io::Error::other(format!("{name} became shorter while it was read")).into());
        }
        Ok(())
    }

    /// The bytes.
    pub fn finish(self) -> Result<Vec<u8>, ArchiveError> {
        let bytes = self.archive.into_inner()?;
        if length(&bytes) > self.limit {
            return Err(ArchiveError::TooLarge(self.limit));
        }
        Ok(bytes)
    }
}

struct Counted<R> {
    stream: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.count = self.count.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}

/// One thing in an archive.
struct Entry<'a> {
    path: PathBuf,
    /// None for a folder.
    file: Option<&'a mut dyn Read>,
    executable: bool,
}

/// Whether bytes are the archive of a folder.
pub fn check(bytes: &[u8]) -> Result<(), ArchiveError> {
    let mut names = std::collections::BTreeMap::new();
    walk(bytes, |entry| {
        let is_file = entry.file.is_some();
        let above = entry.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
        let twice = || ArchiveError::Twice(entry.path.display().to_string());
        for folder in above {
            if *names.entry(folder.to_owned()).or_insert(false) {
                return Err(twice());
            }
        }
        match names.insert(entry.path.clone(), is_file) {
            Some(was_file) if is_file || was_file => Err(twice()),
            _ if names.len() > MOST_ENTRIES => Err(ArchiveError::TooMany),
            _ => Ok(()),
        }
    })
}

/// Unpacks an archive into a new folder, readable by all who can reach it.
pub fn unpack(bytes: &[u8], folder: &Path) -> Result<(), ArchiveError> {
    check(bytes)?;
    make_folder(folder)?;
    walk(bytes, |entry| match entry.file {
        None => Ok(make_folders(folder, &entry.path)?),
        Some(stream) => {
            let above = entry.path.parent().unwrap_or(Path::new(""));
            make_folders(folder, above)?;
            let mut file = make_file(&folder.join(&entry.path), entry.executable)?;
            io::copy(stream, &mut file)?;
            Ok(file.flush()?)
        }
    })
}

/// Visits what is in an archive; files are read to their end.
fn walk(
    bytes: &[u8],
    mut visit: impl FnMut(Entry<'_>) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let malformed = |_| ArchiveError::Malformed;
    let mut archive = tar::Archive::new(bytes);
    let mut left = length(bytes);
    for (count, entry) in archive.entries().map_err(malformed)?.enumerate() {
        if count >= MOST_ENTRIES {
            return Err(ArchiveError::TooMany);
        }
        let mut entry = entry.map_err(malformed)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let path = plain(&entry.path_bytes()).ok_or_else(|| ArchiveError::Name(name.clone()))?;
        match kind {
            EntryType::Directory if path.as_os_str().is_empty() => {}
            EntryType::Directory => visit(Entry { path, file: None, executable: false })?,
            EntryType::Regular if path.as_os_str().is_empty() => {
                return Err(ArchiveError::Name(name));
            }
            EntryType::Regular => {
                let size = entry.size();
                // What is larger than all of it is no plain file.
                left = left.checked_sub(size).ok_or(ArchiveError::Malformed)?;
                let executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
                let mut stream = Counted { stream: &mut entry, count: 0 };
                visit(Entry { path, file: Some(&mut stream), executable })?;
                io::copy(&mut stream, &mut io::sink()).map_err(malformed)?;
                if stream.count != size {
                    return Err(ArchiveError::Malformed);
                }
            }
            _ => return Err(ArchiveError::Kind(name)),
        }
    }
    Ok(())
}

/// A name without surprises: relative, and never upwards. The folder itself is empty.
fn plain(bytes: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(bytes).ok()?;
    if text.is_empty() || text.len() > LONGEST || text.contains(['\0', '\\']) {
        return None;
    }
    let mut path = PathBuf::new();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (path.components().count() <= DEEPEST.saturating_add(1)).then_some(path)
}

/// Makes folders below one that is there.
pub(crate) fn make_folders(folder: &Path, below: &Path) -> io::Result<()> {
    let mut place = folder.to_owned();
    for name in below {
        place.push(name);
        match make_folder(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Ok(())
}

fn make_folder(place: &Path) -> io::Result<()> {
    fs::create_dir(place)?;
    permit(place, 0o755)
}

/// Makes a file that everybody may read, whatever this process leaves out for its own files.
pub(crate) fn make_file(place: &Path, executable: bool) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).open(place)?;
    permit(place, if executable { 0o755 } else { 0o644 })?;
    Ok(file)
}

#[cfg(unix)]
fn permit(place: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
const fn permit(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(files: &[(&str, bool, &str)]) -> Vec<u8> {
        let mut packer = Packer::new(1 << 20);
        for (name, executable, text) in files {
            let size = u64::try_from(text.len()).unwrap();
            packer.add(name, *executable, size, text.as_bytes()).unwrap();
        }
        packer.finish().unwrap()
    }

    /// An archive with one entry of a kind, as somebody else may write it.
    fn strange(name: &[u8], kind: EntryType, size: u64, bytes: &[u8]) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(size);
        header.as_gnu_mut().unwrap().linkname[..4].copy_from_slice(b"/etc");
        header.set_cksum();
        let mut archive = header.as_bytes().to_vec();
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
        archive.extend([0; 1024]);
        archive
    }

    #[test]
    fn the_same_files_are_the_same_bytes_and_come_back() {
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
        let files = [("a/b.txt", false, "text"), (&long, false, ""), ("run", true, "#!/bin/sh\n")];
        let bytes = packed(&files);
        assert_eq!(bytes, packed(&files));
        let address = opengpu_types::ArtifactId::of(&bytes).to_string();
        let pinned = "caf8d4ed17f8d24433fd4f0fe0d955a7814483715f6bdd47761a6e0830ac4b44";
        assert_eq!(address, pinned, "the form of an archive has changed");
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new");
        unpack(&bytes, &place).unwrap();
        for (name, executable, text) in files {
            assert_eq!(fs::read_to_string(place.join(name)).unwrap(), text);
            let shared = fs::metadata(place.join(name)).unwrap();
            #[cfg(unix)]
            assert_eq!(
                std::os::unix::fs::PermissionsExt::mode(&shared.permissions()) & 0o777,
                if executable { 0o755 } else { 0o644 }
            );
        }
        assert!(unpack(&bytes, &place).is_err(), "only into a new folder");
        check(b"").unwrap();
    }

    #[test]
    fn what_leads_out_of_the_folder_or_is_no_file_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new");
        let file = |name: &[u8]| strange(name, EntryType::Regular, 1, b"x");
        for name in [&b"../x"[..], b"/etc/x", b"a/../../x", b"a\\b", b"\xff", b".", b"./"] {
            let refused = unpack(&file(name), &place);
            assert!(matches!(refused, Err(ArchiveError::Name(_))), "{name:?} {refused:?}");
        }
        for kind in [
            EntryType::Symlink,
            EntryType::Link,
            EntryType::Fifo,
            EntryType::Char,
            EntryType::Block,
            EntryType::GNUSparse,
        ] {
            let refused = unpack(&strange(b"a", kind, 0, b""), &place);
            assert!(refused.is_err(), "{kind:?}");
        }
        let link = unpack(&strange(b"a", EntryType::Symlink, 0, b""), &place);
        assert!(matches!(link, Err(ArchiveError::Kind(_))), "{link:?}");
        assert!(!place.exists());
    }

    #[test]
    fn what_is_cut_short_lies_about_its_size_or_is_no_archive_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new");
        let whole = packed(&[("a", false, &"x".repeat(2_000))]);
        let lie = strange(b"a", EntryType::Regular, 1 << 40, b"x");
        for bytes in [&whole[..1_200], &lie, b"text", &[b'x'; 600]] {
            let refused = unpack(bytes, &place);
            assert!(matches!(refused, Err(ArchiveError::Malformed)), "{refused:?}");
        }
        assert!(!place.exists());
    }

    #[test]
    fn nothing_is_there_twice() {
        for names in [["a", "a"], ["a", "a/b"], ["a/b", "a"]] {
            let refused = check(&packed(&names.map(|name| (name, false, ""))));
            assert!(matches!(refused, Err(ArchiveError::Twice(_))), "{names:?} {refused:?}");
        }
        let mut folders = strange(b"a/", EntryType::Directory, 0, b"");
        folders.truncate(512);
        let twice = [&folders[..], &folders, &file_in_a()].concat();
        check(&twice).unwrap();
    }

    fn file_in_a() -> Vec<u8> {
        packed(&[("a/b", false, "x")])
    }

    #[test]
    fn an_archive_has_limits() {
        let mut packer = Packer::new(2_000);
        packer.add("a", false, 300, &[1; 300][..]).unwrap();
        let refused = packer.add("b", false, 1_500, &[1; 1_500][..]);
        assert!(matches!(refused, Err(ArchiveError::TooLarge(2_000))), "{refused:?}");
        assert!(matches!(Packer::new(100).finish(), Err(ArchiveError::TooLarge(100))));
        let mut packer = Packer::new(1 << 20);
        assert!(packer.add("a", false, 10, &[1; 9][..]).is_err(), "it became shorter");
        let mut many = tar::Builder::new(Vec::new());
        for number in 0..=MOST_ENTRIES {
            let mut header = Header::new_gnu();
            header.set_size(0);
            many.append_data(&mut header, number.to_string(), io::empty()).unwrap();
        }
        let refused = check(&many.into_inner().unwrap());
        assert!(matches!(refused, Err(ArchiveError::TooMany)), "{refused:?}");
    }
}
