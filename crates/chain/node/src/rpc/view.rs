//! The state after one final block, read consistently.
//!
//! A view holds the store's read lock, so that root, height and entries belong to the same block;
//! the next block waits for it. It must therefore be dropped before anything slow.

use super::{
    Api,
    problem::{Answer, Refused},
};
use crate::store::{self, Database};
use commonware_glue::stateful::db::ReadGuard;
use commonware_parallel::Rayon;
use commonware_runtime::tokio::Context;
use opengpu_client::api::paths;
use opengpu_ledger::epoch_of;
use opengpu_light::StateProof;
use opengpu_types::{ChainState, Digest, Entry, Epoch, Height, Key, Parameters, SeatSet};

/// The state after one final block.
pub(crate) struct View<'a> {
    store: ReadGuard<'a, Database<Context, Rayon>>,
    chain: ChainState,
}

impl Api {
    /// The state after the last final block.
    pub(crate) async fn view(&self) -> Answer<View<'_>> {
        let databases = self.0.feed.databases().ok_or_else(Refused::syncing)?;
        let store = databases.read().await;
        let chain = match store::get(&store, &Key::Chain).await? {
            Some(Entry::Chain(chain)) => *chain,
            // Before the first block there is no state.
            _ => return Err(Refused::syncing()),
        };
        Ok(View { store, chain })
    }
}

impl View<'_> {
    /// The chain's variables.
    pub(crate) const fn chain(&self) -> &ChainState {
        &self.chain
    }

    /// The block after which this is the state.
    pub(crate) const fn height(&self) -> Height {
        self.chain.height
    }

    /// Root over the state.
    pub(crate) fn root(&self) -> Digest {
        self.store.root()
    }

    /// An entry.
    pub(crate) async fn get(&self, key: Key) -> Answer<Option<Entry>> {
        Ok(store::get(&self.store, &key).await?)
    }

    /// An entry and the proof that this, or nothing, stands under the key.
    pub(crate) async fn prove(&self, key: Key) -> Answer<(Option<Entry>, StateProof)> {
        let entry = self.get(key).await?;
        let digest = key.digest();
        let proof = if entry.is_some() {
            StateProof::of_value(self.store.key_value_proof(digest).await?)
        } else {
            StateProof::of_absence(self.store.exclusion_proof(&digest).await?)
        };
        Ok((entry, proof))
    }

    /// The network's parameters.
    pub(crate) async fn parameters(&self) -> Answer<Parameters> {
        match self.get(Key::Parameters).await? {
            Some(Entry::Parameters(parameters)) => Ok(*parameters),
            _ => Err(missing(Key::Parameters)),
        }
    }

    /// The epoch of the next block.
    pub(crate) async fn epoch(&self) -> Answer<Epoch> {
        Ok(epoch_of(self.height().next(), &self.parameters().await?))
    }

    /// The seats of an epoch that the state must know.
    pub(crate) async fn seats(&self, epoch: Epoch) -> Answer<SeatSet> {
        match self.get(Key::Seats(epoch)).await? {
            Some(Entry::Seats(seats)) => Ok(seats),
            _ => Err(missing(Key::Seats(epoch))),
        }
    }
}

/// An entry that every state has is not there.
pub(crate) fn missing(key: Key) -> Refused {
    Refused::internal(format!("the state has no entry {key:?}"))
}

/// Reads a parameter of a path.
pub(crate) fn parse<T>(text: &str, what: &str) -> Answer<T>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    text.parse().map_err(|error| Refused::bad_request(format!("`{text}` is not {what}: {error}")))
}

/// A number, or nothing for the word that stands for the newest.
pub(crate) fn number_or(text: &str, word: &str, what: &str) -> Answer<Option<u64>> {
    if text == word { Ok(None) } else { parse(text, what).map(Some) }
}

/// A height in a path.
pub(crate) fn height_of(text: &str) -> Answer<Option<Height>> {
    Ok(number_or(text, paths::LATEST, "a height")?.map(Height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_numbers_or_the_word_for_the_newest() {
        assert_eq!(height_of("17").unwrap(), Some(Height(17)));
        assert_eq!(height_of("latest").unwrap(), None);
        for text in ["", "-1", "0x1", "newest"] {
            assert_eq!(height_of(text).unwrap_err().code(), "bad-request", "{text}");
        }
    }
}
