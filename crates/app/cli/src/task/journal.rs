//! What happened to a task, line by line: shown to whoever watches, and kept for `logs`.

use super::{overtime, plan};
use crate::output::shown;
use opengpu_sdk::{Client, Happening};
use opengpu_types::{CloseReason, Millis, TaskId, TaskPhase};
use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) time: Millis,
    pub(super) text: String,
}

pub(super) struct Journal(File);

impl Journal {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        // One write, so that lines of two processes do not mix.
        self.0.write_all(format!("{} {}\n", now().0, text.replace('\n', " ")).as_bytes())
    }
}

/// Reads a journal that may grow.
pub(super) struct Reader {
    path: PathBuf,
    place: u64,
}

impl Reader {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, place: 0 }
    }

    /// Whole lines that came since the last time.
    pub(super) fn read(&mut self) -> io::Result<Vec<Line>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.place))?;
        let (mut reader, mut lines) = (BufReader::new(file), Vec::new());
        loop {
            let mut line = String::new();
            let length = reader.read_line(&mut line)?;
            let Some(whole) = line.strip_suffix('\n') else { return Ok(lines) };
            self.place = self.place.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            if let Some((time, text)) = whole.split_once(' ')
                && let Ok(time) = time.parse()
            {
                lines.push(Line { time: Millis(time), text: text.to_owned() });
            }
        }
    }
}

/// What happens, in words; nothing for what only a bar shows.
pub(super) fn words(lease: u8, happening: &Happening) -> Option<String> {
    Some(match happening {
        Happening::Phase(phase) => match phase {
            TaskPhase::Bidding { .. } => "providers may bid".to_owned(),
            TaskPhase::Opening { .. } => "bids are opened".to_owned(),
            TaskPhase::Running => "a provider is found".to_owned(),
            TaskPhase::Closed { reason, .. } => format!("ended: {}", reason.name()),
        },
        Happening::Leased { provider, rate } => {
            format!("lease {lease}: {provider} for {rate} oGPU/s")
        }
        Happening::Briefed => format!("lease {lease}: program and input are there"),
        Happening::Begun { segments } => format!("lease {lease}: begun, {segments} segments"),
        Happening::Kept { segment } => format!("lease {lease}: state after {segment} kept here"),
        Happening::Fetched => format!("lease {lease}: output fetched"),
        Happening::Rescued { segment } => {
            format!("lease {lease}: output until {segment} fetched from another holder")
        }
        Happening::Trouble { what } => {
            format!("lease {lease}: {}; trying again", shown(what.as_bytes()))
        }
        Happening::Lost { reason, over: None } => {
            format!("lease {lease}: ended: {}", reason.name())
        }
        Happening::Lost { reason, over: Some(longest) } => {
            let (reason, fix) = (reason.name(), overtime::fix(*longest));
            format!("lease {lease}: ended ({reason}), it took all of its time; {fix}")
        }
        Happening::Failed { why } => format!("lease {lease}: {}", shown(why.as_bytes())),
        Happening::Logged { bytes } => format!("lease {lease} | {}", shown(bytes)),
        Happening::Reached { .. } | Happening::Sending { .. } | Happening::Receiving { .. } => {
            return None;
        }
    })
}

/// What happens, with why nobody takes the task while that is the question.
pub(super) fn lines(client: &Client, id: TaskId, lease: u8, happening: &Happening) -> Vec<String> {
    let nobody = matches!(
        happening,
        Happening::Phase(
            TaskPhase::Bidding { .. } | TaskPhase::Closed { reason: CloseReason::NoProvider, .. }
        )
    );
    // Without an answer of the node there is nothing to tell of it.
    let task = nobody.then(|| client.task(id).ok().flatten()).flatten();
    let quote = task.and_then(|task| client.quote(&task).ok());
    let why = quote.map(|quote| plan::nobody(&quote)).unwrap_or_default();
    words(lease, happening).into_iter().chain(why).collect()
}

pub(super) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_does_not_steer_a_terminal() {
        let bytes = b"a\x1b[2Jb\nended: completed\n".to_vec();
        assert_eq!(
            words(0, &Happening::Logged { bytes }).unwrap(),
            "lease 0 | a [2Jb ended: completed"
        );
    }

    #[test]
    fn a_journal_is_read_as_it_grows_and_half_a_line_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut reader = Reader::new(path.clone());
        assert!(reader.read().unwrap().is_empty());
        let mut journal = Journal::open(&path).unwrap();
        journal.write("one").unwrap();
        journal.write("two\nlines").unwrap();
        let texts = |lines: Vec<Line>| lines.into_iter().map(|it| it.text).collect::<Vec<_>>();
        assert_eq!(texts(reader.read().unwrap()), ["one", "two lines"]);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"7 ha").unwrap();
        assert!(reader.read().unwrap().is_empty());
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"lf\n").unwrap();
        assert_eq!(reader.read().unwrap(), [Line { time: Millis(7), text: "half".to_owned() }]);
    }
}
