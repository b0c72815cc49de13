//! One visit to a program: a fresh instance, its argument, its answer, and what it emits.

use super::{ALLOC, EMITTED, FEED, Fault, Given, Limits, MEMORY, Part, READS};
use wasmi::{Instance, Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, WasmParams};

/// A fresh instance that holds its argument.
pub(super) struct Visit {
    store: Store<StoreLimits>,
    guest: Instance,
    memory: Memory,
    limits: Limits,
    place: i32,
    length: i32,
}

impl Visit {
    /// Makes an instance and writes the argument where it wants it.
    pub(super) fn open(module: &Module, limits: Limits, argument: &[u8]) -> Result<Self, Fault> {
        let bounds = StoreLimitsBuilder::new()
            .memory_size(limits.memory)
            .memories(1)
            .instances(1)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(module.engine(), bounds);
        store.limiter(|bounds| bounds);
        store.set_fuel(limits.fuel).expect("the engine counts fuel");
        let guest = Linker::new(module.engine())
            .instantiate_and_start(&mut store, module)
            .map_err(|error| Fault::of(&error))?;
        let memory = guest.get_memory(&store, MEMORY).expect("a program exports its memory");
        let mut visit = Self { store, guest, memory, limits, place: 0, length: 0 };
        (visit.place, visit.length) = visit.hand_over(argument)?;
        Ok(visit)
    }

    /// Writes bytes where the program wants them.
    fn hand_over(&mut self, bytes: &[u8]) -> Result<(i32, i32), Fault> {
        let limit = self.limits.state;
        let too_long = Fault::Argument { size: bytes.len(), limit };
        if bytes.len() > limit {
            return Err(too_long);
        }
        let length = i32::try_from(bytes.len()).map_err(|_| too_long)?;
        let alloc = self
            .guest
            .get_typed_func::<i32, i32>(&self.store, ALLOC)
            .expect("a program has this function in this shape");
        let place = alloc.call(&mut self.store, length).map_err(|error| Fault::of(&error))?;
        let start = unsigned(place);
        let memory = self.memory.data_mut(&mut self.store);
        let room = start.checked_add(bytes.len()).and_then(|end| memory.get_mut(start..end));
        room.ok_or(Fault::Given { limit })?.copy_from_slice(bytes);
        Ok((place, length))
    }

    /// Gives the part of the input that a step reads, if the program ever reads it.
    pub(super) fn feed(mut self, number: i64, input: Part<'_>) -> Result<Self, Fault> {
        if self.guest.get_func(&self.store, READS).is_none() {
            return Ok(self);
        }
        let wanted = self.enter(READS, |place, length| (place, length, number))?;
        let bytes = input.get(wanted).ok_or(Fault::Input)?;
        let (place, length) = self.hand_over(bytes)?;
        let feed = self
            .guest
            .get_typed_func::<(i32, i32), ()>(&self.store, FEED)
            .expect("a program has this function in this shape");
        feed.call(&mut self.store, (place, length)).map_err(|error| Fault::of(&error))?;
        Ok(self)
    }

    /// Enters a function on the argument and takes the bytes that it names.
    pub(super) fn give<P: WasmParams>(
        mut self,
        name: &str,
        parameters: impl FnOnce(i32, i32) -> P,
    ) -> Result<Given, Fault> {
        let bytes = self.bytes(name, parameters)?;
        Ok(Given { bytes, emitted: Vec::new(), fuel: self.fuel() })
    }

    /// As [`Self::give`], and then takes what the program emitted on the way, if it ever emits.
    pub(super) fn give_and_emit<P: WasmParams>(
        mut self,
        name: &str,
        parameters: impl FnOnce(i32, i32) -> P,
    ) -> Result<Given, Fault> {
        // The answer is taken first, so that nothing can be changed while it is asked about more.
        let bytes = self.bytes(name, parameters)?;
        let emitted = match self.guest.get_func(&self.store, EMITTED) {
            Some(_) => self.bytes(EMITTED, |_, _| ())?,
            None => Vec::new(),
        };
        Ok(Given { bytes, emitted, fuel: self.fuel() })
    }

    /// Enters a function on the argument and takes the number that it gives, and the fuel.
    pub(super) fn count<P: WasmParams>(
        mut self,
        name: &str,
        parameters: impl FnOnce(i32, i32) -> P,
    ) -> Result<(u64, u64), Fault> {
        let given = self.enter(name, parameters)?;
        Ok((given, self.fuel()))
    }

    fn bytes<P: WasmParams>(
        &mut self,
        name: &str,
        parameters: impl FnOnce(i32, i32) -> P,
    ) -> Result<Vec<u8>, Fault> {
        let given = self.enter(name, parameters)?;
        self.read(given)
    }

    fn enter<P: WasmParams>(
        &mut self,
        name: &str,
        parameters: impl FnOnce(i32, i32) -> P,
    ) -> Result<u64, Fault> {
        let function = self
            .guest
            .get_typed_func::<P, i64>(&self.store, name)
            .expect("a program has this function in this shape");
        let parameters = parameters(self.place, self.length);
        let given = function.call(&mut self.store, parameters);
        given.map(i64::cast_unsigned).map_err(|error| Fault::of(&error))
    }

    /// What was spent so far.
    fn fuel(&self) -> u64 {
        let left = self.store.get_fuel().expect("the engine counts fuel");
        self.limits.fuel.saturating_sub(left)
    }

    /// The bytes that a number names: their place above, their length below.
    fn read(&self, given: u64) -> Result<Vec<u8>, Fault> {
        let limit = self.limits.state;
        let half = |number: u64| usize::try_from(number & u64::from(u32::MAX)).ok();
        let bytes = || {
            let (place, length) = (half(given >> 32)?, half(given)?);
            let end = place.checked_add(length).filter(|_| length <= limit)?;
            self.memory.data(&self.store).get(place..end)
        };
        bytes().map(<[u8]>::to_vec).ok_or(Fault::Given { limit })
    }
}

/// Places in a memory have no sign.
fn unsigned(place: i32) -> usize {
    usize::try_from(place.cast_unsigned()).unwrap_or(usize::MAX)
}
