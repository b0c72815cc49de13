//! Every wire and storage type, and a value of it out of any stream of bytes.
//!
//! Properties feed random streams, conformance feeds fixed ones; both see the same types, because
//! there is one list of them ([`every_type`]). A field or variant that is forgotten here does not
//! compile.

use commonware_codec::{Codec, Copying, DecodeExt as _, Error};
use opengpu_crypto::{BeaconPublicKey, BeaconSignature, Digest, PublicKey, Seed, Signature};
use opengpu_types::{
    Account, Address, Agenda, AgendaPage, Alarm, Allocating, Allocation, Amount, ArtifactId,
    Auction, Audit, AuditDuty, AuditLeaf, AuditParameters, AuditPhase, AuditReply, AuditReveal,
    AuditSeat, Authorization, BeaconRecord, Bid, Block, Boxed, Candidates, ChainId, ChainState,
    Challenger, Checkpoint, Class, ClassIndex, Client, CloseReason, Commitment, ConsensusKey,
    Contact, Delegation, Dispute, DisputeMove, Dissection, Duty, DutyKind, Emission, Ending, Entry,
    Epoch, Event, Evidence, Eyes, Failure, Fault, Finding, Frontier, Genesis, GenesisValidator,
    Header, Height, Jail, Key, KeyHolder, Lease, LeaseId, LeasePhase, Leave, List, MarketOperation,
    MarketParameters, Measure, Member, Metered, Millis, Money, NetworkAddress, Nonce, Offence,
    Offences, Offer, Offered, Operation, Outcome, Paced, Parameters, Past, Permille, Precision,
    Presence, ProgramId, ProgramKind, Provider, ProviderStatus, Purpose, Rate, RateBase, RateUnit,
    Rating, Receipt, Record, Reply, Reputation, Requirements, RewardIndex, RuleVersion, Runtime,
    Said, SealPublicKey, Seat, SeatSet, Segment, SegmentIndex, SessionKey, Set, Shares, Shelf,
    Shelved, SignedTransaction, SlashReason, Spec, SpendingLimit, StateCommitment, Step, Supply,
    Task, TaskId, TaskPhase, Text, Tick, Transaction, TransactionId, Treasury, TreasuryStream,
    Trial, TrialBlock, TrialParameters, TrialPhase, Tried, Trust, Turn, Turns, Unbonding,
    UnbondingId, UnbondingPool, Unit, Upgrade, Uptime, Urgency, Usage, Validator, ValidatorKeys,
    ValidatorStatus, Verdict, Vesting, VestingTerms, View, Vote, VoteKind, Weight, Weights,
    Witness, Work,
};
use std::{
    fmt::Debug,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
};

/// Bytes from which values are made; zeros without end after the last one.
#[derive(Clone, Debug)]
pub(crate) struct Stream<'a>(std::slice::Iter<'a, u8>);

impl<'a> Stream<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    pub(crate) fn take<T: Value>(&mut self) -> T {
        T::value(self)
    }
}

/// A type of which there is a value for every stream.
pub(crate) trait Value: Sized {
    /// How many variants it has; the first byte of the stream chooses one.
    const VARIANTS: usize = 1;

    fn value(stream: &mut Stream<'_>) -> Self;
}

/// One type, as the tests see it.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) variants: usize,
    /// Encodes the value of a stream.
    pub(crate) encode: fn(&mut Stream<'_>) -> Vec<u8>,
    /// Decodes bytes and encodes what they are.
    pub(crate) decode: fn(&[u8]) -> Result<Vec<u8>, Error>,
    /// Asserts that the value of a stream survives its encoding.
    pub(crate) survives: fn(&mut Stream<'_>),
}

fn kind<T: Value + Codec<Cfg = ()> + PartialEq + Debug>(name: &'static str) -> Kind {
    Kind {
        name,
        variants: T::VARIANTS,
        encode: |stream| T::value(stream).encode().to_vec(),
        decode: |bytes| T::decode(Copying(bytes)).map(|value| value.encode().to_vec()),
        survives: |stream| {
            let value = T::value(stream);
            let bytes = value.encode();
            assert_eq!(value.encode_size(), bytes.len(), "{value:?}");
            assert_eq!(T::decode(bytes).unwrap(), value);
        },
    }
}

macro_rules! kinds {
    ($($name:ident),* $(,)?) => {
        /// All of them.
        pub(crate) fn every_type() -> Vec<Kind> {
            vec![$( kind::<$name>(stringify!($name)) ),*]
        }
    };
}

kinds! {
    ChainId, Height, Epoch, View, Nonce, Millis, Weight, RuleVersion, UnbondingId, Shares,
    RewardIndex, Permille, Amount, RateUnit, RateBase, Rate, ConsensusKey, NetworkAddress, Seat,
    SeatSet, Emission, Parameters, VestingTerms, Allocation, TreasuryStream, GenesisValidator,
    Genesis, ValidatorKeys, Purpose, Operation, TransactionId, Transaction, Authorization,
    SignedTransaction, VoteKind, Vote, Evidence, Upgrade, StateCommitment, Header, Block,
    Failure, Outcome, SlashReason, CloseReason, Event, Receipt, Account, SpendingLimit, Vesting,
    Jail, ValidatorStatus, Validator, Delegation, UnbondingPool, Unbonding, KeyHolder, Candidates,
    Turn, Turns, Offence, Offences, DutyKind, Duty, Supply, Treasury, ChainState, BeaconRecord, Record, Key,
    Entry, ArtifactId, ProgramId, SegmentIndex, Metered, Segment, Checkpoint,
    ProgramKind, Precision, Runtime, Measure, Rating, Work, Trust, Requirements, Offer, Weights,
    Money, MarketParameters, SessionKey, Contact, ProviderStatus, Reputation, Presence, Uptime, Offered, Paced, Past, Provider,
    Shelved, Shelf, ClassIndex, Client, Leave, TaskId, LeaseId, Class, Eyes, Allocating, Spec,
    Usage, Ending, Commitment, Witness, Verdict, LeasePhase, Lease, TaskPhase, Task, Bid,
    Auction, Tick, Urgency, Alarm, Agenda, AgendaPage, MarketOperation, AuditParameters, Reply,
    AuditReply, AuditLeaf, AuditReveal, DisputeMove, Frontier, Unit, Said, AuditDuty, AuditSeat,
    Challenger, Fault, Finding, Step, Dissection, Dispute, AuditPhase, Audit,
    TrialParameters, Tried, TrialPhase, Trial, TrialBlock,
}

macro_rules! integers {
    ($($int:ty),*) => { $(
        impl Value for $int {
            fn value(stream: &mut Stream<'_>) -> Self {
                Self::from_be_bytes(stream.take())
            }
        }
    )* };
}
integers!(u8, u16, u32, u64, u128);

impl Value for bool {
    fn value(stream: &mut Stream<'_>) -> Self {
        stream.byte() % 2 == 1
    }
}

impl<const N: usize> Value for [u8; N] {
    fn value(stream: &mut Stream<'_>) -> Self {
        std::array::from_fn(|_| stream.byte())
    }
}

impl<T: Value> Value for Option<T> {
    fn value(stream: &mut Stream<'_>) -> Self {
        (stream.byte() % 2 == 1).then(|| stream.take())
    }
}

impl<T: Value> Value for Boxed<T> {
    fn value(stream: &mut Stream<'_>) -> Self {
        Self::new(stream.take())
    }
}

impl<T: Value, const MAX: usize> Value for List<T, MAX> {
    fn value(stream: &mut Stream<'_>) -> Self {
        let length = stream.byte() % 4;
        Self::new((0..length).map(|_| stream.take()).collect()).unwrap()
    }
}

impl<const MAX: usize> Value for Text<MAX> {
    fn value(stream: &mut Stream<'_>) -> Self {
        const LETTERS: [char; 8] = ['a', 'Z', '0', ' ', '"', 'ü', '中', '🙂'];
        let length = stream.byte() % 8;
        let text = (0..length).map(|_| LETTERS[usize::from(stream.byte() % 8)]);
        Self::new(text.collect::<String>()).unwrap()
    }
}

impl<T: Member> Value for Set<T> {
    fn value(stream: &mut Stream<'_>) -> Self {
        let chosen = stream.take::<u16>();
        let all = T::ALL.iter().copied();
        all.filter(|member| chosen >> member.place() & 1 == 1).fold(Self::NONE, Self::with)
    }
}

impl Value for Permille {
    fn value(stream: &mut Stream<'_>) -> Self {
        Self::new(stream.take::<u16>() % 1001).unwrap()
    }
}

impl Value for NetworkAddress {
    const VARIANTS: usize = 2;

    fn value(stream: &mut Stream<'_>) -> Self {
        if stream.byte().is_multiple_of(2) {
            let ip = Ipv4Addr::from_bits(stream.take());
            return Self(SocketAddr::from((ip, stream.take())));
        }
        let ip = Ipv6Addr::from_bits(stream.take());
        let (port, flow, zone) = (stream.take(), stream.take(), stream.take());
        Self(SocketAddrV6::new(ip, port, flow, zone).into())
    }
}

/// A type with one unnamed field.
macro_rules! newtypes {
    ($($name:ident),* $(,)?) => { $(
        impl Value for $name {
            fn value(stream: &mut Stream<'_>) -> Self {
                Self(stream.take())
            }
        }
    )* };
}
newtypes!(
    ChainId,
    Height,
    Epoch,
    View,
    Nonce,
    Millis,
    Weight,
    RuleVersion,
    UnbondingId,
    Shares,
    RewardIndex,
    Amount,
    ConsensusKey,
    TransactionId,
    ArtifactId,
    ProgramId,
    SegmentIndex,
    SessionKey,
    SealPublicKey,
    TaskId,
    Tick,
    Digest,
    Seed,
    BeaconPublicKey,
    BeaconSignature,
);

impl Value for Address {
    fn value(stream: &mut Stream<'_>) -> Self {
        Self::new(stream.take())
    }
}

macro_rules! structs {
    ($($name:ident { $($field:ident),* $(,)? })*) => { $(
        impl Value for $name {
            fn value(stream: &mut Stream<'_>) -> Self {
                Self { $( $field: stream.take() ),* }
            }
        }
    )* };
}

structs! {
    Metered { fuel, tokens_in, tokens_out, bytes_out }
    Segment { index, state, emitted, metered }
    Checkpoint { index, state, emitted, bytes_out }
    Rate { amount, unit, base }
    Rating { floats, integers, products, memory }
    Work { amount, measure }
    Requirements {
        kind, devices, memory, classes, precisions, runtimes, regions, reliability, trust,
        longest, cap, allowed, denied,
    }
    Offer {
        class, devices, memory, rating, precisions, runtimes, kinds, trusts, region, longest,
        rate, reliability, denied,
    }
    Weights { time, reliability, proximity }
    Seat { consensus, validator, beacon, weight, commission, host }
    SeatSet { epoch, seed, seats }
    Emission { first_year, kept }
    Parameters {
        epoch_blocks, seats, minimum_stake, unbonding, evidence_epochs, block_weight,
        minimum_base_fee, burned_fee, account_reserve, entry_reserve, conflict_slash,
        missed_slash, missed_limit, jail, reporter_share, emission, market,
    }
    VestingTerms { start, cliff, end }
    Allocation { account, amount, vesting }
    TreasuryStream { account, amount, start, end }
    GenesisValidator { operator, keys, host, commission, stake }
    Genesis { chain, name, time, rules, parameters, allocations, treasury, validators }
    ValidatorKeys { consensus, consensus_possession, beacon, beacon_possession }
    Transaction { sender, nonce, valid_until, max_fee, tip, sponsor, operations, memo }
    Authorization { key, signature }
    SignedTransaction { transaction, signer, sponsor }
    Vote { kind, signature }
    Evidence { voter, epoch, view, first, second }
    Upgrade { height, rules }
    StateCommitment { root, log_root, log_start, log_end }
    Header {
        chain, rules, upgrade, height, epoch, view, parent_view, leader, parent, time, beacon,
        state, transactions, receipts, next_seats,
    }
    Block { header, transactions }
    Receipt { height, index, transaction, outcome, fee, weight, events }
    Account { balance, reserve, nonce, entries, key }
    SpendingLimit { name, remaining, purpose, until, nonce, reserve }
    Vesting { total, released, terms }
    Jail { until, reason }
    Validator {
        keys, host, commission, status, stake, shares, index, rewards, commission_due,
        unbonding_epochs, reserve,
    }
    Delegation { shares, index, reserve }
    UnbondingPool { stake, shares }
    Unbonding { delegator, validator, epoch, shares, matures, then_to, reserve }
    KeyHolder { operator, seated, released }
    Candidates { validators }
    Turn { led, missed }
    Turns { turns }
    Offence { validator, reason }
    Offences { offences }
    Duty { opened }
    Supply {
        minted, burned, balances, reserves, vesting, stake, unbonding, rewards, epoch_pool,
        treasury, escrow, locks,
    }
    Treasury { account, total, released, start, end }
    ChainState {
        height, time, genesis_time, emitted_until, base_fee, beacon, next_seats, rules, upgrade,
    }
    BeaconRecord { height, beacon }
    Contact { session, sealing, relay }
    Uptime { available, silent, presence, counted }
    Reputation { kept, broken, refuted, time, clean, halved, uptime }
    Offered { offer, leased, pace, shelf }
    Provider {
        contact, status, stake, locked, offers, leases, audits, exposure, reputation, paces, heard,
        proven, in_trial, reserve, sponsor,
    }
    Paced { class, rating, pace, until }
    Past { reputation, paces, until, reserve, sponsor }
    Shelved {
        provider, offer, free, kinds, class, memory, precisions, runtimes, trusts, region, longest, rate,
        rating, pace,
    }
    Shelf { offers }
    ClassIndex {
        class, rate, offered, leased, offered_time, leased_time, counted, began, used, alarm,
    }
    Client { tasks, reputation, reserve }
    Agenda { tick, seen }
    AgendaPage { alarms }
    Money { amount, unit }
    MarketParameters {
        provider_stake, newcomer, exposure, client_lock, provider_lock, bid_pledge, bidding,
        opening, silence, grace, objection, retention, half_life, index, least_index, most_index,
        index_period, dollar, audits, trials,
    }
    LeaseId { task, number }
    Spec {
        program, input, segments, work, requirements, class, eyes, allocating, weights, region,
        patience,
    }
    Usage { time, fuel }
    Commitment { root, steps, segments, reached, output, usage, ending }
    Witness { predicate, input, output }
    Lease {
        provider, offer, rate, most, lock, paid, predicted, session, began, from, commitment,
        committed, signed, opened, verdict, phase,
    }
    Task {
        client, contact, spec, budget, deposited, paid, refunded, lock, submitted, phase, leases,
        checkpoint, ending, seeking, alarm, reserve,
    }
    Bid { provider, offer, seal, predicted, distance, rate, pledge, sponsor }
    Auction { bids }
    Record { key, entry }
    AuditParameters {
        segments, answering, posting, opening, revealing, clock, showing, lately, fee, fees, pledge,
        again,
    }
    AuditReply { index, reply }
    AuditLeaf { segment, siblings }
    AuditReveal { index, answer, salt, before }
    Frontier { leaves, subtrees, tail }
    Unit { manifest, name, module, input, state, added }
    AuditDuty { index, paid, said }
    AuditSeat { verifier, draw, pledge, duties }
    Step { number, before, claimed }
    Dissection {
        from, to, closing, before, claimed, stated, since, provider, challenger, narrowed,
    }
    Dispute { by, index, dissection }
    TrialParameters { period, work, slack, allowance, opening }
    Tried { offer, devices, integers }
    Trial { tried, seed, phase, until }
    TrialBlock { values, device, within, among }
    Audit {
        rate, seed, draws, again, seats, posted, leaves, lacking, objected, phase, until,
    }
}

macro_rules! enums {
    ($($name:ident { $($variant:ident $({ $($field:ident),* })? $(($inner:ident))?),* $(,)? })*) => { $(
        impl Value for $name {
            const VARIANTS: usize = {
                // A variant that is missing in the list does not compile.
                let _: fn(&$name) = |value| match value { $( $name::$variant { .. } => {} )* };
                [$( stringify!($variant) ),*].len()
            };

            fn value(stream: &mut Stream<'_>) -> Self {
                let make: [fn(&mut Stream<'_>) -> Self; Self::VARIANTS] = [$(
                    |_stream| Self::$variant
                        $({ $( $field: _stream.take() ),* })? $(({ let $inner = _stream.take(); $inner }))?
                ),*];
                let variant = usize::from(stream.byte());
                make[variant.checked_rem(make.len()).unwrap()](stream)
            }
        }
    )* };
}

enums! {
    RateUnit { OGpu, Usd }
    RateBase { Second, Token }
    ProgramKind { Wasm, Gpu, Llm, Native, Onnx, Train }
    Precision { F64, F32, F16, Bf16, Int8 }
    Runtime { Cpu, Wgpu, Cuda, Rocm, Metal }
    Measure { Floats, Integers, Products, Memory }
    Trust { Fast, Checked, Replicated, Confidential }
    Purpose { Anything, Transfers, Stake, Tasks }
    PublicKey { Ed25519(key), Secp256k1(key) }
    Signature { Ed25519(bytes), Eip191(bytes), Eip712(bytes) }
    Operation {
        Transfer { to, amount }, Burn { amount }, CloseAccount { to }, Authorize { name, spender,
        amount, purpose, until }, Revoke { spender }, ReleaseVested, RegisterValidator { keys,
        host, commission, stake }, EditValidator { host, commission }, RotateKeys { keys },
        Unjail, Retire, Delegate { validator, amount }, Undelegate { validator, amount },
        Redelegate { from, to, amount }, ClaimRewards { validator }, ReportEvidence { evidence },
        ConfirmSeat { epoch }, Withdraw { id }, Market(operation), ChangeKey { to },
    }
    VoteKind { Notarize { parent, block }, Nullify, Finalize { parent, block } }
    Failure {
        InsufficientBalance, ZeroAmount, BelowReserve, SameAccount, AccountInUse, UnknownLimit,
        TimePassed, OutsidePurpose, LimitExceeded, NothingVested, UnknownValidator,
        ValidatorExists, KeyInUse, InvalidKeys, BelowMinimumStake, TooManyValidators, NotJailed,
        StillJailed, Retired, InsufficientStake, NothingToClaim, InvalidEvidence, EvidenceExpired,
        AlreadyPunished, NoSuchDuty, Overflow, UnknownUnbonding, StillUnbonding, UnknownProvider,
        ProviderExists, NotActive, StillLeased, OfferInUse, BadOffer, UnknownTask, BadSpec,
        TooManyTasks, BudgetTooSmall, WrongPhase, NotParty, UnknownLease, UnknownOffer,
        UnfitOffer, AlreadyBid, TooManyBids, UnknownBid, WrongSeal, BadCommitment, BadSignature,
        BadWitness, Rejected, TooSoon, BadKey, KeyChanged, BadLeaf, NotAsked, BadMove, BadUnit,
        BadTrial,
    }
    Outcome { Applied, Failed { operation, failure } }
    SlashReason { ConflictingVotes, MissedTurns }
    CloseReason {
        Requested, Expired, Completed, Emptied, Replaced, Outbid, Unopened, NoProvider, Silent,
        Late, Released, Refused, Broken, Failed, Refuted, Inconclusive, Cancelled, Exhausted,
        Spent, Unfit, Unbriefed,
    }
    Event {
        Transferred { from, to, amount }, Burned { from, amount }, AccountOpened { account,
        reserve }, AccountClosed { account, reason }, LimitOpened { account, spender, amount,
        purpose }, LimitClosed { account, spender, reason }, Vested { account, amount },
        VestingClosed { account, reason }, ValidatorOpened { validator, consensus },
        ValidatorEdited { validator, commission }, KeysRotated { validator, consensus },
        ValidatorClosed { validator, reason }, Jailed { validator, until, reason }, Unjailed {
        validator }, ValidatorRetired { validator }, Delegated { delegator, validator, amount },
        UnbondingOpened { id, delegator, validator, amount, matures }, UnbondingClosed { id,
        delegator, amount, reason }, DelegationClosed { delegator, validator, reason },
        RewardsClaimed { account, validator, amount }, Slashed { validator, reason, amount,
        burned, reporter }, DutyOpened { account, duty }, DutyClosed { account, duty, reason },
        EpochClosed { epoch, minted, fees, shared, seats }, ProviderOpened { provider, offers,
        stake }, ProviderEdited { provider, offers }, ProviderStaked { provider, amount },
        ProviderDrained { provider, draining }, ProviderClosed { provider, stake, reason },
        ProviderSlashed { provider, lease, amount, burned, client, finder }, TaskOpened { task, client,
        escrow, lock }, TaskToppedUp { task, amount }, TaskEdited { task }, BiddingOpened { task
        }, BidsClosed { task, reason, bidders }, LeaseOpened { lease, provider, rate, most },
        Checkpointed { lease, segment, root }, Committed { lease, root, output }, LeaseClosed {
        lease, provider, reason, verdict, root, output, time, paid }, TaskClosed { task, client,
        reason, paid, refunded }, TaskCollected { task }, ClientClosed { client, reason },
        BidsLimited { task, until, opened_until }, KeyChanged { account, key }, ProviderSilent {
        provider }, PastClosed { provider, reason }, AuditDrawn { lease, draw, verifiers },
        AuditClosed { lease, audit, fees, forfeited }, StatePosted { lease, segment },
        TrialOpened { provider, devices, until }, TrialClosed { provider, reason },
    }
    ProviderStatus { Active, Draining, Leaving { until }, Silent { draining }, Unproven { draining } }
    Presence { Absent, Available, Silent }
    Leave { OwnerReturned, Refused, Broken, Unbriefed }
    Urgency { Deadline, Collection }
    Alarm { Task(task), Provider(provider), Class(class), Past(provider), Trial(provider) }
    MarketOperation {
        RegisterProvider { contact, offers, stake }, EditProvider { contact, offers },
        StakeProvider { amount }, DrainProvider { draining }, LeaveProvider, Heartbeat, SubmitTask
        { spec, budget, escrow, contact }, TopUp { task, amount }, ExtendTask { task, longest },
        EditTask { task, contact }, CancelTask { task }, SealBid { task, offer, seal }, OpenBid {
        task, rate, salt }, CommitTrace { lease, commitment, witness }, OpenOutput { lease,
        output, salt }, ReleaseLease { lease, leave }, ClaimUsage { lease, time, signature },
        AnswerAudit { lease, replies }, PostState { lease, tree, before, state }, OpenLeaves { lease,
        tree, leaves }, RevealAnswers { lease, tree, reveals }, DisputeSegment { lease, tree, before,
        claimed }, MoveDispute { lease, said }, ShowUnit { lease, unit }, RequestTrial, CommitTrial {
        root }, OpenTrial { rounds, blocks },
    }
    Class {
        Nothing, Exact, Tolerance, Likelihood, Perceptual, Replicate(copies), Predicate(program),
        Attested,
    }
    Eyes { Anyone, Allowed, Attested, Client, Nobody }
    Allocating { Auction, Spot }
    Ending { Open, Completed, Failed }
    Verdict { Upheld, Refuted, Inconclusive }
    LeasePhase {
        Running, Stopping { until, reason }, Opening { until }, Committed { until, reason },
        Closed { reason }, Audited { reason },
    }
    Reply { Unserved, Sealed(seal) }
    DisputeMove { State(points), Dispute(interval) }
    Said { Nothing, Unserved, Sealed(seal), Agreed, Objected(before), Dismissed }
    Challenger { Verifier(verifier), Client }
    Fault { Wrong { finder, index }, Unposted, Unopened }
    Finding { Upheld, Refuted(fault), Inconclusive }
    AuditPhase {
        Waiting { height }, Answering, Posting, Opening, Revealing, Disputing(dispute), Drawing {
        height }, Objecting, Decided(finding), Again { height },
    }
    TrialPhase { Requested, Running, Committed { root, height }, Opening { root, draw } }
    TaskPhase { Bidding { until }, Opening { until }, Running, Closed { reason, at } }
    ValidatorStatus { Active, Jailed(jail), Retired }
    DutyKind { ConfirmSeat { epoch } }
    Key {
        Chain, Supply, Parameters, Treasury, Candidates, Turns, NextUnbonding, Account(address),
        SpendingLimit { account, spender }, Vesting(address), Validator(address),
        ConsensusKey(key), Delegation { delegator, validator }, UnbondingPool { validator, epoch
        }, Unbonding(id), Seats(epoch), Offences(epoch), Duty { account, duty }, Beacon(slot),
        Provider(address), Shelves, Shelf(number), ClassIndex(class), Client(address), Task(task),
        Auction(task), Agenda(urgency), Tick { urgency, tick },
        AgendaPage { urgency, tick, page }, Past(address), Audit(lease), Trial(provider),
    }
    Entry {
        Chain(value), Supply(value), Parameters(value), Treasury(value), Candidates(value),
        Turns(value), NextUnbonding(value), Account(value), SpendingLimit(value), Vesting(value),
        Validator(value), KeyHolder(value), Delegation(value), UnbondingPool(value),
        Unbonding(value), Seats(value), Offences(value), Duty(value), Beacon(value),
        Provider(value), Shelves(value), Shelf(value), ClassIndex(value), Client(value),
        Task(value), Auction(value), Agenda(value), Tick(value), AgendaPage(value), Past(value), Audit(value), Trial(value),
    }
}
