//! Our own program inside an image, which may have no libraries, or others than ours.
//!
//! The libraries that this process runs with are mounted beside it, and their own loader starts it.
//! A program without libraries needs none of that.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where they appear inside.
pub(super) const FOLDER: &str = "/run/opengpu";

/// What our own program needs in order to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Libraries {
    pub(super) loader: Option<PathBuf>,
    pub(super) others: Vec<PathBuf>,
}

impl Libraries {
    /// Those that are mapped into this process.
    pub(super) fn find() -> Self {
        Self::read(&fs::read_to_string("/proc/self/maps").unwrap_or_default())
    }

    fn read(maps: &str) -> Self {
        let paths = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
        let paths: BTreeSet<_> = paths.map(PathBuf::from).collect();
        let mut found = Self::default();
        for path in paths {
            let name = name(&path);
            if name.starts_with("ld-") {
                found.loader = Some(path);
            } else if name.contains(".so") {
                found.others.push(path);
            }
        }
        found
    }

    /// The words that start a program with them.
    pub(super) fn start(&self) -> Vec<String> {
        let Some(loader) = &self.loader else { return Vec::new() };
        let words = [&format!("{FOLDER}/{}", name(loader)), "--library-path", FOLDER];
        words.map(str::to_owned).into()
    }

    /// Each of them, and where it appears.
    pub(super) fn places(&self) -> impl Iterator<Item = (&PathBuf, PathBuf)> {
        let all = self.others.iter().chain(&self.loader);
        all.map(|path| (path, Path::new(FOLDER).join(name(path))))
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::Libraries;

    #[test]
    fn libraries_and_their_loader_are_told_apart_from_other_files() {
        let maps = "\
55d0 r-xp 00001000 fe:00 1 /srv/opengpu
7f10 r--p 00000000 fe:00 2 /usr/lib/x86_64-linux-gnu/libc.so.6
7f11 r-xp 00028000 fe:00 2 /usr/lib/x86_64-linux-gnu/libc.so.6
7f20 r--p 00000000 fe:00 3 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
7f30 rw-p 00000000 00:00 0 [heap]";
        let found = Libraries::read(maps);
        assert_eq!(found.others.len(), 1);
        let words = ["/run/opengpu/ld-linux-x86-64.so.2", "--library-path", "/run/opengpu"];
        assert_eq!(found.start(), words);
        assert_eq!(found.places().count(), 2);
        assert_eq!(Libraries::read("55d0 r-xp 0 fe:00 1 /opengpu").start(), Vec::<String>::new());
    }
}
