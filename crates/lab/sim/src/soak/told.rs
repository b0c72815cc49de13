//! What providers tell of their runs in the soak. It follows from what is on chain and from who they are, so
//! the author tells the same again whenever somebody asks, and has nothing to remember.

use crate::program::{Place, Run, State};
use opengpu_crypto::{Digest, hash};
use opengpu_types::{Address, AuditLeaf, Commitment, Lease, LeaseId, List, SegmentIndex, Task};
use opengpu_verify::trace::{Extent, Owner, Part, Trace};

/// How the provider of a lease behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conduct {
    /// The segment that it fakes; zero for none.
    faked: u32,
    /// Whether it tells another number of steps than there are.
    lengthens: bool,
    /// Whether its roots are somebody else's.
    copies: bool,
    /// Whether it opens nothing and answers nobody.
    pub(super) mute: bool,
    /// Whether it serves no verifier.
    pub(super) withholds: bool,
    /// Whether it does not post either what it served nobody.
    pub(super) keeps: bool,
}

impl Conduct {
    pub(super) fn of(id: LeaseId, task: &Task, provider: &Address) -> Self {
        let parts: [&[u8]; 3] = [id.task.0.as_ref(), &[id.number], provider.as_bytes()];
        let Digest([kind, which, ..]) = hash("conduct", &parts);
        let honest = Self::default();
        let segments = task.spec.segments.max(1);
        match kind {
            0..40 => {
                let faked = u32::from(which).checked_rem(segments).unwrap_or(0);
                Self { faked: faked.saturating_add(1), ..honest }
            }
            40..60 => Self { lengthens: true, ..honest },
            60..75 => Self { mute: true, ..honest },
            75..105 => Self { withholds: true, keeps: which < 64, ..honest },
            105..120 => Self { copies: true, ..honest },
            _ => honest,
        }
    }
}

/// A run as it is told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) input: State,
    pub(super) run: Run,
    trace: Trace,
    /// The segment that is faked; zero for none.
    pub(super) faked: u32,
}

impl Told {
    /// What is told of a lease that goes on until after a segment; none if nobody has the state from which it
    /// goes on.
    fn until(id: LeaseId, task: &Task, segment: SegmentIndex) -> Option<Self> {
        let lease = task.leases.get(usize::from(id.number))?;
        let conduct = Conduct::of(id, task, &lease.provider);
        let input = State::given(&task.spec)?;
        let place = origin(id, task, lease, input)?;
        let mut extent = input.extent(task.spec.segments);
        if conduct.lengthens {
            extent = Extent::new(extent.steps.saturating_add(1), task.spec.segments);
        }
        let run = Run::told(extent, place, segment.0, conduct.faked);
        let owner = Owner { task: id.task.0, provider: lease.provider };
        let trace = Trace::new(&owner, extent, lease.from, run.segments().to_vec()).ok()?;
        Some(Self { input, run, trace, faked: conduct.faked })
    }

    /// What a lease has committed to, if it was told.
    pub(super) fn of(id: LeaseId, task: &Task) -> Option<Self> {
        let commitment = task.leases.get(usize::from(id.number))?.commitment?;
        let told = Self::until(id, task, commitment.reached.index)?;
        (told.trace.root() == commitment.root).then_some(told)
    }

    /// Has a commitment say what is told until there, if there is anything to tell.
    pub(super) fn correct(id: LeaseId, task: &Task, commitment: &mut Commitment) {
        let Some(lease) = task.leases.get(usize::from(id.number)) else { return };
        if Conduct::of(id, task, &lease.provider).copies {
            return;
        }
        let index = commitment.reached.index;
        let Some(told) = Self::until(id, task, index) else { return };
        let Some(reached) = told.trace.checkpoint(index) else { return };
        let Extent { steps, segments } = told.trace.part().extent;
        (commitment.root, commitment.reached) = (told.trace.root(), reached);
        (commitment.steps, commitment.segments) = (steps, segments);
    }

    /// What the lease ran.
    pub(super) const fn part(&self) -> Part {
        self.trace.part()
    }

    /// A leaf, and the Merkle root over all of them.
    pub(super) fn leaf(&self, index: SegmentIndex) -> Option<(Digest, AuditLeaf)> {
        let opening = self.trace.open(index)?;
        let siblings = List::new(opening.proof.siblings).ok()?;
        Some((opening.tree, AuditLeaf { segment: opening.segment, siblings }))
    }
}

/// Where a lease begins: with the input, or with the state that another one has told.
fn origin(id: LeaseId, task: &Task, lease: &Lease, input: State) -> Option<Place> {
    let Some(at) = lease.from else { return Some(Place::begin(input)) };
    let before = (0..id.number).zip(&task.leases);
    let came = |it: &Lease| it.commitment.map(|commitment| commitment.reached) == Some(at);
    before.filter(|(_, it)| came(it)).find_map(|(number, _)| {
        let told = Told::of(LeaseId { number, ..id }, task)?;
        Some(Place { state: told.run.state(at.index)?, at: Some(at) })
    })
}
