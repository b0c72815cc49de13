//! From a normalised module to flat code.
//!
//! Functions are inlined where they are called (the language has no recursion), so a pointer is
//! always a variable that is known here, plus a number of words that may be computed. Every
//! expression has its own words in the frame; parts of values, conversions between integers and
//! arguments are the words of something else and cost nothing.
//!
//! What is refused here is refused for its size: too much code, too large a frame.

mod assemble;
mod constant;
mod expression;
mod place;
mod statement;

use super::{
    Binding, Ineligible, Limits,
    code::{Code, Length, Op, Places, Reg},
    layout::Layout,
};
use assemble::Assembler;
use naga::{
    AddressSpace, BuiltIn, Constant, Expression, Function, GlobalVariable, Handle, LocalVariable,
    Module, TypeInner,
    proc::TypeResolution,
    valid::{FunctionInfo, ModuleInfo},
};
use place::{Memory, Place};
use std::collections::BTreeMap;

/// Calls within calls.
const DEPTH: usize = 32;

/// Compiles the one entry point of a module.
pub(super) fn lower(
    module: &Module,
    info: &ModuleInfo,
    bindings: &[Binding],
    limits: &Limits,
) -> Result<Code, Ineligible> {
    let entry =
        module.entry_points.first().ok_or_else(|| Ineligible::Entry { name: String::new() })?;
    let mut lower = Lower {
        module,
        info,
        layout: Layout::new(module),
        out: Assembler::new(limits.ops),
        globals: BTreeMap::new(),
        constants: BTreeMap::new(),
        lengths: Vec::new(),
        shared: 0,
        barriers: false,
        loops: 0,
        around: None,
    };
    let places = lower.places()?;
    lower.global_variables(bindings, limits)?;
    let function_info = info.get_entry_point(0);
    let mut activation = Activation::new(&entry.function, function_info, Vec::new());
    for argument in &entry.function.arguments {
        let held = lower.entry_argument(argument, &places)?;
        activation.arguments.push(held);
    }
    activation.end = lower.out.label()?;
    lower.enter(&mut activation, 0)?;
    lower.out.bind(activation.end);
    lower.out.push(Op::End)?;
    let barriers = lower.barriers;
    let (lengths, shared) = (lower.lengths, lower.shared);
    let (ops, frame, numbers) = lower.out.finish();
    Ok(Code { ops, frame, shared, numbers, lengths, places, barriers })
}

/// What an expression is, once it was evaluated.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// Words of the frame that nothing changes while they are used.
    Value(Reg),
    /// A pointer.
    Place(Place),
}

/// Where `break` and `continue` go.
#[derive(Clone, Copy, Debug)]
struct Exits {
    leave: u32,
    again: Option<u32>,
}

/// One function at one place where it is called.
struct Activation<'a> {
    function: &'a Function,
    info: &'a FunctionInfo,
    arguments: Vec<Held>,
    held: BTreeMap<Handle<Expression>, Held>,
    locals: BTreeMap<Handle<LocalVariable>, Reg>,
    exits: Vec<Exits>,
    /// Where `return` goes, and where it leaves its value.
    end: u32,
    given: Option<(Reg, u16)>,
}

impl<'a> Activation<'a> {
    fn new(function: &'a Function, info: &'a FunctionInfo, arguments: Vec<Held>) -> Self {
        let (held, locals) = (BTreeMap::new(), BTreeMap::new());
        Self { function, info, arguments, held, locals, exits: Vec::new(), end: 0, given: None }
    }

    fn inner<'b>(&self, module: &'b Module, handle: Handle<Expression>) -> &'b TypeInner
    where
        'a: 'b,
    {
        match &self.info[handle].ty {
            TypeResolution::Handle(ty) => &module.types[*ty].inner,
            TypeResolution::Value(inner) => inner,
        }
    }
}

/// The compiler.
struct Lower<'a> {
    module: &'a Module,
    info: &'a ModuleInfo,
    layout: Layout<'a>,
    out: Assembler,
    globals: BTreeMap<Handle<GlobalVariable>, Place>,
    constants: BTreeMap<Handle<Constant>, Reg>,
    lengths: Vec<Length>,
    shared: u32,
    barriers: bool,
    /// Loops so far.
    loops: u16,
    /// The round of the loop that is being compiled.
    around: Option<Reg>,
}

impl<'a> Lower<'a> {
    fn places(&mut self) -> Result<Places, Ineligible> {
        Ok(Places {
            global: self.out.room(3)?,
            local: self.out.room(3)?,
            index: self.out.room(1)?,
            group: self.out.room(3)?,
            groups: self.out.room(3)?,
        })
    }

    /// Gives every variable outside of functions its place, and private ones their first value.
    fn global_variables(
        &mut self,
        bindings: &[Binding],
        limits: &Limits,
    ) -> Result<(), Ineligible> {
        for (handle, global) in self.module.global_variables.iter() {
            let words = self.layout.words(global.ty);
            let (memory, base) = match global.space {
                AddressSpace::Private => {
                    let base = self.out.room(words)?;
                    if let Some(init) = global.init {
                        let value = self.constant(&self.module.global_expressions, init)?;
                        self.copy(base, value, words)?;
                    }
                    (Memory::Frame, u32::from(base))
                }
                AddressSpace::WorkGroup => {
                    let base = self.shared;
                    self.shared = self.shared.saturating_add(words);
                    let (size, limit) = (u64::from(self.shared), u64::from(limits.shared / 4));
                    if size > limit {
                        let what = "words of memory of a group";
                        return Err(Ineligible::TooLarge { what, size, limit });
                    }
                    (Memory::Shared, base)
                }
                _ => {
                    let found = bindings.iter().position(|binding| {
                        global.binding.is_some_and(|at| {
                            (at.group, at.binding) == (binding.group, binding.binding)
                        })
                    });
                    let index = found.and_then(|index| u8::try_from(index).ok());
                    let too_many = || Ineligible::TooLarge {
                        what: "bindings",
                        size: u64::try_from(bindings.len()).unwrap_or(u64::MAX),
                        limit: u64::from(u8::MAX),
                    };
                    (Memory::Buffer(index.ok_or_else(too_many)?), 0)
                }
            };
            self.globals.insert(handle, Place { memory, base, offset: None, vector: None });
        }
        Ok(())
    }

    /// An argument of the entry point: a place in the grid, or a structure of such.
    fn entry_argument(
        &mut self,
        argument: &naga::FunctionArgument,
        places: &Places,
    ) -> Result<Held, Ineligible> {
        let register = |binding: &Option<naga::Binding>| match binding {
            Some(naga::Binding::BuiltIn(builtin)) => match builtin {
                BuiltIn::GlobalInvocationId => places.global,
                BuiltIn::LocalInvocationId => places.local,
                BuiltIn::LocalInvocationIndex => places.index,
                BuiltIn::WorkGroupId => places.group,
                _ => places.groups,
            },
            _ => places.groups,
        };
        let TypeInner::Struct { members, .. } = &self.module.types[argument.ty].inner else {
            return Ok(Held::Value(register(&argument.binding)));
        };
        let whole = self.out.room(self.layout.words(argument.ty))?;
        let mut to = whole;
        for member in members {
            let words = self.layout.words(member.ty);
            self.copy(to, register(&member.binding), words)?;
            to = to.saturating_add(u16::try_from(words).unwrap_or(u16::MAX));
        }
        Ok(Held::Value(whole))
    }

    /// Initialises the variables of a function and compiles its body.
    fn enter(&mut self, on: &mut Activation<'a>, depth: usize) -> Result<(), Ineligible> {
        if depth > DEPTH {
            let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
            let (size, limit) = (wide(depth), wide(DEPTH));
            return Err(Ineligible::TooLarge { what: "calls within calls", size, limit });
        }
        for (handle, variable) in on.function.local_variables.iter() {
            let words = self.layout.words(variable.ty);
            let base = self.out.room(words)?;
            if let Some(init) = variable.init {
                let value = self.constant(&on.function.expressions, init)?;
                self.copy(base, value, words)?;
            }
            on.locals.insert(handle, base);
        }
        let body = &on.function.body;
        self.block(on, body, depth)
    }

    fn copy(&mut self, to: Reg, from: Reg, words: u32) -> Result<(), Ineligible> {
        let count = self.out.count(words)?;
        if count > 0 { self.out.push(Op::Copy { to, from, count }) } else { Ok(()) }
    }
}
