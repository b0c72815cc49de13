//! Transactions on their way to whoever leads next.
//!
//! A transaction that a client gives to this node is of use to whoever proposes next
//! ([`Turn::leaders`]), not to everybody: the others meet it in the block and check its signature
//! there, in a larger batch. So a follower, too, serves clients.
//!
//! ```text
//!  client ─► Intake ─► pool
//!               └────► outbox ─► batch ─► one or two leaders ─► Intake ─► pool
//!                                  ▲
//!                 waiting for long ┘
//! ```
//!
//! - Forwarding is a hint. The pool keeps what it forwarded until a final block took it or it
//!   expired, and what still waits after a moment is sent again, best first, to the leaders of then.
//! - What came from a peer is not forwarded at once; if it still waits in the pool later, it is sent
//!   again like everything that waits.
//! - Batches are bounded in count and bytes, and the network bounds their rate for each peer. Those
//!   that wait are taken in together: the fuller a batch of signatures, the cheaper each one.
//! - A peer that sends bytes that are no batch is cut off at once, and one that sends bad signatures
//!   after [`FORGERIES`] of them: an honest node checks before it forwards. What the ledger refuses
//!   is nobody's fault, because states differ for moments.

use crate::{
    committee::public_key,
    mempool::{Intake, Mempool, SubmitError},
    turn::Turn,
};
use bytes::Bytes;
use commonware_codec::{DecodeExt as _, Encode as _, EncodeSize as _};
use commonware_cryptography::ed25519::PublicKey;
use commonware_macros::select_loop;
use commonware_p2p::{Blocker, Receiver, Recipients, Sender};
use commonware_parallel::Strategy;
use commonware_runtime::{Clock, Handle, Metrics, Spawner, Storage};
use commonware_utils::channel::mpsc;
use futures::FutureExt as _;
use opengpu_types::{ConsensusKey, List, SignedTransaction, Transaction};
use rand_core::CryptoRng;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Transactions in one message.
pub const MAX_TRANSACTIONS: usize = 256;
/// Bytes of one message.
pub const MAX_BYTES: usize = 256 * 1024;
/// Transactions that wait to be sent; what does not fit is sent with those that wait for long.
pub const OUTBOX: usize = 4_096;
/// Bad signatures after which a peer is cut off.
pub const FORGERIES: u32 = 8;
/// Time in which a batch fills.
const PAUSE: Duration = Duration::from_millis(5);
/// What has waited for this long, and at most twice as long, is sent again.
const REPEAT: Duration = Duration::from_millis(500);
/// Bytes sent again at once.
const REPEATED_BYTES: usize = 8 * MAX_BYTES;
/// Messages that are taken in together.
const TOGETHER: usize = 8;

type Batch = List<SignedTransaction, MAX_TRANSACTIONS>;

/// Bad signatures by peer.
#[derive(Debug, Default)]
struct Strikes(BTreeMap<PublicKey, u32>);

impl Strikes {
    /// Counts forgeries; says whether the peer has had enough of them.
    fn count(&mut self, peer: &PublicKey, forgeries: usize) -> bool {
        if forgeries == 0 {
            return false;
        }
        let count = self.0.entry(peer.clone()).or_default();
        *count = count.saturating_add(u32::try_from(forgeries).unwrap_or(u32::MAX));
        *count >= FORGERIES
    }
}

/// Everything that forwarding needs beside its channel.
pub struct Config<E, T, B>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    /// This node.
    pub me: ConsensusKey,
    /// Who leads next.
    pub turn: Turn,
    /// What waits here.
    pub mempool: Mempool,
    /// The way into the mempool.
    pub intake: Intake<E, T>,
    /// What clients gave to this node.
    pub outbox: mpsc::Receiver<Arc<SignedTransaction>>,
    /// Cuts off peers.
    pub blocker: B,
}

/// Starts to forward, and to take in what others forward.
pub fn start<E, T, B, S, R>(context: E, config: Config<E, T, B>, channel: (S, R)) -> Handle<()>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
    B: Blocker<PublicKey = PublicKey>,
    S: Sender<PublicKey = PublicKey>,
    R: Receiver<PublicKey = PublicKey>,
{
    context.spawn(move |context| {
        let (sender, receiver) = channel;
        let courier = Courier { context, config, sender, strikes: Strikes::default() };
        courier.run(receiver)
    })
}

struct Courier<E, T, B, S>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    context: E,
    config: Config<E, T, B>,
    sender: S,
    strikes: Strikes,
}

impl<E, T, B, S> Courier<E, T, B, S>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
    B: Blocker<PublicKey = PublicKey>,
    S: Sender<PublicKey = PublicKey>,
{
    async fn run(mut self, mut receiver: impl Receiver<PublicKey = PublicKey>) {
        let mut repeat = self.after(REPEAT);
        let mut then = self.config.mempool.newest();
        select_loop! {
            self.context,
            on_stopped => {},
            Some(first) = self.config.outbox.recv() else {
                return;
            } => {
                self.context.sleep(PAUSE).await;
                let mut waiting = vec![first];
                while waiting.len() < OUTBOX
                    && let Ok(next) = self.config.outbox.try_recv()
                {
                    waiting.push(next);
                }
                self.send(waiting);
            },
            () = self.context.sleep_until(repeat) => {
                let waiting = self.config.mempool.select_until(then, OUTBOX, REPEATED_BYTES);
                self.send(waiting.into_iter().map(|candidate| candidate.signed).collect());
                then = self.config.mempool.newest();
                repeat = self.after(REPEAT);
            },
            message = receiver.recv() => {
                let Ok(first) = message else { return };
                let mut messages = vec![first];
                while messages.len() < TOGETHER
                    && let Some(Ok(next)) = receiver.recv().now_or_never()
                {
                    messages.push(next);
                }
                self.take(messages.into_iter().map(|(peer, bytes)| (peer, bytes.into()))).await;
            },
        }
    }

    fn after(&self, pause: Duration) -> std::time::SystemTime {
        let now = self.context.current();
        now.checked_add(pause).unwrap_or(now)
    }

    /// Sends transactions to the coming leaders, in as many messages as it takes.
    fn send(&mut self, transactions: Vec<Arc<SignedTransaction>>) {
        let leaders = self.config.turn.leaders(&self.config.me);
        let leaders: Vec<_> = leaders.iter().filter_map(public_key).collect();
        if leaders.is_empty() {
            return;
        }
        for batch in batches(transactions) {
            let recipients = Recipients::Some(leaders.clone());
            let _ = self.sender.send(recipients, batch.encode(), false);
        }
    }

    /// Takes in what peers forwarded.
    async fn take(&mut self, messages: impl IntoIterator<Item = (PublicKey, Bytes)>) {
        let (mut peers, mut transactions) = (Vec::new(), Vec::new());
        for (peer, bytes) in messages {
            let Some(batch) = decode(bytes) else {
                tracing::warn!(%peer, "a peer sent no batch of transactions");
                let _ = self.config.blocker.block(peer);
                continue;
            };
            peers.push((peer, batch.len()));
            transactions.extend(batch);
        }
        let verdicts = self.config.intake.take_forwarded(&mut self.context, transactions).await;
        for (peer, forgeries) in forgeries(peers, &verdicts) {
            if self.strikes.count(&peer, forgeries) {
                tracing::warn!(%peer, "a peer forwards bad signatures");
                let _ = self.config.blocker.block(peer);
            }
        }
    }
}

/// How many of the bad signatures came from each peer, if `peers` sent that many transactions one
/// after the other.
fn forgeries<T>(
    peers: Vec<(PublicKey, usize)>,
    verdicts: &[Result<T, SubmitError>],
) -> Vec<(PublicKey, usize)> {
    let mut verdicts = verdicts.iter();
    let forged = |verdict: &&Result<_, _>| matches!(verdict, Err(SubmitError::Signature));
    let count = |(peer, sent)| (peer, verdicts.by_ref().take(sent).filter(forged).count());
    peers.into_iter().map(count).collect()
}

fn decode(bytes: Bytes) -> Option<Vec<SignedTransaction>> {
    if bytes.len() > MAX_BYTES.saturating_add(Transaction::MAX_EVIDENCE) {
        return None;
    }
    Some(Batch::decode(bytes).ok()?.into_vec())
}

/// Cuts transactions into messages.
fn batches(transactions: Vec<Arc<SignedTransaction>>) -> Vec<Batch> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0usize);
    for signed in transactions {
        let size = signed.encode_size();
        let full = batch.len() >= MAX_TRANSACTIONS || bytes.saturating_add(size) > MAX_BYTES;
        if full && !batch.is_empty() {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes = bytes.saturating_add(size);
        batch.push(SignedTransaction::clone(&signed));
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches.into_iter().filter_map(|batch| List::new(batch).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
    use opengpu_crypto::Keypair;
    use opengpu_types::{Amount, Authorization, ChainId, Height, Nonce, Operation, Text};

    fn signed(nonce: u64) -> Arc<SignedTransaction> {
        let keypair = Keypair::ed25519([1; 32]);
        let transaction = Transaction {
            sender: keypair.address(),
            nonce: Nonce(nonce),
            valid_until: Height(10),
            max_fee: Amount(1),
            tip: Amount(0),
            sponsor: None,
            operations: List::new(vec![Operation::Burn { amount: Amount(1) }; 16]).unwrap(),
            memo: Text::new("m".repeat(128)).unwrap(),
        };
        let signature = keypair.sign_bytes(&transaction.signing_message(ChainId(7)));
        let signer = Authorization { key: keypair.public_key(), signature };
        Arc::new(SignedTransaction { transaction, signer, sponsor: None })
    }

    #[test]
    fn batches_hold_everything_in_order_within_their_limits() {
        let transactions: Vec<_> = (0..600).map(signed).collect();
        let batches = batches(transactions.clone());
        assert!(batches.len() > 2);
        let mut again = Vec::new();
        for batch in batches {
            assert!(batch.encode_size() <= MAX_BYTES + 8);
            again.extend(decode(batch.encode()).unwrap().into_iter().map(Arc::new));
        }
        assert_eq!(again, transactions);
    }

    #[test]
    fn bytes_that_are_no_batch_are_refused() {
        assert!(decode(Bytes::from_static(&[7, 1, 2, 3])).is_none());
        assert!(decode(Bytes::from(vec![0; 2 * MAX_BYTES])).is_none());
    }

    #[test]
    fn forgeries_are_charged_to_whoever_sent_them() {
        let peers = [1, 2, 1].map(|seed| PrivateKey::from_seed(seed).public_key());
        let sent = peers.clone().into_iter().zip([2, 3, 1]).collect();
        let bad = || Err(SubmitError::Signature);
        let verdicts = [Ok(()), bad(), Ok(()), Err(SubmitError::NotBegun), Ok(()), bad()];
        let charged: Vec<_> = peers.into_iter().zip([1, 0, 1]).collect();
        assert_eq!(forgeries(sent, &verdicts), charged);
    }

    #[test]
    fn a_peer_is_cut_off_after_repeated_forgeries_and_not_before() {
        let (peer, other) =
            (PrivateKey::from_seed(1).public_key(), PrivateKey::from_seed(2).public_key());
        let mut strikes = Strikes::default();
        for _ in 1..FORGERIES {
            assert!(!strikes.count(&peer, 1));
        }
        assert!(!strikes.count(&other, 1));
        assert!(!strikes.count(&peer, 0));
        assert!(strikes.count(&peer, 1));
    }
}
