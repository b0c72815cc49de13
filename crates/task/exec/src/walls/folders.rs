//! Which files exist: lists of folders and files, for the kernel (landlock).
//!
//! A kernel that knows an older form of the rules takes what it knows of them; one that knows none
//! of them leaves files open, which `opengpu doctor` tells.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};
use std::path::Path;

/// The newest rules that were tried.
pub(crate) const TRIED: ABI = ABI::V6;

/// What is left of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tcp {
    /// All of it.
    Open,
    /// Nothing goes out.
    Listening,
    /// Nothing.
    Closed,
}

/// Closes everything but these files and folders, each with what may be done there, for this thread
/// and those that it starts. Paths that do not exist are left out. Signals and nameless sockets reach
/// nobody outside. Gives the version of the rules that holds now, zero if none does.
pub(crate) fn restrict<'a, P: AsRef<Path> + 'a>(
    tcp: Tcp,
    rules: impl IntoIterator<Item = (&'a [P], BitFlags<AccessFs>)>,
) -> Result<u8, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(TRIED))?
        .scope(Scope::from_all(TRIED))?;
    ruleset = match tcp {
        Tcp::Open => ruleset,
        Tcp::Listening => ruleset.handle_access(AccessNet::ConnectTcp)?,
        Tcp::Closed => ruleset.handle_access(AccessNet::from_all(TRIED))?,
    };
    let mut created = ruleset.create()?;
    for (paths, access) in rules {
        created = created.add_rules(path_beneath_rules(paths, access))?;
    }
    match created.restrict_self()?.landlock {
        LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi as u8),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => Ok(0),
    }
}
