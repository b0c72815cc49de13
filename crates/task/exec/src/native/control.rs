//! The few words between the first program inside a sandbox and its supervisor.
//!
//! One message each, over a socket that the guest never has: `ready` with the open folders and our
//! end of a terminal if there is one, or `failed` with the stage and the reason.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// The stage at which the guest itself could not be started.
pub(super) const COMMAND: &str = "command";

/// Bytes of one message.
const LONGEST: usize = 1024;
/// Folders of one message; a terminal comes behind them.
const FOLDERS: usize = 3;

/// What the supervisor hears.
#[derive(Debug)]
pub(super) enum Message {
    /// The walls stand.
    Ready {
        /// The version of the second wall, zero without one.
        landlock: u8,
        /// The work folder, the temporary folder, and the folder for memory of many processes.
        folders: Vec<OwnedFd>,
        /// Our end of the terminal, where one was wanted.
        terminal: Option<OwnedFd>,
    },
    /// Something did not come up.
    Failed { stage: String, reason: String },
}

pub(super) fn ready(
    socket: &OwnedFd,
    landlock: u8,
    folders: &[File; FOLDERS],
    terminal: Option<&OwnedFd>,
) -> io::Result<()> {
    let files = folders.iter().map(AsFd::as_fd).chain(terminal.map(AsFd::as_fd));
    let files: Vec<_> = files.collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("too many files for one message"));
    }
    sendmsg(socket, &[IoSlice::new(&[b'r', landlock])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Lets a guest that waits begin.
pub(super) fn go(socket: &OwnedFd) -> io::Result<()> {
    rustix::net::send(socket, b"g", SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for that word.
pub(super) fn wait(socket: &OwnedFd) -> io::Result<()> {
    let mut word = [0];
    let (count, _) =
        rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut word[..], RecvFlags::empty()))?;
    if count == 1 { Ok(()) } else { Err(io::Error::other("nobody says that it may begin")) }
}

pub(super) fn fail(socket: &OwnedFd, stage: &str, reason: &str) -> io::Result<()> {
    let mut text = format!("f{stage}\n{reason}").into_bytes();
    text.truncate(LONGEST);
    let mut nothing = SendAncillaryBuffer::default();
    sendmsg(socket, &[IoSlice::new(&text)], &mut nothing, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message, if one is there; `None` when nobody is left who could send one.
pub(super) fn receive(socket: impl AsFd) -> io::Result<Option<Message>> {
    let mut bytes = [0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let received = match recvmsg(socket, &mut slices, &mut ancillary, flags) {
        Ok(received) => received.bytes,
        Err(rustix::io::Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut folders = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            folders.extend(files);
        }
    }
    match bytes.get(..received) {
        Some([b'r', landlock]) => {
            let terminal = folders.drain(FOLDERS.min(folders.len())..).next();
            Ok(Some(Message::Ready { landlock: *landlock, folders, terminal }))
        }
        Some([b'f', text @ ..]) => {
            let text = String::from_utf8_lossy(text);
            let (stage, reason) = text.split_once('\n').unwrap_or(("", &text));
            Ok(Some(Message::Failed { stage: stage.to_owned(), reason: reason.to_owned() }))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, fail, ready, receive};
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn open_folders_and_failures_arrive_as_they_were_sent() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        assert!(receive(&ours).unwrap().is_none());
        let zero = || File::open("/dev/zero").unwrap();
        let terminal = OwnedFd::from(File::open("/dev/null").unwrap());
        ready(&theirs, 6, &[zero(), zero(), zero()], Some(&terminal)).unwrap();
        let Some(Message::Ready { landlock: 6, folders, terminal }) = receive(&ours).unwrap()
        else {
            panic!("no ready message");
        };
        assert_eq!((folders.len(), terminal.is_some()), (3, true));
        ready(&theirs, 6, &[zero(), zero(), zero()], None).unwrap();
        assert!(matches!(
            receive(&ours).unwrap(),
            Some(Message::Ready { terminal: None, folders, .. }) if folders.len() == 3
        ));
        let mut byte = [1];
        File::from(folders.into_iter().next().unwrap()).read_exact(&mut byte).unwrap();
        assert_eq!(byte, [0]);
        fail(&theirs, "limits", &"x".repeat(5000)).unwrap();
        let Some(Message::Failed { stage, reason }) = receive(&ours).unwrap() else {
            panic!("no failure");
        };
        assert_eq!((stage.as_str(), reason.len()), ("limits", 1024 - 8));
    }
}
