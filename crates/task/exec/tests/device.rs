//! The devices of this machine, their ratings, and the checks of the machine.

#![cfg(feature = "gpu")]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::{collections::BTreeSet, time::Duration};

use opengpu_crypto::Seed;
use opengpu_exec::{
    device::{Device, DeviceId, Rating, bench, check, doctor, list},
    gpu::Kind,
};

const SEED: Seed = Seed([3; 32]);
const BUDGET: Duration = Duration::from_secs(20);

fn rate(device: &Device) -> Rating {
    let rating = bench(device, &SEED, BUDGET).unwrap();
    assert_eq!(rating.device, device.id);
    let parts =
        [rating.compute_gflops, rating.integer_gops, rating.bandwidth_gbs, rating.matmul_gflops];
    assert!(parts.iter().all(|part| part.is_finite() && *part > 0.0), "{rating:?}");
    assert!(rating.took_ms < 180_000, "a benchmark takes less than three minutes");
    rating
}

#[test]
fn every_device_is_listed_once_and_the_processor_last() {
    let devices = list();
    let ids: BTreeSet<_> = devices.iter().map(|device| device.id.clone()).collect();
    assert_eq!(ids.len(), devices.len());
    let cpu = devices.last().unwrap();
    assert_eq!((&cpu.id, cpu.kind, cpu.api), (&DeviceId::Cpu, Kind::Cpu, None));
    assert!(!cpu.name.is_empty());
    for gpu in devices.iter().filter(|device| device.id != DeviceId::Cpu) {
        assert!(gpu.api.is_some() && gpu.memory.is_some_and(|memory| memory.bytes > 0), "{gpu:?}");
    }
}

#[test]
fn a_gpu_gets_a_rating_that_any_processor_can_check() {
    let gpu = list().into_iter().find(|device| device.id != DeviceId::Cpu);
    let gpu = gpu.expect("a GPU, or Mesa's software driver (package mesa-vulkan-drivers)");
    let rating = rate(&gpu);
    assert!(rating.upload_gbs.is_some() && rating.download_gbs.is_some());
    assert!(rating.launch_us.is_some_and(|time| time > 0.0));
    assert!(check(&SEED, &rating));
    assert!(!check(&Seed([4; 32]), &rating), "another challenge");
    let text = serde_json::to_string(&rating).unwrap();
    assert!(text.len() < 100_000, "{} bytes", text.len());
    let mut told: Rating = serde_json::from_str(&text).unwrap();
    assert!(check(&SEED, &told), "and so after it was told to somebody");
    told.evidence.rounds += 1;
    assert!(!check(&SEED, &told), "more rounds than were computed");
}

#[test]
fn the_processor_gets_a_rating_too() {
    let cpu = list().pop().unwrap();
    let rating = rate(&cpu);
    assert_eq!((rating.upload_gbs, rating.launch_us), (None, None));
    assert!(check(&SEED, &rating));
}

#[test]
fn every_check_that_is_not_well_names_its_fix() {
    let folder = tempfile::tempdir().unwrap();
    let checks = doctor::checks(&folder.path().join("not/yet/there"));
    let names: BTreeSet<_> = checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!(names.len(), checks.len(), "{names:?}");
    for name in ["GPU", "NVIDIA driver", "disk space", "python3"] {
        assert!(names.contains(name), "{names:?}");
    }
    for check in &checks {
        assert!(!check.found.is_empty(), "{check:?}");
        assert_eq!(check.fix.is_none(), check.state == doctor::State::Ok, "{check:?}");
    }
}
