//! The normalising pass: a kernel with nothing left that drivers do in different ways.
//!
//! Its output goes to both sides: to the driver, and to the referee. The rules:
//!
//! | in the source | in the output |
//! |---|---|
//! | `a[i]` of a length n | `a[min(u32(i), n - 1)]`; n may be `arrayLength(&a)` |
//! | `x / y` unsigned | `x / select(y, 1, y == 0)`, so x / 0 = x |
//! | `x / y` signed | y becomes 1 also where x is the least integer and y is -1 |
//! | `x % y` unsigned | `x % select(y, 1, y == 0)`, so x % 0 = 0 |
//! | `x % y` signed | `x - x / y * y` with the y of the division |
//! | `x << y`, `x >> y` | `x << (y & 31)`, `x >> (y & 31)` |
//! | `abs(x)` | `max(x, -x)`, so the least integer stays |
//! | `clamp(x, l, h)` | `min(max(x, l), h)`, also where l > h |
//! | `sign(x)` | `min(max(x, -1), 1)` |
//! | `dot(a, b)` | the sum of the products |
//! | `extractBits(x, o, n)`, `insertBits(x, y, o, n)` | o is `min(o, 32)`, n `min(n, 32 - o)` |
//! | variables without a value | zero |
//!
//! Sums, differences, products and negations wrap; so the language says, and so all of naga's back
//! ends write them. Where a constant shows that a rule changes nothing, it is left out. The bounds
//! checks of the back ends find nothing to do here, whatever their policy.
//!
//! A function is built anew, expression by expression in the order of evaluation, so whatever a
//! rule adds stands before what uses it.

mod arithmetic;

use naga::{
    AddressSpace, Arena, ArraySize, Block, Expression, Function, Handle, Literal, Module, Range,
    ScalarKind, Span, Statement, SwitchCase, Type, TypeInner, UniqueArena, VectorSize,
    proc::TypeResolution,
    valid::{FunctionInfo, ModuleInfo},
};
use std::collections::BTreeMap;

/// Applies the rules above to all functions of a valid and eligible module.
pub(super) fn normalise(module: &mut Module, info: &ModuleInfo) {
    for (_, global) in module.global_variables.iter_mut() {
        if global.space == AddressSpace::Private && global.init.is_none() {
            let zero = Expression::ZeroValue(global.ty);
            global.init = Some(module.global_expressions.append(zero, Span::UNDEFINED));
        }
    }
    let types = &module.types;
    for (handle, function) in module.functions.iter_mut() {
        *function = Rebuild::function(types, function, &info[handle]);
    }
    for (index, entry) in module.entry_points.iter_mut().enumerate() {
        entry.function = Rebuild::function(types, &entry.function, info.get_entry_point(index));
    }
}

/// One function on its way from the old form to the new.
struct Rebuild<'a> {
    types: &'a UniqueArena<Type>,
    old: &'a Function,
    info: &'a FunctionInfo,
    new: Arena<Expression>,
    /// The new form of each old expression, once there is one.
    map: BTreeMap<Handle<Expression>, Handle<Expression>>,
    /// Numbers that are already there, by sign and bits.
    numbers: BTreeMap<(bool, u32), Handle<Expression>>,
    /// The statements of the block that is being built.
    block: Block,
    /// New expressions that no statement of the block evaluates yet.
    pending: Option<(Handle<Expression>, Handle<Expression>)>,
}

/// The shape of an integer operand.
#[derive(Clone, Copy)]
struct Shape {
    signed: bool,
    size: Option<VectorSize>,
}

impl<'a> Rebuild<'a> {
    fn function(
        types: &'a UniqueArena<Type>,
        old: &'a Function,
        info: &'a FunctionInfo,
    ) -> Function {
        let mut rebuild = Self {
            types,
            old,
            info,
            new: Arena::new(),
            map: BTreeMap::new(),
            numbers: BTreeMap::new(),
            block: Block::new(),
            pending: None,
        };
        let mut local_variables = old.local_variables.clone();
        for (_, variable) in local_variables.iter_mut() {
            variable.init = Some(match variable.init {
                Some(init) => rebuild.constant(init),
                None => rebuild.new.append(Expression::ZeroValue(variable.ty), Span::UNDEFINED),
            });
        }
        for (handle, expression) in old.expressions.iter() {
            // These are there from the start; no statement evaluates them.
            if expression.needs_pre_emit() {
                let span = old.expressions.get_span(handle);
                let new = rebuild.new.append(expression.clone(), span);
                rebuild.map.insert(handle, new);
            }
        }
        let body = rebuild.block(&old.body);
        let named = old.named_expressions.iter();
        let named_expressions = named
            .filter_map(|(handle, name)| Some((*rebuild.map.get(handle)?, name.clone())))
            .collect();
        Function {
            name: old.name.clone(),
            arguments: old.arguments.clone(),
            result: old.result.clone(),
            local_variables,
            expressions: rebuild.new,
            named_expressions,
            body,
            diagnostic_filter_leaf: old.diagnostic_filter_leaf,
        }
    }

    /// A constant that no statement evaluates; its depth is that of its type.
    fn constant(&mut self, handle: Handle<Expression>) -> Handle<Expression> {
        let mut expression = self.old.expressions[handle].clone();
        match &mut expression {
            Expression::Compose { components, .. } => {
                for component in components {
                    *component = self.constant(*component);
                }
            }
            Expression::Splat { value, .. } => *value = self.constant(*value),
            _ => {}
        }
        self.new.append(expression, self.old.expressions.get_span(handle))
    }

    /// The new form of an old expression.
    fn at(&mut self, handle: Handle<Expression>) -> Handle<Expression> {
        match self.map.get(&handle) {
            Some(new) => *new,
            // Folded constants are used without being evaluated.
            None => {
                let new = self.constant(handle);
                self.map.insert(handle, new);
                new
            }
        }
    }

    /// Adds an expression that the current block evaluates.
    fn emit(&mut self, expression: Expression) -> Handle<Expression> {
        let new = self.new.append(expression, Span::UNDEFINED);
        self.pending = match self.pending {
            Some((first, last)) if last.index().checked_add(1) == Some(new.index()) => {
                Some((first, new))
            }
            _ => {
                self.flush();
                Some((new, new))
            }
        };
        new
    }

    fn flush(&mut self) {
        if let Some((first, last)) = self.pending.take() {
            let range = Range::new_from_bounds(first, last);
            self.block.push(Statement::Emit(range), Span::UNDEFINED);
        }
    }

    fn inner(&self, handle: Handle<Expression>) -> &'a TypeInner {
        match &self.info[handle].ty {
            TypeResolution::Handle(ty) => &self.types[*ty].inner,
            TypeResolution::Value(inner) => inner,
        }
    }

    fn block(&mut self, old: &Block) -> Block {
        let outer = std::mem::take(&mut self.block);
        for (statement, span) in old.span_iter() {
            if let Statement::Emit(range) = statement {
                for handle in range.clone() {
                    let new = self.expression(handle);
                    self.map.insert(handle, new);
                }
                continue;
            }
            // What the statement needs may add constants, so it is built before all is evaluated.
            let new = self.statement(statement);
            self.flush();
            self.block.push(new, *span);
        }
        self.flush();
        std::mem::replace(&mut self.block, outer)
    }

    /// The new form of a block inside of the current one, which is evaluated up to here first.
    fn inner_block(&mut self, old: &Block) -> Block {
        self.flush();
        self.block(old)
    }

    fn statement(&mut self, old: &Statement) -> Statement {
        match old {
            Statement::Block(inner) => Statement::Block(self.inner_block(inner)),
            Statement::If { condition, accept, reject } => Statement::If {
                condition: self.at(*condition),
                accept: self.inner_block(accept),
                reject: self.inner_block(reject),
            },
            Statement::Switch { selector, cases } => Statement::Switch {
                selector: self.at(*selector),
                cases: cases
                    .iter()
                    .map(|case| SwitchCase {
                        value: case.value,
                        body: self.inner_block(&case.body),
                        fall_through: case.fall_through,
                    })
                    .collect(),
            },
            Statement::Loop { body, continuing, break_if } => {
                let body = self.inner_block(body);
                let continuing = self.inner_block(continuing);
                let break_if = break_if.map(|condition| self.at(condition));
                Statement::Loop { body, continuing, break_if }
            }
            Statement::Return { value } => {
                Statement::Return { value: value.map(|value| self.at(value)) }
            }
            Statement::Store { pointer, value } => {
                Statement::Store { pointer: self.at(*pointer), value: self.at(*value) }
            }
            Statement::Atomic { pointer, fun, value, result } => Statement::Atomic {
                pointer: self.at(*pointer),
                fun: *fun,
                value: self.at(*value),
                result: result.map(|result| self.given(result)),
            },
            Statement::Call { function, arguments, result } => Statement::Call {
                function: *function,
                arguments: arguments.iter().map(|argument| self.at(*argument)).collect(),
                result: result.map(|result| self.given(result)),
            },
            // Nothing else of an eligible module has expressions in it.
            other => other.clone(),
        }
    }

    /// What a statement gives.
    fn given(&mut self, handle: Handle<Expression>) -> Handle<Expression> {
        let new = self.new.append(self.old.expressions[handle].clone(), Span::UNDEFINED);
        self.map.insert(handle, new);
        new
    }

    fn expression(&mut self, handle: Handle<Expression>) -> Handle<Expression> {
        use Expression as E;
        let new = match self.old.expressions[handle].clone() {
            E::Access { base, index } => self.access(base, index),
            E::Binary { op, left, right } => return self.binary(op, left, right),
            E::Math { fun, arg, arg1, arg2, arg3 } => {
                return self.math(fun, arg, [arg1, arg2, arg3]);
            }
            E::Compose { ty, components } => E::Compose {
                ty,
                components: components.into_iter().map(|component| self.at(component)).collect(),
            },
            // A constant index may be behind the end of an array without a length.
            E::AccessIndex { base, index } if index > 0 && self.is_dynamic(base) => {
                let (base, index) = (self.at(base), self.number(false, index));
                self.clamped(base, index, None)
            }
            E::AccessIndex { base, index } => E::AccessIndex { base: self.at(base), index },
            E::Splat { size, value } => E::Splat { size, value: self.at(value) },
            E::Swizzle { size, vector, pattern } => {
                E::Swizzle { size, vector: self.at(vector), pattern }
            }
            E::Load { pointer } => E::Load { pointer: self.at(pointer) },
            E::Unary { op, expr } => E::Unary { op, expr: self.at(expr) },
            E::Select { condition, accept, reject } => E::Select {
                condition: self.at(condition),
                accept: self.at(accept),
                reject: self.at(reject),
            },
            E::Relational { fun, argument } => E::Relational { fun, argument: self.at(argument) },
            E::As { expr, kind, convert } => E::As { expr: self.at(expr), kind, convert },
            E::ArrayLength(array) => E::ArrayLength(self.at(array)),
            other => other,
        };
        self.emit(new)
    }

    /// An access whose index is within bounds.
    fn access(&mut self, base: Handle<Expression>, index: Handle<Expression>) -> Expression {
        let length = self.length(base);
        let literal = match self.old.expressions[index] {
            Expression::Literal(Literal::U32(value)) => Some(value),
            Expression::Literal(Literal::I32(value)) => u32::try_from(value).ok(),
            _ => None,
        };
        let signed = self.inner(index).scalar_kind() == Some(ScalarKind::Sint);
        let (base, mut index) = (self.at(base), self.at(index));
        if literal.is_some_and(|value| length.is_some_and(|length| value < length)) {
            return Expression::Access { base, index };
        }
        if signed {
            index =
                self.emit(Expression::As { expr: index, kind: ScalarKind::Uint, convert: None });
        }
        self.clamped(base, index, length)
    }

    /// An access of the last element, where the index is behind it.
    fn clamped(
        &mut self,
        base: Handle<Expression>,
        index: Handle<Expression>,
        length: Option<u32>,
    ) -> Expression {
        let last = match length {
            Some(length) => self.number(false, length.saturating_sub(1)),
            None => {
                let length = self.emit(Expression::ArrayLength(base));
                let one = self.number(false, 1);
                self.emit(Expression::Binary {
                    op: naga::BinaryOperator::Subtract,
                    left: length,
                    right: one,
                })
            }
        };
        let index = self.apply(naga::MathFunction::Min, index, last);
        Expression::Access { base, index }
    }

    fn is_dynamic(&self, base: Handle<Expression>) -> bool {
        let TypeInner::Pointer { base, .. } = self.inner(base) else { return false };
        matches!(self.types[*base].inner, TypeInner::Array { size: ArraySize::Dynamic, .. })
    }

    /// How many elements there are, if that does not depend on a buffer.
    fn length(&self, base: Handle<Expression>) -> Option<u32> {
        let inner = match self.inner(base) {
            TypeInner::Pointer { base, .. } => &self.types[*base].inner,
            other => other,
        };
        match inner {
            TypeInner::Vector { size, .. } | TypeInner::ValuePointer { size: Some(size), .. } => {
                Some(u32::from(*size))
            }
            TypeInner::Array { size: ArraySize::Constant(length), .. } => Some(length.get()),
            _ => None,
        }
    }
}
