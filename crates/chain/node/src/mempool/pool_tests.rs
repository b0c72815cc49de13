//! Tests of the pool.

use super::*;
use opengpu_types::{
    Authorization, ChainId, List, Operation, PublicKey, Signature, Text, Transaction,
};

const LIMITS: Limits = Limits { transactions: 8, bytes: 800, per_lane: 4 };

fn candidate(signer: u8, nonce: u64, tip: u128) -> Candidate {
    let signer_address = Address::new([signer; 20]);
    let transaction = Transaction {
        sender: signer_address,
        nonce: Nonce(nonce),
        valid_until: Height(100),
        max_fee: Amount(1_000),
        tip: Amount(tip),
        sponsor: None,
        operations: List::new(vec![Operation::Burn { amount: Amount(1) }]).unwrap(),
        memo: Text::new("").unwrap(),
    };
    let id = transaction.id(ChainId(1));
    let signer = Authorization {
        key: PublicKey::Ed25519([signer; 32]),
        signature: Signature::Ed25519([0; 64]),
    };
    let signed = Arc::new(SignedTransaction { transaction, signer, sponsor: None });
    let lane = Lane { sender: signer_address, signer: signer_address };
    let witness = signed.witness();
    Candidate { signed, id, witness, lane, size: 100 }
}

fn finalize(pool: &mut Pool, height: u64, included: &[&Candidate]) {
    let included = included.iter().map(|candidate| (&candidate.witness, &*candidate.signed));
    pool.finalized(Height(height), included);
}

fn pool(candidates: &[Candidate]) -> Pool {
    let mut pool = Pool::new(LIMITS);
    for candidate in candidates {
        pool.admit(candidate.clone(), Nonce(0)).unwrap();
    }
    pool
}

fn ids(selected: &[Candidate]) -> Vec<TransactionId> {
    selected.iter().map(|candidate| candidate.id).collect()
}

#[test]
fn the_best_tip_goes_first_but_never_before_an_earlier_nonce_of_its_signer() {
    let (a0, a1, b0) = (candidate(1, 0, 1), candidate(1, 1, 9), candidate(2, 0, 5));
    let pool = pool(&[a1.clone(), b0.clone(), a0.clone()]);
    assert_eq!(ids(&pool.select(9, 900)), [b0.id, a0.id, a1.id]);
}

#[test]
fn equal_tips_go_in_the_order_of_arrival() {
    let (b, a) = (candidate(2, 0, 3), candidate(1, 0, 3));
    let pool = pool(&[b.clone(), a.clone()]);
    assert_eq!(ids(&pool.select(9, 900)), [b.id, a.id]);
}

#[test]
fn duties_go_before_every_tip_as_long_as_a_quarter_has_room_for_them() {
    let duty = |signer| {
        let mut duty = candidate(signer, 0, 0);
        Arc::make_mut(&mut duty.signed).transaction.max_fee = Amount::ZERO;
        duty.id = duty.signed.transaction.id(ChainId(1));
        duty.witness = duty.signed.witness();
        duty
    };
    let (a, b) = (candidate(1, 0, 9), candidate(2, 0, 5));
    let duties = [duty(5), duty(6), duty(7)];
    let mut pool = pool(&[a.clone(), b.clone()]);
    for duty in &duties {
        pool.admit(duty.clone(), Nonce(0)).unwrap();
    }
    let [first, second, third] = duties.map(|duty| duty.id);
    assert_eq!(ids(&pool.select(8, 800)), [first, second, a.id, b.id, third]);
    assert_eq!(ids(&pool.select(8, 500)), [first, a.id, b.id, second, third], "by bytes");
    assert_eq!(ids(&pool.select(3, 800)), [a.id, b.id, first], "no room, and last all the same");
}

#[test]
fn a_gap_holds_back_only_what_comes_after_it() {
    let (a0, a2) = (candidate(1, 0, 1), candidate(1, 2, 1));
    let mut pool = pool(&[a0.clone(), a2.clone()]);
    assert_eq!(ids(&pool.select(9, 900)), [a0.id]);
    let a1 = candidate(1, 1, 1);
    pool.admit(a1.clone(), Nonce(0)).unwrap();
    assert_eq!(ids(&pool.select(9, 900)), [a0.id, a1.id, a2.id]);
}

#[test]
fn count_and_bytes_bound_a_selection() {
    let pool = pool(&[candidate(1, 0, 3), candidate(2, 0, 2), candidate(3, 0, 1)]);
    assert_eq!(pool.select(2, 900).len(), 2);
    assert_eq!(pool.select(9, 250).len(), 2);
    assert!(pool.select(9, 99).is_empty());
}

#[test]
fn what_is_offered_is_not_offered_again_until_its_proposal_has_lost() {
    let (a0, a1) = (candidate(1, 0, 1), candidate(1, 1, 1));
    let mut pool = pool(&[a0.clone(), a1.clone()]);
    pool.offered(Height(5), &[a0.witness]);
    assert_eq!(ids(&pool.select(9, 900)), [a1.id], "the next leader continues after it");
    pool.offered(Height(6), &[a1.witness]);
    assert!(!pool.has_ready());
    finalize(&mut pool, 5, &[]);
    assert_eq!(ids(&pool.select(9, 900)), [a0.id], "the proposal at height 5 lost");
    finalize(&mut pool, 6, &[]);
    assert_eq!(ids(&pool.select(9, 900)), [a0.id, a1.id]);
}

#[test]
fn an_offer_for_a_later_height_outlives_the_finalization_of_an_earlier_one() {
    let a0 = candidate(1, 0, 1);
    let mut pool = pool(std::slice::from_ref(&a0));
    pool.offered(Height(5), &[a0.witness]);
    pool.offered(Height(7), &[a0.witness]);
    finalize(&mut pool, 5, &[]);
    assert!(!pool.has_ready());
    finalize(&mut pool, 7, &[]);
    assert!(pool.has_ready());
}

#[test]
fn a_final_block_removes_what_it_used_and_what_that_made_stale() {
    let (a0, a1, b0) = (candidate(1, 0, 1), candidate(1, 1, 1), candidate(2, 0, 1));
    let mut pool = pool(&[a0, a1.clone(), b0.clone()]);
    finalize(&mut pool, 1, &[&a1]);
    assert_eq!(ids(&pool.select(9, 900)), [b0.id]);
    assert_eq!((pool.len(), pool.bytes()), (1, 100));
}

#[test]
fn a_replacement_tips_a_tenth_more() {
    let mut pool = pool(&[candidate(1, 0, 100)]);
    let cheap = candidate(1, 0, 109);
    let least = Amount(110);
    assert_eq!(pool.admit(cheap, Nonce(0)), Err(PoolRefusal::ReplacementTip { least }));
    let better = candidate(1, 0, 110);
    assert!(matches!(pool.admit(better.clone(), Nonce(0)), Ok(Admitted::Replaced(_))));
    assert_eq!(ids(&pool.select(9, 900)), [better.id]);
    assert_eq!((pool.len(), pool.bytes()), (1, 100));
}

#[test]
fn a_free_transaction_is_replaced_only_by_one_that_tips() {
    let mut pool = pool(&[candidate(1, 0, 0)]);
    let mut other = candidate(1, 0, 0);
    other.witness = candidate(9, 9, 9).witness;
    assert!(matches!(
        pool.admit(other, Nonce(0)),
        Err(PoolRefusal::ReplacementTip { least: Amount(1) })
    ));
}

#[test]
fn used_far_and_expired_nonces_are_refused() {
    let mut pool = Pool::new(LIMITS);
    let used = pool.admit(candidate(1, 2, 1), Nonce(3));
    assert!(matches!(used, Err(PoolRefusal::NonceUsed { next: Nonce(3), .. })));
    let ahead = pool.admit(candidate(1, 7, 1), Nonce(3));
    assert!(matches!(ahead, Err(PoolRefusal::NonceAhead { .. })));
    finalize(&mut pool, 100, &[]);
    let expired = pool.admit(candidate(1, 3, 1), Nonce(3));
    assert_eq!(expired, Err(PoolRefusal::Expired(Height(100))));
}

#[test]
fn expired_transactions_leave_with_their_last_height() {
    let mut pool = pool(&[candidate(1, 0, 1)]);
    finalize(&mut pool, 99, &[]);
    assert_eq!(pool.len(), 1);
    finalize(&mut pool, 100, &[]);
    assert!(pool.is_empty());
    assert_eq!(pool.bytes(), 0);
}

#[test]
fn the_limits_hold() {
    let mut pool = Pool::new(LIMITS);
    for signer in 0..8 {
        pool.admit(candidate(signer, 0, 1), Nonce(0)).unwrap();
    }
    assert_eq!(pool.admit(candidate(9, 0, 1), Nonce(0)), Err(PoolRefusal::Full));
    assert_eq!(pool.admit(candidate(7, 0, 1), Nonce(0)), Err(PoolRefusal::Known));
    assert!(pool.admit(candidate(7, 0, 9), Nonce(0)).is_ok(), "a replacement needs no room");
}

#[test]
fn a_transaction_that_an_unfinished_block_could_not_take_is_tried_again_but_not_for_ever() {
    let (mut pool, a0) = (Pool::new(LIMITS), candidate(1, 0, 0));
    pool.admit(a0.clone(), Nonce(0)).unwrap();
    let refusal = Refusal { code: "cannot-pay", reason: "poor".to_owned() };
    for height in 1..MAX_DOUBTS {
        let height = Height(u64::from(height));
        pool.doubt(height, &a0.witness, refusal.clone());
        assert!(!pool.has_ready(), "it rests while that height is open");
        pool.finalized(height, []);
        assert!(pool.has_ready(), "another block won: it is tried again");
    }
    pool.doubt(Height(9), &a0.witness, refusal.clone());
    assert_eq!(pool.standing(&a0.id), Some(&Standing::Refused(refusal)));
}

#[test]
fn a_refused_transaction_leaves_and_its_nonce_is_free_again() {
    let a0 = candidate(1, 0, 1);
    let mut pool = pool(std::slice::from_ref(&a0));
    let refusal = Refusal { code: "no-account", reason: "gone".to_owned() };
    pool.refuse(&a0.witness, refusal.clone());
    assert!(pool.is_empty());
    assert_eq!(pool.standing(&a0.id), Some(&Standing::Refused(refusal)));
    assert!(pool.admit(a0, Nonce(0)).is_ok());
}

#[test]
fn a_transaction_s_standing_tells_why_it_left_and_forgets_what_a_block_took() {
    let (taken, stale, old) = (candidate(1, 0, 1), candidate(2, 0, 1), candidate(3, 0, 1));
    let better = candidate(3, 0, 9);
    let later = candidate(2, 1, 1);
    let mut pool =
        pool(&[taken.clone(), stale.clone(), later.clone(), old.clone(), better.clone()]);
    let code = |pool: &Pool, id| match pool.standing(id) {
        Some(Standing::Refused(refusal)) => refusal.code,
        Some(Standing::Waiting) => "waiting",
        None => "unknown",
    };
    assert_eq!(code(&pool, &old.id), "replaced");
    assert_eq!(code(&pool, &better.id), "waiting");
    pool.turned_away(better.id, Refusal { code: "busy", reason: String::new() });
    assert_eq!(code(&pool, &better.id), "waiting", "a later fault of another does not matter");

    // The second sender's nonce was used by something that this node never saw.
    finalize(&mut pool, 1, &[&taken, &later]);
    assert_eq!(code(&pool, &taken.id), "unknown", "its receipt says more");
    assert_eq!(code(&pool, &stale.id), "nonce-used");
    finalize(&mut pool, 100, &[]);
    assert_eq!(code(&pool, &better.id), "expired");
}

#[test]
fn what_waits_for_long_is_told_apart_by_arrival() {
    let mut pool = pool(&[candidate(1, 0, 1), candidate(2, 0, 9)]);
    let then = pool.newest();
    for later in [candidate(1, 1, 50), candidate(3, 0, 50)] {
        pool.admit(later, Nonce(0)).unwrap();
    }
    let old: Vec<_> = pool.select_until(then, 10, 10_000).iter().map(Candidate::tip).collect();
    assert_eq!(old, [Amount(9), Amount(1)]);
    assert_eq!(pool.select(10, 10_000).len(), 4);
}

#[test]
fn the_next_nonce_comes_after_those_that_wait_without_a_gap() {
    let waiting = [candidate(1, 0, 1), candidate(1, 1, 1), candidate(1, 3, 1)];
    let lane = waiting[0].lane;
    let pool = pool(&waiting);
    assert_eq!(pool.next_nonce(&lane, Nonce(0)), Nonce(2), "two fills the gap");
    assert_eq!(pool.next_nonce(&lane, Nonce(3)), Nonce(4), "the state knows more than the pool");
    assert_eq!(pool.next_nonce(&candidate(2, 0, 1).lane, Nonce(7)), Nonce(7));
}
