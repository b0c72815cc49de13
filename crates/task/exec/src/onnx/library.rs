//! The library that computes: one release of ONNX Runtime, from the folder of models.
//!
//! It is code, so no program brings it along: its name and its digest are written here. What was
//! checked is what is loaded: its bytes are copied to a file in memory that has no name.

use crate::artifact;
use crate::fault::Refusal;
use crate::program;
use ort::environment::Environment;
use rustix::fs::{MemfdFlags, memfd_create};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Where it lies in the folder of models.
pub(super) const NAME: &str = "onnxruntime/libonnxruntime.so.1.31.1";
/// Bytes of the largest file that is looked at.
const LARGEST: u64 = 128 << 20;
/// SHA-256 of the file.
const DIGEST: &str = if cfg!(target_arch = "x86_64") {
    "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3"
} else if cfg!(target_arch = "aarch64") {
    "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467"
} else {
    "none is known"
};

/// A process has one.
static OPEN: Mutex<Option<Environment>> = Mutex::new(None);

/// Where it must be.
pub(crate) fn path() -> Option<PathBuf> {
    Some(program::models()?.join(NAME))
}

/// The library, loaded once.
pub(super) fn open() -> Result<Environment, Refusal> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*open {
        return Ok(environment.clone());
    }
    let environment = load(&read()?)?;
    *open = Some(environment.clone());
    Ok(environment)
}

/// Whether it is there, and the pinned one.
pub(super) fn look() -> Result<(), Refusal> {
    read().map(|_| ())
}

/// The bytes of the library, if they are the pinned ones.
fn read() -> Result<Vec<u8>, Refusal> {
    let path = path().ok_or_else(|| refusal("there is no folder of models"))?;
    let bytes = artifact::read(&path, LARGEST).map_err(refusal)?;
    let found = hex::encode(Sha256::digest(&bytes));
    if found != DIGEST {
        return Err(refusal(format_args!("its SHA-256 is {found}, and not {DIGEST}")));
    }
    Ok(bytes)
}

fn load(bytes: &[u8]) -> Result<Environment, Refusal> {
    let copy = in_memory(bytes).map_err(refusal)?;
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let builder = ort::init_from(path).map_err(refusal)?;
    builder.with_name("opengpu").with_telemetry(false).build().map_err(refusal)
}

fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("onnxruntime", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

fn refusal(reason: impl std::fmt::Display) -> Refusal {
    let fix = "`cargo xtask models` fetches it";
    Refusal::Machine { reason: format!("models of ONNX need {NAME} ({fix}): {reason}") }
}
