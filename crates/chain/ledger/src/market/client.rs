//! Clients: their open tasks and how they behaved.

use super::Market;
use crate::{
    bank,
    error::{Halt, Stop},
    state::{Overlay, State},
    table::tables::Clients,
};
use opengpu_market::{demand, reputation};
use opengpu_types::{
    Address, Client, CloseReason, Event, Failure, List, Permille, Reputation, Task, TaskId,
};

impl<S: State> Market<'_, S> {
    /// Notes an open task.
    pub(super) fn remember(&mut self, client: Address, task: TaskId) -> Result<(), Stop> {
        let mut record = match self.state.find::<Clients>(client)? {
            Some(record) => record,
            None => {
                let reserve = bank::hold_reserve(self.state, client)?;
                let reputation = Reputation { halved: self.now(), ..Reputation::default() };
                Client { tasks: List::empty(), reputation, reserve }
            }
        };
        record.tasks.insert_sorted(task).map_err(|_| Failure::TooManyTasks)?;
        self.state.set::<Clients>(client, record);
        Ok(())
    }

    /// Notes that a task has ended, and how.
    pub(super) fn forget(
        &mut self,
        id: TaskId,
        task: &Task,
        reason: CloseReason,
    ) -> Result<(), Halt> {
        let mut record = self.state.must::<Clients>(task.client)?;
        record.tasks.remove_sorted(&id);
        reputation::refresh(&mut record.reputation, self.now(), self.parameters.half_life);
        reputation::task_ended(&mut record.reputation, reason, demand::unbriefed(task));
        self.state.set::<Clients>(task.client, record);
        Ok(())
    }

    /// How reliable a client was.
    pub(super) fn client_reliability(&self, client: Address) -> Result<Permille, Halt> {
        let record = self.state.view::<Clients>(client)?;
        let mut reputation = record.map_or_else(Reputation::default, |record| record.reputation);
        reputation::refresh(&mut reputation, self.now(), self.parameters.half_life);
        Ok(reputation::reliability(&reputation))
    }
}

/// Ends the record of a client without open tasks, so that its account can be closed.
pub(crate) fn close<S: State>(
    state: &mut Overlay<S>,
    client: Address,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let Some(record) = state.find::<Clients>(client)? else { return Ok(()) };
    if record.tasks.is_empty() {
        state.remove::<Clients>(client);
        bank::return_reserve(state, client, record.reserve)?;
        events.push(Event::ClientClosed { client, reason: CloseReason::Requested });
    }
    Ok(())
}
