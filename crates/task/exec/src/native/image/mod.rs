//! Images in the form of the Open Container Initiative, from a folder or one tar file.
//!
//! ```text
//!   index.json ──► manifest ──► settings
//!                     └───────► layers, oldest first ──► one folder, the guest's root
//! ```
//!
//! Everything in an image comes from a stranger. Every part is checked against its digest, every
//! count and size has a limit, and nothing is kept unless all of it was in order: a cache folder
//! appears at once or not at all.
//!
//! An image has two addresses. The digest of its manifest covers the parts as they are packed. Its
//! **id**, the digest of its settings, covers the layers as they are unpacked, so it stays the same
//! when somebody packs them in another way; engines know images by it.

mod engine;
mod error;
mod layer;

pub use engine::{docker_answers, named, save};
pub use error::ImageError;

use crate::scratch::Scratch;
use flate2::read::MultiGzDecoder;
use layer::Unpacker;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What an image may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Bytes of all files together, and of one tar file that holds the image.
    pub bytes: u64,
    /// Files, folders and links.
    pub entries: u64,
    /// Layers.
    pub layers: usize,
}

/// Enough for frameworks of machine learning.
impl Default for ImageLimits {
    fn default() -> Self {
        Self { bytes: 32 << 30, entries: 1_000_000, layers: 128 }
    }
}

/// An unpacked image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its files, for [`Root::Image`](super::Root::Image).
    pub root: PathBuf,
    /// The digest of its manifest, in hexadecimal.
    pub digest: String,
    /// The digest of its settings, in hexadecimal.
    pub id: String,
    /// What it runs when nothing else is said.
    pub command: Vec<String>,
}

impl Image {
    /// Whether a text such as `sha256:…` is one of its two addresses.
    pub fn is(&self, address: &str) -> bool {
        let hexadecimal = address.strip_prefix("sha256:");
        hexadecimal.is_some_and(|address| address == self.digest || address == self.id)
    }
}

/// What is kept of an image beside its files.
#[derive(Debug, Deserialize, Serialize)]
struct Kept {
    digest: String,
    id: String,
    command: Vec<String>,
}

/// Bytes of an index, a manifest or the settings.
const LARGEST_TEXT: u64 = 4 << 20;
/// The folder of an image's files, in its place in the cache.
const FILES: &str = "files";
/// What else is kept there.
const KEPT: &str = "image.json";
/// The largest window of a compressed layer, as a power of two: so much memory it costs to unpack.
const WINDOW: u32 = 27;
/// Every scratch folder starts with this.
const SCRATCH: &str = ".unpack-";
/// Indexes within indexes.
const DEEPEST_INDEX: usize = 4;

#[derive(Clone, Debug, Deserialize)]
struct Part {
    #[serde(default, rename = "mediaType")]
    kind: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Clone, Debug, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Part>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    config: Part,
    layers: Vec<Part>,
}

#[derive(Debug, Deserialize)]
struct Settings {
    #[serde(default)]
    config: Runs,
    rootfs: Unpacked,
}

#[derive(Debug, Deserialize)]
struct Unpacked {
    /// The digests of the layers without compression, oldest first.
    diff_ids: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Runs {
    #[serde(default, rename = "Entrypoint")]
    entry: Option<Vec<String>>,
    #[serde(default, rename = "Cmd")]
    command: Option<Vec<String>>,
}

/// Unpacks an image into a cache folder, or finds it there.
pub fn unpack(source: &Path, cache: &Path, limits: ImageLimits) -> Result<Image, ImageError> {
    let scratch = scratch(cache)?;
    let unpacked = scratch.path().join("layout");
    let layout = if source.is_dir() {
        source
    } else {
        fs::create_dir(&unpacked).map_err(system("making a folder"))?;
        spread(source, &unpacked, limits)?;
        &unpacked
    };
    if !layout.join("index.json").is_file() {
        let what = "it holds no index.json";
        return Err(ImageError::NoImage { path: source.to_owned(), what });
    }
    let (manifest, digest) = manifest(layout)?;
    let settings: Settings = read(&blob(layout, &manifest.config)?, Some(&manifest.config))?;
    let runs = settings.config;
    let command = runs.entry.into_iter().chain(runs.command).flatten().collect();
    let id = hexadecimal(&manifest.config)?.to_owned();
    if let Some(image) = find(cache, &id) {
        return Ok(Image { digest, ..image });
    }
    let fresh = scratch.path().join("image");
    let files = fresh.join(FILES);
    fs::create_dir_all(&files).map_err(system("making a folder"))?;
    for folder in [&fresh, &files] {
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder, readable).map_err(system("opening a folder"))?;
    }
    layers(layout, &manifest, &settings.rootfs.diff_ids, &files, limits)?;
    let kept = Kept { digest, id, command };
    let text = serde_json::to_vec(&kept).expect("a record of texts has a form");
    fs::write(fresh.join(KEPT), text).map_err(system("keeping an image"))?;
    let place = cache.join(&kept.id);
    match fs::rename(&fresh, &place) {
        // Somebody else was faster with the same image.
        Err(_) if place.is_dir() => {}
        other => other.map_err(system("keeping an image"))?,
    }
    let Kept { digest, id, command } = kept;
    Ok(Image { root: place.join(FILES), digest, id, command })
}

/// Names the folder of unpacked images.
pub const IMAGES: &str = "OPENGPU_IMAGES";

/// Where unpacked images of this machine are kept: where whoever runs a guest can reach them, which
/// is not root's own home.
pub fn cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(folder) = folder(IMAGES) {
        return folder;
    }
    let own = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let own = own().filter(|_| !rustix::process::getuid().is_root());
    own.unwrap_or_else(|| PathBuf::from("/var/cache")).join("opengpu/images")
}

/// An image that was unpacked before, by its id.
fn find(cache: &Path, id: &str) -> Option<Image> {
    let place = cache.join(id);
    let text = fs::read(place.join(KEPT)).ok()?;
    let Kept { digest, id, command } = serde_json::from_slice(&text).ok()?;
    Some(Image { root: place.join(FILES), digest, id, command })
}

/// A folder in the cache that goes away.
fn scratch(cache: &Path) -> Result<Scratch, ImageError> {
    Scratch::make(cache, SCRATCH).map_err(system("making a folder in the cache"))
}

/// Takes the known names of a layout out of a tar file, and nothing else.
fn spread(source: &Path, into: &Path, limits: ImageLimits) -> Result<(), ImageError> {
    let file = File::open(source).map_err(system("opening an image"))?;
    let blobs = into.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(system("making a folder"))?;
    let mut archive = tar::Archive::new(file.take(limits.bytes));
    // What the reader says would repeat what is in the file.
    let no_tar = |_| ImageError::NoImage {
        path: source.to_owned(),
        what: "it is neither a folder nor a tar file, or a damaged one",
    };
    let entries = archive.entries().map_err(no_tar)?.raw(true);
    for (count, entry) in (0..).zip(entries) {
        if count >= limits.entries {
            return Err(ImageError::TooMany { what: "entries", limit: limits.entries });
        }
        let mut entry = entry.map_err(no_tar)?;
        let path = entry.path().map_err(no_tar)?.into_owned();
        let path = path.strip_prefix("./").unwrap_or(&path);
        let place = match path.strip_prefix("blobs/sha256") {
            Ok(name) if name.to_str().is_some_and(is_digest) => blobs.join(name),
            _ if path == Path::new("index.json") => into.join("index.json"),
            _ => continue,
        };
        // New each time: a second entry of the same name must not be mixed with the first.
        let mut file = File::create_new(place).map_err(system("making a file"))?;
        io::copy(&mut entry, &mut file).map_err(unreadable)?;
    }
    Ok(())
}

/// The manifest for this machine, and its digest.
fn manifest(layout: &Path) -> Result<(Manifest, String), ImageError> {
    let mut index: Index = read(&layout.join("index.json"), None)?;
    for _ in 0..DEEPEST_INDEX {
        let part = choose(&index.manifests)?.clone();
        let path = blob(layout, &part)?;
        if part.kind.contains("index") || part.kind.contains("manifest.list") {
            index = read(&path, Some(&part))?;
        } else {
            let manifest = read(&path, Some(&part))?;
            return Ok((manifest, hexadecimal(&part)?.to_owned()));
        }
    }
    Err(ImageError::Malformed { what: "indexes within indexes without an end".into() })
}

fn choose(parts: &[Part]) -> Result<&Part, ImageError> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let fits = |part: &&Part| {
        let platform = part.platform.as_ref();
        platform.is_none_or(|it| it.os == "linux" && it.architecture == architecture)
    };
    parts.iter().find(fits).ok_or(ImageError::Foreign { architecture })
}

fn layers(
    layout: &Path,
    manifest: &Manifest,
    unpacked: &[String],
    root: &Path,
    limits: ImageLimits,
) -> Result<(), ImageError> {
    if manifest.layers.len() != unpacked.len() {
        return Err(ImageError::Malformed { what: "its settings name other layers".into() });
    }
    if manifest.layers.len() > limits.layers {
        let limit = u64::try_from(limits.layers).unwrap_or(u64::MAX);
        return Err(ImageError::TooMany { what: "layers", limit });
    }
    let mut unpacker = Unpacker::new(root, limits)?;
    for (part, digest) in manifest.layers.iter().zip(unpacked) {
        let file = File::open(blob(layout, part)?).map_err(system("opening a layer"))?;
        let mut read = Counted::new(file, part.size);
        let found = match part.kind.rsplit(['.', '+']).next() {
            Some("gzip") => layer(&mut unpacker, MultiGzDecoder::new(&mut read))?,
            Some("zstd") => {
                let mut decoder = zstd::Decoder::new(&mut read).map_err(unreadable)?;
                decoder.window_log_max(WINDOW).map_err(unreadable)?;
                layer(&mut unpacker, decoder)?
            }
            Some("tar") => layer(&mut unpacker, &mut read)?,
            _ => return Err(ImageError::Unsupported { what: format!("layers of {}", part.kind) }),
        };
        read.verify(part)?;
        if digest.strip_prefix("sha256:") != Some(&found) {
            return Err(ImageError::Digest { digest: digest.clone() });
        }
    }
    Ok(())
}

/// Unpacks a layer, and gives the digest of its form without compression.
fn layer(unpacker: &mut Unpacker, layer: impl Read) -> Result<String, ImageError> {
    let mut hashed = Hashed { read: layer.take(unpacker.most()), hasher: Sha256::new() };
    unpacker.layer(&mut hashed)?;
    // An archive may end before its file does.
    io::copy(&mut hashed, &mut io::sink()).map_err(unreadable)?;
    Ok(hex::encode(hashed.hasher.finalize()))
}

/// Reads a text of an image; its digest is checked when there is one.
fn read<T: DeserializeOwned>(path: &Path, part: Option<&Part>) -> Result<T, ImageError> {
    let file = File::open(path).map_err(system("opening a part of an image"))?;
    let mut read = Counted::new(file, part.map_or(LARGEST_TEXT, |part| part.size));
    let mut bytes = Vec::new();
    (&mut read).take(LARGEST_TEXT).read_to_end(&mut bytes).map_err(unreadable)?;
    if let Some(part) = part {
        read.verify(part)?;
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| ImageError::Malformed { what: error.to_string() })
}

/// The place of a part. A digest is a name of a file, so it must look like one.
fn blob(layout: &Path, part: &Part) -> Result<PathBuf, ImageError> {
    let path = layout.join("blobs/sha256").join(hexadecimal(part)?);
    // In a layout that is a folder, a link could lead anywhere.
    let plain = path.symlink_metadata().is_ok_and(|found| found.is_file());
    if plain { Ok(path) } else { Err(ImageError::Malformed { what: "a part is missing".into() }) }
}

fn hexadecimal(part: &Part) -> Result<&str, ImageError> {
    let digest = part.digest.strip_prefix("sha256:").filter(|digest| is_digest(digest));
    digest.ok_or_else(|| ImageError::Malformed { what: format!("no digest: {}", part.digest) })
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Hashes what passes.
#[derive(Debug)]
struct Hashed<R> {
    read: R,
    hasher: Sha256,
}

/// It ends where the part should end.
type Counted = Hashed<io::Take<File>>;

impl Counted {
    fn new(file: File, size: u64) -> Self {
        Self { read: file.take(size), hasher: Sha256::new() }
    }

    /// Reads what is left and compares.
    fn verify(mut self, part: &Part) -> Result<(), ImageError> {
        io::copy(&mut self, &mut io::sink()).map_err(unreadable)?;
        let longer = self.read.get_mut().read(&mut [0]).map_err(unreadable)? > 0;
        let found = hex::encode(self.hasher.finalize());
        if longer || hexadecimal(part)? != found {
            return Err(ImageError::Digest { digest: part.digest.clone() });
        }
        Ok(())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

fn unreadable(error: io::Error) -> ImageError {
    ImageError::Malformed { what: error.to_string() }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ImageError {
    move |error| ImageError::System { what, error }
}
