//! How an owner speaks with the running provider: one line of JSON each way, on a socket that only he
//! can open.
//!
//! ```text
//!   status, pause, resume, drain ──"line"──► agent.sock ──► Agent::wish, Agent::status
//!   auctions, bid                ──"line"──►            ──► Agent::auctions, Agent::bid
//!                                ◄──"line"── where it stands after that, or what was wanted
//! ```

use super::report::Report;
use crate::exit::{Complaint, Exit};
use anyhow::{Context as _, Result};
use opengpu_agent::core::Wish;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    time::Duration,
};

/// Longest line in either direction: all auctions that an agent has in sight.
const LONGEST_LINE: u64 = 512 * 1024;
/// How long the other side may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// What an owner wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "do")]
pub(crate) enum Wanted {
    /// To see where it stands.
    Status,
    /// To have the device now.
    Pause,
    /// To go on.
    Resume,
    /// To end what is open and take no more.
    Drain,
    /// To see open auctions.
    Auctions {
        /// Only of this task.
        task: Option<String>,
        /// As this offer sees them.
        offer: Option<u8>,
    },
    /// To bid by hand.
    Bid {
        /// For this task.
        task: String,
        /// For a second of one device.
        rate: String,
        /// By this offer.
        offer: Option<u8>,
    },
}

impl Wanted {
    /// The wish behind it, if it is one.
    pub(crate) const fn wish(&self) -> Option<Wish> {
        match self {
            Self::Status | Self::Auctions { .. } | Self::Bid { .. } => None,
            Self::Pause => Some(Wish::Pause),
            Self::Resume => Some(Wish::Work),
            Self::Drain => Some(Wish::Drain),
        }
    }
}

/// Opens the socket, for its owner alone. One that is left of a provider that died is replaced: who
/// holds the folder's lock is the only one.
pub(crate) fn listen(path: &Path) -> Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let told = || format!("listening on {}", path.display());
    // The folder is closed to others, so nobody comes between these two.
    let listener = UnixListener::bind(path).with_context(told)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).with_context(told)?;
    Ok(listener)
}

/// Answers everyone who comes, one after the other, until the process ends.
pub(crate) fn serve(listener: &UnixListener, answer: impl Fn(Wanted) -> Option<Value>) {
    for stream in listener.incoming().flatten() {
        // Whoever sends nonsense, or nothing, gets nothing.
        let _ = attend(stream, &answer);
    }
}

fn attend(stream: UnixStream, answer: impl Fn(Wanted) -> Option<Value>) -> Result<()> {
    let wanted: Wanted = serde_json::from_str(&read_line(&stream)?)?;
    match answer(wanted) {
        Some(answer) => write_line(&stream, &answer.to_string()),
        None => Ok(()),
    }
}

/// Tells a running provider something, and returns where it stands.
pub(crate) fn tell(path: &Path, wanted: &Wanted) -> Result<Report> {
    ask(path, wanted)
}

/// Tells a running provider something, and returns what it says.
pub(crate) fn ask<T: DeserializeOwned>(path: &Path, wanted: &Wanted) -> Result<T> {
    let stream = UnixStream::connect(path).map_err(|_| {
        let told = format!("no provider listens on {}", path.display());
        let hint = "start it with `opengpu provider start`, or name its folder with --data";
        Complaint::new(Exit::Failed, told).hint(hint)
    })?;
    write_line(&stream, &serde_json::to_string(wanted)?)?;
    let line = read_line(&stream)?;
    serde_json::from_str(&line).context("the provider answers in words of another version")
}

fn read_line(stream: &UnixStream) -> Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_LINE)).read_line(&mut line)?;
    Ok(line)
}

fn write_line(mut stream: &UnixStream, line: &str) -> Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream.write_all(format!("{line}\n").as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    #[test]
    fn a_wish_arrives_and_nonsense_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        assert!(tell(&path, &Wanted::Status).unwrap_err().to_string().contains("no provider"));
        let listener = listen(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (sender, heard) = mpsc::channel();
        thread::spawn(move || {
            serve(&listener, |wanted| {
                sender.send(wanted).unwrap();
                serde_json::to_value(Report::default()).ok()
            });
        });
        for nonsense in ["{\"do\":\"steal\"}\n", "hello\n", ""] {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(nonsense.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(read_line(&stream).unwrap(), "", "{nonsense}");
        }
        assert_eq!(tell(&path, &Wanted::Pause).unwrap(), Report::default());
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [Wanted::Pause]);
        // Another one takes the place of a socket that was left behind.
        listen(&path).unwrap();
    }

    #[test]
    fn a_line_without_an_end_is_not_read_on_and_on() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let writer = thread::spawn(move || {
            let mut theirs = theirs;
            // It ends when nobody reads any more.
            while theirs.write_all(&[b'x'; 4096]).is_ok() {}
        });
        assert_eq!(read_line(&ours).unwrap().len(), usize::try_from(LONGEST_LINE).unwrap());
        drop(ours);
        writer.join().unwrap();
    }
}
