//! The files of a store: their names, and the order in which they are written.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use opengpu_types::{ArtifactId, Millis};
use tempfile::NamedTempFile;

use super::content::Content;
use super::remove_if_there;
use crate::artifact::{GROUP, Outline, count, row_length};

const VALUE: usize = 32;

#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
}

/// An artifact that was found when the store was opened.
pub(super) struct Found {
    pub(super) id: ArtifactId,
    pub(super) size: u64,
    pub(super) whole: bool,
    pub(super) until: Option<Millis>,
}

impl Disk {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        for name in ["new", "part", "whole", "held"] {
            create_private(&folder.join(name))?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// The lock of the store; none if another process has it.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        let path = self.folder.join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes what a crash left half-written.
    pub(super) fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.join("new"))? {
            remove_if_there(&entry?.path())?;
        }
        Ok(())
    }

    /// All artifacts, the one that was used longest ago first.
    pub(super) fn scan(&self) -> io::Result<Vec<Found>> {
        let mut found: BTreeMap<ArtifactId, (SystemTime, Found)> = BTreeMap::new();
        for (kind, whole) in [("whole", true), ("part", false)] {
            for (id, path) in self.names(kind)? {
                let facts = fs::symlink_metadata(&path)?;
                let row = fs::symlink_metadata(self.path(kind, id, ".row")).map(|row| row.len());
                let length = row_length(facts.len()).saturating_mul(VALUE);
                let complete = facts.is_file()
                    && row.ok() == u64::try_from(length).ok()
                    && (whole || self.path(kind, id, ".seen").exists());
                if !complete || found.contains_key(&id) {
                    self.remove_kind(kind, id)?;
                    continue;
                }
                let until = self.held(id)?;
                let size = facts.len();
                found.insert(id, (facts.modified()?, Found { id, size, whole, until }));
            }
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by_key(|(used, _)| *used);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    /// The artifacts below a folder; a file that is none, and belongs to none, is removed.
    fn names(&self, kind: &str) -> io::Result<Vec<(ArtifactId, PathBuf)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder.join(kind))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            match name.split_once('.') {
                None => match name.parse() {
                    Ok(id) => names.push((id, entry.path())),
                    Err(_) => remove_if_there(&entry.path())?,
                },
                Some((of, _)) if self.folder.join(kind).join(of).exists() => {}
                Some(_) => remove_if_there(&entry.path())?,
            }
        }
        Ok(names)
    }

    pub(super) fn new_file(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::new_in(self.folder.join("new"))
    }

    /// Gives a file that was written and synced its name. The row comes first: whoever sees the data
    /// sees its row.
    pub(super) fn keep_whole(&self, file: NamedTempFile, outline: &Outline) -> io::Result<()> {
        self.write_row("whole", outline)?;
        file.persist(self.path("whole", outline.id(), ""))?;
        self.sync("whole")
    }

    /// A complete artifact. Opening it counts as a use, also after a restart.
    pub(super) fn whole(&self, id: ArtifactId) -> io::Result<Content> {
        let data = OpenOptions::new().read(true).write(true).open(self.path("whole", id, ""))?;
        data.set_modified(SystemTime::now())?;
        let outline = self.outline("whole", id, &data)?;
        Ok(Content::whole(outline, data))
    }

    /// A part, of which every group that counts was hashed now.
    pub(super) fn part(&self, id: ArtifactId) -> io::Result<Content> {
        let open = |end| OpenOptions::new().read(true).write(true).open(self.path("part", id, end));
        let data = open("")?;
        let outline = self.outline("part", id, &data)?;
        let content = Content::part(outline, data, open(".seen")?);
        content.recount()?;
        Ok(content)
    }

    /// Starts a part.
    pub(super) fn begin(&self, outline: Outline, last: &[u8]) -> io::Result<Content> {
        let id = outline.id();
        self.write_row("part", &outline)?;
        let create = |end| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true);
            options.open(self.path("part", id, end))
        };
        let seen = create(".seen")?;
        seen.set_len(u64::from(outline.count()))?;
        let data = create("")?;
        data.set_len(outline.size())?;
        let content = Content::part(outline, data, seen);
        content.write(content.outline().last(), last)?;
        Ok(content)
    }

    /// Moves a part that has every group to the whole artifacts.
    pub(super) fn finish(&self, part: &Content) -> io::Result<()> {
        let id = part.outline().id();
        if part.have().len() != part.outline().count() {
            return Err(io::Error::other("a part with gaps is not complete"));
        }
        part.data().sync_all()?;
        self.write_row("whole", part.outline())?;
        fs::rename(self.path("part", id, ""), self.path("whole", id, ""))?;
        self.sync("whole")?;
        self.remove_kind("part", id)
    }

    pub(super) fn remove(&self, id: ArtifactId) -> io::Result<()> {
        remove_if_there(&self.path("held", id, ""))?;
        self.remove_kind("part", id)?;
        self.remove_kind("whole", id)
    }

    /// The data goes first: what is left without it is swept.
    fn remove_kind(&self, kind: &str, id: ArtifactId) -> io::Result<()> {
        ["", ".row", ".seen"].iter().try_for_each(|end| remove_if_there(&self.path(kind, id, end)))
    }

    pub(super) fn hold(&self, id: ArtifactId, until: Millis) -> io::Result<()> {
        let mut file = self.new_file()?;
        file.write_all(&until.0.to_be_bytes())?;
        file.as_file().sync_all()?;
        file.persist(self.path("held", id, ""))?;
        self.sync("held")
    }

    pub(super) fn release(&self, id: ArtifactId) -> io::Result<()> {
        remove_if_there(&self.path("held", id, ""))
    }

    fn held(&self, id: ArtifactId) -> io::Result<Option<Millis>> {
        match fs::read(self.path("held", id, "")) {
            Ok(bytes) => {
                Ok(<[u8; 8]>::try_from(bytes).ok().map(|until| Millis(u64::from_be_bytes(until))))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_row(&self, kind: &str, outline: &Outline) -> io::Result<()> {
        let mut file = self.new_file()?;
        file.write_all(outline.row().as_flattened())?;
        file.as_file().sync_all()?;
        file.persist(self.path(kind, outline.id(), ".row"))?;
        Ok(())
    }

    /// The outline as it was stored, proven again.
    fn outline(&self, kind: &str, id: ArtifactId, data: &File) -> io::Result<Outline> {
        let size = data.metadata()?.len();
        let row = fs::read(self.path(kind, id, ".row"))?;
        let (row, _) = row.as_chunks::<VALUE>();
        let start = u64::from(count(size).saturating_sub(1)).saturating_mul(GROUP as u64);
        let mut last = vec![0; usize::try_from(size.saturating_sub(start)).unwrap_or(GROUP)];
        read_at(data, &mut last, start)?;
        Outline::prove(id, size, row.to_vec(), &last)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn path(&self, kind: &str, id: ArtifactId, end: &str) -> PathBuf {
        self.folder.join(kind).join(format!("{id}{end}"))
    }

    /// Makes the names of a folder last.
    fn sync(&self, kind: &str) -> io::Result<()> {
        if cfg!(unix) { File::open(self.folder.join(kind))?.sync_all() } else { Ok(()) }
    }
}

fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(unix)]
pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(unix)]
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = bytes.get_mut(count..).unwrap_or_default();
        offset = offset.saturating_add(count as u64);
    }
    Ok(())
}

#[cfg(windows)]
pub(super) fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(count..).unwrap_or_default();
        offset = offset.saturating_add(count as u64);
    }
    Ok(())
}
