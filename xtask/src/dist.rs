//! `dist`: a release archive for users without a compiler.
//!
//! The archive holds the stripped binary, both licences and the README, in one folder.
//! Its bytes depend on the files alone: owners, times and the order of entries are fixed.

use crate::cargo::{self, Profile, cargo};
use crate::process;
use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "opengpu-cli";
const BINARY: &str = "opengpu";
const DOCUMENTS: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

pub(crate) fn run() -> Result<()> {
    let path = make()?;
    let archive = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    println!("path   {}", path.display());
    println!("size   {} bytes", archive.len());
    println!("sha256 {}", sha256(&archive));
    Ok(())
}

/// Makes the archive of a release build, and says where it is.
pub(crate) fn make() -> Result<PathBuf> {
    cargo::prepare()?;
    // Only the last step links with `strip`: as a profile setting it would rebuild every dependency.
    process::run(
        cargo().args(["rustc", "--release", "--package", PACKAGE, "--bin", BINARY]).args([
            "--",
            "-C",
            "strip=symbols",
        ]),
    )?;
    let metadata = cargo::metadata()?;
    let version = metadata
        .packages
        .iter()
        .find(|package| package.name == PACKAGE)
        .map(|package| package.version.clone())
        .with_context(|| format!("the workspace has no package {PACKAGE}"))?;
    let name = format!("{BINARY}-{version}-{}", host()?);
    let binary = metadata.target_directory.join(Profile::Release.folder()).join(BINARY);
    let folder = process::root().join("dist");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(format!("{name}.tar.gz"));
    archive(&name, binary, &path)?;
    Ok(path)
}

/// Packs a binary and the documents into an archive.
pub(crate) fn archive(name: &str, binary: PathBuf, path: &Path) -> Result<()> {
    let mut entries = vec![Entry { name: BINARY, path: binary, executable: true }];
    for document in DOCUMENTS {
        let path = process::root().join(document);
        entries.push(Entry { name: document, path, executable: false });
    }
    let archive = pack(name, &entries, Vec::new())?;
    std::fs::write(path, &archive).with_context(|| format!("writing {}", path.display()))
}

struct Entry {
    name: &'static str,
    path: PathBuf,
    executable: bool,
}

fn pack<W: Write>(folder: &str, entries: &[Entry], to: W) -> Result<W> {
    let gzip = GzBuilder::new().mtime(0).write(to, Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for Entry { name, path, executable } in entries {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let mut header = tar::Header::new_gnu();
        header.set_size(
            u64::try_from(bytes.len()).context("a file larger than an archive can hold")?,
        );
        header.set_mode(if *executable { 0o755 } else { 0o644 });
        header.set_mtime(0);
        archive
            .append_data(&mut header, Path::new(folder).join(name), bytes.as_slice())
            .with_context(|| format!("packing {name}"))?;
    }
    let gzip = archive.into_inner().context("closing the archive")?;
    gzip.finish().context("closing the compressed stream")
}

/// The machine this was built for, as rustc names it.
fn host() -> Result<String> {
    let text = process::read(Command::new("rustc").arg("-vV").current_dir(process::root()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc -vV names no host")
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Entry, pack, sha256};
    use std::io::Read as _;

    fn entries(folder: &std::path::Path) -> Vec<Entry> {
        std::fs::write(folder.join("opengpu"), b"binary").unwrap();
        std::fs::write(folder.join("README.md"), b"read me").unwrap();
        vec![
            Entry { name: "opengpu", path: folder.join("opengpu"), executable: true },
            Entry { name: "README.md", path: folder.join("README.md"), executable: false },
        ]
    }

    #[test]
    fn the_archive_unpacks_to_one_folder_with_a_program_that_may_run() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = pack("opengpu-1.0", &entries(folder.path()), Vec::new()).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let path = entry.path().unwrap().display().to_string();
            found.push((path, entry.header().mode().unwrap(), text));
        }
        let wanted = [
            ("opengpu-1.0/opengpu".to_owned(), 0o755, "binary".to_owned()),
            ("opengpu-1.0/README.md".to_owned(), 0o644, "read me".to_owned()),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn equal_files_make_equal_archives() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = pack("opengpu", &entries(first.path()), Vec::new()).unwrap();
        let second = pack("opengpu", &entries(second.path()), Vec::new()).unwrap();
        assert_eq!(first, second);
    }

    #[test]
    fn the_digest_is_printed_in_hexadecimal() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }
}
