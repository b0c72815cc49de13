//! How a node without a past finds the present: from the genesis over the steps of epochs to the
//! newest certificate, which the state is then fetched for ([`crate::state_sync`]).
//!
//! ```text
//! genesis seats ─► step 0 ─► seats of epoch 1 ─► step 1 ─► ... ─► seats of epoch e ─► certificate
//! ```
//!
//! Each step is signed by a quorum of the seats before it, so a single peer can at most be out of
//! date, and several are asked. What a node cannot see is whether the seats of long ago sold their
//! keys: see SECURITY.md about long-range attacks.
//!
//! A node asks until enough seats answered. Within the first epoch it begins at the genesis and
//! replays blocks; a network that begins is no exception, its nodes tell each other that there is
//! nothing yet.

use crate::{
    committee::{Committee, Committees, consensus_key},
    epochs::tracked_peers,
    guard::needed,
    guide::{Guide, Message},
    steps::{Step, Steps, StepsError},
    turn::Finalization,
};
use commonware_codec::{Copying, Decode as _};
use commonware_consensus::{Epochable as _, Viewable as _};
use commonware_cryptography::ed25519::PublicKey;
use commonware_macros::select;
use commonware_p2p::{Address, AddressableManager, Recipients};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Metrics, Spawner, Storage};
use commonware_utils::ordered::Map;
use opengpu_light::Trust;
use opengpu_types::{ChainId, Epoch, Parameters, SeatSet};
use rand_core::CryptoRng;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Pause before a question is asked again.
const REPEAT: Duration = Duration::from_millis(500);
/// Questions in a row that bring nothing before the operator is told.
const PATIENCE: u32 = 20;

/// Why a node cannot find the present.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The steps cannot be kept.
    #[error(transparent)]
    Steps(#[from] StepsError),
    /// The steps do not lead to an epoch that they should.
    #[error("the folder knows no seats of epoch {0}: begin with an empty one")]
    NoStep(Epoch),
    /// The node is stopping.
    #[error("the node stopped while it was joining")]
    Stopped,
}

/// Who asks, and from where.
pub struct Joiner<'a, E: Clock + Metrics + Spawner + Storage, M> {
    /// The network.
    pub chain: ChainId,
    /// This node.
    pub key: PublicKey,
    /// The seats of the first two epochs.
    pub first_seats: &'a [Arc<SeatSet>; 2],
    /// Length of epochs.
    pub parameters: &'a Parameters,
    /// Peers without a seat that may connect.
    pub guests: &'a Map<PublicKey, Address>,
    /// Keeps connections to peers.
    pub manager: &'a mut M,
    /// The steps that are held; those found are added.
    pub steps: &'a Steps<E>,
}

impl<E, M> Joiner<'_, E, M>
where
    E: Clock + CryptoRng + Metrics + Spawner + Storage,
    M: AddressableManager<PublicKey = PublicKey>,
{
    /// The newest certificate that peers can prove; `None` if a replay is as good.
    pub async fn find(
        &mut self,
        context: &mut E,
        guide: &mut Guide,
    ) -> Result<Option<Finalization>, JoinError> {
        let mut seats = self.seats(self.steps.next().await?).await?;
        self.track(seats.epoch).await?;
        let (mut head, mut heard, mut idle) = (None, BTreeSet::new(), 0_u32);
        loop {
            guide.ask(Recipients::All, Message::WantSteps(seats.epoch));
            let pause = context.sleep(REPEAT);
            futures::pin_mut!(pause);
            loop {
                if heard.len() >= self.enough(&seats) {
                    return self.settle(&seats, head).await;
                }
                let answer = select! {
                    () = &mut pause => { break },
                    answer = guide.answer() => { answer.ok_or(JoinError::Stopped)? },
                };
                let (peer, Message::Steps { steps, head: told }) = answer else { continue };
                let before = seats.epoch;
                for step in steps.into_vec() {
                    let Some(next) = self.follow(context, &seats, step).await? else { break };
                    seats = next;
                }
                if seats.epoch > before {
                    self.track(seats.epoch).await?;
                    (head, idle) = (None, 0);
                    heard.clear();
                    break;
                }
                if peer != self.key && holds(&seats, &peer) {
                    heard.insert(peer);
                }
                let newer = verified(context, self.chain, &seats, &told);
                head = [head, newer].into_iter().flatten().max_by_key(Finalization::view);
            }
            idle = idle.saturating_add(1);
            if idle.is_multiple_of(PATIENCE) {
                let (heard, wanted) = (heard.len(), self.enough(&seats));
                let epoch = seats.epoch.0;
                tracing::warn!(epoch, heard, wanted, "too few validators answer; still asking");
            }
        }
    }

    /// Makes a certificate verifiable, and the peers that know about it reachable.
    pub async fn prepare(
        &mut self,
        floor: &Finalization,
        committees: &Committees,
    ) -> Result<(), JoinError> {
        let epoch = Epoch(floor.epoch().get());
        self.track(epoch).await?;
        if let Ok(committee) = Committee::new(self.seats(epoch).await?) {
            let scheme = committee.watching_scheme(self.chain, &self.key);
            committees.insert(floor.epoch(), scheme);
        }
        Ok(())
    }

    /// Peers that must have nothing newer to tell. The only validator of a network asks nobody.
    fn enough(&self, seats: &SeatSet) -> usize {
        needed(seats.seats.len()).max(usize::from(!holds(seats, &self.key)))
    }

    /// The seats of an epoch that genesis or the steps know.
    async fn seats(&self, epoch: Epoch) -> Result<Arc<SeatSet>, JoinError> {
        let [first, _] = self.first_seats;
        let Some(before) = epoch.0.checked_sub(1) else { return Ok(first.clone()) };
        let step = self.steps.get(Epoch(before)).await?.ok_or(JoinError::NoStep(epoch))?;
        Ok(Arc::new(step.seats))
    }

    /// Takes a step that holds; returns the seats that it leads to.
    async fn follow(
        &self,
        rng: &mut E,
        seats: &SeatSet,
        step: Step,
    ) -> Result<Option<Arc<SeatSet>>, JoinError> {
        let trust = Trust { chain: self.chain, seats: seats.clone() };
        let fits = step.ends(seats.epoch, self.parameters);
        if !fits || trust.follow(rng, &[step.clone().into()]).is_err() {
            return Ok(None);
        }
        let added = self.steps.append(&step).await?;
        Ok(added.then(|| Arc::new(step.seats)))
    }

    /// Keeps connections to the seats of the newest epoch that is known. They are tracked under the
    /// epoch before, as in that epoch, so that the newest one can still be opened.
    async fn track(&mut self, newest: Epoch) -> Result<(), JoinError> {
        let before = Epoch(newest.0.saturating_sub(1));
        let seats = self.seats(before).await?;
        let [_, second] = self.first_seats;
        let next = if newest.0 == 0 { second.clone() } else { self.seats(newest).await? };
        if let (Ok(committee), Ok(next)) = (Committee::new(seats), Committee::new(next)) {
            let peers = tracked_peers(&committee, &next, self.guests, Vec::new());
            let _ = self.manager.track(before.0, peers);
        }
        Ok(())
    }

    /// The certificate to start from.
    async fn settle(
        &self,
        seats: &SeatSet,
        head: Option<Finalization>,
    ) -> Result<Option<Finalization>, JoinError> {
        let Some(before) = seats.epoch.0.checked_sub(1) else { return Ok(None) };
        if head.is_some() {
            return Ok(head);
        }
        // Nobody has a certificate of the newest epoch yet: its first block is to come.
        let Some(step) = self.steps.get(Epoch(before)).await? else { return Ok(None) };
        let voters = self.seats(Epoch(before)).await?.seats.len();
        Ok(Finalization::decode_cfg(Copying(&step.certificate[..]), &voters).ok())
    }
}

/// Whether a node has a seat.
fn holds(seats: &SeatSet, node: &PublicKey) -> bool {
    let key = consensus_key(node);
    seats.seats.iter().any(|seat| seat.consensus == key)
}

/// The certificate in `bytes`, if a quorum of `seats` signed it.
fn verified(
    rng: &mut impl CryptoRng,
    chain: ChainId,
    seats: &SeatSet,
    bytes: &[u8],
) -> Option<Finalization> {
    let finalization = Finalization::decode_cfg(Copying(bytes), &seats.seats.len()).ok()?;
    let scheme = opengpu_light::verifier(chain, seats)?;
    let holds = finalization.epoch().get() == seats.epoch.0
        && finalization.verify(rng, &scheme, &Sequential);
    holds.then_some(finalization)
}
