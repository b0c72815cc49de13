//! Where tests find real models and data.

use std::path::PathBuf;

/// A file or folder that `cargo xtask models` fetches.
pub(crate) fn path(name: &str) -> PathBuf {
    let folder = std::env::var_os("OPENGPU_MODELS").map(PathBuf::from);
    let cache = || {
        let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache");
        base.unwrap_or_else(home).join("opengpu/models")
    };
    let path = folder.unwrap_or_else(cache).join(name);
    assert!(path.exists(), "{} is missing; run: cargo xtask models", path.display());
    path
}
