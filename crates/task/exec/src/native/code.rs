//! What of a program is started in a sandbox: its settings, its script or image, and what lies beside.

use super::bubblewrap::NOBODY;
use super::image::{self, Image, ImageError, ImageLimits};
use crate::archive;
use crate::fault::Refusal;
use crate::program::Program;
use crate::scratch::{self, Scratch};
use serde::Deserialize;
use std::io::{self, Write as _};
use std::path::Path;

/// Bytes of the largest script.
const SCRIPT: u64 = 1 << 20;
/// Bytes of one file beside a script.
const BESIDE: u64 = 4 << 30;

/// `[native]` of a manifest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    /// Steps of a script that keeps to the contract of checkpoints.
    pub(super) steps: Option<u64>,
    /// What follows the script, or the command of an image.
    pub(super) arguments: Vec<String>,
    /// An image: a folder or tar file beside the manifest, or the name that an engine has for it.
    pub(super) image: Option<String>,
    /// The address of that image: `sha256:` and the digest of its manifest or of its settings.
    pub(super) digest: Option<String>,
    /// What is run in the image, or what runs the script; what the image says itself, or Python, if
    /// nothing is.
    pub(super) command: Option<String>,
    /// What stands between the command and a script.
    pub(super) options: Vec<String>,
    /// How the input appears.
    pub(super) input: Shape,
}

/// How the input appears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shape {
    /// As one file.
    #[default]
    File,
    /// As the folder of which it is the archive.
    Folder,
}

/// What is started.
#[derive(Debug)]
pub(super) enum Code {
    Script { name: String, text: Vec<u8> },
    Image { image: Image, command: String, arguments: Vec<String> },
}

/// The script or the image of a program.
pub(super) fn code(program: &Program, settings: &Settings) -> Result<Code, Refusal> {
    match &settings.image {
        Some(name) => open(program, name, settings),
        None => Ok(Code::Script {
            name: program.manifest.code.clone().unwrap_or_default(),
            text: program.code(SCRIPT)?,
        }),
    }
}

/// The files of a program that has more than its script or its image, as a run finds them.
pub(super) fn beside(program: &Program, settings: &Settings) -> Result<Option<Scratch>, Refusal> {
    let image = settings.image.as_deref().map(Path::new);
    let mine = |name: &&String| image.is_none_or(|image| !Path::new(name).starts_with(image));
    let names: Vec<_> = program.files().keys().filter(mine).collect();
    if names.iter().all(|name| program.manifest.code.as_ref() == Some(*name)) {
        return Ok(None);
    }
    let machine = |error: io::Error| Refusal::Machine { reason: error.to_string() };
    let folder = scratch().map_err(machine)?;
    for name in names {
        let bytes = program.read(name, BESIDE)?;
        let above = Path::new(name).parent().unwrap_or(Path::new(""));
        archive::make_folders(folder.path(), above).map_err(machine)?;
        let file = archive::make_file(&folder.path().join(name), false);
        file.and_then(|mut file| file.write_all(&bytes)).map_err(machine)?;
    }
    Ok(Some(folder))
}

/// Unpacks the image of a program, if it is the one that its manifest means.
fn open(program: &Program, name: &str, settings: &Settings) -> Result<Code, Refusal> {
    let Some(digest) = &settings.digest else {
        return Err(Refusal::program(
            "[native]: an `image` needs its `digest`: the `Digest` or `Id` that \
             `podman image inspect NAME` shows",
        ));
    };
    if program.manifest.code.is_some() {
        return Err(Refusal::program("[native]: either `code` or an `image`"));
    }
    let (cache, limits) = (image::cache(), ImageLimits::default());
    let beside = program.path(name).ok().filter(|path| path.exists());
    let image = match beside {
        Some(path) => image::unpack(&path, &cache, limits),
        None => image::named(name, &cache, limits),
    };
    let image = image.map_err(refusal)?;
    if !image.is(digest) {
        return Err(Refusal::program(format_args!(
            "the image is sha256:{} (id sha256:{}) and not {digest}; if it is the one that is \
             meant, write `digest = \"sha256:{}\"` under [native]",
            image.digest, image.id, image.id
        )));
    }
    let said = image.command.iter().cloned();
    let mut words: Vec<_> = match &settings.command {
        Some(command) => vec![command.clone()],
        None => said.collect(),
    };
    words.extend(settings.arguments.clone());
    if words.is_empty() {
        return Err(Refusal::program("[native]: neither the image nor `command` says what to run"));
    }
    let command = words.remove(0);
    Ok(Code::Image { image, command, arguments: words })
}

/// Whose fault it is that there is no image, and what helps.
fn refusal(error: ImageError) -> Refusal {
    let reason = format!("{error}; {}", error.fix());
    match error {
        ImageError::System { .. }
        | ImageError::Name { .. }
        | ImageError::NoEngine { .. }
        | ImageError::Unknown { .. } => Refusal::Machine { reason },
        ImageError::Malformed { .. }
        | ImageError::NoImage { .. }
        | ImageError::Escapes { .. }
        | ImageError::Digest { .. }
        | ImageError::TooMany { .. }
        | ImageError::Foreign { .. }
        | ImageError::Unsupported { .. } => Refusal::Program { reason },
    }
}

/// A folder that a guest may look into, and nobody else but us.
pub(super) fn scratch() -> io::Result<Scratch> {
    let scratch = Scratch::make(&scratch::temporary()?, "guest-")?;
    if rustix::process::getuid().is_root() {
        // Where we are root the guest is somebody else.
        std::os::unix::fs::chown(scratch.path(), Some(NOBODY), Some(NOBODY))?;
    }
    Ok(scratch)
}
