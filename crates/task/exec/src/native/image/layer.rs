//! One layer of an image, unpacked below a folder that nothing in it can leave.
//!
//! Every path is resolved by the kernel with that folder as its root, so a link of an earlier layer
//! leads to where it would lead inside, and never out. Device files are left out, owners and bits
//! that raise privileges are dropped, and everything counts against a limit before it is written.

use super::{ImageError, ImageLimits};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fchmod, linkat, mkdirat, openat,
    openat2, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

/// Bytes of a record that only describes the next entry.
const LARGEST_RECORD: u64 = 64 * 1024;
/// Folders within folders.
const DEEPEST: usize = 64;
/// What marks a name that this layer removes.
const WHITEOUT: &str = ".wh.";
/// What marks a folder whose older content this layer hides.
const OPAQUE: &str = ".wh..wh..opq";

/// Unpacks the layers of one image, one after the other.
#[derive(Debug)]
pub(super) struct Unpacker {
    root: OwnedFd,
    limits: ImageLimits,
    entries: u64,
    bytes: u64,
    /// What the present layer made, which its own marks do not remove; by the true path, which no
    /// link leads to in another way.
    made: BTreeSet<PathBuf>,
}

/// What records said about the next entry.
#[derive(Debug, Default)]
struct Said {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl Unpacker {
    pub(super) fn new(root: &Path, limits: ImageLimits) -> Result<Self, ImageError> {
        let root = openat(CWD, root, FOLDER, Mode::empty()).map_err(system("opening a folder"))?;
        Ok(Self { root, limits, entries: 0, bytes: 0, made: BTreeSet::new() })
    }

    /// Bytes of the longest layer without compression: headers and padding come on top of what is
    /// written, and they have an end as well.
    pub(super) const fn most(&self) -> u64 {
        self.limits.bytes.saturating_mul(2).saturating_add(1 << 20)
    }

    /// Unpacks one layer from its uncompressed form.
    pub(super) fn layer(&mut self, layer: impl Read) -> Result<(), ImageError> {
        self.made.clear();
        let mut archive = tar::Archive::new(layer);
        let mut said = Said::default();
        for entry in archive.entries().map_err(malformed)?.raw(true) {
            let mut entry = entry.map_err(malformed)?;
            self.count()?;
            match entry.header().entry_type() {
                EntryType::GNULongName => said.path = Some(text(&mut entry)?),
                EntryType::GNULongLink => said.link = Some(text(&mut entry)?),
                EntryType::XHeader => extended(&record(&mut entry)?, &mut said)?,
                EntryType::XGlobalHeader => drop(record(&mut entry)?),
                kind => {
                    let Said { path, link } = std::mem::take(&mut said);
                    let path = path.unwrap_or_else(|| entry.path_bytes().into_owned());
                    let link =
                        link.or_else(|| entry.link_name_bytes().map(|name| name.into_owned()));
                    self.entry(kind, &plain(&path)?, link, &mut entry)?;
                }
            }
        }
        Ok(())
    }

    /// Counts an entry, or a folder that the path of one implies.
    fn count(&mut self) -> Result<(), ImageError> {
        self.entries = self.entries.saturating_add(1);
        if self.entries > self.limits.entries {
            return Err(ImageError::TooMany { what: "entries", limit: self.limits.entries });
        }
        Ok(())
    }

    fn entry(
        &mut self,
        kind: EntryType,
        path: &Path,
        link: Option<Vec<u8>>,
        entry: &mut tar::Entry<'_, impl Read>,
    ) -> Result<(), ImageError> {
        let Some(name) = path.file_name() else { return Ok(()) };
        let parent = self.folder(path.parent().unwrap_or(Path::new("")))?;
        let place = true_path(&parent)?;
        if name.as_bytes().starts_with(WHITEOUT.as_bytes()) {
            return self.white_out(&parent, &place, name);
        }
        let mode = entry.header().mode().unwrap_or(0o755) & 0o755;
        match kind {
            EntryType::Directory => {
                let mode = Mode::from_raw_mode(mode | 0o755);
                if kind_of(&parent, name) != Some(FileType::Directory) {
                    remove(&parent, name, 0)?;
                    mkdirat(&parent, name, mode).map_err(system("making a folder"))?;
                }
            }
            EntryType::Regular | EntryType::Continuous => {
                remove(&parent, name, 0)?;
                self.file(&parent, name, mode | 0o444, entry)?;
            }
            EntryType::Symlink => {
                let target = link.ok_or_else(|| missing("the target of a link"))?;
                remove(&parent, name, 0)?;
                symlinkat(OsStr::from_bytes(&target), &parent, name).map_err(system("linking"))?;
            }
            EntryType::Link => {
                let source = plain(&link.ok_or_else(|| missing("the target of a link"))?)?;
                let folder = self.folder(source.parent().unwrap_or(Path::new("")))?;
                let source_name = source.file_name().ok_or_else(|| missing("a name"))?;
                if kind_of(&folder, source_name) != Some(FileType::RegularFile) {
                    return Err(missing("the file of a hard link"));
                }
                remove(&parent, name, 0)?;
                linkat(&folder, source_name, &parent, name, AtFlags::empty())
                    .map_err(system("linking"))?;
            }
            // A guest gets its devices from us, and pipes are made when they are needed.
            EntryType::Char | EntryType::Block | EntryType::Fifo => return Ok(()),
            other => return Err(missing_kind(other)),
        }
        self.made.insert(place.join(name));
        Ok(())
    }

    fn file(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        mode: u32,
        entry: &mut tar::Entry<'_, impl Read>,
    ) -> Result<(), ImageError> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(parent, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(opened.map_err(system("making a file"))?);
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let count = entry.read(&mut chunk).map_err(malformed)?;
            let Some(read @ [_, ..]) = chunk.get(..count) else { break };
            self.bytes = self.bytes.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            if self.bytes > self.limits.bytes {
                return Err(ImageError::TooMany { what: "bytes", limit: self.limits.bytes });
            }
            file.write_all(read).map_err(|error| ImageError::System { what: "writing", error })?;
        }
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(system("setting the mode of a file"))
    }

    /// A folder below the root, made if it is missing; links in its path stay inside.
    fn folder(&mut self, path: &Path) -> Result<OwnedFd, ImageError> {
        let mut so_far = PathBuf::new();
        let mut folder = self.resolve(Path::new("."))?;
        for part in path.components() {
            so_far.push(part);
            folder = match self.resolve(&so_far) {
                Err(ImageError::System { error, .. })
                    if error.kind() == io::ErrorKind::NotFound =>
                {
                    self.count()?;
                    let mode = Mode::from_raw_mode(0o755);
                    mkdirat(&folder, part.as_os_str(), mode).map_err(system("making a folder"))?;
                    self.made.insert(true_path(&folder)?.join(part));
                    self.resolve(&so_far)?
                }
                other => other?,
            };
        }
        Ok(folder)
    }

    fn resolve(&self, path: &Path) -> Result<OwnedFd, ImageError> {
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        openat2(&self.root, path, FOLDER, Mode::empty(), inside).map_err(system("finding a folder"))
    }

    /// Removes what a mark names, or what is beside it; `place` is the true path of its folder.
    fn white_out(&self, parent: &OwnedFd, place: &Path, name: &OsStr) -> Result<(), ImageError> {
        if name == OPAQUE {
            for child in children(parent.as_fd())? {
                let child = OsStr::from_bytes(child.to_bytes());
                self.remove_older(parent, place, child, 0)?;
            }
            return Ok(());
        }
        let hidden = name.as_bytes().get(WHITEOUT.len()..).unwrap_or_default();
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(missing("the name that a mark removes"));
        }
        self.remove_older(parent, place, OsStr::from_bytes(hidden), 0).map(drop)
    }

    /// Removes what older layers put under a name, and tells whether nothing is left of it: a mark
    /// may come after what its own layer made.
    fn remove_older(
        &self,
        parent: &OwnedFd,
        place: &Path,
        name: &OsStr,
        depth: usize,
    ) -> Result<bool, ImageError> {
        let place = place.join(name);
        let mut own = self.made.contains(&place);
        if kind_of(parent, name) == Some(FileType::Directory) {
            let opened = enter(parent, name, depth)?;
            for child in children(opened.as_fd())? {
                let child = OsStr::from_bytes(child.to_bytes());
                own |= !self.remove_older(&opened, &place, child, depth.saturating_add(1))?;
            }
        }
        if !own {
            remove(parent, name, depth)?;
        }
        Ok(!own)
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn kind_of(folder: &OwnedFd, name: &OsStr) -> Option<FileType> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

/// Opens a folder in order to remove what is in it.
fn enter(parent: &OwnedFd, name: &OsStr, depth: usize) -> Result<OwnedFd, ImageError> {
    if depth > DEEPEST {
        return Err(missing("an end of folders within folders"));
    }
    let opened = openat(parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
    opened.map_err(system("opening a folder"))
}

/// The path of a folder without links.
fn true_path(folder: &OwnedFd) -> Result<PathBuf, ImageError> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    path.map_err(|error| ImageError::System { what: "finding a folder", error })
}

/// Removes a name, whatever it is, without following it.
fn remove(parent: &OwnedFd, name: &OsStr, depth: usize) -> Result<(), ImageError> {
    if kind_of(parent, name) == Some(FileType::Directory) {
        let opened = enter(parent, name, depth)?;
        for child in children(opened.as_fd())? {
            remove(&opened, OsStr::from_bytes(child.to_bytes()), depth.saturating_add(1))?;
        }
        return unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(system("removing a folder"));
    }
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(system("removing a file")(error)),
    }
}

fn children(folder: BorrowedFd<'_>) -> Result<Vec<std::ffi::CString>, ImageError> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder).map_err(system("reading a folder"))? {
        let name = entry.map_err(system("reading a folder"))?.file_name().to_owned();
        if !matches!(CStr::to_bytes(&name), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// A path without surprises: relative, and never upwards.
fn plain(bytes: &[u8]) -> Result<PathBuf, ImageError> {
    let given = Path::new(OsStr::from_bytes(bytes));
    let mut path = PathBuf::new();
    for part in given.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(ImageError::Escapes { path: given.to_owned() });
            }
        }
    }
    if bytes.contains(&0) || path.components().count() > DEEPEST {
        return Err(ImageError::Escapes { path: given.to_owned() });
    }
    Ok(path)
}

/// A record that describes the next entry.
fn record(entry: &mut tar::Entry<'_, impl Read>) -> Result<Vec<u8>, ImageError> {
    if entry.size() > LARGEST_RECORD {
        return Err(ImageError::TooMany { what: "bytes of a record", limit: LARGEST_RECORD });
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(malformed)?;
    Ok(bytes)
}

fn text(entry: &mut tar::Entry<'_, impl Read>) -> Result<Vec<u8>, ImageError> {
    let mut bytes = record(entry)?;
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

fn extended(record: &[u8], said: &mut Said) -> Result<(), ImageError> {
    for extension in tar::PaxExtensions::new(record) {
        let extension = extension.map_err(malformed)?;
        match extension.key_bytes() {
            b"path" => said.path = Some(extension.value_bytes().to_vec()),
            b"linkpath" => said.link = Some(extension.value_bytes().to_vec()),
            // It would change where the next entry ends.
            b"size" => return Err(missing("a size that fits its header")),
            _ => {}
        }
    }
    Ok(())
}

fn malformed(error: io::Error) -> ImageError {
    ImageError::Malformed { what: error.to_string() }
}

fn missing(what: &str) -> ImageError {
    ImageError::Malformed { what: format!("{what} is missing") }
}

fn missing_kind(kind: EntryType) -> ImageError {
    ImageError::Malformed { what: format!("entries of the kind {kind:?} are not taken") }
}

fn system(what: &'static str) -> impl FnOnce(Errno) -> ImageError {
    move |error| ImageError::System { what, error: error.into() }
}

#[cfg(test)]
mod tests {
    use super::Unpacker;
    use crate::native::image::{ImageError, ImageLimits};
    use std::fs;
    use std::path::Path;
    use tar::EntryType;

    /// A layer of folders (`a/`), links (`a -> b`), hard links (`a = b`) and files that say this.
    fn layer(entries: &[&str], says: &str) -> Vec<u8> {
        let mut layer = tar::Builder::new(Vec::new());
        for entry in entries {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o755);
            header.set_size(0);
            let symbolic = entry.split_once(" -> ").map(|link| (EntryType::Symlink, link));
            let hard = entry.split_once(" = ").map(|link| (EntryType::Link, link));
            if let Some((kind, (path, target))) = symbolic.or(hard) {
                header.set_entry_type(kind);
                layer.append_link(&mut header, path, target).unwrap();
            } else if entry.ends_with('/') {
                header.set_entry_type(EntryType::Directory);
                layer.append_data(&mut header, entry, std::io::empty()).unwrap();
            } else {
                header.set_size(u64::try_from(says.len()).unwrap());
                header.set_entry_type(EntryType::Regular);
                layer.append_data(&mut header, entry, says.as_bytes()).unwrap();
            }
        }
        layer.into_inner().unwrap()
    }

    /// Everything below a folder: files as `path: text`, everything else as its path.
    fn found(root: &Path, below: &str) -> Vec<String> {
        let mut all = Vec::new();
        for entry in fs::read_dir(root.join(below)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{below}{}", entry.file_name().to_str().unwrap());
            let kind = entry.file_type().unwrap();
            if kind.is_file() {
                all.push(format!("{path}: {}", fs::read_to_string(entry.path()).unwrap()));
            } else {
                all.push(path.clone());
            }
            if kind.is_dir() {
                all.extend(found(root, &format!("{path}/")));
            }
        }
        all.sort();
        all
    }

    #[test]
    fn folders_that_a_path_implies_are_counted() {
        let unpack = |entries: u64| {
            let root = tempfile::tempdir().unwrap();
            let limits = ImageLimits { entries, ..ImageLimits::default() };
            let mut unpacker = Unpacker::new(root.path(), limits).unwrap();
            unpacker.layer(layer(&["a/b/c/file", "a/b/file"], "").as_slice())
        };
        assert!(unpack(5).is_ok());
        let refused = unpack(4);
        assert!(matches!(refused, Err(ImageError::TooMany { limit: 4, .. })), "{refused:?}");
    }

    #[test]
    fn marks_remove_what_older_layers_made_and_nothing_else() {
        let cases: [(&[&str], &[&str], &[&str]); 12] = [
            (&["f"], &[".wh.f"], &[]),
            (&["f"], &[".wh.f", "f"], &["f: new"]),
            (&["d/f", "d/e/f"], &[".wh.d"], &[]),
            (&["d/f"], &[".wh.d", "d/"], &["d"]),
            (&["d/f"], &[".wh.d", "d/e/g"], &["d", "d/e", "d/e/g: new"]),
            (&["d/f", "d/e/f"], &[".wh.d", "d/e/g"], &["d", "d/e", "d/e/g: new"]),
            (&["d/f", "d/e/f"], &["d/.wh..wh..opq"], &["d"]),
            (&["d/f", "d/g"], &["d/.wh..wh..opq", "d/g"], &["d", "d/g: new"]),
            (&["d/f", "d/e/f"], &["d/.wh..wh..opq", "d/e/g"], &["d", "d/e", "d/e/g: new"]),
            (&["d/f", "l -> d"], &["d/.wh..wh..opq", "l/g"], &["d", "d/g: new", "l"]),
            (&["d/f", "l -> d"], &["l/.wh.e", "d/e/"], &["d", "d/e", "d/f: old", "l"]),
            (&[], &[".wh..wh..opq", "d/e/", "d/f"], &["d", "d/e", "d/f: new"]),
        ];
        for (older, newer, left) in cases {
            let reversed: Vec<_> = newer.iter().copied().rev().collect();
            for newer in [newer, &reversed] {
                let root = tempfile::tempdir().unwrap();
                let limits = ImageLimits::default();
                let mut unpacker = Unpacker::new(root.path(), limits).unwrap();
                unpacker.layer(layer(older, "old").as_slice()).unwrap();
                unpacker.layer(layer(newer, "new").as_slice()).unwrap();
                assert_eq!(found(root.path(), ""), left, "{older:?} and {newer:?}");
            }
        }
    }

    #[test]
    fn a_hard_link_stays_when_what_it_was_made_of_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let mut unpacker = Unpacker::new(root.path(), ImageLimits::default()).unwrap();
        unpacker.layer(layer(&["d/f"], "old").as_slice()).unwrap();
        unpacker.layer(layer(&["d/g = d/f", "d/.wh..wh..opq"], "new").as_slice()).unwrap();
        assert_eq!(found(root.path(), ""), ["d", "d/g: old"]);
    }
}
