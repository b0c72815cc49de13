//! What happened to a task, line by line: shown to whoever watches, and kept for `logs`.

use super::{overtime, plan};
use crate::output::{counted, shown};
use opengpu_sdk::{Client, Happening};
use opengpu_types::{CloseReason, Millis, TaskId, TaskPhase};
use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How long answers of the node are waited for when all else is said.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

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
        Happening::Begun { segments } => {
            format!("lease {lease}: begun, {}", counted(*segments, "segment"))
        }
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
        Happening::GivenUp { away } => {
            let hours = away.as_secs() / 3_600;
            format!(
                "the node has not answered for {hours} hours: nobody attends the task from here on, \
                 until `opengpu logs -f` or `opengpu pull` does"
            )
        }
        Happening::Failed { why } => format!("lease {lease}: {}", shown(why.as_bytes())),
        Happening::Logged { bytes } => format!("lease {lease} | {}", shown(bytes)),
        Happening::Reached { .. } | Happening::Sending { .. } | Happening::Receiving { .. } => {
            return None;
        }
    })
}

/// Whether the question is why nobody takes the task.
const fn is_unwanted(happening: &Happening) -> bool {
    matches!(
        happening,
        Happening::Phase(
            TaskPhase::Bidding { .. } | TaskPhase::Closed { reason: CloseReason::NoProvider, .. }
        )
    )
}

/// Why nobody takes a task, if the node says it.
fn why_nobody(client: &Client, id: TaskId) -> Vec<String> {
    let quote = client.task(id).ok().flatten().and_then(|task| client.quote(&task).ok());
    quote.map(|quote| plan::nobody(&quote)).unwrap_or_default()
}

/// What the node is asked beside everything else: nothing that happens waits for its answers.
#[derive(Default)]
pub(super) struct Asides(Vec<JoinHandle<()>>);

impl Asides {
    /// Says why nobody takes the task, if that is the question, when the node has answered.
    pub(super) fn explain(
        &mut self,
        client: &Client,
        id: TaskId,
        happening: &Happening,
        say: impl Fn(&str) + Send + 'static,
    ) {
        if is_unwanted(happening) {
            let client = client.clone();
            self.ask(move || why_nobody(&client, id), say);
        }
    }

    fn ask(
        &mut self,
        ask: impl FnOnce() -> Vec<String> + Send + 'static,
        say: impl Fn(&str) + Send + 'static,
    ) {
        self.0.retain(|asking| !asking.is_finished());
        // One answer is enough, however often the question comes.
        if self.0.is_empty() {
            self.0.push(std::thread::spawn(move || ask().iter().for_each(|text| say(text))));
        }
    }
}

impl Drop for Asides {
    /// Waits a moment for what is still asked.
    fn drop(&mut self) {
        let began = Instant::now();
        while began.elapsed() < LAST_ANSWERS && self.0.iter().any(|asking| !asking.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
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
    fn what_happens_does_not_wait_for_a_node_that_does_not_answer() {
        // It takes connections and says nothing.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let home = tempfile::tempdir().unwrap();
        let rpc = opengpu_client::Rpc::new(&format!("http://{}", listener.local_addr().unwrap()));
        let client = Client::open(home.path(), &rpc, opengpu_types::ChainId(7)).unwrap();
        let id = TaskId(opengpu_types::Digest([1; 32]));
        let (began, mut asides) = (Instant::now(), Asides::default());
        let bidding = Happening::Phase(TaskPhase::Bidding { until: Millis(9) });
        asides.explain(&client, id, &bidding, |_| {});
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(!asides.0.first().unwrap().is_finished(), "it was not asked");
        drop(asides);
        assert!(began.elapsed() < LAST_ANSWERS.saturating_mul(2), "{:?}", began.elapsed());
    }

    #[test]
    fn what_the_node_answers_is_said_later() {
        let (sender, said) = std::sync::mpsc::channel();
        let mut asides = Asides::default();
        asides.ask(|| vec!["why".to_owned()], move |text| sender.send(text.to_owned()).unwrap());
        drop(asides);
        assert_eq!(said.try_recv().unwrap(), "why");
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
