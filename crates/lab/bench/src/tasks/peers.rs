//! Everyone who is measured beside ours.

use super::anvil::Anvil;
use crate::{
    error::BenchError,
    figures::Figures,
    peer::{Nats, Script},
    process::{Usage, own_usage},
    told::Told,
};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Names of the figures.
pub(super) const RAY_RATE: &str = "tasks of Ray per second";
pub(super) const RATIO: &str = "items per second, x Ray";
/// Calls of a peer in one turn.
const CALLS: u32 = 100;

/// Who runs, or why not.
pub(super) struct Peers {
    ray: Result<Script, String>,
    dask: Result<Script, String>,
    nats: Result<Nats, String>,
    anvil: Result<Anvil, String>,
}

impl Peers {
    pub(super) fn start(told: &Told, folder: &Path) -> Self {
        type Start<T> = fn(&Path, &Path) -> Result<T, BenchError>;
        fn begin<T>(told: &Told, folder: &Path, name: &str, start: Start<T>) -> Result<T, String> {
            start(&told.peer(name)?, folder).map_err(|error| error.to_string())
        }
        Self {
            ray: begin(told, folder, "ray", Script::ray),
            dask: begin(told, folder, "dask", Script::dask),
            nats: begin(told, folder, "nats", Nats::start),
            anvil: begin(told, folder, "anvil", Anvil::start),
        }
    }

    /// Why some of them are missing, by name.
    pub(super) fn missing(&self) -> Map<String, Value> {
        let all = [
            ("ray", self.ray.as_ref().err()),
            ("dask", self.dask.as_ref().err()),
            ("nats", self.nats.as_ref().err()),
            ("anvil", self.anvil.as_ref().err()),
        ];
        let missing = all.into_iter().filter_map(|(name, why)| Some((name, why?)));
        missing.map(|(name, why)| (name.to_owned(), json!(why))).collect()
    }

    /// One thing at a time.
    pub(super) fn one(&mut self, figures: &mut Figures) -> Result<(), BenchError> {
        if let Ok(ray) = &mut self.ray {
            figures.add("one call of Ray, p50, ms", ray.one(CALLS)?);
        }
        if let Ok(dask) = &mut self.dask {
            figures.add("one call of Dask, p50, ms", dask.one(CALLS / 4)?);
        }
        if let Ok(nats) = &mut self.nats {
            figures.add("one request through NATS, p50, ms", nats.one(CALLS)?);
        }
        if let Ok(anvil) = &mut self.anvil {
            let name = "one transfer on anvil, submit to receipt, p50, ms";
            figures.add(name, anvil.one(CALLS / 4)?);
        }
        Ok(())
    }

    /// As many as each can, after so many items of ours per second.
    pub(super) fn many(
        &mut self,
        ours: f64,
        count: u32,
        figures: &mut Figures,
    ) -> Result<(), BenchError> {
        if let Ok(ray) = &mut self.ray {
            let before = ray.usage();
            let rate = ray.many(count)?;
            figures.add(RAY_RATE, rate);
            figures.add(RATIO, ours / rate);
            let cost = each(&before, &ray.usage(), count);
            figures.add("processor time of a task of Ray, us", cost);
        }
        if let Ok(dask) = &mut self.dask {
            let (before, count) = (dask.usage(), count / 4);
            figures.add("tasks of Dask per second", dask.many(count)?);
            let cost = each(&before, &dask.usage(), count);
            figures.add("processor time of a task of Dask, us", cost);
        }
        if let Ok(nats) = &mut self.nats {
            // Whoever asks and whoever answers are threads of this process.
            let all = |nats: &Nats| [nats.usage(), own_usage()].into_iter().sum::<Usage>();
            let (before, count) = (all(nats), count.saturating_mul(10));
            figures.add("requests through NATS per second", nats.many(count)?);
            let cost = each(&before, &all(nats), count);
            figures.add("processor time of a request through NATS, us", cost);
        }
        Ok(())
    }
}

fn each(before: &Usage, after: &Usage, count: u32) -> f64 {
    after.since(before).as_secs_f64() * 1e6 / f64::from(count)
}
