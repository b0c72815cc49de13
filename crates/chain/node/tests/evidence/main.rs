//! Evidence of audits, from the real ledger to a file that anybody checks: blocks with real certificates,
//! collected as from a node, refused as soon as anything in it is not as it was.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

mod again;
mod chain;
#[expect(dead_code, reason = "the ledger's own tests use all of it")]
mod market;
#[path = "../../../ledger/tests/ledger/support.rs"]
#[expect(dead_code, reason = "the ledger's own tests use all of it")]
mod support;

use chain::{Chain, dissected, silent, upheld};
use commonware_codec::Encode as _;
use market::audited::{Court, Kind, Lie};
use opengpu_client::evidence::{CollectError, audited};
use opengpu_crypto::Signature;
use opengpu_light::{Evidence, EvidenceError, Link, Moment, Report, What};
use opengpu_types::{
    Amount, AuditParameters, AuditPhase, AuditReply, Challenger, DisputeMove, Event, Failure,
    Fault, Finding, Height, List, MarketOperation, Millis, Operation, Outcome, Reply, SegmentIndex,
    SignedTransaction, Verdict,
};

use support::Recorded;

const fn never(_: &AuditPhase) -> bool {
    false
}

fn whats(report: &Report) -> Vec<&What> {
    report.course.iter().map(|it| &it.what).collect()
}

#[test]
fn an_audit_that_was_upheld_is_upheld_again_from_its_file() {
    let chain = upheld();
    let evidence = chain.collect().unwrap();
    let read = Evidence::from_bytes(&evidence.to_bytes()).unwrap();
    assert_eq!(read, evidence);
    let report = chain.verify(&read).unwrap();
    assert_eq!(report.finding, Finding::Upheld);
    let (certificate, fees, forfeited) = chain.court.closed();
    assert_eq!(report.closing.certificate, certificate);
    assert_eq!((report.closing.fees, report.closing.forfeited), (fees, forfeited));
    assert!(report.fees.values().fold(Amount::ZERO, |sum, it| sum.plus(*it).unwrap()) == fees);
    assert_eq!(report.closing.slash, None);
    assert!(matches!(whats(&report)[0], What::Drawn { draw: 1, .. }));
    assert!(matches!(whats(&report).last(), Some(What::Passed { .. })));
}

#[test]
fn a_dispute_down_to_one_unit_is_executed_again_and_says_the_same() {
    for lie in [Lie::Steps, Lie::Outputs, Lie::Beginning, Lie::Shorter] {
        let chain = Chain::played(lie, Kind::Honest);
        let report = chain.verify(&chain.collect().unwrap()).unwrap();
        let Finding::Refuted(Fault::Wrong { finder: Challenger::Verifier(_), index }) =
            report.finding
        else {
            panic!("{lie:?}: {:?}", report.finding)
        };
        let begins = matches!(lie, Lie::Beginning | Lie::Shorter);
        assert_eq!(index == SegmentIndex(0), begins, "{lie:?}");
        let Some(What::Shown { number, holds: false }) = whats(&report).last() else { panic!() };
        assert_eq!(number.is_none(), begins);
        assert!(report.closing.slash.is_some());
    }
}

#[test]
fn silence_and_second_draws_are_told_as_they_were() {
    let chain = silent();
    let report = chain.verify(&chain.collect().unwrap()).unwrap();
    assert_eq!(report.finding, Finding::Refuted(Fault::Unopened));
    // All verifiers are silent, in both draws.
    let chain = Chain::played(Lie::Steps, Kind::Silent);
    let report = chain.verify(&chain.collect().unwrap()).unwrap();
    assert_eq!(report.finding, Finding::Inconclusive);
    let draws = |it: &&&What| matches!(it, What::Drawn { .. });
    assert_eq!(whats(&report).iter().filter(draws).count(), 2);
    // One lies, loses its objection, and others are drawn.
    let mut court = Court::new(Lie::None, Kind::Honest);
    let liar = court.number(court.running()[0].verifier);
    court.kinds[usize::from(liar)] = Kind::Liar;
    court.play(never);
    let chain = Chain::of(court);
    let report = chain.verify(&chain.collect().unwrap()).unwrap();
    assert_eq!(report.finding, Finding::Upheld);
    assert!(whats(&report).iter().any(|it| matches!(it, What::Shown { holds: true, .. })));
    assert!(!report.closing.forfeited.is_zero());
}

#[test]
fn what_nobody_was_drawn_for_is_told_too_and_a_client_that_lies_loses() {
    for lie in [Lie::Steps, Lie::None] {
        let mut court = Court::undrawn(lie);
        court.until(|phase| *phase == AuditPhase::Objecting);
        let dispute = court.dispute(SegmentIndex(4));
        court.bazaar.act(&support::alice(), dispute);
        court.play(never);
        let chain = Chain::of(court);
        let report = chain.verify(&chain.collect().unwrap()).unwrap();
        assert_eq!(*whats(&report)[0], What::Undrawn { chosen: Some(true) });
        assert_eq!(report.finding == Finding::Upheld, lie == Lie::None);
        assert_eq!(report.closing.forfeited.is_zero(), lie != Lie::None);
    }
}

#[test]
fn states_that_were_posted_are_in_the_evidence() {
    let mut court = Court::new(Lie::None, Kind::Unserved);
    court.play(|phase| *phase == AuditPhase::Posting);
    let duties = court.running()[0].duties.clone();
    for index in duties.iter().map(|duty| duty.index).filter(|index| index.0 > 0) {
        let post = court.post(SegmentIndex(index.0 - 1));
        court.say(&market::bazaar::provider(0), post);
    }
    court.play(never);
    let chain = Chain::of(court);
    let report = chain.verify(&chain.collect().unwrap()).unwrap();
    assert_eq!(report.finding, Finding::Upheld);
    assert!(whats(&report).iter().any(|it| matches!(it, What::Posted { .. })));
}

#[test]
fn a_lease_that_was_lost_and_the_one_that_went_on_from_it_have_evidence_too() {
    let mut court = Court::lost();
    court.play(never);
    let lost = court.id;
    court.go_on();
    court.play(never);
    let mut chain = Chain::of(court);
    let evidence = chain.collect().unwrap();
    assert!(evidence.origin.is_some());
    let report = chain.verify(&evidence).unwrap();
    assert_eq!(report.finding, Finding::Upheld);
    assert_eq!(report.facts.from.unwrap().index, SegmentIndex(4));
    let from = |origin| {
        let mut other = Evidence { origin, ..evidence.clone() };
        chain.supply(&mut other);
        chain.verify(&other).unwrap_err()
    };
    assert_eq!(from(None).link(), Link::Statement, "from the beginning others would be drawn");
    assert_eq!(from(Some(evidence.committed.clone())), EvidenceError::OtherOrigin);

    chain.court.id = lost;
    let evidence = chain.collect().unwrap();
    let report = chain.verify(&evidence).unwrap();
    assert!(!report.facts.ended, "nothing shows when it was lost");
    assert_eq!(report.finding, Finding::Upheld);
    // But the beacon must be one that leads to these segments.
    let Moment::Told { seed: Some(seed), .. } = &evidence.course[0] else { panic!() };
    let mut other = evidence.clone();
    let Moment::Told { seed: told, .. } = &mut other.course[0] else { panic!() };
    *told = Some(Height(seed.0 - 1));
    chain.supply(&mut other);
    assert_eq!(chain.verify(&other).unwrap_err().link(), Link::Statement);
}

#[test]
fn leaving_out_or_adding_anything_is_refused() {
    for chain in [upheld(), dissected(), silent()] {
        let evidence = chain.collect().unwrap();
        for place in 0..evidence.course.len() {
            let mut less = evidence.clone();
            let left = less.course.remove(place);
            // With the blocks that are needed then, so that it is not their number alone.
            chain.supply(&mut less);
            assert!(chain.verify(&less).is_err(), "without {left:?}");
            let mut twice = evidence.clone();
            twice.course.insert(place, left);
            assert!(chain.verify(&twice).is_err(), "twice");
        }
        let mut idle = evidence.clone();
        let unused = (1..).map(Height).find(|it| !evidence.needed().contains(it)).unwrap();
        let place = idle.blocks.iter().position(|it| it.header.height > unused).unwrap();
        idle.blocks.insert(place, chain.finalized(unused));
        assert_eq!(chain.verify(&idle), Err(EvidenceError::IdleBlock { height: unused }));
    }
}

type Break = fn(&mut Evidence);

/// The first statement that says something of a kind.
fn statement(
    evidence: &mut Evidence,
    wanted: fn(&MarketOperation) -> bool,
) -> &mut opengpu_light::Statement {
    let lease = evidence.lease;
    let found = evidence.course.iter_mut().find_map(|moment| match moment {
        Moment::Said(it) if it.said(lease).iter().any(|said| wanted(said)) => Some(&mut **it),
        _ => None,
    });
    found.unwrap()
}

fn change(statement: &mut opengpu_light::Statement, change: impl Fn(&mut MarketOperation)) {
    for operation in statement.transaction.transaction.operations.iter_mut() {
        if let Operation::Market(operation) = operation {
            change(operation);
        }
    }
}

#[test]
fn the_link_that_broke_is_named() {
    let cases: [(Link, Break); 13] = [
        (Link::Header, |it| it.blocks[0].header.time = Millis(2)),
        (Link::Header, |it| it.blocks.swap(0, 1)),
        (Link::Header, |it| drop(it.blocks.pop())),
        (Link::Certificate, |it| drop(it.steps.pop())),
        (Link::Proof, |it| it.committed.told.receipt.fee = Amount(1)),
        (Link::Transaction, |it| {
            change(
                statement(it, |said| matches!(said, MarketOperation::AnswerAudit { .. })),
                |said| {
                    let MarketOperation::AnswerAudit { replies, .. } = said else { return };
                    let mut all: Vec<AuditReply> = replies.to_vec();
                    all[0].reply = Reply::Unserved;
                    *replies = List::new(all).unwrap();
                },
            );
        }),
        (Link::Transaction, |it| {
            change(
                statement(it, |said| matches!(said, MarketOperation::MoveDispute { .. })),
                |said| {
                    let MarketOperation::MoveDispute { said, .. } = said else { return };
                    *said = DisputeMove::Dispute(0);
                },
            );
        }),
        // The signature is not under the transaction's id, but under the root of its block.
        (Link::Proof, |it| {
            it.committed.transaction.signer = it.submitted.transaction.signer.clone();
        }),
        (Link::Task, |it| it.lease.task.0.0[3] ^= 1),
        (Link::Commitment, |it| it.lease.number = 1),
        (Link::Commitment, |it| it.origin = Some(it.committed.clone())),
        (Link::Draw, |it| {
            let (Moment::Told { seed: Some(seed), .. }, other) =
                (&mut it.course[0], it.committed.told.receipt.height)
            else {
                panic!()
            };
            *seed = other;
            let needed = it.needed();
            it.blocks.retain(|block| needed.contains(&block.header.height));
        }),
        (Link::Statement, |it| it.course.swap(0, 1)),
    ];
    let chain = dissected();
    let evidence = chain.collect().unwrap();
    for (number, (link, break_it)) in cases.into_iter().enumerate() {
        let mut broken = evidence.clone();
        break_it(&mut broken);
        let error = chain.verify(&broken).unwrap_err();
        assert_eq!(error.link(), link, "case {number}: {error}");
    }
}

/// What evidence says of a story whose blocks are told otherwise, by the same seats.
fn told_otherwise(change: fn(&mut Recorded)) -> EvidenceError {
    let honest = dissected();
    let mut evidence = honest.collect().unwrap();
    let mut court = honest.court;
    court.bazaar.network.recorded.iter_mut().flatten().for_each(change);
    let chain = Chain::of(court);
    chain.retell(&mut evidence);
    chain.verify(&evidence).unwrap_err()
}

fn each_event(block: &mut Recorded, change: impl Fn(&mut Event)) {
    let receipts = block.receipts.iter_mut();
    receipts.for_each(|receipt| receipt.events.iter_mut().for_each(&change));
}

fn answers(transaction: &SignedTransaction) -> bool {
    let operation = transaction.transaction.operations.first();
    matches!(operation, Some(Operation::Market(MarketOperation::AnswerAudit { .. })))
}

#[test]
fn what_a_quorum_signed_is_refused_if_the_rules_lead_elsewhere() {
    let found = told_otherwise(|block| {
        each_event(block, |event| {
            if let Event::AuditClosed { audit, .. } = event {
                audit.phase = AuditPhase::Decided(Finding::Upheld);
            }
        });
    });
    assert!(matches!(found, EvidenceError::OtherFinding { .. }), "{found}");
    let found = told_otherwise(|block| {
        each_event(block, |event| {
            if let Event::AuditClosed { audit, .. } = event {
                audit.until = Millis(audit.until.0 + 1);
            }
        });
    });
    assert_eq!(found, EvidenceError::OtherCertificate);
    let found = told_otherwise(|block| {
        each_event(block, |event| {
            if let Event::LeaseClosed { verdict, .. } = event {
                *verdict = Some(Verdict::Inconclusive);
            }
        });
    });
    assert_eq!(found, EvidenceError::OtherLease);
    let found = told_otherwise(|block| {
        each_event(block, |event| {
            if let Event::AuditDrawn { verifiers, .. } = event {
                *verifiers = List::new(vec![support::bob().address()]).unwrap();
            }
        });
    });
    assert_eq!(found.link(), Link::Statement, "who was not drawn cannot have answered: {found}");
    let found = told_otherwise(|block| {
        each_event(block, |event| {
            if let Event::AuditDrawn { draw, .. } = event {
                *draw = 2;
            }
        });
    });
    assert_eq!(found.link(), Link::Draw);
    let found = told_otherwise(|block| block.context.beacon.0[0] ^= 1);
    assert_eq!(found.link(), Link::Statement, "another beacon draws other segments: {found}");
    let found = told_otherwise(|block| block.context.time.0 += block.context.height.0 * 20_000);
    assert_eq!(found.link(), Link::Statement, "each came too late: {found}");
}

#[test]
fn what_a_transaction_did_is_not_told_without_who_signed_it() {
    let chain = dissected();
    let mut evidence = chain.collect().unwrap();
    let Some(Moment::Said(shown)) = evidence.course.pop() else { panic!() };
    let height = shown.told.receipt.height;
    evidence.course.push(Moment::Told { told: shown.told, seed: None });
    assert_eq!(chain.verify(&evidence), Err(EvidenceError::Misplaced { height }));
}

#[test]
fn other_money_is_refused() {
    let found = told_otherwise(|block| {
        each_event(block, |event| {
            if let Event::AuditClosed { forfeited, .. } = event {
                *forfeited = Amount(1);
            }
        });
    });
    assert_eq!(found, EvidenceError::OtherMoney { found: Amount::ZERO, told: Amount(1) });
    let found = told_otherwise(|block| {
        each_event(block, |event| {
            if let Event::AuditClosed { fees, .. } = event {
                *fees = Amount(2);
            }
        });
    });
    assert_eq!(found, EvidenceError::OtherMoney { found: Amount::ZERO, told: Amount(2) });
    let found = told_otherwise(|block| {
        each_event(block, |event| {
            if let Event::ProviderSlashed { finder, .. } = event {
                *finder = Amount(finder.0 + 1);
            }
        });
    });
    assert_eq!(found.link(), Link::Money);
}

#[test]
fn what_nobody_signed_or_had_no_effect_is_no_statement() {
    let found = told_otherwise(|block| {
        for receipt in block.receipts.iter_mut().filter(|receipt| receipt.index > 0) {
            receipt.outcome = Outcome::Failed { operation: 0, failure: Failure::NotAsked };
        }
    });
    assert_eq!(found.link(), Link::Receipt);
    let found = told_otherwise(|block| {
        for receipt in block.receipts.iter_mut().filter(|receipt| receipt.index > 0) {
            receipt.transaction = None;
        }
    });
    assert_eq!(found.link(), Link::Transaction);
    // Seats that take what nobody signed are not believed either.
    let mut court = dissected().court;
    let blocks = court.bazaar.network.recorded.iter_mut().flatten();
    for signed in blocks.flat_map(|block| &mut block.transactions).filter(|it| answers(it)) {
        signed.signer.signature = Signature::Ed25519([7; 64]);
    }
    let chain = Chain::of(court);
    let evidence = chain.collect().unwrap();
    assert_eq!(chain.verify(&evidence).unwrap_err().link(), Link::Signature);
    let mut off = dissected();
    let evidence = off.collect().unwrap();
    off.court.bazaar.network.genesis.parameters.market.audits = AuditParameters::OFF;
    assert_eq!(off.verify(&evidence), Err(EvidenceError::NotCovered));
}

#[test]
fn an_audit_that_runs_and_blocks_that_are_gone_are_told_apart() {
    let court = Court::new(Lie::None, Kind::Honest);
    let chain = Chain::of(court);
    assert!(matches!(chain.collect(), Err(CollectError::Running { number: 0 })));
    let mut chain = upheld();
    let parameters = chain.court.bazaar.network.genesis.parameters.market;
    let task = chain.court.bazaar.task(chain.court.task());
    assert_eq!(audited(&task, &parameters), [0]);
    chain.first = Height(15);
    assert!(matches!(chain.collect(), Err(CollectError::NotKept { first: Height(15) })));
}

/// The files that the light client's own tests and the fuzzer begin with.
#[test]
#[ignore = "writes files"]
fn write_the_seeds() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/light_corpus/decode_audit");
    std::fs::create_dir_all(root).unwrap();
    let chains = [("upheld", upheld()), ("dissected", dissected()), ("silent", silent())];
    for (name, chain) in chains {
        let bytes = chain.collect().unwrap().to_bytes();
        std::fs::write(format!("{root}/{name}"), bytes).unwrap();
        let genesis = chain.court.bazaar.network.genesis.encode();
        let seats = chain.trust().seats.encode();
        std::fs::write(format!("{root}/../genesis"), genesis).unwrap();
        std::fs::write(format!("{root}/../seats"), seats).unwrap();
    }
}
