//! Several things at once: states to post, segments to repeat beside a dispute, and objections that would
//! be lost.

use super::*;

#[test]
fn all_that_was_not_served_is_posted_one_after_the_other() {
    let mut audit = drawn();
    let lacks = |audit: &mut Audit, verifier: Address| {
        let seat = audit.seats.iter().filter(|seat| seat.draw == audit.draws);
        let Some(seat) = seat.into_iter().find(|seat| seat.verifier == verifier) else { return };
        let reply = |duty: &audit::Duty| match duty.index {
            SegmentIndex(0) => (duty.index, Reply::Sealed(Digest([5; 32]))),
            index => (index, Reply::Unserved),
        };
        let replies = seat.duties.iter().map(reply).collect();
        audit.apply(Rule::Answered { verifier, replies }, NOW).unwrap();
    };
    (0..2).for_each(|one| lacks(&mut audit, account(one)));
    let mut now = NOW;
    while audit.phase != Phase::Drawing {
        // The beginning was sealed, so that is opened first; nobody reveals it.
        if audit.phase == Phase::Opening {
            let leaves = vec![Run::default().leaf(0)];
            audit.apply(Rule::Opened { leaves }, now).unwrap();
            continue;
        }
        now = audit.deadline().unwrap();
        audit.apply(Rule::Ticked, now).unwrap();
    }
    audit.draw_others(seed(2), &[account(2)], now).unwrap();
    let replies = audit.seats.iter().find(|seat| seat.draw == 2).unwrap().duties.iter();
    let replies = replies.map(|duty| match duty.index {
        SegmentIndex(0) => (duty.index, Reply::Sealed(Digest([5; 32]))),
        index => (index, Reply::Unserved),
    });
    let (verifier, replies) = (account(2), replies.collect());
    audit.apply(Rule::Answered { verifier, replies }, now).unwrap();
    assert_eq!(audit.phase, Phase::Posting);
    let mut core = Audits::new(PROVIDER);
    let mut effects = core.apply(now, seen(&audit));
    let mut posted = BTreeSet::new();
    while audit.phase == Phase::Posting {
        let word = effects.iter().find_map(|effect| match effect {
            Effect::Submit { word: Word::Post(index), .. } => Some(*index),
            _ => None,
        });
        let index = word.expect("it goes on until all of it is posted");
        assert!(posted.insert(index), "{index} was posted before");
        let before = Run::default().leaf(index.0 - 1);
        audit.apply(Rule::Posted { before }, now).unwrap();
        core.apply(now, Input::Submitted { lease: LEASE, answer: Outcome::Applied });
        effects = core.apply(now, seen(&audit));
    }
    assert!(posted.len() > 1, "{posted:?}");
}

#[test]
fn nobody_objects_to_what_could_not_be_shown() {
    let drawn = |world: &World| {
        let mut duties = world.audit.seats.iter().flat_map(|seat| &seat.duties);
        duties.any(|duty| duty.index.0 == 1)
    };
    let mut world = (0..50).map(|first| World::new(&[1], first)).find(drawn).unwrap();
    world.shows = false;
    assert_eq!(world.finish(), Finding::Inconclusive);
    let lost = |duty: &audit::Duty| matches!(duty.said, Told::Objected(_) | Told::Dismissed);
    assert!(!world.audit.seats.iter().flat_map(|seat| &seat.duties).any(lost));
}

#[test]
fn a_dispute_of_our_own_does_not_wait_for_what_we_repeat() {
    let turn = |audit: &Audit| match &audit.phase {
        Phase::Disputing(dispute) => dispute.dissection.as_ref().and_then(Dissection::turn),
        _ => None,
    };
    let disputed = (0..50).find_map(|first| {
        let mut world = World::new(&[1], first);
        for at in (0..6).cycle().take(120) {
            world.see(at);
            while turn(&world.audit) != Some(Side::Provider) && world.act(at, Mishap::None) {}
        }
        (turn(&world.audit) == Some(Side::Provider)).then_some(world.audit)
    });
    let disputed = disputed.expect("one of them is disputed");
    let other = LeaseId { number: 1, ..LEASE };
    let extent = Extent { steps: 600, segments: 30 };
    let subject = Subject { chain: ChainId(7), lease: other, part: Part::whole(extent) };
    let verifiers = [PROVIDER, account(1)];
    let theirs = Audit::begin((subject, TIMES), seed(1), (10, &verifiers), NOW).unwrap();
    let mut core = Audits::new(PROVIDER);
    let seen = Seen { provider: account(4), audit: theirs };
    let audits = BTreeMap::from([(other, Some(seen))]);
    let effects = core.apply(NOW, Input::Seen { audits });
    let fetched = effects.iter().find_map(|effect| match effect {
        Effect::Fetch { index, .. } => Some(*index),
        _ => None,
    });
    let index = fetched.expect("it fetches");
    let before = Run::default().before(index.0);
    let effects = core.apply(NOW, Input::Served { lease: other, index, before });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Repeat { .. })), "{effects:?}");
    let seen = Seen { provider: PROVIDER, audit: disputed };
    let effects = core.apply(NOW, Input::Seen { audits: BTreeMap::from([(LEASE, Some(seen))]) });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Look { lease: LEASE, .. })));
}
