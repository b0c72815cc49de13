//! A node that follows without voting, until it cannot repeat a vote ([`crate::guard`]).

use super::{
    EpochError, Epochs,
    launch::{Channels, Running},
};
use crate::{
    committee::Scheme,
    guard::{self, Verdict},
    guide::Message,
    turn::Finalization,
};
use commonware_consensus::{Viewable as _, simplex::Floor};
use commonware_cryptography::{Signer as _, ed25519::PublicKey};
use commonware_p2p::{AddressableManager, Blocker, Recipients, Sender};
use commonware_parallel::Strategy;
use commonware_runtime::{Clock, Metrics, Spawner, Storage};
use opengpu_types::{Digest, Epoch, View};
use rand_core::CryptoRng;

impl<E, T, M, B> Epochs<E, T, M, B>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
    M: AddressableManager<PublicKey = PublicKey>,
    B: Blocker<PublicKey = PublicKey>,
{
    /// Notes where another seat stands. The first answer counts, because later ones run ahead of us;
    /// but what it has heard from us may grow while it starts, too.
    pub(super) fn hear(&mut self, running: &Running, peer: PublicKey, told: Message) {
        let Message::Standing(Some(standing)) = told else { return };
        let seated = running.committee.contains(&peer) && peer != self.config.key.public_key();
        if seated && running.watching.is_some() && standing.epoch.0 <= running.epoch.get() {
            let known = self.told.entry(peer).or_insert(standing);
            if known.epoch < standing.epoch {
                *known = standing;
            }
            known.heard = known.heard.max(standing.heard);
        }
    }

    /// Lets a watching node vote as soon as no forgotten vote can be repeated.
    pub(super) async fn judge<S>(
        &mut self,
        running: Running,
        own: View,
        channels: &mut Channels<S>,
    ) -> Result<Running, EpochError>
    where
        S: Sender<PublicKey = PublicKey>,
    {
        let epoch = Epoch(running.epoch.get());
        let voters = running.committee.voters();
        let newest = self.config.turn.finalization(epoch);
        let stalled = self.stall.lasts(
            self.context.current(),
            epoch,
            newest.as_ref().map(Finalization::view),
        );
        let me = self.config.key.public_key();
        let all = voters.len().saturating_sub(1);
        let others = voters.iter().filter(|voter| **voter != me).cloned().collect();
        self.config.guide.ask(Recipients::Some(others), Message::WantStanding);
        let floor = match guard::judge(epoch, voters.len(), own, &self.told, stalled) {
            Verdict::Wait => return Ok(running),
            Verdict::Watch(until) => match newest.filter(|newest| newest.view().get() >= until.0) {
                Some(newest) => Floor::Finalized(newest),
                None => return Ok(running),
            },
            Verdict::Vote if self.told.len() < all && !running.waited(self.context.current()) => {
                return Ok(running);
            }
            Verdict::Vote => Floor::Genesis(running.anchor),
        };
        tracing::info!(epoch = epoch.0, from = ?floor_view(&floor), "this node votes");
        self.cleared = true;
        let (committee, anchor) = (running.committee.clone(), running.anchor);
        drop(running);
        self.launch(committee, anchor, floor, None, channels).await
    }
}

fn floor_view(floor: &Floor<Scheme, Digest>) -> u64 {
    match floor {
        Floor::Genesis(_) => 0,
        Floor::Finalized(finalization) => finalization.view().get(),
    }
}
