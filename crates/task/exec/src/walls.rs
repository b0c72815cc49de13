//! The walls around an executor: what its process can still reach once it runs what others wrote.
//!
//! An engine may have a hole: the compiler of modules, a driver, the reader of a model's file. Whoever
//! gets through it finds a process that computes and nothing else.
//!
//! | wall | by | what it leaves |
//! |---|---|---|
//! | files | landlock | the program's own files, the run's folder, libraries and drivers; what the kernel says about this process, its network and the machine's devices |
//! | system calls | seccomp | memory, threads, clocks and open files; no sockets, programs, processes, signals |
//! | power | capabilities, no new privileges | none |
//! | use | limits of the process | no core file, files as large as a state, 1,024 open files |
//!
//! ```text
//!   supervisor ──Grant──► [executor: raise] ──► requests ──► back end ──► program
//! ```
//!
//! The grant is the first message that an executor hears, and comes from its supervisor: nothing that
//! others wrote has been read when the walls are raised. An executor without a grant runs scripts and
//! images only, which have a sandbox of their own each ([`crate::native`]).
//!
//! Where the system is not Linux there are no walls, and `opengpu doctor` says so.

#[cfg(target_os = "linux")]
pub(crate) mod filter;
#[cfg(target_os = "linux")]
pub(crate) mod folders;
#[cfg(target_os = "linux")]
mod linux;

use crate::fault::Refusal;
use crate::program::{Kind, MANIFEST, Program};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// What an executor may touch besides what every program needs of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// Files and folders that it reads.
    reads: Vec<PathBuf>,
    /// Folders in which it writes.
    writes: Vec<PathBuf>,
    /// Whether it talks to GPUs.
    devices: bool,
    /// Whether it makes files that live in no folder: drivers do, and a library that is loaded from
    /// checked bytes. Nobody counts their memory.
    memory_files: bool,
    /// Bytes of the largest file that it writes.
    file: u64,
}

/// Bytes of a file that drivers may keep.
const FILE: u64 = 256 << 20;

impl Grant {
    /// What an executor of this program needs; none if the program has a sandbox of its own.
    pub(crate) fn of(program: &Program) -> Result<Option<Self>, Refusal> {
        let devices = match program.manifest.kind {
            Kind::Native => return Ok(None),
            // A module may order kernels.
            Kind::Wasm | Kind::Gpu => true,
            Kind::Llm | Kind::Onnx | Kind::Train => false,
        };
        let files = program.files().keys().map(|name| program.path(name));
        let mut reads = files.collect::<Result<Vec<_>, _>>()?;
        reads.push(program.folder().join(MANIFEST));
        #[cfg(all(feature = "onnx", target_os = "linux"))]
        if program.manifest.kind == Kind::Onnx {
            reads.extend(crate::onnx::library());
        }
        let memory_files = devices || program.manifest.kind == Kind::Onnx;
        let file = program.manifest.limits.state.max(FILE);
        Ok(Some(Self { reads, writes: Vec::new(), devices, memory_files, file }))
    }

    /// Whether it talks to GPUs.
    pub(crate) const fn devices(&self) -> bool {
        self.devices
    }

    /// Adds what whoever starts it allows. Paths mean the same in both processes from now on.
    pub(crate) fn with(mut self, reads: &[PathBuf], writes: &[PathBuf]) -> io::Result<Self> {
        self.reads.extend_from_slice(reads);
        self.writes.extend_from_slice(writes);
        for path in self.reads.iter_mut().chain(&mut self.writes) {
            *path = std::path::absolute(&*path)?;
        }
        Ok(self)
    }

    /// Whether all that the other one allows is allowed by this one, too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let within =
            |folders: &[PathBuf], path: &Path| folders.iter().any(|at| path.starts_with(at));
        other.reads.iter().all(|path| within(&self.reads, path))
            && other.writes.iter().all(|path| within(&self.writes, path))
            && (self.devices || !other.devices)
            && (self.memory_files || !other.memory_files)
            && self.file >= other.file
    }

    /// Raises the walls around this process. It must have one thread: walls are the thread's that
    /// raises them, and of those that it starts.
    #[cfg(target_os = "linux")]
    pub(crate) fn raise(&self) -> io::Result<()> {
        linux::raise(self)
    }

    /// Other systems have none.
    #[cfg(not(target_os = "linux"))]
    pub(crate) const fn raise(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_covers_what_lies_within_it_and_nothing_else() {
        let grant = |reads: &[&str], writes: &[&str], devices| {
            let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
            let base = Grant { devices, ..Grant::default() };
            base.with(&paths(reads), &paths(writes)).unwrap()
        };
        let wide = grant(&["/a", "/b/c"], &["/d"], false);
        assert!(wide.covers(&wide) && wide.covers(&grant(&["/a/x"], &["/d/y"], false)));
        for other in [
            grant(&["/b"], &[], false),
            grant(&["/ab"], &[], false),
            grant(&[], &["/a"], false),
            grant(&[], &[], true),
        ] {
            assert!(!wide.covers(&other), "{other:?}");
        }
    }
}
