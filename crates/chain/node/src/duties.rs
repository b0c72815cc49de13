//! What a validator's account does by itself: it confirms its seat and reports conflicting votes.
//!
//! A node that was given its operator's key looks at the final state once in a while and signs what
//! is due. Nothing is remembered that the state does not show, except evidence found since the
//! start, so every wish is repeated until the state says that it came true:
//!
//! ```text
//!  duty ConfirmSeat open ──► transaction without a fee ──► gone from the state (or lapsed)
//!  conflicting votes     ──► transaction with a fee    ──► offence recorded, or too old
//! ```
//!
//! - One transaction at a time: the next one is made when the nonce has moved on, or when the last
//!   one can no longer be executed. A person who uses the same account only delays it.
//! - Every honest node finds the same evidence. A seat holds back for as many looks as its place in
//!   the seat set, so that usually one of them pays for the report and not all.
//!
//! Not here: what a duty is and what evidence is worth (the ledger decides).

use crate::{
    engine::StateMailbox,
    mempool::Intake,
    store::{self, Databases, StoreError},
};
use commonware_macros::select_loop;
use commonware_parallel::Strategy;
use commonware_runtime::{Clock, Handle, Metrics, Spawner, Storage};
use commonware_utils::channel::mpsc;
use opengpu_client::Signatory;
use opengpu_ledger::{epoch_of, fee_of, weight_of};
use opengpu_types::{
    Address, Amount, Authorization, Boxed, ChainId, ChainState, ConsensusKey, DutyKind, Entry,
    Epoch, Evidence, Height, Key, List, Nonce, Offence, Operation, Parameters, SignedTransaction,
    SlashReason, Text, Transaction,
};
use rand_core::CryptoRng;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Time between two looks at the state.
const PACE: Duration = Duration::from_secs(1);
/// Blocks for which a report of ours can be executed.
const VALID_FOR: u64 = 32;
/// Conflicts remembered; more seats than this cannot be punished in one go anyway.
const MAX_PENDING: usize = 256;
/// We pay up to this many times what a report costs now: the base fee may rise meanwhile.
const FEE_MARGIN: u128 = 4;

/// What an account must know of itself to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    /// Of the last final block.
    height: Height,
    /// Of the account.
    nonce: Nonce,
    /// Epoch of a seat that waits to be confirmed.
    unconfirmed: Option<Epoch>,
    /// Last height at which it can be.
    confirmed_until: Height,
    /// Looks to hold back before a conflict is reported.
    patience: u64,
}

/// A conflict is punished once per voter and epoch.
type Conflict = (Epoch, ConsensusKey);

#[derive(Debug)]
struct Pending {
    evidence: Evidence,
    /// Looks since it was found.
    age: u64,
}

/// A transaction to be made.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    operation: Operation,
    valid_until: Height,
}

/// What is to be done, as a pure state machine.
#[derive(Debug, Default)]
struct Agenda {
    pending: BTreeMap<Conflict, Pending>,
    /// Nonce and last height of the transaction that is under way.
    sent: Option<(Nonce, Height)>,
}

impl Agenda {
    fn found(&mut self, evidence: Evidence) {
        if self.pending.len() < MAX_PENDING {
            let offence = (evidence.epoch, evidence.voter);
            self.pending.entry(offence).or_insert(Pending { evidence, age: 0 });
        }
    }

    /// The offence is on record, or too old to be.
    fn settled(&mut self, offence: &Conflict) {
        self.pending.remove(offence);
    }

    /// What should be sent now.
    fn look(&mut self, facts: &Facts) -> Option<Wish> {
        for pending in self.pending.values_mut() {
            pending.age = pending.age.saturating_add(1);
        }
        if self.sent.is_some_and(|(nonce, until)| facts.nonce <= nonce && facts.height < until) {
            return None;
        }
        self.sent = None;
        if let Some(epoch) = facts.unconfirmed {
            let operation = Operation::ConfirmSeat { epoch };
            return Some(Wish { operation, valid_until: facts.confirmed_until });
        }
        let due = self.pending.values().find(|pending| pending.age > facts.patience)?;
        let operation = Operation::ReportEvidence { evidence: Boxed::new(due.evidence) };
        let valid_until = Height(facts.height.0.saturating_add(VALID_FOR));
        Some(Wish { operation, valid_until })
    }

    const fn sent(&mut self, nonce: Nonce, valid_until: Height) {
        self.sent = Some((nonce, valid_until));
    }
}

/// Everything that the account needs to act.
pub struct Config<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    /// The network.
    pub chain: ChainId,
    /// The account and its key.
    pub operator: Arc<Signatory>,
    /// The node's key: its seat.
    pub consensus: ConsensusKey,
    /// The final state.
    pub state: StateMailbox<E, T>,
    /// The way into the mempool.
    pub intake: Intake<E, T>,
    /// Conflicting votes that the engine saw.
    pub found: mpsc::Receiver<Evidence>,
}

/// Starts looking after the duties of an account.
pub fn start<E, T>(context: E, config: Config<E, T>) -> Handle<()>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    context.spawn(move |context| Clerk { context, config, agenda: Agenda::default() }.run())
}

struct Clerk<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    context: E,
    config: Config<E, T>,
    agenda: Agenda,
}

impl<E, T> Clerk<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    async fn run(mut self) {
        let mut next = self.context.current();
        select_loop! {
            self.context,
            on_stopped => {},
            Some(evidence) = self.config.found.recv() else {
                return;
            } => self.agenda.found(evidence),
            () = self.context.sleep_until(next) => {
                if let Err(error) = self.look().await {
                    tracing::warn!(error = &error as &dyn std::error::Error, "duties not seen");
                }
                next = self.context.current().checked_add(PACE).unwrap_or(next);
            },
        }
    }

    /// Looks at the state and sends what is due.
    async fn look(&mut self) -> Result<(), StoreError> {
        let databases = self.config.state.subscribe_databases().await;
        let Some(view) = View::read(&databases, &self.config).await? else { return Ok(()) };
        let offences: Vec<_> = self.agenda.pending.keys().copied().collect();
        for offence in offences {
            if is_settled(&databases, &offence).await? {
                self.agenda.settled(&offence);
            }
        }
        let Some(wish) = self.agenda.look(&view.facts) else { return Ok(()) };
        let (name, nonce, valid_until) =
            (wish.operation.name(), view.facts.nonce, wish.valid_until);
        let signed = self.sign(&view, wish);
        let verdicts = self.config.intake.submit(&mut self.context, vec![signed]).await;
        for verdict in verdicts {
            match verdict {
                Ok(id) => {
                    tracing::info!(%id, name, "duty under way");
                    self.agenda.sent(nonce, valid_until);
                }
                Err(error) => tracing::debug!(%error, name, "duty refused, to be repeated"),
            }
        }
        Ok(())
    }

    fn sign(&self, view: &View, wish: Wish) -> SignedTransaction {
        let Wish { operation, valid_until } = wish;
        let free = matches!(operation, Operation::ConfirmSeat { .. });
        let mut transaction = Transaction {
            sender: self.config.operator.account,
            nonce: view.facts.nonce,
            valid_until,
            max_fee: Amount::ZERO,
            tip: Amount::ZERO,
            sponsor: None,
            operations: List::new(vec![operation]).expect("one operation fits"),
            memo: Text::new("").expect("an empty memo fits"),
        };
        let signed = self.authorize(transaction.clone());
        if free {
            return signed;
        }
        let fee = fee_of(&transaction, weight_of(&signed), view.base_fee);
        let most = fee.and_then(|fee| fee.mul_div(FEE_MARGIN, 1)).unwrap_or(Amount::CAP);
        transaction.max_fee = most.min(view.balance);
        self.authorize(transaction)
    }

    fn authorize(&self, transaction: Transaction) -> SignedTransaction {
        let operator = &self.config.operator.keypair;
        let signature = operator.sign_bytes(&transaction.signing_message(self.config.chain));
        let signer = Authorization { key: operator.public_key(), signature };
        SignedTransaction { transaction, signer, sponsor: None }
    }
}

/// The part of the final state that concerns the account.
struct View {
    facts: Facts,
    balance: Amount,
    base_fee: Amount,
}

impl View {
    /// `None` while there is no chain, or no such account.
    async fn read<E, T>(
        databases: &Databases<E, T>,
        config: &Config<E, T>,
    ) -> Result<Option<Self>, StoreError>
    where
        E: Clock + CryptoRng + Spawner + Storage + Metrics,
        T: Strategy,
    {
        let account = config.operator.account;
        let keys = [Key::Chain, Key::Parameters, Key::Account(account)];
        let entries = read(databases, &keys).await?;
        let [
            Some(Entry::Chain(chain)),
            Some(Entry::Parameters(parameters)),
            Some(Entry::Account(account_entry)),
        ] = entries.as_slice()
        else {
            return Ok(None);
        };
        let (epoch, duty) = coming(chain, parameters, account);
        let entries = read(databases, &[Key::Seats(epoch), duty]).await?;
        let [seats, open] = entries.as_slice() else { return Ok(None) };
        let patience = match seats {
            Some(Entry::Seats(seats)) => {
                let place = seats.seats.iter().position(|seat| seat.consensus == config.consensus);
                place.unwrap_or(seats.seats.len())
            }
            _ => 0,
        };
        let facts = Facts {
            height: chain.height,
            nonce: account_entry.nonce,
            unconfirmed: open.as_ref().map(|_| epoch.plus(1)),
            confirmed_until: last_of(epoch, parameters),
            patience: u64::try_from(patience).unwrap_or(u64::MAX),
        };
        Ok(Some(Self { facts, balance: account_entry.balance, base_fee: chain.base_fee }))
    }
}

/// The last height of an epoch.
const fn last_of(epoch: Epoch, parameters: &Parameters) -> Height {
    Height(epoch.plus(1).0.saturating_mul(parameters.epoch_blocks).saturating_sub(1))
}

/// The epoch of the next block, and the duty that may be open in it.
fn coming(chain: &ChainState, parameters: &Parameters, account: Address) -> (Epoch, Key) {
    let epoch = epoch_of(chain.height.next(), parameters);
    let duty = DutyKind::ConfirmSeat { epoch: epoch.plus(1) };
    (epoch, Key::Duty { account, duty })
}

/// Whether there is nothing left to report about an offence.
async fn is_settled<E, T>(
    databases: &Databases<E, T>,
    (epoch, voter): &Conflict,
) -> Result<bool, StoreError>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    let entries = read(databases, &[Key::Seats(*epoch), Key::Offences(*epoch)]).await?;
    let [Some(Entry::Seats(seats)), offences] = entries.as_slice() else {
        return Ok(true);
    };
    let Some(seat) = seats.seat(voter) else { return Ok(true) };
    Ok(match offences {
        Some(Entry::Offences(list)) => {
            let (validator, reason) = (seat.validator, SlashReason::ConflictingVotes);
            list.offences.binary_search(&Offence { validator, reason }).is_ok()
        }
        _ => false,
    })
}

async fn read<E, T>(
    databases: &Databases<E, T>,
    keys: &[Key],
) -> Result<Vec<Option<Entry>>, StoreError>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    store::get_many(&*databases.read().await, keys).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{View, Vote, VoteKind};

    fn facts(nonce: u64, height: u64) -> Facts {
        Facts {
            height: Height(height),
            nonce: Nonce(nonce),
            unconfirmed: None,
            confirmed_until: Height(12),
            patience: 0,
        }
    }

    fn conflict(voter: u8, view: u64) -> Evidence {
        let vote = Vote { kind: VoteKind::Nullify, signature: [0; 64] };
        Evidence {
            voter: ConsensusKey([voter; 32]),
            epoch: Epoch(1),
            view: View(view),
            first: vote,
            second: vote,
        }
    }

    #[test]
    fn a_seat_is_confirmed_again_until_the_state_shows_it() {
        let mut agenda = Agenda::default();
        let open = Facts { unconfirmed: Some(Epoch(4)), ..facts(7, 10) };
        let operation = Operation::ConfirmSeat { epoch: Epoch(4) };
        let confirm = || Some(Wish { operation: operation.clone(), valid_until: Height(12) });
        assert_eq!(agenda.look(&open), confirm());
        agenda.sent(Nonce(7), Height(12));
        assert_eq!(agenda.look(&open), None, "it is under way");
        let lapsed = Facts { height: Height(12), ..open };
        assert_eq!(agenda.look(&lapsed), confirm(), "it was never executed");
        agenda.sent(Nonce(7), Height(20));
        let overtaken = Facts { nonce: Nonce(8), ..open };
        assert_eq!(agenda.look(&overtaken), confirm(), "another transaction took the nonce");
        assert_eq!(agenda.look(&facts(8, 13)), None, "the state shows it");
    }

    #[test]
    fn a_conflict_is_reported_once_per_voter_and_epoch_until_it_is_on_record() {
        let mut agenda = Agenda::default();
        agenda.found(conflict(1, 5));
        agenda.found(conflict(1, 6));
        let report = Operation::ReportEvidence { evidence: Boxed::new(conflict(1, 5)) };
        assert_eq!(agenda.look(&facts(0, 1)).map(|wish| wish.operation), Some(report));
        agenda.settled(&(Epoch(1), ConsensusKey([1; 32])));
        assert_eq!(agenda.look(&facts(0, 2)), None);
    }

    #[test]
    fn later_seats_leave_the_report_to_earlier_ones_for_a_while() {
        let mut agenda = Agenda::default();
        agenda.found(conflict(1, 5));
        let third = Facts { patience: 2, ..facts(0, 1) };
        assert_eq!(agenda.look(&third), None);
        assert_eq!(agenda.look(&third), None);
        assert!(agenda.look(&third).is_some());
    }
}
