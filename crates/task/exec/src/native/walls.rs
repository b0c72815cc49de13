//! The walls that can be left out, so that the hostile corpus can show what each of them stops.
//!
//! Outside of that corpus all of them always stand: only the feature `weakened` has a way to
//! choose.

/// Which of the walls stand.
#[cfg_attr(not(feature = "weakened"), expect(unreachable_pub, reason = "only the corpus sees it"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walls {
    /// The list of system calls.
    pub filter: bool,
    /// The second wall around files.
    pub landlock: bool,
    /// A network of its own.
    pub network: bool,
    /// No user namespaces inside.
    pub user_namespaces: bool,
    /// System folders that cannot be written, and what the process file system hides.
    pub read_only: bool,
}

impl Walls {
    /// All of them.
    pub(super) const ALL: Self = Self {
        filter: true,
        landlock: true,
        network: true,
        user_namespaces: true,
        read_only: true,
    };
}
