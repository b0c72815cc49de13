//! When a leader builds: at once if there is work, when an alarm rings, otherwise a second after the
//! parent.
//!
//! [`Paced`] stands between consensus and the state. The wait is here and not in the state machine's
//! `propose`, because the state's actor does nothing else while it builds: blocks that become final
//! meanwhile would wait with it, and clients with them.
//!
//! A leader that is behind may be called for a parent that it has not executed yet. What the parent
//! took still waits in its pool then, so it may build an empty block a moment early; nothing worse.

use crate::{
    alarms::Alarms,
    application::sleep_until,
    block::{Block, Context},
    committee::Scheme,
    mempool::Mempool,
    timing,
};
use commonware_consensus::{
    Application, Handoff,
    marshal::ancestry::{Ancestry, with_prefix},
};
use commonware_cryptography::Digested;
use commonware_macros::select;
use commonware_runtime::Clock;
use futures::StreamExt as _;

/// A state whose proposals wait for work.
#[derive(Clone)]
pub struct Paced<A> {
    state: A,
    mempool: Mempool,
    alarms: Alarms,
}

impl<A> Paced<A> {
    /// Proposals of `state` that wait for something in `mempool`, or for one of the `alarms`.
    pub const fn new(state: A, mempool: Mempool, alarms: Alarms) -> Self {
        Self { state, mempool, alarms }
    }
}

impl<E, A> Application<E> for Paced<A>
where
    E: Clock,
    A: Application<E, SigningScheme = Scheme, Context = Context, Block = Block> + Sync,
{
    type SigningScheme = Scheme;
    type Context = Context;
    type Block = Block;
    type Input = A::Input;

    /// Blocks are built on certified parents only.
    async fn prepare(
        &mut self,
        _: (E, Context),
        _: impl Ancestry<Block>,
        _: A::Input,
    ) -> Handoff<Digested<Block>> {
        Handoff::Wait
    }

    async fn propose(
        &mut self,
        (runtime, context): (E, Context),
        mut ancestry: impl Ancestry<Block>,
        input: A::Input,
    ) -> Option<Digested<Block>> {
        let parent = ancestry.next().await?;
        let parent_time = parent.inner().header().time;
        let idle_until = timing::idle_until(parent_time);
        let idle_until = self.alarms.after(parent_time).map_or(idle_until, |it| it.min(idle_until));
        select! {
            () = self.mempool.ready() => {},
            () = sleep_until(&runtime, idle_until) => {},
        };
        self.state.propose((runtime, context), with_prefix([parent], ancestry), input).await
    }

    async fn verify(&mut self, context: (E, Context), ancestry: impl Ancestry<Block>) -> bool {
        self.state.verify(context, ancestry).await
    }
}
