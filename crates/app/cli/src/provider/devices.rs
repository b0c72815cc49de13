//! The devices that a provider offers: those that are alike are one offer.

use super::measure::Measured;
use crate::exit::Complaint;
use anyhow::{Context as _, Result};
use opengpu_agent::{Group, core::Devices, policy};
use opengpu_types::{DeviceClass, Precision, ProgramKind, Rating, Runtime, Set};
use serde::{Deserialize, Serialize};

/// Devices that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alike {
    /// What the market hears of them: of each figure that of the weakest.
    pub(crate) device: policy::Device,
    /// Each of them, in the sequence of their numbers.
    pub(crate) members: Vec<Measured>,
}

/// All offers of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offering(pub(crate) Vec<Alike>);

impl Offering {
    /// Of the devices that were measured, those that the owner names; all of them if nobody is named.
    pub(crate) fn new(measured: &[Measured], named: &[String]) -> Result<Self> {
        for (place, device) in measured.iter().enumerate() {
            if measured.iter().take(place).any(|other| other.id() == device.id()) {
                let told = format!("in device.json: `{}` is there twice", device.id());
                let hint = "list each device once, or give each share of it a number as its `share`; \
                            `opengpu provider init --force` measures again";
                return Err(Complaint::usage(told).hint(hint).into());
            }
        }
        for (place, id) in named.iter().enumerate() {
            if !measured.iter().any(|it| it.id() == *id) {
                let known: Vec<_> = measured.iter().map(Measured::id).collect();
                let hint = format!(
                    "measured were: {}; `opengpu provider init --force` measures again",
                    known.join(", ")
                );
                let told = format!("in `devices`: there is no device `{id}`");
                return Err(Complaint::usage(told).hint(hint).into());
            }
            if named.iter().take(place).any(|other| other == id) {
                let told = format!("in `devices`: `{id}` is there twice");
                return Err(Complaint::usage(told).hint("name each device once").into());
            }
        }
        let is_named = |it: &&Measured| named.is_empty() || named.iter().any(|id| it.id() == *id);
        let mut all: Vec<Alike> = Vec::new();
        for device in measured.iter().filter(is_named) {
            match all.iter_mut().find(|alike| alike.members.iter().all(|it| is_like(it, device))) {
                Some(alike) => alike.add(device),
                None => all.push(Alike::of(device)?),
            }
        }
        // A number is one device, in whatever sequence a file lists them.
        for alike in &mut all {
            alike.members.sort_by(|one, other| one.id().cmp(&other.id()));
        }
        Ok(Self(all))
    }

    /// In the words of the market.
    pub(crate) fn devices(&self) -> Vec<policy::Device> {
        self.0.iter().map(|alike| alike.device.clone()).collect()
    }

    /// The same with what the executors of each device are told to use.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let group = |alike: &Alike| Group {
            device: alike.device.clone(),
            ids: alike.members.iter().map(Measured::for_executors).collect(),
        };
        self.0.iter().map(group).collect()
    }

    /// The same offers in another sequence.
    pub(crate) fn in_sequence(&self, places: &[usize]) -> Self {
        Self(places.iter().filter_map(|place| self.0.get(*place).cloned()).collect())
    }

    /// All devices, offer by offer.
    pub(crate) fn members(&self) -> impl Iterator<Item = (u8, &Measured)> {
        let places = (0u8..).zip(&self.0);
        places.flat_map(|(place, alike)| alike.members.iter().map(move |it| (place, it)))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.members().count()
    }

    /// Ids of these devices of an offer.
    pub(crate) fn ids(&self, offer: u8, devices: &Devices) -> Vec<String> {
        let members = self.0.get(usize::from(offer)).map_or(&[][..], |alike| &alike.members);
        let found = devices.iter().filter_map(|number| members.get(usize::from(number)));
        found.map(|it| it.id().into_owned()).collect()
    }

    /// What a new provider allows: kinds of programs that harm nobody and run on any of them.
    pub(crate) fn kinds(&self) -> Vec<ProgramKind> {
        let gpu = self.members().any(|(_, it)| it.device.is_some()).then_some(ProgramKind::Gpu);
        std::iter::once(ProgramKind::Wasm).chain(gpu).collect()
    }

    /// For people, with what each of them is leased for, and what is wrong with it.
    pub(crate) fn shown(
        &self,
        lease_of: impl Fn(&str) -> Option<String>,
        trouble_of: impl Fn(&str) -> Option<String>,
    ) -> Vec<Shown> {
        let shown = self.members().map(|(offer, it)| Shown {
            device: it.id().into_owned(),
            name: it.name.clone(),
            class: it.class.clone(),
            offer,
            watts: it.watts,
            lease: lease_of(&it.id()),
            trouble: trouble_of(&it.id()),
        });
        shown.collect()
    }
}

/// A device of a provider, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    /// Its id.
    pub(crate) device: String,
    pub(crate) name: String,
    pub(crate) class: String,
    /// Which offer it belongs to.
    pub(crate) offer: u8,
    pub(crate) watts: u32,
    /// What it is leased for.
    pub(crate) lease: Option<String>,
    /// What is wrong with it, if anything is.
    #[serde(default)]
    pub(crate) trouble: Option<String>,
}

/// Whether two devices can stand in one offer.
fn is_like(one: &Measured, other: &Measured) -> bool {
    let key = |it: &Measured| {
        (it.class.clone(), it.memory_mib, it.device.is_some(), it.kernels, it.watts)
    };
    key(one) == key(other)
}

impl Alike {
    fn of(measured: &Measured) -> Result<Self> {
        let is_card = measured.device.is_some();
        let runtimes = [Some(Runtime::Cpu), measured.kernels.then_some(Runtime::Wgpu)];
        let mut precisions = Set::of(&[Precision::F32]);
        let mut kinds = Set::of(&[ProgramKind::Wasm, ProgramKind::Gpu]);
        if !is_card {
            precisions = precisions.with(Precision::F64).with(Precision::Int8);
            let gpu = Set::of(&[ProgramKind::Gpu]);
            kinds = if measured.kernels { Set::all() } else { Set::all().without(gpu) };
        }
        let device = policy::Device {
            class: DeviceClass::new(measured.class.as_str()).context("the class of the device")?,
            count: 1,
            memory: measured.memory_mib,
            rating: measured.rating(),
            precisions,
            runtimes: runtimes.into_iter().flatten().fold(Set::NONE, Set::with),
            kinds,
            watts: measured.watts,
        };
        Ok(Self { device, members: vec![measured.clone()] })
    }

    /// One more. A client pays for any of them as for the weakest.
    fn add(&mut self, measured: &Measured) {
        let (own, other) = (self.device.rating, measured.rating());
        self.device.rating = Rating {
            floats: own.floats.min(other.floats),
            integers: own.integers.min(other.integers),
            products: own.products.min(other.products),
            memory: own.memory.min(other.memory),
        };
        self.device.count = self.device.count.saturating_add(1);
        self.members.push(measured.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::measure::sample;

    fn card(id: &str, products: u64) -> Measured {
        let class = "some-card".to_owned();
        let device = Some(id.to_owned());
        Measured { device, class, products, kernels: true, watts: 250, ..sample() }
    }

    fn named(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn devices_that_are_alike_are_one_offer_as_good_as_the_weakest() {
        let measured = [card("a", 900), sample(), card("b", 800), card("c", 1_000)];
        let all = Offering::new(&measured, &[]).unwrap();
        let devices = all.devices();
        assert_eq!(devices.iter().map(|it| it.count).collect::<Vec<_>>(), [3, 1]);
        assert_eq!((devices[0].rating.products, devices[0].watts), (800, 250));
        assert_eq!(all.count(), 4);
        let numbers = Devices::NONE.with(1).with(2);
        assert_eq!(all.ids(0, &numbers), ["b", "c"]);
        assert_eq!(all.ids(1, &Devices::NONE.with(0)), ["cpu"]);
        assert_eq!(all.groups()[1].ids, [Some("cpu".to_owned())]);
        let turned = all.in_sequence(&[1, 0]);
        assert_eq!(turned.ids(0, &Devices::NONE.with(0)), ["cpu"]);
        let larger = Measured { memory_mib: 1, ..card("d", 900) };
        let apart = Offering::new(&[card("a", 900), larger], &[]).unwrap();
        assert_eq!(apart.devices().len(), 2, "of another memory");
    }

    #[test]
    fn an_owner_leaves_devices_out_and_hears_of_those_that_are_not_there() {
        let measured = [card("a", 900), card("b", 800), sample()];
        let some = Offering::new(&measured, &named(&["cpu", "b"])).unwrap();
        assert_eq!(some.members().map(|(_, it)| it.id()).collect::<Vec<_>>(), ["b", "cpu"]);
        let unknown = Offering::new(&measured, &named(&["z"])).unwrap_err().to_string();
        assert!(unknown.contains("no device `z`"), "{unknown}");
        let twice = Offering::new(&measured, &named(&["a", "a"])).unwrap_err().to_string();
        assert!(twice.contains("twice"), "{twice}");
    }

    #[test]
    fn a_device_is_listed_once_unless_each_share_of_it_has_a_number() {
        let twice = Offering::new(&[sample(), card("a", 1), card("a", 1)], &[]).unwrap_err();
        assert!(twice.to_string().contains("`a` is there twice"), "{twice}");
        let share = |share| Measured { share: Some(share), ..card("a", 1) };
        let shares = Offering::new(&[share(2), share(1)], &[]).unwrap();
        assert_eq!(shares.devices()[0].count, 2);
        assert_eq!(shares.ids(0, &Devices::NONE.with(0)), ["a/1"]);
        assert!(Offering::new(&[share(1), share(1)], &[]).is_err());
    }

    #[test]
    fn a_number_is_the_same_device_in_whatever_sequence_they_are_listed() {
        let (one, other) = ([card("a", 1), card("b", 1)], [card("b", 1), card("a", 1)]);
        for listed in [one, other] {
            let all = Offering::new(&listed, &[]).unwrap();
            assert_eq!(all.ids(0, &Devices::NONE.with(1)), ["b"]);
            assert_eq!(all.groups()[0].ids, ["a", "b"].map(|id| Some(id.to_owned())));
        }
    }

    #[test]
    fn an_offer_says_what_runs_on_its_devices() {
        let kinds = |measured| Offering::new(&[measured], &[]).unwrap().devices()[0].kinds;
        assert!(!kinds(sample()).has(ProgramKind::Gpu), "no kernels without a GPU");
        assert!(kinds(sample()).has(ProgramKind::Llm));
        let software = Measured { kernels: true, ..sample() };
        assert!(kinds(software).has(ProgramKind::Gpu));
        assert_eq!(kinds(card("a", 1)), Set::of(&[ProgramKind::Wasm, ProgramKind::Gpu]));
        let all = Offering::new(&[card("a", 1), sample()], &[]).unwrap();
        assert_eq!(all.kinds(), [ProgramKind::Wasm, ProgramKind::Gpu]);
    }
}
