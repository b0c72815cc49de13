//! The lease, its audit and its disputes as a model that is explored exhaustively.
//!
//! - [`state`]: what the chain knows, with the small sets of [`set`];
//! - [`rules`]: what it does with an input, [`dispute`] in a dissection, [`settle`] with money;
//! - [`parties`]: who takes part, and [`moves`]: what each may do;
//! - [`properties`]: what must hold, and `progress`: how far a lease is;
//! - [`bugs`]: rules with one thing left out, each of which must break a property;
//! - [`explore`]: how much is visited, and what was found.
//!
//! It is where the rules of docs/spec/proof-of-sync.md are tried before a chain carries them out; none does
//! yet, and nothing here is shared with what a chain runs. It has no hashes, no clock and no probabilities:
//! the draw is fixed and what is false may be anywhere, so what is said here holds for every draw.

pub mod bugs;
pub mod dispute;
pub mod explore;
pub mod moves;
pub mod parties;
mod progress;
pub mod properties;
pub mod rules;
pub mod set;
pub mod settle;
pub mod state;

use bugs::Bug;
use explore::Size;
use parties::{Action, World};
use stateright::{Model, Property};

/// The model: the rules, with or without a bug, and those who take part.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How much is explored.
    pub size: Size,
    /// What is left out.
    pub bug: Option<Bug>,
}

impl Rules {
    /// Whether nothing can happen any more.
    pub fn is_stuck(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        world.actions(self.bug, &mut actions);
        actions.into_iter().all(|action| world.after(action, self.bug).is_none())
    }
}

impl Model for Rules {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        self.size.worlds()
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.actions(self.bug, actions);
    }

    fn next_state(&self, last_state: &World, action: Action) -> Option<World> {
        last_state.after(action, self.bug)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = properties::all().into_iter();
        all.filter(|it| self.bug.is_none_or(|bug| bug.breaks() == it.name)).collect()
    }
}
