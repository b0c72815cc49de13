//! Trials of devices: an agent whose device is there passes, and one that lists it again and again does not.

use crate::village::{Account, Village, person};
use crate::{Owner, SHORT, Scene, device, example, launch, policy};
use opengpu_agent::{Agent, Config, Group};
use opengpu_exec::Program;
use opengpu_types::{Amount, MarketParameters, Millis, ProviderStatus, Rating, TrialParameters};
use opengpu_verify::trial;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Everybody is tried soon.
fn market() -> MarketParameters {
    let trials = TrialParameters {
        period: Millis(3_000),
        work: Millis(2_000),
        allowance: Millis(1_000),
        ..TrialParameters::BRIEF
    };
    MarketParameters { trials, ..MarketParameters::LOCAL }
}

/// Millions of operations a second that a thread of this machine does now, and half of it: so a device
/// that is alone is in time if it gets a third of a core, and of twenty that are one and the same none is
/// if they get all of two.
fn rated() -> u64 {
    let (began, mut lanes, mut done) = (Instant::now(), vec![0; 4_096], 0u64);
    while began.elapsed() < Duration::from_millis(300) {
        trial::ends([1, 2], 0, &mut lanes, 16);
        done += 4_096 * 16 * u64::from(trial::OPERATIONS);
    }
    let micros = u64::try_from(began.elapsed().as_micros()).unwrap();
    (done / micros / 2).max(1)
}

/// An agent that lists the processor so many times.
fn start(scene: &Scene, times: u8, integers: u64, folder: &Path) -> Agent {
    let account = Account { village: Arc::clone(&scene.chain.0), key: person(2) };
    let link = opengpu_link::Config::nearby([72; 32], "127.0.0.1:0".parse().unwrap());
    let rating = Rating { integers, ..device().rating };
    let config = Config {
        devices: vec![Group {
            device: opengpu_agent::policy::Device { count: times, rating, ..device() },
            ids: vec![Some("cpu".to_owned()); usize::from(times)],
        }],
        ..Config::new(folder.to_owned(), link, [2; 32], launch(), policy())
    };
    Agent::start(config, Arc::new(account), Box::new(Owner::default())).unwrap()
}

fn status(village: &Village) -> (ProviderStatus, bool) {
    let provider = village.provider(&person(2)).unwrap();
    (provider.status, provider.proven.is_some())
}

pub(crate) fn a_device_that_is_there_is_tried_and_proven() {
    let scene = Scene::on(Village::start_with(market()));
    let agent = start(&scene, 1, rated(), scene.folder.path());
    agent.announce(Amount::whole(200)).unwrap();
    let village = scene.village();
    village.until("a trial to be passed", || status(village).1.then_some(()));
    let provider = village.provider(&person(2)).unwrap();
    assert_eq!((provider.status, provider.reputation.broken), (ProviderStatus::Active, 0));
}

pub(crate) fn a_device_that_is_listed_again_and_again_is_found_and_alone_it_is_proven() {
    let scene = Scene::on(Village::start_with(market()));
    let (village, rating) = (scene.village(), rated());
    let agent = start(&scene, 20, rating, scene.folder.path());
    agent.announce(Amount::whole(200)).unwrap();
    let unproven = ProviderStatus::Unproven { draining: false };
    let found = || (status(village) == (unproven, false)).then_some(());
    village.until("it to be found", found);
    assert!(village.provider(&person(2)).unwrap().reputation.broken > 0);
    let program = Program::open(&example("sha256-search")).unwrap();
    let task = scene.client.submit(village, &program, SHORT, |_| {});
    assert!(village.task(task).leases.is_empty(), "nothing is leased to it");
    // Its owner says what is true; the agent asks for another trial by itself.
    drop(agent);
    let agent = start(&scene, 1, rating, scene.folder.path());
    agent.announce(Amount::ZERO).unwrap();
    let proven = || (status(village) == (ProviderStatus::Active, true)).then_some(());
    village.until("it to be proven", proven);
}
