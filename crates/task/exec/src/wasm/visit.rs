//! One visit to a program: a fresh instance, its argument, its answer.
//!
//! The order of what happens in a visit is part of the interface and the same as the referee's.

use super::chain;
use crate::backend::Work;
use crate::fault::{Fault, Grown, Refusal};
use crate::stop::Stop;
use std::sync::Arc;
use wasmtime::{
    ExternType, Instance, InstancePre, Memory, Module, ModuleExport, ResourceLimiter, Store, Trap,
    TypedFunc, UpdateDeadline, ValType, WasmParams, WasmResults,
};

/// Where the functions of a program are.
pub(super) struct Exports {
    memory: ModuleExport,
    alloc: ModuleExport,
    init: ModuleExport,
    steps: ModuleExport,
    step: ModuleExport,
    finish: ModuleExport,
    emitted: Option<ModuleExport>,
    /// `reads` and `feed`: both or none.
    input: Option<(ModuleExport, ModuleExport)>,
}

impl Exports {
    /// Finds the functions, each in its shape.
    pub(super) fn of(module: &Module) -> Result<Self, Refusal> {
        use ValType::{I32, I64};
        let needed = |name, takes: &[ValType], gives: &[ValType]| {
            function(module, name, takes, gives)?.ok_or_else(|| shape(name))
        };
        if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
            return Err(shape("memory"));
        }
        let input = match (
            function(module, "reads", &[I32, I32, I64], &[I64])?,
            function(module, "feed", &[I32, I32], &[])?,
        ) {
            (Some(reads), Some(feed)) => Some((reads, feed)),
            (None, None) => None,
            _ => return Err(Refusal::program("`reads` and `feed` belong together")),
        };
        Ok(Self {
            memory: module.get_export_index("memory").ok_or_else(|| shape("memory"))?,
            alloc: needed("alloc", &[I32], &[I32])?,
            init: needed("init", &[I32, I32], &[I64])?,
            steps: needed("steps", &[I32, I32], &[I64])?,
            step: needed("step", &[I32, I32, I64], &[I64])?,
            finish: needed("finish", &[I32, I32], &[I64])?,
            emitted: function(module, "emitted", &[], &[I64])?,
            input,
        })
    }
}

fn shape(name: &str) -> Refusal {
    Refusal::program(format_args!("the module does not export `{name}` in the shape of a program"))
}

/// A function of a module; none if there is no such export, an error if it has another shape.
fn function(
    module: &Module,
    name: &str,
    takes: &[ValType],
    gives: &[ValType],
) -> Result<Option<ModuleExport>, Refusal> {
    let same = |found: &mut dyn Iterator<Item = ValType>, expected: &[ValType]| {
        let found: Vec<_> = found.collect();
        found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| ValType::eq(found, expected))
    };
    match module.get_export(name) {
        None => Ok(None),
        Some(ExternType::Func(found))
            if same(&mut found.params(), takes) && same(&mut found.results(), gives) =>
        {
            Ok(module.get_export_index(name))
        }
        Some(_) => Err(shape(name)),
    }
}

/// What the engine holds for a guest.
pub(super) struct Guest {
    limit: usize,
    /// The guest wanted more memory than it may have.
    exceeded: bool,
    /// What it has on the device, if it uses one.
    #[cfg(feature = "gpu")]
    pub(super) session: Option<super::ogpu::Session>,
}

impl Guest {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            limit,
            exceeded: false,
            #[cfg(feature = "gpu")]
            session: None,
        }
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        self.exceeded = desired > self.limit;
        if self.exceeded {
            return Err(wasmtime::Error::msg("more memory was wanted than is allowed"));
        }
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(true)
    }
}

/// A fresh instance that holds its argument.
pub(super) struct Visit<'a> {
    store: Store<Guest>,
    guest: Instance,
    memory: Memory,
    exports: &'a Exports,
    stop: Arc<Stop>,
    fuel: u64,
    fuel_limit: u64,
    state_limit: u64,
    place: i32,
    length: i32,
}

impl<'a> Visit<'a> {
    /// Makes an instance and writes the argument where it wants it.
    pub(super) fn open(
        ready: &InstancePre<Guest>,
        exports: &'a Exports,
        guest: Guest,
        argument: &[u8],
        work: &Work<'_>,
    ) -> Result<Self, Fault> {
        work.stop.check()?;
        let mut store = Store::new(ready.module().engine(), guest);
        store.limiter(|guest| guest);
        let fuel = work.fuel_left();
        store.set_fuel(fuel).expect("the engine counts fuel");
        store.set_epoch_deadline(1);
        let stop = Arc::clone(&work.stop);
        store.epoch_deadline_callback(move |_| {
            Ok(if stop.fault().is_some() {
                UpdateDeadline::Interrupt
            } else {
                UpdateDeadline::Continue(1)
            })
        });
        let limits = work.limits;
        let guest = match ready.instantiate(&mut store) {
            Ok(guest) => guest,
            Err(error) if store.data().exceeded => {
                drop(error);
                return Err(Fault::Memory { limit: limits.memory });
            }
            Err(error) => return Err(Fault::program(chain(&error))),
        };
        let memory = guest
            .get_module_export(&mut store, &exports.memory)
            .and_then(wasmtime::Extern::into_memory)
            .expect("a program exports its memory");
        let mut visit = Self {
            store,
            guest,
            memory,
            exports,
            stop: Arc::clone(&work.stop),
            fuel,
            fuel_limit: limits.fuel,
            state_limit: limits.state,
            place: 0,
            length: 0,
        };
        (visit.place, visit.length) = visit.hand_over(argument)?;
        Ok(visit)
    }

    /// Writes bytes where the guest wants them.
    fn hand_over(&mut self, bytes: &[u8]) -> Result<(i32, i32), Fault> {
        let length = u32::try_from(bytes.len())
            .map_err(|_| Fault::program("more bytes than a module can address"))?
            .cast_signed();
        let exports = self.exports;
        let place: i32 = self.ask(&exports.alloc, length)?;
        let start = usize::try_from(place.cast_unsigned()).unwrap_or(usize::MAX);
        let memory = self.memory.data_mut(&mut self.store);
        let room = start.checked_add(bytes.len()).and_then(|end| memory.get_mut(start..end));
        let Some(room) = room else {
            return Err(Fault::program("`alloc` gave a place outside of the memory"));
        };
        room.copy_from_slice(bytes);
        Ok((place, length))
    }

    pub(super) fn init(&mut self) -> Result<Vec<u8>, Fault> {
        let exports = self.exports;
        let given: i64 = self.ask(&exports.init, (self.place, self.length))?;
        self.read(given)
    }

    pub(super) fn steps(&mut self) -> Result<u64, Fault> {
        let exports = self.exports;
        let given: i64 = self.ask(&exports.steps, (self.place, self.length))?;
        Ok(given.cast_unsigned())
    }

    /// Gives the part of the input that a step reads.
    pub(super) fn feed(
        &mut self,
        input: &[u8],
        number: u64,
        work: &mut Work<'_>,
    ) -> Result<(), Fault> {
        let exports = self.exports;
        let Some((reads, feed)) = &exports.input else { return Ok(()) };
        let number = number.cast_signed();
        let range: i64 = self.ask(reads, (self.place, self.length, number))?;
        let (start, length) = halves(range);
        let range = start.checked_add(length).map(|end| start..end);
        let Some((range, part)) = range.and_then(|it| Some((it.clone(), input.get(it)?))) else {
            return Err(Fault::program("`reads` wants what is not in the input"));
        };
        work.read(Some(range));
        let (place, length) = self.hand_over(part)?;
        self.ask(feed, (place, length))
    }

    pub(super) fn step(&mut self, number: u64) -> Result<Vec<u8>, Fault> {
        let exports = self.exports;
        let parameters = (self.place, self.length, number.cast_signed());
        let given: i64 = self.ask(&exports.step, parameters)?;
        self.read(given)
    }

    /// What the step before adds to the output.
    pub(super) fn emitted(&mut self) -> Result<Vec<u8>, Fault> {
        let exports = self.exports;
        let Some(emitted) = &exports.emitted else { return Ok(Vec::new()) };
        let given: i64 = self.ask(emitted, ())?;
        self.read(given)
    }

    pub(super) fn finish(&mut self) -> Result<Vec<u8>, Fault> {
        let exports = self.exports;
        let given: i64 = self.ask(&exports.finish, (self.place, self.length))?;
        self.read(given)
    }

    /// Charges what the visit burned.
    pub(super) fn close(self, work: &mut Work<'_>) -> Result<(), Fault> {
        let left = self.store.get_fuel().expect("the engine counts fuel");
        work.burn(self.fuel.saturating_sub(left))
    }

    fn ask<P: WasmParams, R: WasmResults>(
        &mut self,
        export: &ModuleExport,
        parameters: P,
    ) -> Result<R, Fault> {
        let function = self
            .guest
            .get_module_export(&mut self.store, export)
            .and_then(wasmtime::Extern::into_func)
            .expect("the shape of every export was checked");
        let function: TypedFunc<P, R> =
            function.typed(&self.store).expect("the shape of every export was checked");
        function.call(&mut self.store, parameters).map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &wasmtime::Error) -> Fault {
        if self.store.data().exceeded {
            let limit = u64::try_from(self.store.data().limit).unwrap_or(u64::MAX);
            return Fault::Memory { limit };
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Fault::Fuel { limit: self.fuel_limit },
            Some(Trap::Interrupt) => self.stop.fault().unwrap_or(Fault::Cancelled),
            Some(trap) => Fault::program(trap),
            None => Fault::program(chain(error)),
        }
    }

    /// The bytes that a number names: their place above, their length below.
    fn read(&self, given: i64) -> Result<Vec<u8>, Fault> {
        let (start, length) = halves(given);
        let limit = self.state_limit;
        if u64::try_from(length).is_ok_and(|length| length > limit) {
            return Err(Fault::TooLarge { what: Grown::State, limit });
        }
        let bytes =
            start.checked_add(length).and_then(|end| self.memory.data(&self.store).get(start..end));
        bytes
            .map(<[u8]>::to_vec)
            .ok_or_else(|| Fault::program("what it gave does not lie inside its memory"))
    }
}

/// Two numbers in one: a place or offset above, a length below.
fn halves(given: i64) -> (usize, usize) {
    let half = |number: u64| usize::try_from(number & u64::from(u32::MAX)).unwrap_or(usize::MAX);
    let given = given.cast_unsigned();
    (half(given >> 32), half(given))
}
