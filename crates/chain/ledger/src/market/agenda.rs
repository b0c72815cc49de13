//! Alarms: what the chain looks at by itself, and when.
//!
//! Alarms stand in pages of a tick, a quarter of a second of block time. A block rings those whose tick has
//! come since the block before, up to a limit; the rest rings in the next one, and an [`Agenda`] says where
//! to go on. Nobody removes an alarm: one that rings when its task has another does nothing.
//!
//! What is only collected has pages and a limit of its own: however much of it there is, no deadline
//! waits for it.

use super::Market;
use crate::{
    error::{Corruption, Halt},
    state::{Changes, State},
    table::tables::{AgendaPages, Agendas, Pasts, Providers, Tasks, Ticks},
};
use opengpu_types::{
    Agenda, AgendaPage, Alarm, Key, LeaseId, LeasePhase, Millis, TaskId, Tick, Urgency,
};

/// Milliseconds of a tick.
const TICK: u64 = 250;
/// Milliseconds between blocks when nothing happens.
const IDLE: u64 = 1_000;
/// Most alarms that ring in one block. One rings for at most sixteen leases, each with three events, and a
/// handful for the task: all of them, and the end of an epoch, fit into the receipt of a block.
const MOST_ALARMS: usize = 64;
/// Most entries that are collected in one block, with one event each.
const MOST_COLLECTED: usize = 256;
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

/// Most alarms of that kind that ring in one block.
const fn most(urgency: Urgency) -> usize {
    match urgency {
        Urgency::Deadline => MOST_ALARMS,
        Urgency::Collection => MOST_COLLECTED,
    }
}

/// When the deadlines that a block has set are over; at once if it could not see to all.
pub fn alarms(time: Millis, changes: &Changes) -> impl Iterator<Item = Millis> {
    const URGENCY: Urgency = Urgency::Deadline;
    changes.iter().filter_map(move |(key, entry)| match key {
        Key::Tick { urgency: URGENCY, tick } if entry.is_some() => Some(time_of(*tick)),
        Key::Agenda(URGENCY) if entry.is_some() => Some(time.plus(Millis(1))),
        _ => None,
    })
}

/// The tick by which a time has come.
pub(crate) const fn tick_by(time: Millis) -> Tick {
    Tick(time.0.div_ceil(TICK))
}

impl<S: State> Market<'_, S> {
    /// Sets an alarm at that time or shortly after; says when it rings.
    pub(super) fn set_alarm(
        &mut self,
        at: Millis,
        urgency: Urgency,
        alarm: Alarm,
    ) -> Result<Millis, Halt> {
        let tick = tick_by(at).max(tick_of(self.now()).next());
        let count = self.state.find::<Ticks>((urgency, tick))?.unwrap_or(0);
        let at = (urgency, tick, place_of(count).0);
        let mut entry = self.state.find::<AgendaPages>(at)?.unwrap_or_default();
        entry.alarms.push(alarm).map_err(|_| Corruption::OutOfRange("a page of alarms"))?;
        self.state.set::<AgendaPages>(at, entry);
        self.state.set::<Ticks>((urgency, tick), count.saturating_add(1));
        Ok(time_of(tick))
    }

    /// Does everything whose time has come since then.
    pub(crate) fn ring(&mut self, since: Millis) -> Result<(), Halt> {
        let mut ending: Vec<TaskId> = Vec::new();
        for urgency in Urgency::ALL {
            let due = self.take_due(urgency, since)?;
            self.load(&due)?;
            for (tick, alarm) in due {
                match alarm {
                    Alarm::Task(task) => {
                        if self.ring_task(task, time_of(tick))? {
                            ending.push(task);
                        }
                    }
                    Alarm::Provider(provider) => self.ring_provider(provider)?,
                    Alarm::Class(class) => self.ring_class(class, time_of(tick))?,
                    Alarm::Past(provider) => self.ring_past(provider)?,
                    Alarm::Trial(provider) => self.ring_trial(provider)?,
                }
            }
        }
        self.clear(ending)?;
        self.draw_trials(since)
    }

    /// Takes the alarms that ring in this block off their pages.
    fn take_due(&mut self, urgency: Urgency, since: Millis) -> Result<Vec<(Tick, Alarm)>, Halt> {
        let left = self.state.find::<Agendas>(urgency)?;
        let mut agenda = left.unwrap_or(Agenda { tick: tick_of(since).next(), seen: 0 });
        let now = tick_of(self.now());
        let last = now.min(Tick(agenda.tick.0.saturating_add(MOST_TICKS)));
        self.state.need(ticks(agenda.tick, last).map(|tick| Key::Tick { urgency, tick }))?;
        self.state.need(self.pages(urgency, &agenda, last)?)?;
        let mut due = Vec::new();
        while agenda.tick <= last {
            let tick = agenda.tick;
            let count = self.state.find::<Ticks>((urgency, tick))?.unwrap_or(0);
            while agenda.seen < count && due.len() < most(urgency) {
                let (page, place) = place_of(agenda.seen);
                let entry = self.state.must_view::<AgendaPages>((urgency, tick, page))?;
                let alarm = entry.alarms.get(place).copied();
                due.push((tick, alarm.ok_or(Corruption::OutOfRange("a page of alarms"))?));
                agenda.seen = agenda.seen.saturating_add(1);
            }
            if agenda.seen < count {
                self.state.set::<Agendas>(urgency, agenda);
                return Ok(due);
            }
            self.forget_tick(urgency, tick, count);
            agenda = Agenda { tick: tick.next(), seen: 0 };
        }
        if agenda.tick <= now {
            self.state.set::<Agendas>(urgency, agenda);
        } else if left.is_some() {
            self.state.remove::<Agendas>(urgency);
        }
        Ok(due)
    }

    /// Pages with the alarms that can ring in this block.
    fn pages(&self, urgency: Urgency, agenda: &Agenda, last: Tick) -> Result<Vec<Key>, Halt> {
        let (mut keys, mut alarms) = (Vec::new(), 0usize);
        for tick in ticks(agenda.tick, last) {
            let count = self.state.view::<Ticks>((urgency, tick))?.copied().unwrap_or(0);
            let seen = if tick == agenda.tick { agenda.seen } else { 0 };
            for page in place_of(seen).0..=place_of(count.saturating_sub(1)).0 {
                if alarms >= most(urgency) || seen >= count {
                    break;
                }
                keys.push(Key::AgendaPage { urgency, tick, page });
                alarms = alarms.saturating_add(AgendaPage::MAX);
            }
        }
        Ok(keys)
    }

    fn forget_tick(&mut self, urgency: Urgency, tick: Tick, count: u32) {
        let Some(last) = count.checked_sub(1) else { return };
        for page in 0..=place_of(last).0 {
            self.state.remove::<AgendaPages>((urgency, tick, page));
        }
        self.state.remove::<Ticks>((urgency, tick));
    }

    /// Says at once what all these alarms will read.
    fn load(&self, due: &[(Tick, Alarm)]) -> Result<(), Halt> {
        self.state.need(due.iter().map(|(_, alarm)| match alarm {
            Alarm::Task(task) => Key::Task(*task),
            Alarm::Provider(provider) => Key::Provider(*provider),
            Alarm::Class(class) => Key::ClassIndex(*class),
            Alarm::Past(provider) => Key::Past(*provider),
            Alarm::Trial(provider) => Key::Trial(*provider),
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
                Alarm::Past(provider) => {
                    keys.push(Key::Account(*provider));
                    let entry = self.state.view::<Pasts>(*provider)?;
                    keys.extend(entry.and_then(|it| it.sponsor).map(Key::Account));
                    continue;
                }
                Alarm::Trial(provider) => {
                    keys.push(Key::Provider(*provider));
                    continue;
                }
                Alarm::Class(_) => continue,
            };
            let Some(task) = self.state.view::<Tasks>(*id)? else { continue };
            keys.extend([Key::Auction(*id), Key::Account(task.client), Key::Client(task.client)]);
            for (number, lease) in (0u8..).zip(&task.leases) {
                if lease.is_closed() {
                    continue;
                }
                keys.extend([Key::Provider(lease.provider), Key::Account(lease.provider)]);
                if matches!(lease.phase, LeasePhase::Audited { .. }) {
                    keys.push(Key::Audit(LeaseId { task: *id, number }));
                }
            }
        }
        self.state.need(keys)?;
        self.load_offers(due)
    }

    /// Says what settling a lease will read of its offer, and what taking the offers of a silent provider
    /// off their shelves will read of all.
    fn load_offers(&self, due: &[(Tick, Alarm)]) -> Result<(), Halt> {
        let mut keys = Vec::new();
        for (_, alarm) in due {
            if let Alarm::Trial(address) = alarm
                && let Some(provider) = self.state.view::<Providers>(*address)?
            {
                // Those of whoever did not pass go off their shelves.
                keys.push(Key::Shelves);
                keys.extend(provider.offers.iter().flat_map(Self::keys_of));
            }
            let Alarm::Task(id) = alarm else { continue };
            let Some(task) = self.state.view::<Tasks>(*id)? else { continue };
            for lease in task.leases.iter().filter(|lease| !lease.is_closed()) {
                let provider = self.state.must_view::<Providers>(lease.provider)?;
                let silent = provider.heard.max(lease.began).plus(self.parameters.silence);
                let silent = lease.phase == LeasePhase::Running && silent <= self.now();
                if silent {
                    keys.push(Key::Shelves);
                }
                let own = usize::from(lease.offer);
                let offers = provider.offers.iter().enumerate();
                let offers = offers.filter(|(place, _)| silent || *place == own);
                keys.extend(offers.flat_map(|(_, offered)| Self::keys_of(offered)));
            }
        }
        self.state.need(keys)
    }
}
