//! Alarms: what the chain looks at by itself, and when.
//!
//! Alarms stand in pages of a tick, a quarter of a second of block time. A block rings those whose tick has
//! come since the block before, up to a limit; the rest rings in the next one, and an [`Agenda`] says where
//! to go on. Nobody removes an alarm: one that rings when its task has another does nothing.

use super::Market;
use crate::{
    error::{Corruption, Halt},
    state::{Changes, State},
    table::tables::{AgendaPages, Agendas, Providers, Tasks, Ticks},
};
use opengpu_types::{Agenda, AgendaPage, Alarm, Key, Millis, TaskId, Tick};

/// Milliseconds of a tick.
const TICK: u64 = 250;
/// Milliseconds between blocks when nothing happens.
const IDLE: u64 = 1_000;
/// Most alarms that ring in one block. One rings for at most sixteen leases, each with two events, and a
/// handful for the task: all of them, and the end of an epoch, fit into the receipt of a block.
const MOST_ALARMS: usize = 64;
/// Most ticks that one block looks at; the next one goes on.
const MOST_TICKS: u64 = 64;

/// The tick of a time.
pub(crate) const fn tick_of(time: Millis) -> Tick {
    Tick(match time.0.checked_div(TICK) {
        Some(tick) => tick,
        None => 0,
    })
}

/// All ticks from one to another.
fn ticks(first: Tick, last: Tick) -> impl Iterator<Item = Tick> {
    (first.0..=last.0).map(Tick)
}

/// Ticks whose alarms a block of that time is likely to ring: those of the second before it.
pub(crate) fn likely_ticks(time: Millis) -> impl Iterator<Item = Tick> {
    ticks(tick_of(Millis(time.0.saturating_sub(IDLE))), tick_of(time))
}

/// When the alarms of a tick ring.
const fn time_of(tick: Tick) -> Millis {
    Millis(tick.0.saturating_mul(TICK))
}

/// Where the alarm of that number stands.
fn place_of(number: u32) -> (u32, usize) {
    let most = u32::try_from(AgendaPage::MAX).unwrap_or(u32::MAX);
    let page = number.checked_div(most).unwrap_or(0);
    let place = number.checked_rem(most).unwrap_or(0);
    (page, usize::try_from(place).unwrap_or(0))
}

/// When the alarms that a block has set ring; at once if it could not see to all.
pub fn alarms(time: Millis, changes: &Changes) -> impl Iterator<Item = Millis> {
    changes.iter().filter_map(move |(key, entry)| match key {
        Key::Tick(tick) if entry.is_some() => Some(time_of(*tick)),
        Key::Agenda if entry.is_some() => Some(time.plus(Millis(1))),
        _ => None,
    })
}

impl<S: State> Market<'_, S> {
    /// Sets an alarm at that time or shortly after; says when it rings.
    pub(super) fn set_alarm(&mut self, at: Millis, alarm: Alarm) -> Result<Millis, Halt> {
        let tick = Tick(at.0.div_ceil(TICK)).max(tick_of(self.now()).next());
        let count = self.state.find::<Ticks>(tick)?.unwrap_or(0);
        let (page, _) = place_of(count);
        let mut entry = self.state.find::<AgendaPages>((tick, page))?.unwrap_or_default();
        entry.alarms.push(alarm).map_err(|_| Corruption::OutOfRange("a page of alarms"))?;
        self.state.set::<AgendaPages>((tick, page), entry);
        self.state.set::<Ticks>(tick, count.saturating_add(1));
        Ok(time_of(tick))
    }

    /// Does everything whose time has come since then.
    pub(crate) fn ring(&mut self, since: Millis) -> Result<(), Halt> {
        let due = self.take_due(since)?;
        self.load(&due)?;
        let mut ending: Vec<TaskId> = Vec::new();
        for (tick, alarm) in due {
            match alarm {
                Alarm::Task(task) => {
                    if self.ring_task(task, time_of(tick))? {
                        ending.push(task);
                    }
                }
                Alarm::Provider(provider) => self.ring_provider(provider)?,
            }
        }
        self.clear(ending)
    }

    /// Takes the alarms that ring in this block off their pages.
    fn take_due(&mut self, since: Millis) -> Result<Vec<(Tick, Alarm)>, Halt> {
        let left = self.state.find::<Agendas>(())?;
        let mut agenda = left.unwrap_or(Agenda { tick: tick_of(since).next(), seen: 0 });
        let now = tick_of(self.now());
        let last = now.min(Tick(agenda.tick.0.saturating_add(MOST_TICKS)));
        self.state.need(ticks(agenda.tick, last).map(Key::Tick))?;
        self.state.need(self.pages(&agenda, last)?)?;
        let mut due = Vec::new();
        while agenda.tick <= last {
            let tick = agenda.tick;
            let count = self.state.find::<Ticks>(tick)?.unwrap_or(0);
            while agenda.seen < count && due.len() < MOST_ALARMS {
                let (page, place) = place_of(agenda.seen);
                let entry = self.state.must_view::<AgendaPages>((tick, page))?;
                let alarm = entry.alarms.get(place).copied();
                due.push((tick, alarm.ok_or(Corruption::OutOfRange("a page of alarms"))?));
                agenda.seen = agenda.seen.saturating_add(1);
            }
            if agenda.seen < count {
                self.state.set::<Agendas>((), agenda);
                return Ok(due);
            }
            self.forget_tick(tick, count);
            agenda = Agenda { tick: tick.next(), seen: 0 };
        }
        if agenda.tick <= now {
            self.state.set::<Agendas>((), agenda);
        } else if left.is_some() {
            self.state.remove::<Agendas>(());
        }
        Ok(due)
    }

    /// Pages with the alarms that can ring in this block.
    fn pages(&self, agenda: &Agenda, last: Tick) -> Result<Vec<Key>, Halt> {
        let (mut keys, mut alarms) = (Vec::new(), 0usize);
        for tick in ticks(agenda.tick, last) {
            let count = self.state.view::<Ticks>(tick)?.copied().unwrap_or(0);
            let seen = if tick == agenda.tick { agenda.seen } else { 0 };
            for page in place_of(seen).0..=place_of(count.saturating_sub(1)).0 {
                if alarms >= MOST_ALARMS || seen >= count {
                    break;
                }
                keys.push(Key::AgendaPage { tick, page });
                alarms = alarms.saturating_add(AgendaPage::MAX);
            }
        }
        Ok(keys)
    }

    fn forget_tick(&mut self, tick: Tick, count: u32) {
        let Some(last) = count.checked_sub(1) else { return };
        for page in 0..=place_of(last).0 {
            self.state.remove::<AgendaPages>((tick, page));
        }
        self.state.remove::<Ticks>(tick);
    }

    /// Says at once what all these alarms will read.
    fn load(&self, due: &[(Tick, Alarm)]) -> Result<(), Halt> {
        self.state.need(due.iter().map(|(_, alarm)| match alarm {
            Alarm::Task(task) => Key::Task(*task),
            Alarm::Provider(provider) => Key::Provider(*provider),
        }))?;
        let mut keys = Vec::new();
        for (_, alarm) in due {
            let id = match alarm {
                Alarm::Task(id) => id,
                Alarm::Provider(provider) => {
                    keys.push(Key::Account(*provider));
                    let entry = self.state.view::<Providers>(*provider)?;
                    keys.extend(entry.and_then(|it| it.sponsor).map(Key::Account));
                    continue;
                }
            };
            let Some(task) = self.state.view::<Tasks>(*id)? else { continue };
            keys.extend([Key::Auction(*id), Key::Account(task.client), Key::Client(task.client)]);
            for lease in task.leases.iter().filter(|lease| !lease.is_closed()) {
                keys.extend([Key::Provider(lease.provider), Key::Account(lease.provider)]);
            }
        }
        self.state.need(keys)
    }
}
