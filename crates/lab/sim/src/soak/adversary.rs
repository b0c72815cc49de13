//! The other half of the author: transactions that should be refused, one way for every reason.

use super::{View, author::Author, draft::Draft, world};
use opengpu_ledger::{BlockContext, epoch_of, tables::Params};
use opengpu_types::{
    Address, Amount, BeaconSignature, Boxed, ConsensusKey, Digest, Epoch, Evidence, Frontier,
    Height, LeaseId, List, MarketOperation, Millis, Nonce, Operation, Permille, PublicKey, Purpose,
    TaskId, Text, UnbondingId, Unit, ValidatorKeys, View as Turn, Vote, VoteKind,
};

/// Amounts at the edges of their range.
const EDGES: [Amount; 5] =
    [Amount::ZERO, Amount(1), Amount::CAP, Amount(u128::MAX), Amount(u128::MAX - 1)];

/// A unit with nothing in it.
fn nothing() -> Unit {
    Unit {
        manifest: List::empty(),
        name: Text::default(),
        module: List::empty(),
        input: List::empty(),
        state: List::empty(),
        added: Frontier::default(),
    }
}

impl Author {
    pub(crate) fn hostile(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        match self.dice.below(400) {
            0..80 => self.edges(state, context),
            80..160 => self.order(state, context),
            160..220 => self.payment(state, context),
            220..270 => self.rights(state, context),
            270..300 => self.shape(state, context),
            300..340 => self.stakes(state, context),
            340..370 => self.registration(state, context),
            370..375 => self.false_evidence(state, context),
            _ => self.lifecycle(state, context),
        }
    }

    fn edge(&mut self) -> Amount {
        *self.dice.pick(&EDGES).expect("there are edges")
    }

    /// Amounts 0, 1 and the largest, in every operation that takes one.
    fn edges(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let (party, _) = self.payer(state);
        let (amount, validator) = (self.edge(), self.validator());
        let (to, spender) = (self.anyone().address, self.anyone().address);
        let operation = match self.dice.below(8) {
            0 => Operation::Burn { amount },
            1 => Operation::Delegate { validator, amount },
            2 => Operation::Undelegate { validator, amount },
            3 => Operation::Redelegate { from: validator, to, amount },
            4 => {
                let (name, purpose) = (Text::default(), Purpose::Anything);
                let until = context.time.plus(Millis(5_000));
                Operation::Authorize { name, spender, amount, purpose, until }
            }
            5 => Operation::Transfer { to: party.address, amount },
            _ => Operation::Transfer { to, amount },
        };
        Draft::of(party, context, operation)
    }

    /// Nonces and heights that are not the next.
    fn order(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let mut draft = self.harmless(state, context);
        let expected = draft.expected(state).0;
        match self.dice.below(3) {
            0 => draft.nonce = Some(Nonce(expected.saturating_sub(1))),
            1 => draft.nonce = Some(Nonce(expected.saturating_add(1))),
            _ => draft.valid_until = Height(context.height.0.saturating_sub(1)),
        }
        draft
    }

    fn harmless(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let (party, _) = self.payer(state);
        Draft::of(party, context, Operation::Burn { amount: Amount(1) })
    }

    /// Fees that are too small, too large, or not there at all.
    fn payment(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let mut draft = self.harmless(state, context);
        match self.dice.below(5) {
            0 => draft.max_fee = Amount(1),
            1 => draft.max_fee = Amount::ZERO,
            2 => {
                (draft.tip, draft.max_fee) =
                    (Amount::CAP, Amount::CAP.plus(Amount::ONE).unwrap_or(Amount::CAP))
            }
            3 => (draft.tip, draft.max_fee) = (Amount(u128::MAX), Amount(u128::MAX)),
            _ => {
                let epoch = Epoch(self.dice.below(1_000));
                draft.operations = vec![Operation::ConfirmSeat { epoch }];
                draft.max_fee = if self.dice.one_in(2) { Amount::ZERO } else { Amount::ONE };
            }
        }
        draft
    }

    /// Keys that have no right to act.
    fn rights(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let mut draft = self.harmless(state, context);
        match self.dice.below(5) {
            0 => draft = draft.by(self.anyone()),
            1 => draft.signer = PublicKey::Ed25519([0; 32]),
            2 => draft.signer = PublicKey::Secp256k1([0; 33]),
            3 => {
                // The sponsor's own name under a transaction that it pays for itself.
                draft.sponsor = self.cast.party(&draft.sender);
            }
            _ => {
                let stranger = self.stranger(state);
                draft = Draft::of(stranger, context, Operation::Burn { amount: Amount(1) });
            }
        }
        draft
    }

    /// Somebody without an account, if a few guesses find one.
    fn stranger(&mut self, state: &View<'_>) -> super::cast::Party {
        for _ in 0..16 {
            let party = self.anyone();
            if Self::account(state, party).is_none() {
                return party;
            }
        }
        self.anyone()
    }

    /// Transactions that are empty, too large or too heavy.
    fn shape(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let mut draft = self.harmless(state, context);
        draft.operations = match self.dice.below(3) {
            0 => Vec::new(),
            1 => vec![Operation::ReportEvidence { evidence: self.noise() }; 16],
            _ => {
                // Small, and more than one block has the referee execute.
                let lease = LeaseId { task: TaskId(Digest([3; 32])), number: 0 };
                let show = MarketOperation::ShowUnit { lease, unit: nothing().into() };
                vec![Operation::Market(show); 5]
            }
        };
        draft
    }

    fn noise(&mut self) -> Boxed<Evidence> {
        let kind = VoteKind::Notarize { parent: Turn(1), block: Digest(self.dice.bytes()) };
        let vote = Vote { kind, signature: self.dice.bytes() };
        let voter = ConsensusKey(self.dice.bytes());
        Evidence { voter, epoch: Epoch(0), view: Turn(2), first: vote, second: vote }.into()
    }

    /// Stake of nobody, too much of it, and dust on a pool whose shares are not worth one each.
    fn stakes(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let (party, _) = self.payer(state);
        let (validator, nobody) = (self.validator(), self.anyone().address);
        let amount = Amount(self.dice.below_wide(900).saturating_add(1));
        let operation = match self.dice.below(9) {
            0 => Operation::Delegate { validator, amount },
            1 => Operation::Delegate { validator: nobody, amount },
            2 => Operation::Undelegate { validator, amount: Amount::CAP },
            3 => Operation::ClaimRewards { validator: nobody },
            4 => Operation::Redelegate { from: validator, to: validator, amount },
            5 => Operation::Redelegate { from: validator, to: nobody, amount },
            6 => Operation::Withdraw { id: UnbondingId(self.dice.below(u64::MAX)) },
            7 => return self.withdraw_early(context),
            _ => Operation::Unjail,
        };
        Draft::of(party, context, operation)
    }

    /// Registrations that must not pass.
    fn registration(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let mut keys = self.dice.pick(&self.cast.proven).expect("there are keys").clone();
        let (host, commission) = (world::host(1), Permille::ALL);
        let (party, _) = self.payer(state);
        let register = |keys: ValidatorKeys, stake: Amount| Operation::RegisterValidator {
            keys,
            host,
            commission,
            stake,
        };
        match self.dice.below(40) {
            // Checking a possession that is sound costs a pairing, so this is rare.
            0 if self.dice.one_in(8) => self.rotate_to_taken(state, context),
            1..10 => Draft::of(party, context, register(keys, Amount(1))),
            10..20 => Draft::of(self.operator(), context, register(keys, Amount::CAP)),
            20 if self.dice.one_in(8) => {
                keys.beacon_possession = BeaconSignature(self.dice.bytes());
                Draft::of(party, context, register(keys, Amount::whole(100)))
            }
            _ => {
                keys.consensus = ConsensusKey([0; 32]);
                Draft::of(self.operator(), context, Operation::RotateKeys { keys })
            }
        }
    }

    /// Evidence that proves nothing, is too old, or was punished.
    fn false_evidence(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let parameters = state.must::<Params>(()).expect("blocks begin with parameters");
        let now = epoch_of(context.height, &parameters);
        let mut evidence = *self.noise();
        match self.dice.below(8) {
            0 => {
                if let Some(punished) = self.punished {
                    evidence = punished;
                }
            }
            1 => {
                // Really signed, and no conflict: notarizing and then nullifying is honest.
                let voter = self.voter(state, now);
                let honest = [evidence.first.kind, VoteKind::Nullify];
                let votes = voter.and_then(|it| self.cast.votes(it, (now, Turn(3)), honest));
                evidence = votes.unwrap_or(evidence);
            }
            2 => evidence.epoch = now.plus(self.dice.below(100)),
            3 => {
                evidence.voter = self.voter(state, now).unwrap_or(evidence.voter);
                evidence.epoch = now;
            }
            _ => evidence.epoch = Epoch(now.0.saturating_sub(self.dice.below(9))),
        }
        let (party, _) = self.payer(state);
        Draft::of(party, context, Operation::ReportEvidence { evidence: evidence.into() })
    }

    /// Ends and beginnings at the wrong moment, and batches that fail at their end.
    fn lifecycle(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let (party, _) = self.payer(state);
        let (to, spender) = (self.anyone().address, self.anyone().address);
        let operations = match self.dice.below(7) {
            0 => vec![Operation::CloseAccount { to }, Operation::Burn { amount: Amount(1) }],
            1 => vec![Operation::Revoke { spender }],
            2 => vec![Operation::ReleaseVested],
            3 => {
                let (name, purpose) = (Text::default(), Purpose::Stake);
                let (amount, until) = (Amount::ONE, context.time);
                vec![Operation::Authorize { name, spender, amount, purpose, until }]
            }
            5 => {
                // Another account's agreement.
                let to = self.cast.agreement(&to, party);
                vec![Operation::ChangeKey { to }]
            }
            4 => {
                let to = Address::new(self.dice.bytes());
                vec![Operation::Transfer { to, amount: Amount(1) }]
            }
            _ => {
                let mut burns = vec![Operation::Burn { amount: Amount(1) }; 7];
                burns.push(Operation::Burn { amount: Amount::CAP });
                burns
            }
        };
        Draft::batch(party, context, operations)
    }
}
