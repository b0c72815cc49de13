//! Open files that a child keeps under the numbers they have here, and no other child does.

use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Hands these files to the child of a command, after `first` was done in it. `first` runs between fork
/// and exec, so it makes system calls and nothing else. The files stay open here until the child has
/// started.
pub(super) fn over(
    command: &mut Command,
    files: Vec<RawFd>,
    first: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> &mut Command {
    let enter = move || {
        first()?;
        for &file in &files {
            // SAFETY: whoever starts the child holds these files open until it has started.
            #[expect(unsafe_code, reason = "the numbers are what the child is told")]
            let file = unsafe { BorrowedFd::borrow_raw(file) };
            fcntl_setfd(file, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it only makes system calls; it neither allocates nor locks.
    #[expect(unsafe_code, reason = "files are handed to this child and to no other")]
    unsafe {
        command.pre_exec(enter)
    }
}
