//! An agent with everything real around it: ledger, sessions on loopback, executor processes, disk.
//! This binary is its own executor.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it fails"
)]

mod audited;
mod client;
mod devices;
mod holders;
mod judged;
mod owners;
mod readers;
mod tried;
mod village;

use audited::{
    a_verifier_that_dies_between_seal_and_reveal_goes_on_from_its_disk,
    an_honest_run_is_repeated_by_others_upheld_and_they_are_paid,
    whoever_is_gone_when_leaves_are_to_be_opened_is_refuted,
};
use client::{Client, SEGMENTS};
use devices::{
    a_device_that_is_taken_away_gives_its_lease_back_and_the_offer_follows,
    two_leases_run_at_once_each_on_its_own_device_also_after_a_restart,
};
use holders::{
    a_commitment_does_not_wait_for_a_holder_that_is_gone,
    another_provider_goes_on_from_what_a_holder_has,
    what_is_held_is_fetched_from_its_provider_as_well,
};
use judged::what_a_predicate_would_have_judged_is_nobodys_when_the_run_fails_or_is_halted;
use libtest_mimic::{Arguments, Trial};
use opengpu_agent::chain::Chain;
use opengpu_agent::core::{BidStage, Hand, NoHand, Wish};
use opengpu_agent::hours::Hours;
use opengpu_agent::policy::{Device, Floor, Policy, Why};
use opengpu_agent::presence::Presence;
use opengpu_agent::{Agent, Config, Earned, Group};
use opengpu_exec::{Data, Errand, Launch, Program, Supervisor};
use opengpu_link::lease::News;
use opengpu_link::session::{Refusal, SessionError};
use opengpu_types::{
    Allocating, Amount, ArtifactId, Class, CloseReason, Ending, Entry, Event, Key, LeaseId,
    LeasePhase, List, MarketOperation, Millis, Money, Outcome, Precision, ProviderStatus, Rating,
    Runtime, Set, TaskId, TaskPhase, Text, Trust, Verdict,
};
use owners::an_owner_who_returns_does_not_wait_for_a_node_that_hangs;
use readers::whom_the_eyes_of_a_task_allow_runs_a_segment_again_and_nobody_else;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tried::{
    a_device_that_is_listed_again_and_again_is_found_and_alone_it_is_proven,
    a_device_that_is_there_is_tried_and_proven,
};
use village::{Account, Running, Village, permille, person};

/// Lists tests by their own names.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        const TESTS: &[(&str, fn())] = &[$((stringify!($test), $test)),*];
    };
}

tests!(
    a_task_is_briefed_run_followed_committed_paid_and_its_output_fetched,
    an_agent_that_dies_is_continued_by_the_next_one_from_its_disk,
    a_client_that_cancels_pays_for_the_checkpoint_only,
    an_owner_who_returns_gets_the_machine_within_five_seconds,
    an_owner_who_returns_does_not_wait_for_a_node_that_hangs,
    an_input_that_a_provider_has_is_not_sent_again,
    another_program_than_the_task_names_does_not_run,
    an_input_that_does_not_hash_does_not_run,
    a_program_of_another_kind_than_the_task_says_does_not_run,
    an_auction_is_won_by_a_bid_that_is_opened_in_time,
    an_auction_that_began_while_the_agent_was_away_is_not_missed,
    an_auction_below_the_floor_is_won_by_hand_and_paid,
    another_provider_goes_on_where_the_first_one_stopped,
    another_provider_goes_on_from_what_a_holder_has,
    a_commitment_does_not_wait_for_a_holder_that_is_gone,
    what_is_held_is_fetched_from_its_provider_as_well,
    copies_of_two_providers_are_compared_and_both_are_paid,
    what_a_predicate_accepts_is_paid_and_what_it_refuses_is_nobodys,
    what_a_predicate_would_have_judged_is_nobodys_when_the_run_fails_or_is_halted,
    what_a_program_says_is_for_its_client_unless_a_predicate_decides,
    a_provider_drains_and_works_again_as_its_owner_wishes,
    keys_of_a_provider_change_while_its_leases_go_on,
    two_leases_run_at_once_each_on_its_own_device_also_after_a_restart,
    a_device_that_is_taken_away_gives_its_lease_back_and_the_offer_follows,
    whom_the_eyes_of_a_task_allow_runs_a_segment_again_and_nobody_else,
    an_honest_run_is_repeated_by_others_upheld_and_they_are_paid,
    a_verifier_that_dies_between_seal_and_reveal_goes_on_from_its_disk,
    whoever_is_gone_when_leaves_are_to_be_opened_is_refuted,
    a_device_that_is_there_is_tried_and_proven,
    a_device_that_is_listed_again_and_again_is_found_and_alone_it_is_proven,
);

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = opengpu_exec::native::inner_main(std::env::args_os().skip(1)) {
        return code;
    }
    if std::env::args().nth(1).as_deref() == Some("executor") {
        opengpu_exec::child::serve().unwrap();
        return ExitCode::SUCCESS;
    }
    // What agents say while a test runs: RUST_LOG=opengpu_agent=debug
    let wanted = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(wanted).with_writer(std::io::stderr).init();
    let mut arguments = Arguments::from_args();
    // Each one runs a chain and an executor.
    arguments.test_threads = Some(1);
    let trials = TESTS.iter().map(|(name, test)| {
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// What a second costs.
const RATE: u128 = 1_000_000_000_000_000;
/// Runs for a moment.
const SHORT: &[u8] = b"opengpu:\n65536\n";
/// Runs for some ten seconds.
const LONG: &[u8] = b"opengpu:\n28000000\n";

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name)
}

fn launch() -> Launch {
    Launch {
        program: std::env::current_exe().unwrap(),
        arguments: vec!["executor".into()],
        threads: Some(1),
        device: None,
        reads: Vec::new(),
        writes: Vec::new(),
    }
}

fn policy() -> Policy {
    Policy {
        floor: Floor::Rate(Money::tokens(Amount(RATE))),
        longest: Millis(3_600_000),
        kinds: Set::all(),
        trusts: Set::all(),
        most_leases: 2,
        hours: Hours::ALWAYS,
        idle_only: true,
        denied: List::empty(),
        reliability: permille(0),
        region: Text::default(),
    }
}

fn device() -> Device {
    Device {
        class: Text::new("test-device").unwrap(),
        count: 1,
        memory: 1_024,
        rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
        precisions: Set::of(&[Precision::F32]),
        runtimes: Set::of(&[Runtime::Cpu]),
        kinds: Set::all(),
        watts: 100,
    }
}

/// An owner who comes and goes as the test says.
#[derive(Clone, Default)]
struct Owner(Arc<AtomicBool>);

impl Presence for Owner {
    fn idle(&mut self) -> Option<Duration> {
        self.0.load(Ordering::SeqCst).then_some(Duration::ZERO)
    }
}

/// A chain, a provider on it, and a client.
struct Scene {
    client: Client,
    owner: Owner,
    folder: tempfile::TempDir,
    agent: Option<Agent>,
    // The chain is there until everybody has gone.
    chain: Running,
}

impl Scene {
    /// Without a provider.
    fn empty() -> Self {
        Self::on(Village::start())
    }

    /// On this chain, without a provider.
    fn on(chain: Running) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (client, owner) = (Client::new(), Owner::default());
        Self { client, owner, folder, agent: None, chain }
    }

    fn new() -> Self {
        let mut scene = Self::empty();
        scene.start();
        scene.agent().announce(Amount::whole(200)).unwrap();
        scene
    }

    fn start(&mut self) {
        let (folder, owner) = (self.folder.path(), self.owner.clone());
        self.agent = Some(start(&self.chain, 2, folder, owner));
    }

    fn agent(&self) -> &Agent {
        self.agent.as_ref().unwrap()
    }

    fn village(&self) -> &Village {
        &self.chain.0
    }

    fn lease(&self, task: TaskId) -> LeaseId {
        let leased = || (!self.village().task(task).leases.is_empty()).then_some(());
        self.village().until("a lease", leased);
        LeaseId { task, number: 0 }
    }

    fn phase(&self, lease: LeaseId) -> LeasePhase {
        self.village().task(lease.task).leases[usize::from(lease.number)].phase
    }

    /// Waits for the end of a lease; says how it ended, what was found and what was paid.
    fn closed(&self, lease: LeaseId) -> (CloseReason, Option<Verdict>, Amount) {
        self.village().until("the end of a lease", || {
            self.village().events().into_iter().find_map(|event| match event {
                Event::LeaseClosed { lease: closed, reason, verdict, paid, .. }
                    if closed == lease =>
                {
                    Some((reason, verdict, paid))
                }
                _ => None,
            })
        })
    }

    fn checkpoint(&self, lease: LeaseId) -> Option<u32> {
        let task = self.village().task(lease.task);
        let commitment = task.leases[usize::from(lease.number)].commitment;
        commitment.map(|commitment| commitment.reached.index.0)
    }

    /// A task that runs.
    fn run(&self, input: &[u8]) -> (LeaseId, opengpu_link::Session) {
        let folder = example("sha256-search");
        let program = Program::open(&folder).unwrap();
        let task = self.client.submit(self.village(), &program, input, |_| {});
        let lease = self.lease(task);
        let session = self.client.dial(&self.agent().nearby());
        let reader = self.agent().contact().sealing;
        self.client.deliver(&session, reader, lease, (&folder, input), None).unwrap();
        (lease, session)
    }
}

/// An agent of the person of that number.
fn start(chain: &Running, number: u8, folder: &Path, owner: Owner) -> Agent {
    start_with(chain, Setup { number, relay: None, times: 1, turn: 0, devices: 1 }, folder, owner)
}

/// What is different about an agent.
struct Setup {
    number: u8,
    relay: Option<opengpu_link::RelayUrl>,
    /// So many times the usual rate.
    times: u128,
    /// How often its keys were changed.
    turn: u8,
    /// How many devices of one class it has, as far as there are several.
    devices: u8,
}

fn start_with(chain: &Running, setup: Setup, folder: &Path, owner: Owner) -> Agent {
    let account = Account { village: Arc::clone(&chain.0), key: person(setup.number) };
    start_on(Arc::new(account), setup, folder, owner)
}

fn start_on(chain: Arc<dyn Chain>, setup: Setup, folder: &Path, owner: Owner) -> Agent {
    let Setup { number, relay, times, turn, devices } = setup;
    let (session, sealing) = ([number + turn + 70; 32], |turn| [number + 10 * turn; 32]);
    let near = opengpu_link::Config::nearby(session, "127.0.0.1:0".parse().unwrap());
    let link = opengpu_link::Config { relay, ..near };
    let floor = Floor::Rate(Money::tokens(Amount(RATE * times)));
    let policy = Policy { floor, ..policy() };
    let config = Config {
        brief: Millis(20_000),
        previous_sealing: (0..turn).map(sealing).collect(),
        devices: vec![Group {
            device: Device { count: devices, ..device() },
            ids: vec![Some("cpu".to_owned()); usize::from(devices)],
        }],
        ..Config::new(folder.to_owned(), link, sealing(turn), launch(), policy)
    };
    Agent::start(config, chain, Box::new(owner)).unwrap()
}

/// What a run on this machine gives.
fn local(input: &[u8]) -> Vec<u8> {
    let mut program = Program::open(&example("sha256-search")).unwrap();
    // However much else the machine does.
    program.manifest.limits.time = Duration::from_secs(600);
    let errand = Errand { segments: Some(SEGMENTS), ..Errand::new(Data::Inline(input.to_vec())) };
    let supervisor = Supervisor::new(launch());
    supervisor.run(&program, errand).unwrap().wait(|_| {}).unwrap().output
}

/// The output that news tell of.
fn emitted(news: &[News]) -> Vec<u8> {
    let parts = news.iter().filter_map(|news| match news {
        News::Emitted { bytes } => Some(bytes.to_vec()),
        _ => None,
    });
    parts.flatten().collect()
}

fn a_task_is_briefed_run_followed_committed_paid_and_its_output_fetched() {
    let scene = Scene::new();
    let (lease, session) = scene.run(SHORT);
    let news = scene.client.follow(&session, lease, 0);
    assert_eq!(news.first(), Some(&News::Begun { segments: SEGMENTS }));
    assert_eq!(news.last(), Some(&News::Ended { ending: Ending::Completed }));
    let (reason, verdict, paid) = scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    assert!(!paid.is_zero(), "it is paid");
    let expected = local(SHORT);
    assert!(!expected.is_empty());
    assert_eq!(scene.client.output(&session, lease), expected);
    assert_eq!(emitted(&news), expected);
    let task = scene.village().task(lease.task);
    assert!(matches!(task.phase, TaskPhase::Closed { reason: CloseReason::Completed, .. }));
    scene.village().until("the agent to know", || {
        (scene.agent().status().earned == Earned { leases: 1, paid }).then_some(())
    });
    let again = scene.client.follow(&session, lease, 1);
    assert_eq!(again, news[1..], "news are numbered");
    // Nobody else gets in, even after the end.
    let stranger = Client::with_seed(9);
    let program = Program::open(&example("sha256-search")).unwrap();
    let other = stranger.submit(scene.village(), &program, SHORT, |_| {});
    scene.lease(other);
    let session = stranger.dial(&scene.agent().nearby());
    let refused = stranger.refused(&session, lease);
    assert!(matches!(refused, SessionError::Refused(Refusal::Denied)), "{refused}");
}

fn an_agent_that_dies_is_continued_by_the_next_one_from_its_disk() {
    let mut scene = Scene::new();
    let (lease, session) = scene.run(LONG);
    let reached = scene.village().until("a checkpoint", || scene.checkpoint(lease));
    drop(session);
    drop(scene.agent.take());
    assert_eq!(scene.phase(lease), LeasePhase::Running, "a crash says nothing");
    assert!(reached < SEGMENTS, "it was over before it was killed");
    let states = scene.folder.path().join(format!("records/leases/{}-0/states", lease.task));
    let written = |path: &std::path::Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let all = std::fs::read_dir(states).unwrap().map(|it| it.unwrap().path());
    let name = all.min_by_key(|path| written(path)).unwrap();
    let first = written(&name);
    scene.start();
    let session = scene.client.dial(&scene.agent().nearby());
    let news = scene.client.follow(&session, lease, 0);
    let (reason, verdict, _) = scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    let expected = local(LONG);
    assert_eq!(emitted(&news), expected);
    assert_eq!(scene.client.output(&session, lease), expected);
    assert_eq!(scene.village().task(lease.task).leases.len(), 1, "nobody else was needed");
    assert_eq!(written(&name), first, "it began anew");
    let begun = news.iter().filter(|news| matches!(news, News::Begun { .. })).count();
    assert_eq!(begun, 1);
}

fn a_client_that_cancels_pays_for_the_checkpoint_only() {
    let scene = Scene::new();
    let (lease, session) = scene.run(LONG);
    scene.village().until("a checkpoint", || scene.checkpoint(lease));
    let cancel = MarketOperation::CancelTask { task: lease.task };
    let (_, outcome) = scene.village().act(&scene.client.key, cancel).unwrap();
    assert_eq!(outcome, Outcome::Applied);
    let (reason, _, paid) = scene.closed(lease);
    assert_eq!(reason, CloseReason::Cancelled);
    assert!(!paid.is_zero());
    let news = scene.client.follow(&session, lease, 0);
    assert_eq!(news.last(), Some(&News::Ended { ending: Ending::Open }));
    let silent =
        scene.village().events().iter().any(|event| matches!(event, Event::ProviderSlashed { .. }));
    assert!(!silent, "the provider has done nothing wrong");
}

fn an_owner_who_returns_gets_the_machine_within_five_seconds() {
    let scene = Scene::new();
    let (lease, _session) = scene.run(LONG);
    scene.village().until("a checkpoint", || scene.checkpoint(lease));
    let back = Instant::now();
    scene.owner.0.store(true, Ordering::SeqCst);
    let gone = || (!matches!(scene.phase(lease), LeasePhase::Running)).then_some(());
    scene.village().until("the lease to go", gone);
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
    let (reason, _, _) = scene.closed(lease);
    assert_eq!(reason, CloseReason::Released);
    let draining = || {
        let provider = scene.village().provider(&person(2))?;
        (provider.status == ProviderStatus::Draining).then_some(())
    };
    scene.village().until("no more leases", draining);
}

fn an_input_that_a_provider_has_is_not_sent_again() {
    let scene = Scene::new();
    let folder = example("word-count");
    let program = Program::open(&folder).unwrap();
    let input = b"the quick brown fox jumps over the lazy dog\n".repeat(20_000);
    let run = || {
        let task = scene.client.submit(scene.village(), &program, &input, |_| {});
        let lease = scene.lease(task);
        let session = scene.client.dial(&scene.agent().nearby());
        let (reader, before) = (scene.agent().contact().sealing, &scene.client.sent);
        let begun = before.load(Ordering::SeqCst);
        scene.client.deliver(&session, reader, lease, (&folder, &input), None).unwrap();
        assert_eq!(scene.closed(lease).0, CloseReason::Completed);
        before.load(Ordering::SeqCst) - begun
    };
    let first = run();
    assert!(first > u64::try_from(input.len()).unwrap());
    let second = run();
    assert!(second < first / 100, "{second} of {first} bytes were sent again");
}

/// What becomes of a lease to which this is delivered instead.
fn misdelivered(program: &Path, input: &[u8], change: impl FnOnce(&mut opengpu_types::Spec)) {
    let scene = Scene::new();
    let named = Program::open(&example("sha256-search")).unwrap();
    let task = scene.client.submit(scene.village(), &named, SHORT, change);
    let lease = scene.lease(task);
    let session = scene.client.dial(&scene.agent().nearby());
    let reader = scene.agent().contact().sealing;
    let refused =
        scene.client.deliver(&session, reader, lease, (program, input), None).unwrap_err();
    assert!(matches!(refused, SessionError::Refused(Refusal::Invalid)), "{refused}");
    assert_eq!(scene.closed(lease).0, CloseReason::Released);
    let committed =
        |event: &Event| matches!(event, Event::Committed { .. } | Event::Checkpointed { .. });
    assert!(!scene.village().events().iter().any(committed), "it has run");
}

fn another_program_than_the_task_names_does_not_run() {
    misdelivered(&example("word-count"), SHORT, |_| {});
}

fn an_input_that_does_not_hash_does_not_run() {
    misdelivered(&example("sha256-search"), b"opengpu:\n65537\n", |_| {});
}

fn a_program_of_another_kind_than_the_task_says_does_not_run() {
    misdelivered(&example("sha256-search"), SHORT, |spec| {
        spec.requirements.kind = opengpu_types::ProgramKind::Native;
    });
}

fn an_auction_is_won_by_a_bid_that_is_opened_in_time() {
    let scene = Scene::new();
    let folder = example("sha256-search");
    let program = Program::open(&folder).unwrap();
    let task = scene.client.submit(scene.village(), &program, SHORT, |spec| {
        spec.allocating = Allocating::Auction;
    });
    let lease = scene.lease(task);
    let session = scene.client.dial(&scene.agent().nearby());
    let reader = scene.agent().contact().sealing;
    scene.client.deliver(&session, reader, lease, (&folder, SHORT), None).unwrap();
    let (reason, verdict, paid) = scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    assert!(!paid.is_zero());
    let bids = scene.folder.path().join("records/bids");
    let forgotten = || std::fs::read_dir(&bids).unwrap().next().is_none().then_some(());
    scene.village().until("the bid to be forgotten", forgotten);
}

fn an_auction_below_the_floor_is_won_by_hand_and_paid() {
    let scene = Scene::new();
    let folder = example("sha256-search");
    let program = Program::open(&folder).unwrap();
    // Ten seconds are predicted: a fifth of the floor.
    let budget = Amount(2_000_000_000_000_000);
    let task = scene.client.submit_for(scene.village(), &program, SHORT, budget, |spec| {
        spec.allocating = Allocating::Auction;
    });
    let seen = || {
        let mut found = scene.agent().auctions(None, None).into_iter();
        found.find(|seen| seen.why == Some(Why::TooCheap))
    };
    let seen = scene.village().until("it is declined", seen);
    assert_eq!((seen.id, seen.bids), (task, Some(0)));
    let prospect = seen.prospect.unwrap();
    let most = prospect.most.unwrap();
    assert!(most < prospect.floor);

    let hand = |rate| Hand { task, rate, offer: None };
    let dear = scene.agent().bid(hand(Amount(most.0 + 1)));
    assert_eq!(dear, Err(NoHand::TooDear { most }), "it could not win");
    let bid = scene.agent().bid(hand(Amount(most.0 / 2))).unwrap();
    assert_eq!((bid.by_hand, bid.stage), (true, BidStage::Sealed));
    let account = Account { village: Arc::clone(&scene.chain.0), key: person(2) };
    let Some(Entry::Auction(auction)) = account.entry(&Key::Auction(task)).unwrap() else {
        panic!("there is no auction");
    };
    assert_eq!(auction.bids[0].predicted, prospect.predicted, "the ledger says the same");
    assert_eq!(scene.agent().auctions(Some(task), None)[0].bids, Some(1));
    assert_eq!(scene.agent().status().bids, [bid]);

    let lease = scene.lease(task);
    let session = scene.client.dial(&scene.agent().nearby());
    let reader = scene.agent().contact().sealing;
    scene.client.deliver(&session, reader, lease, (&folder, SHORT), None).unwrap();
    let (reason, verdict, paid) = scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    assert!(!paid.is_zero() && paid <= budget);
    assert_eq!(scene.village().task(task).leases[0].rate, most, "nobody else has bid");
    assert!(scene.agent().auctions(None, None).is_empty(), "it is over");
}

fn an_auction_that_began_while_the_agent_was_away_is_not_missed() {
    let mut scene = Scene::new();
    scene.agent = None;
    let program = Program::open(&example("sha256-search")).unwrap();
    let task = scene.client.submit(scene.village(), &program, SHORT, |spec| {
        spec.allocating = Allocating::Auction;
    });
    // Some blocks later nothing tells of it any more.
    std::thread::sleep(Duration::from_secs(1));
    scene.start();
    scene.lease(task);
    assert_eq!(scene.agent().status().earned, Earned::default());
}

fn another_provider_goes_on_where_the_first_one_stopped() {
    let scene = Scene::new();
    let (first, session) = scene.run(LONG);
    let folder = tempfile::tempdir().unwrap();
    let other = start(&scene.chain, 3, folder.path(), Owner::default());
    other.announce(Amount::whole(200)).unwrap();
    scene.village().until("a checkpoint", || scene.checkpoint(first));
    scene.owner.0.store(true, Ordering::SeqCst);
    let second = LeaseId { number: 1, ..first };
    let from = scene.village().until("another lease", || {
        scene.village().task(second.task).leases.get(1).map(|lease| lease.from)
    });
    let from = from.expect("it goes on from a checkpoint");
    let state = scene.client.state(&session, first, from.index);
    assert_eq!(ArtifactId::of(&state), from.state);
    let away = scene.client.dial(&other.nearby());
    let (program, reader) = (example("sha256-search"), other.contact().sealing);
    scene.client.deliver(&away, reader, second, (&program, LONG), Some(&state)).unwrap();
    let (reason, verdict, _) = scene.closed(second);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    let output = [scene.client.output(&session, first), scene.client.output(&away, second)];
    assert_eq!(output.concat(), local(LONG));
    let leases = scene.village().task(first.task).leases;
    assert!(leases.iter().all(|lease| !lease.paid.is_zero()), "both are paid");
}

fn copies_of_two_providers_are_compared_and_both_are_paid() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let other = start(&scene.chain, 3, folder.path(), Owner::default());
    other.announce(Amount::whole(200)).unwrap();
    let place = example("sha256-search");
    let program = Program::open(&place).unwrap();
    let task = scene.client.submit(scene.village(), &program, SHORT, |spec| {
        spec.class = Class::Replicate(2);
        spec.requirements.trust = Trust::Replicated;
    });
    scene.lease(task);
    let leases = scene.village().task(task).leases;
    for (number, lease) in (0..).zip(&leases) {
        let agent = if lease.provider == person(2).address() { scene.agent() } else { &other };
        let (session, id) = (scene.client.dial(&agent.nearby()), LeaseId { task, number });
        let reader = agent.contact().sealing;
        scene.client.deliver(&session, reader, id, (&place, SHORT), None).unwrap();
    }
    for number in 0..2 {
        let (reason, verdict, paid) = scene.closed(LeaseId { task, number });
        assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
        assert!(!paid.is_zero());
    }
    let opened = scene.village().task(task).leases[0].opened;
    assert_eq!(opened, Some(ArtifactId::of(&local(SHORT))));
}

fn what_a_predicate_accepts_is_paid_and_what_it_refuses_is_nobodys() {
    let scene = Scene::new();
    let predicate = std::fs::read(example("sha256-search").join("predicate.wasm")).unwrap();
    let begin = |name: &str| {
        let folder = example(name);
        let program = Program::open(&folder).unwrap();
        let task = scene.client.submit(scene.village(), &program, SHORT, |spec| {
            spec.class = Class::Predicate(ArtifactId::of(&predicate));
        });
        let lease = scene.lease(task);
        (lease, scene.client.dial(&scene.agent().nearby()), folder)
    };
    let reader = scene.agent().contact().sealing;
    let deliver = |session: &opengpu_link::Session, lease: LeaseId, folder: &Path| {
        scene.client.deliver(session, reader, lease, (folder, SHORT), None)
    };

    let (lease, session, folder) = begin("sha256-search");
    let early = deliver(&session, lease, &folder).unwrap_err();
    assert!(matches!(early, SessionError::Refused(Refusal::Missing)), "{early}");
    scene.client.put(&session, &predicate);
    deliver(&session, lease, &folder).unwrap();
    let news = scene.client.follow(&session, lease, 0);
    assert_eq!(news.last(), Some(&News::Ended { ending: Ending::Completed }));
    let (reason, verdict, paid) = scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    assert!(!paid.is_zero(), "it is paid");
    assert_eq!(scene.client.output(&session, lease), local(SHORT));
    assert!(emitted(&news).is_empty(), "nothing is told before it is accepted");
    drop(session);

    // What another program makes of the same input is not what the client wants.
    let (lease, session, folder) = begin("word-count");
    scene.client.put(&session, &predicate);
    deliver(&session, lease, &folder).unwrap();
    let news = scene.client.follow(&session, lease, 0);
    let (reason, verdict, paid) = scene.closed(lease);
    assert_eq!((reason, verdict, paid), (CloseReason::Released, None, Amount::ZERO));
    assert!(emitted(&news).is_empty());
    let refused = scene.client.refused(&session, lease);
    assert!(matches!(refused, SessionError::Refused(Refusal::Missing)), "{refused}");
    let provider = scene.village().provider(&person(2)).unwrap();
    assert_eq!(provider.reputation.broken, 0, "nobody is to blame");
}

fn what_a_program_says_is_for_its_client_unless_a_predicate_decides() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let manifest = "name = 'a'\nkind = 'native'\ncode = 'a.py'\nclass = 'none'\n";
    std::fs::write(folder.path().join("program.toml"), manifest).unwrap();
    let script = "print('printed')\nraise ValueError('the output')\n";
    std::fs::write(folder.path().join("a.py"), script).unwrap();
    let predicate = std::fs::read(example("sha256-search").join("predicate.wasm")).unwrap();
    let program = Program::open(folder.path()).unwrap();
    let told = |class: Class, ending: Ending| {
        let task = scene.client.submit(scene.village(), &program, SHORT, |spec| spec.class = class);
        let lease = scene.lease(task);
        let session = scene.client.dial(&scene.agent().nearby());
        scene.client.put(&session, &predicate);
        let reader = scene.agent().contact().sealing;
        scene.client.deliver(&session, reader, lease, (folder.path(), SHORT), None).unwrap();
        let news = scene.client.follow(&session, lease, 0);
        assert_eq!(news.last(), Some(&News::Ended { ending }), "{news:?}");
        scene.closed(lease);
        news
    };
    let said = |news: &[News]| {
        let said = news.iter().filter_map(|news| match news {
            News::Logged { bytes } => Some(bytes.to_vec()),
            _ => None,
        });
        String::from_utf8(said.flatten().collect()).unwrap()
    };
    let why = |news: &[News]| match news.get(news.len().saturating_sub(2)) {
        Some(News::Failed { why }) => why.to_string(),
        other => panic!("{other:?}"),
    };
    let open = told(Class::Nothing, Ending::Failed);
    assert!(said(&open).contains("printed\n"), "{}", said(&open));
    assert!(said(&open).contains("ValueError: the output\n"), "{}", said(&open));
    assert_eq!(why(&open), "the program failed: it ended with code 1");
    let judged = told(Class::Predicate(ArtifactId::of(&predicate)), Ending::Open);
    assert_eq!((said(&judged).as_str(), why(&judged).as_str()), ("", "the program failed"));
}

fn a_provider_drains_and_works_again_as_its_owner_wishes() {
    let scene = Scene::new();
    let becomes = |status: ProviderStatus| {
        let is = || (scene.village().provider(&person(2))?.status == status).then_some(());
        scene.village().until("another status", is);
    };
    scene.agent().wish(Wish::Drain);
    becomes(ProviderStatus::Draining);
    scene.agent().wish(Wish::Work);
    becomes(ProviderStatus::Active);
    assert_eq!(scene.agent().status().wish, Wish::Work);
}

fn keys_of_a_provider_change_while_its_leases_go_on() {
    let mut scene = Scene::new();
    let (lease, session) = scene.run(LONG);
    scene.village().until("a checkpoint", || scene.checkpoint(lease));
    let old = scene.agent().contact().clone();
    let folder = example("sha256-search");
    let program = Program::open(&folder).unwrap();
    drop(session);
    drop(scene.agent.take());
    let setup = Setup { number: 2, relay: None, times: 1, turn: 1, devices: 1 };
    scene.agent = Some(start_with(&scene.chain, setup, scene.folder.path(), scene.owner.clone()));
    scene.agent().announce(Amount::whole(200)).unwrap();
    let provider = scene.village().provider(&person(2)).unwrap();
    assert_eq!(provider.contact, *scene.agent().contact(), "the chain has the new ones");
    assert!(provider.contact.session != old.session && provider.contact.sealing != old.sealing);

    let session = scene.client.dial(&scene.agent().nearby());
    let news = scene.client.follow(&session, lease, 0);
    let (reason, verdict, _) = scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    assert_eq!(emitted(&news), local(LONG));
    assert_eq!(scene.village().task(lease.task).leases.len(), 1, "nobody else was needed");

    // A client that still seals to the key before is understood; with another one it is not.
    for (reader, opens) in [(old.sealing, true), (scene.client.sealing(), false)] {
        let task = scene.client.submit(scene.village(), &program, SHORT, |_| {});
        let lease = scene.lease(task);
        let delivered = scene.client.deliver(&session, reader, lease, (&folder, SHORT), None);
        assert_eq!(delivered.is_ok(), opens, "{delivered:?}");
        scene.closed(lease);
    }
}
