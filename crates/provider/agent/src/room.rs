//! Whether there is room on the disk of an agent.
//!
//! An agent whose disk is full takes no lease, and gives back what it cannot begin. It says so before
//! anything fails, so a margin stays free for what must be written to end what is open.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that stay free.
pub(crate) const MARGIN: u64 = 64 << 20;

/// The disk under a folder.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    full: AtomicBool,
}

impl Room {
    pub(crate) fn of(folder: &Path) -> Self {
        let room =
            Self(Arc::new(Inner { folder: folder.to_owned(), full: AtomicBool::new(false) }));
        room.look();
        room
    }

    /// Whether so many bytes fit beside the margin. Where nobody can tell, they do.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.free().is_none_or(|free| free >= bytes.saturating_add(MARGIN))
    }

    /// Looks at the disk; says whether it is full.
    pub(crate) fn look(&self) -> bool {
        let full = self.free().is_some_and(|free| is_full(self.is_full(), free));
        self.0.full.store(full, Ordering::SeqCst);
        full
    }

    /// Whether it was full at the last look.
    pub(crate) fn is_full(&self) -> bool {
        self.0.full.load(Ordering::SeqCst)
    }

    /// Bytes that may still be written.
    pub(crate) fn free(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.0.folder).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// Whether a disk with so much left is full: once it was, there must be twice the margin again.
const fn is_full(was: bool, free: u64) -> bool {
    let least = if was { MARGIN.saturating_mul(2) } else { MARGIN };
    free < least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_was_full_has_room_again_when_twice_the_margin_is_free() {
        assert!(!is_full(false, MARGIN) && is_full(false, MARGIN - 1));
        assert!(is_full(true, 2 * MARGIN - 1) && !is_full(true, 2 * MARGIN));
    }

    #[test]
    fn what_is_larger_than_the_disk_has_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::of(folder.path());
        assert!(!room.has(1 << 60));
        assert!(Room::of(Path::new("/nowhere")).has(1 << 60), "where nobody can tell");
    }
}
