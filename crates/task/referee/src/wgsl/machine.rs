//! Executes compiled kernels.
//!
//! The groups of a dispatch run one after the other, and the invocations of a group run one after
//! the other from barrier to barrier. Any other order would give the same memory, or the shadows
//! say that it would not.
//!
//! Not here: what a kernel may be. Code is trusted to name words of its frame only.

use super::{
    Fault,
    code::{At, Code, Op, Reg},
    compute,
    error::Race,
    rounds::Rounds,
    shadow::Shadow,
};

/// A bound buffer.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) words: Vec<u32>,
    /// Who touched which word; none for a buffer that nobody can change.
    pub(super) shadows: Option<Shadows>,
}

/// Two questions about one memory.
#[derive(Clone, Debug)]
pub(super) struct Shadows {
    /// Among the invocations of a group, since the last barrier.
    group: Shadow,
    /// Among the groups of the dispatch.
    pub(super) dispatch: Shadow,
}

impl Buffer {
    pub(super) fn new(bytes: &[u8], writable: bool) -> Self {
        let (chunks, _) = bytes.as_chunks::<4>();
        let words: Vec<u32> = chunks.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect();
        let shadow = || Shadow::new(words.len());
        let shadows = writable.then(|| Shadows { group: shadow(), dispatch: shadow() });
        Self { words, shadows }
    }
}

/// Why an invocation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Barrier { next: usize, sync: super::code::Sync },
    End,
}

/// A dispatch that is being executed.
pub(super) struct Machine<'a> {
    code: &'a Code,
    size: [u32; 3],
    grid: [u32; 3],
    buffers: Vec<Buffer>,
    shared: Vec<u32>,
    shared_shadow: Shadow,
    /// Frames of as many invocations as are under way at once.
    frames: Vec<u32>,
    fuel: u64,
    /// The group that runs, counted from one.
    group: u32,
    /// What its loops have taken.
    rounds: Rounds,
}

impl<'a> Machine<'a> {
    /// Everything that is there before the first group. Costs a unit for every word of the frames
    /// and of the buffers.
    pub(super) fn new(
        code: &'a Code,
        size: [u32; 3],
        grid: [u32; 3],
        buffers: Vec<Buffer>,
        fuel: u64,
    ) -> Result<Self, Fault> {
        let index = |word: u32| usize::try_from(word).unwrap_or(usize::MAX);
        let mut frame = vec![0; index(code.frame)];
        for (to, number) in &code.numbers {
            set(&mut frame, *to, *number);
        }
        for length in &code.lengths {
            let words = buffers.get(usize::from(length.buffer)).map_or(0, |it| it.words.len());
            let bytes = u32::try_from(words).unwrap_or(u32::MAX).saturating_mul(4);
            let elements = bytes.saturating_sub(length.before).checked_div(length.stride);
            set(&mut frame, length.to, elements.unwrap_or(0));
        }
        set_three(&mut frame, code.places.groups, grid);
        let count = if code.barriers { size.iter().map(|n| index(*n)).product() } else { 1 };
        let mut machine = Self {
            code,
            size,
            grid,
            buffers,
            shared: Vec::new(),
            shared_shadow: Shadow::new(0),
            frames: Vec::new(),
            fuel,
            group: 0,
            rounds: Rounds::default(),
        };
        let bound = machine.buffers.iter().map(|buffer| buffer.words.len());
        let words = bound.fold(frame.len().saturating_mul(count), usize::saturating_add);
        machine.charge(u64::try_from(words).unwrap_or(u64::MAX))?;
        machine.frames = frame.repeat(count);
        machine.shared = vec![0; index(code.shared)];
        machine.shared_shadow = Shadow::new(index(code.shared));
        Ok(machine)
    }

    /// What is left: the buffers, and the fuel.
    pub(super) fn finish(self) -> (Vec<Buffer>, u64) {
        (self.buffers, self.fuel)
    }

    fn charge(&mut self, cost: u64) -> Result<(), Fault> {
        self.fuel = self.fuel.checked_sub(cost).ok_or(Fault::Fuel)?;
        Ok(())
    }

    /// All groups, in order.
    pub(super) fn run(&mut self) -> Result<(), Fault> {
        let [x, y, z] = self.grid;
        for group_z in 0..z {
            for group_y in 0..y {
                for group_x in 0..x {
                    self.run_group([group_x, group_y, group_z])?;
                }
            }
        }
        Ok(())
    }

    /// One group. Costs a unit for every word of its memory and for every invocation.
    pub(super) fn run_group(&mut self, group: [u32; 3]) -> Result<(), Fault> {
        self.group = self.group.saturating_add(1);
        self.charge(u64::from(self.code.shared))?;
        self.shared.fill(0);
        self.rounds.clear();
        self.order(super::code::Sync { shared: true, buffers: true });
        // The frames are lent to the loops below and given back.
        let mut frames = std::mem::take(&mut self.frames);
        let outcome = if self.code.barriers {
            self.together(&mut frames, group)
        } else {
            self.one_by_one(&mut frames, group)
        };
        self.frames = frames;
        outcome
    }

    /// Everyone waited: later touches are in order with earlier ones.
    fn order(&mut self, sync: super::code::Sync) {
        if sync.shared {
            self.shared_shadow.advance();
        }
        if sync.buffers {
            for shadows in self.buffers.iter_mut().filter_map(|buffer| buffer.shadows.as_mut()) {
                shadows.group.advance();
            }
        }
    }

    /// Invocations that never wait use one frame, one after the other.
    fn one_by_one(&mut self, frame: &mut [u32], group: [u32; 3]) -> Result<(), Fault> {
        let count = self.size.iter().product();
        for index in 0..count {
            self.begin(frame, group, index)?;
            self.resume(frame, 0, index.saturating_add(1))?;
        }
        Ok(())
    }

    /// Invocations that wait have a frame each, and come to every barrier together.
    fn together(&mut self, frames: &mut [u32], group: [u32; 3]) -> Result<(), Fault> {
        let words = usize::try_from(self.code.frame).unwrap_or(usize::MAX).max(1);
        for (index, frame) in (0..).zip(frames.chunks_exact_mut(words)) {
            self.begin(frame, group, index)?;
        }
        let mut next = 0;
        loop {
            let mut met = None;
            for (party, frame) in (1..).zip(frames.chunks_exact_mut(words)) {
                let stop = self.resume(frame, next, party)?;
                if *met.get_or_insert(stop) != stop {
                    return Err(Fault::Diverged);
                }
            }
            match met {
                Some(Stop::Barrier { next: behind, sync }) => {
                    next = behind;
                    self.order(sync);
                }
                Some(Stop::End) | None => return Ok(()),
            }
        }
    }

    /// Tells an invocation where it is.
    fn begin(&mut self, frame: &mut [u32], group: [u32; 3], index: u32) -> Result<(), Fault> {
        self.charge(1)?;
        let [wide, high, _] = self.size.map(|length| length.max(1));
        let row = index.checked_div(wide).unwrap_or(0);
        let local = [
            index.checked_rem(wide).unwrap_or(0),
            row.checked_rem(high).unwrap_or(0),
            row.checked_div(high).unwrap_or(0),
        ];
        let mut global = local;
        for ((place, group), size) in global.iter_mut().zip(group).zip(self.size) {
            *place = group.wrapping_mul(size).wrapping_add(*place);
        }
        let places = self.code.places;
        set_three(frame, places.global, global);
        set_three(frame, places.local, local);
        set_three(frame, places.group, group);
        set(frame, places.index, index);
        Ok(())
    }

    /// Runs an invocation to its next barrier, or to its end.
    fn resume(&mut self, frame: &mut [u32], start: usize, party: u32) -> Result<Stop, Fault> {
        let code = self.code;
        let mut next = start;
        loop {
            let op = code.ops.get(next).ok_or(Fault::Bounds)?;
            next = next.saturating_add(1);
            let target = match *op {
                Op::Charge(cost) => {
                    self.charge(u64::from(cost))?;
                    None
                }
                Op::Jump(target) => Some(target),
                Op::JumpUnless(condition, target) => (get(frame, condition) == 0).then_some(target),
                Op::JumpEqual(left, right, target) => {
                    (get(frame, left) == get(frame, right)).then_some(target)
                }
                Op::Enter { at } => {
                    set(frame, at, 0);
                    None
                }
                Op::Round { at, around, number } => {
                    let round = self.rounds.after(get(frame, at), get(frame, around), number);
                    set(frame, at, round.ok_or(Fault::Rounds)?);
                    None
                }
                Op::Barrier(sync) => return Ok(Stop::Barrier { next, sync }),
                Op::End => return Ok(Stop::End),
                Op::Binary { op, to, left, right } => {
                    let outcome = compute::binary(op, get(frame, left), get(frame, right));
                    set(frame, to, outcome);
                    None
                }
                Op::Copy { to, from, count: 1 } => {
                    let word = get(frame, from);
                    set(frame, to, word);
                    None
                }
                Op::Unary { op, to, from } => {
                    let outcome = compute::unary(op, get(frame, from));
                    set(frame, to, outcome);
                    None
                }
                Op::Select { to, condition, accept, reject } => {
                    let chosen = if get(frame, condition) == 0 { reject } else { accept };
                    let word = get(frame, chosen);
                    set(frame, to, word);
                    None
                }
                Op::LoadBuffer { .. }
                | Op::StoreBuffer { .. }
                | Op::TouchBuffer { .. }
                | Op::AtomicBuffer { .. } => {
                    self.buffer(frame, op, party)?;
                    None
                }
                Op::LoadShared { .. }
                | Op::StoreShared { .. }
                | Op::TouchShared { .. }
                | Op::AtomicShared { .. } => {
                    self.shared(frame, op, party)?;
                    None
                }
                _ => {
                    compute::wide(frame, op).ok_or(Fault::Bounds)?;
                    None
                }
            };
            if let Some(target) = target {
                next = usize::try_from(target).unwrap_or(usize::MAX);
            }
        }
    }

    /// An access of the group's memory.
    fn shared(&mut self, frame: &mut [u32], op: &Op, party: u32) -> Result<(), Fault> {
        let race = |(word, _): (usize, _)| {
            Fault::Race(Race::Shared { word: u32::try_from(word).unwrap_or(u32::MAX) })
        };
        match *op {
            Op::LoadShared { to, count, at } => {
                let range = words(frame, at, count);
                self.shared_shadow.read(range.clone(), party).map_err(race)?;
                let from = self.shared.get(range).ok_or(Fault::Bounds)?;
                room(frame, to, count).ok_or(Fault::Bounds)?.copy_from_slice(from);
            }
            Op::StoreShared { from, count, at } => {
                let range = words(frame, at, count);
                self.shared_shadow.write(range.clone(), party).map_err(race)?;
                let to = self.shared.get_mut(range).ok_or(Fault::Bounds)?;
                to.copy_from_slice(room(frame, from, count).ok_or(Fault::Bounds)?);
            }
            Op::TouchShared { count, at } => {
                self.shared_shadow.write(words(frame, at, count), party).map_err(race)?;
            }
            Op::AtomicShared { kind, from, at } => {
                let word = words(frame, at, 1).start;
                self.shared_shadow.atomic(word, party, kind).map_err(race)?;
                let place = self.shared.get_mut(word).ok_or(Fault::Bounds)?;
                *place = kind.apply(*place, get(frame, from));
            }
            _ => {}
        }
        Ok(())
    }

    /// An access of a buffer: its shadows are asked about invocations, then about groups.
    fn buffer(&mut self, frame: &mut [u32], op: &Op, party: u32) -> Result<(), Fault> {
        let group = self.group;
        let (index, at, count) = match *op {
            Op::LoadBuffer { buffer, at, count, .. }
            | Op::StoreBuffer { buffer, at, count, .. }
            | Op::TouchBuffer { buffer, at, count } => (buffer, at, count),
            Op::AtomicBuffer { buffer, at, .. } => (buffer, at, 1),
            _ => return Err(Fault::Bounds),
        };
        let buffer = self.buffers.get_mut(usize::from(index)).ok_or(Fault::Bounds)?;
        let range = words(frame, at, count);
        if let Some(shadows) = &mut buffer.shadows {
            let touch = |shadow: &mut Shadow, party| match *op {
                Op::StoreBuffer { .. } | Op::TouchBuffer { .. } => {
                    shadow.write(range.clone(), party)
                }
                Op::AtomicBuffer { kind, .. } => shadow.atomic(range.start, party, kind),
                _ => shadow.read(range.clone(), party),
            };
            let index = usize::from(index);
            let word = |word: usize| u32::try_from(word).unwrap_or(u32::MAX);
            touch(&mut shadows.group, party)
                .map_err(|(at, _)| Fault::Race(Race::Buffer { buffer: index, word: word(at) }))?;
            touch(&mut shadows.dispatch, group)
                .map_err(|(at, _)| Fault::Race(Race::Groups { buffer: index, word: word(at) }))?;
        }
        let memory = buffer.words.get_mut(range).ok_or(Fault::Bounds)?;
        match *op {
            Op::LoadBuffer { to, .. } => {
                room(frame, to, count).ok_or(Fault::Bounds)?.copy_from_slice(memory);
            }
            Op::StoreBuffer { from, .. } => {
                memory.copy_from_slice(room(frame, from, count).ok_or(Fault::Bounds)?);
            }
            Op::AtomicBuffer { kind, from, .. } => {
                for place in memory {
                    *place = kind.apply(*place, get(frame, from));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[inline]
pub(super) fn get(frame: &[u32], word: Reg) -> u32 {
    *frame.get(usize::from(word)).expect("code names words of its frame")
}

#[inline]
pub(super) fn set(frame: &mut [u32], word: Reg, value: u32) {
    *frame.get_mut(usize::from(word)).expect("code names words of its frame") = value;
}

fn set_three(frame: &mut [u32], first: Reg, values: [u32; 3]) {
    for (word, value) in (first..).zip(values) {
        set(frame, word, value);
    }
}

/// Words of a memory.
#[inline]
fn words(frame: &[u32], at: At, count: u16) -> std::ops::Range<usize> {
    let start = usize::try_from(at.base).unwrap_or(usize::MAX);
    let more = usize::try_from(get(frame, at.offset)).unwrap_or(usize::MAX);
    let start = start.saturating_add(more);
    start..start.saturating_add(usize::from(count))
}

/// Words of a frame.
#[inline]
pub(super) fn room(frame: &mut [u32], first: Reg, count: u16) -> Option<&mut [u32]> {
    let start = usize::from(first);
    frame.get_mut(start..start.checked_add(usize::from(count))?)
}
