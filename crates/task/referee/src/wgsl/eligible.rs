//! What a parsed module may contain, so that every device and the referee agree about it.
//!
//! Runs on the module of one entry point, with all that it does not use taken away. Floats that a
//! source names are found before, in `scan`; here the types of all that is left are looked at.

use super::{Ineligible, Limits};
use naga::{
    AddressSpace, ArraySize, AtomicFunction, Barrier, Block, BuiltIn, Expression, Function, Handle,
    MathFunction, Module, RelationalFunction, Scalar, ScalarKind, ShaderStage, Statement,
    StorageAccess, TypeInner,
    proc::TypeResolution,
    valid::{FunctionInfo, ModuleInfo},
};
use std::collections::BTreeSet;

/// Types within types.
const DEPTH: u32 = 16;
/// Blocks within blocks.
const BLOCKS: u64 = 256;

/// Refuses what is not exact. The module has one entry point.
pub(super) fn eligible(
    module: &Module,
    info: &ModuleInfo,
    limits: &Limits,
) -> Result<(), Ineligible> {
    if !module.overrides.is_empty() {
        return refuse("an `override`");
    }
    types(module)?;
    globals(module)?;
    for (handle, function) in module.functions.iter() {
        self::function(module, function, &info[handle])?;
    }
    for entry in &module.entry_points {
        if entry.stage != ShaderStage::Compute || entry.workgroup_size_overrides.is_some() {
            return refuse("a workgroup size that is no constant");
        }
        let size = entry.workgroup_size.iter().map(|n| u64::from(*n)).product::<u64>();
        let limit = u64::from(limits.group);
        if size > limit {
            return Err(Ineligible::TooLarge { what: "invocations of a group", size, limit });
        }
        function(module, &entry.function, info.get_entry_point(0))?;
        builtins(module, &entry.function)?;
    }
    Ok(())
}

fn refuse<T>(what: &'static str) -> Result<T, Ineligible> {
    Err(Ineligible::Construct { what })
}

fn scalar(scalar: Scalar) -> Result<(), Ineligible> {
    match (scalar.kind, scalar.width) {
        (ScalarKind::Sint | ScalarKind::Uint, 4) | (ScalarKind::Bool, _) => Ok(()),
        (ScalarKind::Float | ScalarKind::AbstractFloat, _) => refuse("a float"),
        _ => refuse("an integer that has not 32 bits"),
    }
}

fn types(module: &Module) -> Result<(), Ineligible> {
    let mut depths: Vec<u32> = Vec::new();
    for (_, ty) in module.types.iter() {
        // Types stand behind those that they are made of.
        let depth_of = |base: Handle<naga::Type>| depths.get(base.index()).copied().unwrap_or(0);
        let below = match &ty.inner {
            TypeInner::Scalar(s) | TypeInner::Vector { scalar: s, .. } | TypeInner::Atomic(s) => {
                scalar(*s)?;
                0
            }
            TypeInner::ValuePointer { scalar: s, .. } => {
                scalar(*s)?;
                0
            }
            TypeInner::Pointer { base, .. } => depth_of(*base),
            TypeInner::Array { size: ArraySize::Pending(_), .. } => {
                return refuse("an array whose length is no constant");
            }
            TypeInner::Array { base, .. } => depth_of(*base),
            TypeInner::Struct { members, .. } => {
                members.iter().map(|member| depth_of(member.ty)).max().unwrap_or(0)
            }
            TypeInner::Matrix { .. } => return refuse("a matrix"),
            _ => return refuse("a texture, a sampler, a ray or a cooperative matrix"),
        };
        let depth = below.saturating_add(1);
        if depth > DEPTH {
            let (size, limit) = (u64::from(depth), u64::from(DEPTH));
            return Err(Ineligible::TooLarge { what: "types within types", size, limit });
        }
        depths.push(depth);
    }
    Ok(())
}

fn globals(module: &Module) -> Result<(), Ineligible> {
    for (_, global) in module.global_variables.iter() {
        match global.space {
            AddressSpace::Private | AddressSpace::WorkGroup => {}
            AddressSpace::Uniform | AddressSpace::Storage { .. } if global.binding.is_some() => {}
            _ => return refuse("a variable outside of buffers and the group's memory"),
        }
        if let (AddressSpace::Storage { access }, Some(at)) = (global.space, global.binding)
            && access.contains(StorageAccess::STORE)
            && padded(module, global.ty)
        {
            return Err(Ineligible::Padding { group: at.group, binding: at.binding });
        }
    }
    Ok(())
}

/// Whether a type has bytes in memory that no scalar in it owns: a store of the whole may change
/// them, or may not.
fn padded(module: &Module, ty: Handle<naga::Type>) -> bool {
    let size = |ty: Handle<naga::Type>| module.types[ty].inner.size(module.to_ctx());
    match &module.types[ty].inner {
        TypeInner::Array { base, stride, .. } => size(*base) != *stride || padded(module, *base),
        TypeInner::Struct { members, span } => {
            let mut end = 0u32;
            for member in members {
                if member.offset != end || padded(module, member.ty) {
                    return true;
                }
                end = end.saturating_add(size(member.ty));
            }
            end != *span
        }
        _ => false,
    }
}

fn builtins(module: &Module, function: &Function) -> Result<(), Ineligible> {
    let check = |binding: &Option<naga::Binding>| match binding {
        Some(naga::Binding::BuiltIn(
            BuiltIn::GlobalInvocationId
            | BuiltIn::LocalInvocationId
            | BuiltIn::LocalInvocationIndex
            | BuiltIn::WorkGroupId
            | BuiltIn::NumWorkGroups,
        )) => Ok(()),
        _ => refuse("an argument that is none of the five places in a grid"),
    };
    for argument in &function.arguments {
        match &module.types[argument.ty].inner {
            TypeInner::Struct { members, .. } => {
                members.iter().try_for_each(|member| check(&member.binding))?;
            }
            _ => check(&argument.binding)?,
        }
    }
    Ok(())
}

fn function(module: &Module, function: &Function, info: &FunctionInfo) -> Result<(), Ineligible> {
    let mut used = BTreeSet::new();
    for (handle, expression) in function.expressions.iter() {
        self::expression(expression)?;
        operands(expression, |operand| {
            used.insert(operand);
        });
        let inner = match &info[handle].ty {
            TypeResolution::Handle(ty) => &module.types[*ty].inner,
            TypeResolution::Value(inner) => inner,
        };
        if let Some(found) = inner.scalar() {
            scalar(found)?;
        }
    }
    block(&function.body, &mut used, 1)?;
    let observed = used
        .iter()
        .any(|handle| matches!(function.expressions[*handle], Expression::AtomicResult { .. }));
    // What an atomic operation finds depends on who came before.
    if observed { refuse("the value that an atomic operation returns") } else { Ok(()) }
}

fn expression(expression: &Expression) -> Result<(), Ineligible> {
    use MathFunction as M;
    match expression {
        Expression::Literal(literal) => scalar(literal.scalar()),
        Expression::Constant(_)
        | Expression::ZeroValue(_)
        | Expression::Compose { .. }
        | Expression::Access { .. }
        | Expression::AccessIndex { .. }
        | Expression::Splat { .. }
        | Expression::Swizzle { .. }
        | Expression::FunctionArgument(_)
        | Expression::GlobalVariable(_)
        | Expression::LocalVariable(_)
        | Expression::Load { .. }
        | Expression::Unary { .. }
        | Expression::Binary { .. }
        | Expression::Select { .. }
        | Expression::As { .. }
        | Expression::CallResult(_)
        | Expression::AtomicResult { .. }
        | Expression::ArrayLength(_) => Ok(()),
        Expression::Relational {
            fun: RelationalFunction::All | RelationalFunction::Any, ..
        } => Ok(()),
        Expression::Math { fun, .. } => match fun {
            M::Abs | M::Min | M::Max | M::Clamp | M::Sign | M::Dot => Ok(()),
            M::CountOneBits | M::CountLeadingZeros | M::CountTrailingZeros | M::ReverseBits => {
                Ok(())
            }
            M::FirstLeadingBit | M::FirstTrailingBit | M::ExtractBits | M::InsertBits => Ok(()),
            M::Dot4I8Packed | M::Dot4U8Packed | M::Pack4xI8 | M::Pack4xU8 => Ok(()),
            M::Unpack4xI8 | M::Unpack4xU8 => Ok(()),
            _ => refuse("this built-in function"),
        },
        _ => refuse("a texture, a subgroup, a ray or a uniform load of the group's memory"),
    }
}

/// Every expression that another one is made of.
fn operands(expression: &Expression, mut each: impl FnMut(Handle<Expression>)) {
    match expression {
        Expression::Compose { components, .. } => components.iter().copied().for_each(each),
        Expression::Access { base, index } => [*base, *index].into_iter().for_each(each),
        Expression::AccessIndex { base: one, .. }
        | Expression::Splat { value: one, .. }
        | Expression::Swizzle { vector: one, .. }
        | Expression::Load { pointer: one }
        | Expression::Unary { expr: one, .. }
        | Expression::Relational { argument: one, .. }
        | Expression::As { expr: one, .. }
        | Expression::ArrayLength(one) => each(*one),
        Expression::Binary { left, right, .. } => [*left, *right].into_iter().for_each(each),
        Expression::Select { condition, accept, reject } => {
            [*condition, *accept, *reject].into_iter().for_each(each);
        }
        Expression::Math { arg, arg1, arg2, arg3, .. } => {
            [Some(*arg), *arg1, *arg2, *arg3].into_iter().flatten().for_each(each);
        }
        _ => {}
    }
}

/// Refuses statements, and notes the expressions that they use.
fn block(
    body: &Block,
    used: &mut BTreeSet<Handle<Expression>>,
    depth: u64,
) -> Result<(), Ineligible> {
    if depth > BLOCKS {
        let what = "blocks within blocks";
        return Err(Ineligible::TooLarge { what, size: depth, limit: BLOCKS });
    }
    let below = depth.saturating_add(1);
    for statement in body.iter() {
        match statement {
            Statement::Emit(_) | Statement::Break | Statement::Continue => {}
            Statement::ControlBarrier(flags)
                if (Barrier::STORAGE | Barrier::WORK_GROUP).contains(*flags) => {}
            Statement::Block(inner) => block(inner, used, below)?,
            Statement::If { condition, accept, reject } => {
                used.insert(*condition);
                block(accept, used, below)?;
                block(reject, used, below)?;
            }
            Statement::Switch { selector, cases } => {
                used.insert(*selector);
                for case in cases {
                    block(&case.body, used, below)?;
                }
            }
            Statement::Loop { body, continuing, break_if } => {
                used.extend(break_if);
                block(body, used, below)?;
                block(continuing, used, below)?;
            }
            Statement::Return { value } => used.extend(value),
            Statement::Store { pointer, value } => used.extend([*pointer, *value]),
            Statement::Call { arguments, .. } => used.extend(arguments),
            Statement::Atomic { fun: AtomicFunction::Exchange { .. }, .. } => {
                return refuse("an atomic exchange");
            }
            Statement::Atomic { pointer, value, .. } => used.extend([*pointer, *value]),
            _ => return refuse("a texture, a subgroup, a ray or a uniform load"),
        }
    }
    Ok(())
}
