//! Everything that is kept for leases, within one quota.
//!
//! ```text
//!   quota = store (ciphertexts) + unpacked programs + records (inputs, states, outputs)
//! ```
//!
//! What lies beside the store makes the store smaller, down to a quarter of the quota. When there is more,
//! it goes in this sequence: programs that no open lease wants, the least recently used first; what is
//! kept of closed leases of closed tasks for whoever runs a segment again, the first closed first; states of
//! other leases from before the last two checkpoints, unless they may be audited. Outputs stay as long as they were promised.

use crate::board::Board;
use crate::delivery::Depot;
use crate::lookout::Clock;
use crate::record::Records;
use opengpu_types::Millis;
use opengpu_verify::audit;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// How often what is old is swept away, and how often the quota is looked at.
const SWEEP: Duration = Duration::from_secs(600);
const TRIM: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(250);

/// Whoever looks after it.
pub(crate) struct Keeper {
    pub(crate) board: Board,
    pub(crate) clock: Clock,
    pub(crate) depot: Depot,
    pub(crate) records: Records,
    /// How long outputs are kept.
    pub(crate) keep: Millis,
    /// Bytes of all.
    pub(crate) quota: u64,
    /// Whether the network audits.
    pub(crate) audits: bool,
}

impl Keeper {
    /// Looks after it until it is stopped.
    pub(crate) fn watch(&self, stop: &AtomicBool) {
        let (mut swept, mut trimmed) = (Instant::now(), None::<Instant>);
        while !stop.load(Ordering::SeqCst) {
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                self.sweep();
            }
            if trimmed.is_none_or(|trimmed| trimmed.elapsed() >= TRIM) {
                trimmed = Some(Instant::now());
                if let Err(error) = self.trim() {
                    warn!(%error, "the quota is not looked after");
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Removes what is old.
    fn sweep(&self) {
        let now = self.clock.now();
        let swept = self.records.sweep(Millis(now.0.saturating_sub(self.keep.0)));
        let kept = swept.and_then(|()| self.records.leases());
        match kept {
            Ok(kept) => self.board.retain(&kept.into_keys().collect()),
            Err(error) => warn!(%error, "not swept"),
        }
        let wanted = self.board.programs();
        if let Err(error) = self.depot.sweep(&wanted, Duration::from_millis(self.keep.0)) {
            warn!(%error, "programs are not swept");
        }
        if let Err(error) = self.depot.store.expire(now) {
            warn!(%error, "not expired");
        }
    }

    /// Brings all of it within the quota.
    pub(crate) fn trim(&self) -> io::Result<()> {
        let most = self.quota.saturating_sub(self.quota >> 2);
        let (mut programs, mut records) = (size(&self.depot.programs)?, self.records.bytes()?);
        let mut beside = programs.saturating_add(records);
        if beside > most {
            let wanted = self.board.programs();
            let (bytes, over) = (programs, beside.saturating_sub(most));
            programs = self.depot.shrink(&wanted, bytes.saturating_sub(over))?;
            beside = programs.saturating_add(records);
        }
        if beside > most {
            records = self.forget(records.saturating_sub(beside.saturating_sub(most)))?;
            beside = programs.saturating_add(records);
        }
        debug!(programs, records, "beside the store");
        let total = self.quota.saturating_sub(beside).max(self.quota >> 2);
        self.depot.store.set_total(total).map_err(io::Error::other)
    }

    /// Drops what serves nothing but running segments again, until records have so many bytes; says how
    /// many they have then.
    fn forget(&self, most: u64) -> io::Result<u64> {
        let (mut closed, mut open) = (BTreeMap::new(), Vec::new());
        for (lease, since) in self.records.leases()? {
            match since {
                Some(since) => drop(closed.insert((since, lease), self.records.lease(lease))),
                None => open.push(lease),
            }
        }
        let mut bytes = self.records.bytes()?;
        for ((_, lease), record) in closed {
            if bytes <= most {
                return Ok(bytes);
            }
            // While the task goes on elsewhere, the next lease begins with a state of this one.
            if self.board.find(lease).is_some_and(|posted| !posted.task.is_closed()) {
                open.push(lease);
                continue;
            }
            bytes = bytes.saturating_sub(record.forget_run()?);
        }
        for lease in open {
            if bytes <= most {
                return Ok(bytes);
            }
            let Some(posted) = self.board.find(lease) else { continue };
            // Whoever is drawn for a segment is served the state before it.
            if self.audits && audit::covers(&posted.task.spec) {
                continue;
            }
            let own = posted.task.leases.get(usize::from(lease.number));
            let committed = own.and_then(|own| own.commitment).map(|it| it.reached.state);
            let record = self.records.lease(lease);
            bytes = bytes.saturating_sub(record.forget_states_before(committed)?);
        }
        Ok(bytes)
    }
}

/// Bytes of everything in a folder; none if it is not there.
pub(crate) fn size(folder: &Path) -> io::Result<u64> {
    let mut sum = 0u64;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        // What goes meanwhile has no size.
        let Ok(metadata) = entry.metadata() else { continue };
        let bytes = if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
        sum = sum.saturating_add(bytes);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::Record;
    use opengpu_crypto::Digest;
    use opengpu_types::{
        ArtifactId, Checkpoint, CloseReason, Commitment, Ending, LeaseId, Metered, ProgramId,
        Segment, SegmentIndex, Task, TaskId, TaskPhase, Usage,
    };
    use std::fs;
    use std::sync::Arc;

    const KIB: u64 = 1_024;

    struct Scene {
        keeper: Keeper,
        _folder: tempfile::TempDir,
    }

    fn scene(quota: u64) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let depot = fixture::depot(folder.path(), quota);
        let records = Records::open(&folder.path().join("records")).unwrap();
        let (board, clock) = (Board::default(), Clock::new(Millis(1)));
        let keeper =
            Keeper { board, clock, depot, records, keep: Millis(1_000), quota, audits: false };
        Scene { keeper, _folder: folder }
    }

    fn bytes(kib: u64) -> Vec<u8> {
        vec![7; usize::try_from(kib << 10).unwrap()]
    }

    impl Scene {
        /// A program of so many KiB that was last used so many seconds ago.
        fn program(&self, byte: u8, kib: u64, ago: u64) -> ProgramId {
            let id = ProgramId(Digest([byte; 32]));
            let place = self.keeper.depot.place(id);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("code"), bytes(kib)).unwrap();
            let then = std::time::SystemTime::now().checked_sub(Duration::from_secs(ago)).unwrap();
            let times = fs::FileTimes::new().set_modified(then);
            fs::File::open(&place).unwrap().set_times(times).unwrap();
            id
        }

        fn has(&self, program: ProgramId) -> bool {
            self.keeper.depot.place(program).exists()
        }

        /// A lease with so many states of 10 KiB, the oldest first.
        fn lease(&self, number: u8, states: u8) -> (Record, Vec<ArtifactId>) {
            let lease = LeaseId { task: TaskId(fixture::DIGEST), number };
            let record = self.keeper.records.lease(lease);
            record.begin().unwrap();
            fs::write(record.input(), bytes(10)).unwrap();
            fs::write(record.output(), bytes(1)).unwrap();
            record.finish([1; 32]).unwrap();
            let all = (0..states).map(|place| {
                let id = ArtifactId(Digest([place; 32]));
                fs::write(record.state_file(id), bytes(10)).unwrap();
                let (index, metered) = (SegmentIndex(place.into()), Metered::default());
                let segment = Segment { index, state: id, emitted: fixture::DIGEST, metered };
                record.pen().unwrap().write(&[(segment, Millis(1))], b"").unwrap();
                id
            });
            let all = all.collect();
            (record, all)
        }
    }

    #[test]
    fn the_least_recently_used_program_goes_first_unless_a_lease_wants_it() {
        let scene = scene(100 * KIB);
        let (old, wanted) = (scene.program(1, 30, 500), scene.program(2, 30, 900));
        scene.keeper.trim().unwrap();
        assert!(scene.has(old) && scene.has(wanted), "there is room");
        let new = scene.program(3, 30, 100);
        let mut task = fixture::leased();
        task.spec.program = wanted;
        let lease = LeaseId { task: TaskId(fixture::DIGEST), number: 0 };
        scene.keeper.board.post(lease, &Arc::new(task), true);
        scene.keeper.trim().unwrap();
        assert!(!scene.has(old) && scene.has(wanted) && scene.has(new));
        let (more, made) = (scene.program(4, 60, 1), scene.program(5, 60, 0));
        scene.keeper.trim().unwrap();
        assert!(!scene.has(new) && scene.has(more) && scene.has(made), "used just now");
    }

    #[test]
    fn a_closed_lease_keeps_the_state_from_which_its_task_goes_on() {
        let scene = scene(60 * KIB);
        let (closed, states) = scene.lease(0, 8);
        closed.close(Millis(5)).unwrap();
        let (mut task, lease) = committed(states[4]);
        scene.keeper.board.post(lease, &Arc::new(task.clone()), false);
        scene.keeper.trim().unwrap();
        assert!(closed.state_file(states[4]).exists() && closed.input().exists());
        assert!(!closed.state_file(states[1]).exists());
        let (reason, at) = (CloseReason::Completed, Millis(9));
        task.phase = TaskPhase::Closed { reason, at };
        scene.keeper.board.post(lease, &Arc::new(task), false);
        scene.keeper.trim().unwrap();
        assert!(!closed.state_file(states[4]).exists() && !closed.input().exists());
    }

    /// A lease that has committed to a state, and its task.
    fn committed(state: ArtifactId) -> (Task, LeaseId) {
        let (index, emitted) = (SegmentIndex(4), fixture::DIGEST);
        let mut task: Task = fixture::leased();
        task.leases.get_mut(0).unwrap().commitment = Some(Commitment {
            root: fixture::DIGEST,
            steps: 8,
            segments: 8,
            reached: Checkpoint { index, state, emitted, bytes_out: 0 },
            output: ArtifactId(fixture::DIGEST),
            usage: Usage { time: Millis(1), fuel: 1 },
            ending: Ending::Open,
        });
        (task, LeaseId { task: TaskId(fixture::DIGEST), number: 0 })
    }

    #[test]
    fn what_lies_beside_the_store_makes_it_smaller_and_the_least_recently_used_goes() {
        let scene = scene(100 * KIB);
        let store = &scene.keeper.depot.store;
        let put = |byte: u8| store.import(&vec![byte; 20 << 10][..]).unwrap();
        let all = [1, 2, 3].map(put);
        store.whole(&all[0]).unwrap();
        scene.program(1, 50, 5);
        scene.keeper.trim().unwrap();
        let has = all.map(|id| store.contains(&id));
        assert_eq!(has, [true, false, true], "the second was not used for the longest time");
        assert!(store.import(&bytes(90)[..]).is_err(), "the quota is one for all");
    }

    #[test]
    fn closed_leases_lose_their_states_first_and_open_ones_the_old_ones_alone() {
        let scene = scene(100 * KIB);
        let (closed, gone) = scene.lease(1, 3);
        closed.close(Millis(5)).unwrap();
        let (open, states) = scene.lease(0, 6);
        let (task, lease) = committed(states[4]);
        scene.keeper.board.post(lease, &Arc::new(task), true);
        scene.keeper.trim().unwrap();
        assert!(gone.iter().all(|id| !closed.state_file(*id).exists()), "it is over");
        assert!(closed.output().exists() && !closed.input().exists(), "outputs are promised");
        let left = || states.iter().filter(|id| open.state_file(**id).exists()).count();
        assert_eq!(left(), 6, "there is room now");
        let scarce = Keeper { quota: 60 * KIB, ..scene.keeper };
        scarce.trim().unwrap();
        let kept: Vec<_> = states.iter().map(|id| open.state_file(*id).exists()).collect();
        assert_eq!(kept, [false, false, false, true, true, true]);
        assert!(open.input().exists() && open.output().exists());
    }
}
