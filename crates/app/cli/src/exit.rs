//! How the program ends: exit codes, and errors in words with a hint.

use crate::dev;
use anyhow::Error;
use opengpu_client::{
    BuildError, FollowError, NodeKeysError, RpcError, SendError, WalletError, api::codes,
    wallet::FileError,
};
use opengpu_crypto::KeystoreError;
use opengpu_exec::{Refusal, StartError};
use opengpu_light::{EvidenceError, VerifyError};
use opengpu_node::{DataError, NodeError};
use opengpu_sdk::{ClientError, Unfit};
use std::{
    io::{ErrorKind, Write as _},
    process::ExitCode,
};

/// Exit codes other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Anything that has no code of its own.
    Failed = 1,
    /// The command line or an input file is wrong. `clap` uses the same code.
    Usage = 2,
    /// A passphrase, a key or a permission is wrong.
    Auth = 3,
    /// The network has no room now.
    NoCapacity = 4,
    /// There is not enough money.
    Budget = 5,
    /// Something that was checked is not true.
    Verification = 6,
}

/// An error that the command line itself finds.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Complaint {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Complaint {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with where it was found.
    pub(crate) fn within(mut self, place: &str) -> Self {
        self.message.insert_str(0, place);
        self
    }
}

/// The end of another program, passed on as our own without a word.
#[derive(Debug, thiserror::Error)]
#[error("it ended with code {0}")]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only a sandbox has guests"))]
pub(crate) struct Passed(u8);

#[cfg(target_os = "linux")]
impl Passed {
    /// A code; what does not fit is a failure all the same.
    pub(crate) fn code(code: i32) -> Self {
        Self(u8::try_from(code).unwrap_or(u8::MAX))
    }

    /// A signal, as shells tell it.
    pub(crate) fn signal(signal: i32) -> Self {
        Self::code(signal.saturating_add(128))
    }
}

/// Prints an error and gives its exit code. A reader that went away (`opengpu ... | head`) is none.
pub(crate) fn report(error: &Error) -> ExitCode {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    };
    if let Some(Passed(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if error.chain().any(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let (exit, hint) = classify(error);
    let mut stderr = std::io::stderr().lock();
    // Without stderr there is nobody left to tell.
    let _ = writeln!(stderr, "error: {}", sentence(error));
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    ExitCode::from(exit as u8)
}

/// An error with its causes; a cause that an error already tells is not told again.
fn sentence(error: &Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.ends_with(&cause) {
            told.push_str(": ");
            told.push_str(&cause);
        }
    }
    told
}

/// What kind of error it is, and what to do about it.
fn classify(error: &Error) -> (Exit, Option<String>) {
    let node = error.chain().find_map(|cause| cause.downcast_ref::<NodeError>());
    let found = error.chain().find_map(of_cause);
    let of_node = || node.map(|it| of_node(it, error));
    found.or_else(of_node).unwrap_or((Exit::Failed, None))
}

/// What kind of error one cause is, if it is of a kind.
fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<(Exit, Option<String>)> {
    if let Some(it) = cause.downcast_ref::<Complaint>() {
        return Some((it.exit, it.hint.clone()));
    }
    if let Some(it) = cause.downcast_ref::<WalletError>() {
        return Some((of_wallet(it), wallet_hint(it)));
    }
    if let Some(it) = cause.downcast_ref::<FollowError>() {
        return Some(of_follow(it));
    }
    if let Some(it) = cause.downcast_ref::<SendError>() {
        return Some(match it {
            SendError::Refused { code, .. } | SendError::Failed { code, .. } => {
                (of_code(code), None)
            }
            SendError::Follow(it) => of_follow(it),
            SendError::Rpc(it) => of_rpc(it),
            SendError::Build(it) => (of_build(it), None),
        });
    }
    if cause.is::<VerifyError>() || cause.is::<EvidenceError>() {
        return Some((Exit::Verification, None));
    }
    if let Some(it) = cause.downcast_ref::<RpcError>() {
        return Some(of_rpc(it));
    }
    if let Some(it) = cause.downcast_ref::<BuildError>() {
        return Some((of_build(it), None));
    }
    if let Some(it) = cause.downcast_ref::<FileError>() {
        return Some((of_file(it), it.hint()));
    }
    if cause.is::<Refusal>() || matches!(cause.downcast_ref(), Some(StartError::Refused(_))) {
        return Some((Exit::Usage, None));
    }
    if let Some(NodeKeysError::File(it)) = cause.downcast_ref::<NodeKeysError>() {
        return Some((of_file(it), it.hint()));
    }
    of_client(cause.downcast_ref()?)
}

/// An error of a task tells the words of its cause as its own, so its cause is looked at here.
fn of_client(error: &ClientError) -> Option<(Exit, Option<String>)> {
    match error {
        ClientError::Rpc(it) => of_cause(it),
        ClientError::Send(it) => of_cause(it),
        ClientError::File(it) => of_cause(it),
        ClientError::Output(Unfit::Other(_)) => Some((Exit::Verification, None)),
        ClientError::NoTask(_) => {
            let hint = "`opengpu ps` lists your tasks; ended ones are forgotten after a while";
            Some((Exit::Usage, Some(hint.to_owned())))
        }
        ClientError::Elsewhere => Some((Exit::Usage, None)),
        _ => None,
    }
}

fn of_wallet(error: &WalletError) -> Exit {
    match error {
        WalletError::Keystore(KeystoreError::Passphrase) => Exit::Auth,
        WalletError::File(error) => of_file(error),
        WalletError::Name(_) => Exit::Usage,
        WalletError::Missing { .. }
        | WalletError::Exists(_)
        | WalletError::Damaged(_)
        | WalletError::Keystore(_) => Exit::Failed,
    }
}

/// What helps; a key that is missing may be one of the local network beside it.
fn wallet_hint(error: &WalletError) -> Option<String> {
    let hint = error.hint()?;
    let local = match error {
        WalletError::Missing { folder, .. } => folder.parent().and_then(dev::keys_hint),
        _ => None,
    };
    Some(local.map_or_else(|| hint.clone(), |local| format!("{hint}; {local}")))
}

const fn of_file(error: &FileError) -> Exit {
    match error {
        FileError::Readable { .. } => Exit::Auth,
        FileError::Io { .. } | FileError::Exists { .. } | FileError::TooLarge { .. } => {
            Exit::Failed
        }
    }
}

fn of_follow(error: &FollowError) -> (Exit, Option<String>) {
    match error {
        FollowError::Rpc(error) => of_rpc(error),
        FollowError::Refused { code, .. } => (of_code(code), None),
        FollowError::Slow(_) => {
            (Exit::Failed, Some("look again with `opengpu tx status ID`".to_owned()))
        }
        FollowError::Stream { after, .. } => {
            (Exit::Failed, Some(format!("go on with `opengpu chain watch --after {after}`")))
        }
        FollowError::Unrecorded { .. } => {
            let hint = "ask a node that was there: `opengpu tx status ID --node URL`";
            (Exit::Failed, Some(hint.to_owned()))
        }
        FollowError::Expired { .. } => (Exit::Failed, None),
    }
}

fn of_rpc(error: &RpcError) -> (Exit, Option<String>) {
    (error.code().map_or(Exit::Failed, of_code), error.hint())
}

const fn of_build(error: &BuildError) -> Exit {
    match error {
        BuildError::Missing { .. } | BuildError::Wallet(_) | BuildError::Signature(_) => Exit::Auth,
        BuildError::Empty | BuildError::TooMany(_) | BuildError::Fee => Exit::Usage,
    }
}

/// `whole` is the error with all its causes.
fn of_node(error: &NodeError, whole: &Error) -> (Exit, Option<String>) {
    let (exit, hint) = match error {
        NodeError::RpcExposed(_) => {
            (Exit::Usage, "set `rpc_public = true` in node.toml if others may ask")
        }
        NodeError::GuestKey(_) => (Exit::Usage, "`opengpu node keys` shows the key of a follower"),
        NodeError::Data(DataError::InUse(_)) => {
            (Exit::Failed, "stop it first: two nodes with the same keys would be slashed")
        }
        NodeError::Data(DataError::OtherNetwork { .. }) => {
            (Exit::Usage, "make a folder for this network with `opengpu node init`")
        }
        NodeError::Listen { source, .. } => (Exit::Failed, of_listen(source.kind())),
        _ if is_disk_full(whole) => {
            (Exit::Failed, "the disk is full: make room, and start the node again")
        }
        NodeError::Data(DataError::Io { source, .. })
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            (Exit::Auth, "the folder must belong to the user who runs the node")
        }
        _ => return (Exit::Failed, None),
    };
    (exit, Some(hint.to_owned()))
}

const fn of_listen(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AddrInUse => {
            "another program uses the port: stop it, or change `listen` and `rpc` in node.toml"
        }
        ErrorKind::AddrNotAvailable => "this machine does not have that address; see node.toml",
        ErrorKind::PermissionDenied => "ports below 1024 are the system's; see node.toml",
        _ => "`listen` and `rpc` in node.toml say where the node listens",
    }
}

/// The engine ends with a panic when it cannot write, so that words are all that is left of the
/// system's error.
fn is_disk_full(error: &Error) -> bool {
    let words = ["No space left on device", "StorageFull"];
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        let text = cause.to_string();
        io.is_some_and(|io| io.kind() == ErrorKind::StorageFull)
            || words.iter().any(|word| text.contains(word))
    })
}

/// Exit code of a reason that the chain or a node gives.
pub(crate) fn of_code(code: &str) -> Exit {
    match code {
        "cannot-pay"
        | "limit-too-small"
        | "insufficient-balance"
        | "limit-exceeded"
        | "below-reserve"
        | "fee-too-low" => Exit::Budget,
        "bad-key" | "bad-signature" | "not-authorized" | "limit-expired" | "sponsor-mismatch"
        | "outside-purpose" | "unknown-limit" => Exit::Auth,
        "block-full" | "free-space-full" | codes::BUSY | codes::TOO_MANY | codes::SYNCING => {
            Exit::NoCapacity
        }
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_exit_codes_that_scripts_expect() {
        assert_eq!(of_code("cannot-pay") as u8, 5);
        assert_eq!(of_code("not-authorized") as u8, 3);
        assert_eq!(of_code("busy") as u8, 4);
        assert_eq!(of_code("nonce-used") as u8, 1);
    }

    #[test]
    fn a_wrong_passphrase_is_found_below_the_context_of_a_command() {
        let error = WalletError::Keystore(KeystoreError::Passphrase);
        let error = Error::new(error).context("unlocking alice");
        assert_eq!(classify(&error).0, Exit::Auth);
    }

    #[test]
    fn a_lost_stream_says_where_to_go_on() {
        let reason = "the node ended it".to_owned();
        let error = FollowError::Stream { reason, after: opengpu_types::Height(7) };
        let (exit, hint) = classify(&Error::new(error));
        assert_eq!(exit, Exit::Failed);
        assert!(hint.unwrap().contains("chain watch --after 7"));
    }

    #[test]
    fn a_node_that_cannot_start_or_go_on_says_what_to_do() {
        let address = "127.0.0.1:1".parse().unwrap();
        let listen = |kind: ErrorKind| NodeError::Listen { address, source: kind.into() };
        let folder = std::path::PathBuf::from("/data");
        let io = |kind: ErrorKind| DataError::Io { path: folder.clone(), source: kind.into() };
        let other = DataError::OtherNetwork {
            path: folder.clone(),
            found: "a".to_owned(),
            expected: "b".to_owned(),
        };
        let full = "write failed: Os { code: 28, kind: StorageFull }".to_owned();
        let cases = [
            (listen(ErrorKind::AddrInUse), Exit::Failed, "another program uses the port"),
            (listen(ErrorKind::AddrNotAvailable), Exit::Failed, "does not have that address"),
            (NodeError::RpcExposed(address), Exit::Usage, "rpc_public"),
            (DataError::InUse(folder.clone()).into(), Exit::Failed, "stop it first"),
            (other.into(), Exit::Usage, "opengpu node init"),
            (io(ErrorKind::StorageFull).into(), Exit::Failed, "disk is full"),
            (io(ErrorKind::PermissionDenied).into(), Exit::Auth, "belong to the user"),
            (NodeError::Stopped(full), Exit::Failed, "disk is full"),
        ];
        for (error, exit, wanted) in cases {
            let (found, hint) = classify(&Error::new(error).context("running"));
            let hint = hint.unwrap_or_default();
            assert!(found == exit && hint.contains(wanted), "{found:?} {hint}");
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let io = std::io::Error::from(ErrorKind::NotFound);
        let told = io.to_string();
        let path = "/data".into();
        let error = Error::new(DataError::Io { path, source: io }).context("running");
        assert_eq!(sentence(&error).matches(&told).count(), 1, "{}", sentence(&error));
        assert_eq!(sentence(&Error::msg("b").context("a")), "a: b");
    }
}
