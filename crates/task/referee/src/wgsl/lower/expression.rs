//! Values.

use super::{
    super::code::{Binary, Op, Reg, Unary},
    Activation, Held, Ineligible, Lower,
};
use naga::{
    BinaryOperator, Expression, Handle, MathFunction as M, RelationalFunction, ScalarKind,
    SwizzleComponent, UnaryOperator,
};

type Node = Handle<Expression>;

impl<'a> Lower<'a> {
    /// What an expression is. Those that no statement evaluates are found here.
    pub(super) fn held(&mut self, on: &Activation<'a>, handle: Node) -> Result<Held, Ineligible> {
        if let Some(held) = on.held.get(&handle) {
            return Ok(*held);
        }
        let place =
            |base| super::Place { memory: super::Memory::Frame, base, offset: None, vector: None };
        let missing = Ineligible::Construct { what: "a value before it is there" };
        match &on.function.expressions[handle] {
            Expression::FunctionArgument(index) => {
                let index = usize::try_from(*index).unwrap_or(usize::MAX);
                on.arguments.get(index).copied().ok_or(missing)
            }
            Expression::LocalVariable(variable) => {
                let base = on.locals.get(variable).copied().ok_or(missing)?;
                Ok(Held::Place(place(u32::from(base))))
            }
            Expression::GlobalVariable(variable) => {
                self.globals.get(variable).map(|place| Held::Place(*place)).ok_or(missing)
            }
            _ => Ok(Held::Value(self.constant(&on.function.expressions, handle)?)),
        }
    }

    pub(super) fn value(&mut self, on: &Activation<'a>, handle: Node) -> Result<Reg, Ineligible> {
        match self.held(on, handle)? {
            Held::Value(value) => Ok(value),
            Held::Place(_) => Err(Ineligible::Construct { what: "a pointer as a value" }),
        }
    }

    /// Evaluates an expression whose operands are there.
    pub(super) fn evaluate(
        &mut self,
        on: &Activation<'a>,
        handle: Node,
    ) -> Result<Held, Ineligible> {
        use Expression as E;
        self.out.work(1)?;
        Ok(Held::Value(match &on.function.expressions[handle] {
            E::Access { base, index } => {
                let index = self.value(on, *index)?;
                return self.access(on, *base, index);
            }
            E::AccessIndex { base, index } => match self.held(on, *base)? {
                Held::Place(place) => {
                    return Ok(Held::Place(self.member(on, place, *base, *index)));
                }
                Held::Value(value) => {
                    let part = self.layout.part(on.inner(self.module, *base), *index, false);
                    self.later(value, part)?
                }
            },
            E::Compose { components, .. } => self.compose(on, handle, components)?,
            E::Splat { size, value } => {
                let value = self.value(on, *value)?;
                let words = u32::from(*size);
                let to = self.out.room(words)?;
                for index in 0..words {
                    let to = self.later(to, index)?;
                    self.copy(to, value, 1)?;
                }
                to
            }
            E::Swizzle { size, vector, pattern } => {
                let vector = self.value(on, *vector)?;
                self.swizzle(u32::from(*size), vector, pattern)?
            }
            E::Load { pointer } => self.load(on, *pointer)?,
            E::Unary { op, expr } => self.unary(on, *op, *expr)?,
            E::Binary { op, left, right } => self.binary(on, *op, *left, *right)?,
            E::Select { condition, accept, reject } => {
                self.select(on, *condition, *accept, *reject)?
            }
            E::Relational { fun, argument } => self.relational(on, *fun, *argument)?,
            E::Math { fun, arg, arg1, arg2, arg3 } => {
                let mut others = [None; 3];
                for (to, from) in others.iter_mut().zip([arg1, arg2, arg3]) {
                    *to = from.map(|handle| self.value(on, handle)).transpose()?;
                }
                self.math(on, *fun, *arg, others)?
            }
            E::As { expr, kind, .. } => {
                let inner = on.inner(self.module, *expr);
                let value = self.value(on, *expr)?;
                if *kind == ScalarKind::Bool && inner.scalar_kind() != Some(ScalarKind::Bool) {
                    let (words, zero) = (self.layout.words_of(inner), self.out.zeros(1)?);
                    self.each(Binary::Ne, words, (value, words), (zero, 1))?
                } else {
                    value
                }
            }
            E::ArrayLength(array) => self.array_length(on, *array)?,
            _ => self.constant(&on.function.expressions, handle)?,
        }))
    }

    /// A word of the frame some words behind another one.
    fn later(&self, value: Reg, words: u32) -> Result<Reg, Ineligible> {
        self.out.count(u32::from(value).saturating_add(words))
    }

    fn access(&mut self, on: &Activation<'a>, base: Node, index: Reg) -> Result<Held, Ineligible> {
        let value = match self.held(on, base)? {
            Held::Place(place) => {
                return Ok(Held::Place(self.element(on, place, base, index)?));
            }
            Held::Value(value) => value,
        };
        let inner = on.inner(self.module, base);
        let step = self.layout.step(inner, false);
        let offset = self.scaled(index, step)?;
        let (to, count) = (self.out.room(step)?, self.out.count(step)?);
        self.out.push(Op::LoadFrame { to, base: value, offset, count })?;
        Ok(Held::Value(to))
    }

    fn compose(
        &mut self,
        on: &Activation<'a>,
        handle: Node,
        components: &[Node],
    ) -> Result<Reg, Ineligible> {
        let whole = self.out.room(self.layout.words_of(on.inner(self.module, handle)))?;
        let mut before = 0u32;
        for component in components {
            let words = self.layout.words_of(on.inner(self.module, *component));
            let (to, from) = (self.later(whole, before)?, self.value(on, *component)?);
            self.copy(to, from, words)?;
            before = before.saturating_add(words);
        }
        Ok(whole)
    }

    fn swizzle(
        &mut self,
        size: u32,
        vector: Reg,
        pattern: &[SwizzleComponent; 4],
    ) -> Result<Reg, Ineligible> {
        let whole = self.out.room(size)?;
        for (index, component) in (0..size).zip(pattern) {
            let (to, from) = (self.later(whole, index)?, self.later(vector, component.index())?);
            self.copy(to, from, 1)?;
        }
        Ok(whole)
    }

    /// An operation on each of some words; one word stands for all.
    fn each(
        &mut self,
        op: Binary,
        words: u32,
        left: (Reg, u32),
        right: (Reg, u32),
    ) -> Result<Reg, Ineligible> {
        let whole = self.out.room(words)?;
        for index in 0..words {
            let operand = |(value, words)| self.later(value, if words == 1 { 0 } else { index });
            let (left, right) = (operand(left)?, operand(right)?);
            let to = self.later(whole, index)?;
            self.out.push(Op::Binary { op, to, left, right })?;
        }
        Ok(whole)
    }

    fn each_one(&mut self, op: Unary, words: u32, value: Reg) -> Result<Reg, Ineligible> {
        let whole = self.out.room(words)?;
        for index in 0..words {
            let (to, from) = (self.later(whole, index)?, self.later(value, index)?);
            self.out.push(Op::Unary { op, to, from })?;
        }
        Ok(whole)
    }

    fn unary(
        &mut self,
        on: &Activation<'a>,
        op: UnaryOperator,
        operand: Node,
    ) -> Result<Reg, Ineligible> {
        let words = self.layout.words_of(on.inner(self.module, operand));
        let value = self.value(on, operand)?;
        match op {
            UnaryOperator::Negate => self.each_one(Unary::Neg, words, value),
            UnaryOperator::BitwiseNot => self.each_one(Unary::Not, words, value),
            UnaryOperator::LogicalNot => {
                let zero = self.out.zeros(1)?;
                self.each(Binary::Eq, words, (value, words), (zero, 1))
            }
        }
    }

    fn binary(
        &mut self,
        on: &Activation<'a>,
        op: BinaryOperator,
        left: Node,
        right: Node,
    ) -> Result<Reg, Ineligible> {
        use BinaryOperator as B;
        let inner = on.inner(self.module, left);
        let signed = inner.scalar_kind() == Some(ScalarKind::Sint);
        let words = self.layout.words_of(inner);
        let other = self.layout.words_of(on.inner(self.module, right));
        let mut left = (self.value(on, left)?, words);
        let mut right = (self.value(on, right)?, other);
        if matches!(op, B::Greater | B::GreaterEqual) {
            std::mem::swap(&mut left, &mut right);
        }
        let op = match (op, signed) {
            (B::Add, _) => Binary::Add,
            (B::Subtract, _) => Binary::Sub,
            (B::Multiply, _) => Binary::Mul,
            (B::Divide, false) => Binary::DivU,
            (B::Divide, true) => Binary::DivS,
            (B::Modulo, false) => Binary::RemU,
            (B::Modulo, true) => {
                return Err(Ineligible::Construct { what: "a signed remainder" });
            }
            (B::Equal, _) => Binary::Eq,
            (B::NotEqual, _) => Binary::Ne,
            (B::Less | B::Greater, false) => Binary::LtU,
            (B::Less | B::Greater, true) => Binary::LtS,
            (B::LessEqual | B::GreaterEqual, false) => Binary::LeU,
            (B::LessEqual | B::GreaterEqual, true) => Binary::LeS,
            (B::And | B::LogicalAnd, _) => Binary::And,
            (B::InclusiveOr | B::LogicalOr, _) => Binary::Or,
            (B::ExclusiveOr, _) => Binary::Xor,
            (B::ShiftLeft, _) => Binary::Shl,
            (B::ShiftRight, false) => Binary::ShrU,
            (B::ShiftRight, true) => Binary::ShrS,
        };
        self.each(op, words.max(other), left, right)
    }

    fn select(
        &mut self,
        on: &Activation<'a>,
        condition: Node,
        accept: Node,
        reject: Node,
    ) -> Result<Reg, Ineligible> {
        let words = self.layout.words_of(on.inner(self.module, accept));
        let chosen = self.layout.words_of(on.inner(self.module, condition));
        let (condition, accept, reject) =
            (self.value(on, condition)?, self.value(on, accept)?, self.value(on, reject)?);
        let whole = self.out.room(words)?;
        for index in 0..words {
            let op = Op::Select {
                to: self.later(whole, index)?,
                condition: self.later(condition, if chosen == 1 { 0 } else { index })?,
                accept: self.later(accept, index)?,
                reject: self.later(reject, index)?,
            };
            self.out.push(op)?;
        }
        Ok(whole)
    }

    fn relational(
        &mut self,
        on: &Activation<'a>,
        fun: RelationalFunction,
        argument: Node,
    ) -> Result<Reg, Ineligible> {
        let words = self.layout.words_of(on.inner(self.module, argument));
        let value = self.value(on, argument)?;
        let op = if fun == RelationalFunction::All { Binary::And } else { Binary::Or };
        let mut sum = value;
        for index in 1..words {
            let (to, right) = (self.out.room(1)?, self.later(value, index)?);
            self.out.push(Op::Binary { op, to, left: sum, right })?;
            sum = to;
        }
        Ok(sum)
    }

    fn math(
        &mut self,
        on: &Activation<'a>,
        fun: M,
        first: Node,
        others: [Option<Reg>; 3],
    ) -> Result<Reg, Ineligible> {
        let inner = on.inner(self.module, first);
        let signed = inner.scalar_kind() == Some(ScalarKind::Sint);
        let words = self.layout.words_of(inner);
        let value = self.value(on, first)?;
        let unary = match (fun, signed) {
            (M::CountOneBits, _) => Some(Unary::Ones),
            (M::CountLeadingZeros, _) => Some(Unary::LeadingZeros),
            (M::CountTrailingZeros, _) => Some(Unary::TrailingZeros),
            (M::ReverseBits, _) => Some(Unary::Reverse),
            (M::FirstLeadingBit, false) => Some(Unary::FirstLeadingU),
            (M::FirstLeadingBit, true) => Some(Unary::FirstLeadingS),
            (M::FirstTrailingBit, _) => Some(Unary::FirstTrailing),
            _ => None,
        };
        if let Some(op) = unary {
            return self.each_one(op, words, value);
        }
        match (fun, signed, others) {
            (M::Min | M::Max, _, [Some(other), ..]) => {
                let op = match (fun, signed) {
                    (M::Min, false) => Binary::MinU,
                    (M::Min, true) => Binary::MinS,
                    (_, false) => Binary::MaxU,
                    (_, true) => Binary::MaxS,
                };
                self.each(op, words, (value, words), (other, words))
            }
            (M::Dot4I8Packed, _, [Some(other), ..]) => {
                self.each(Binary::DotI8, 1, (value, 1), (other, 1))
            }
            (M::Dot4U8Packed, _, [Some(other), ..]) => {
                self.each(Binary::DotU8, 1, (value, 1), (other, 1))
            }
            (M::ExtractBits, _, [Some(offset), Some(count), _]) => {
                let whole = self.out.room(words)?;
                for index in 0..words {
                    let (to, from) = (self.later(whole, index)?, self.later(value, index)?);
                    self.out.push(Op::Extract { signed, to, from, offset, count })?;
                }
                Ok(whole)
            }
            (M::InsertBits, _, [Some(bits), Some(offset), Some(count)]) => {
                let whole = self.out.room(words)?;
                for index in 0..words {
                    let (to, into) = (self.later(whole, index)?, self.later(value, index)?);
                    let from = self.later(bits, index)?;
                    self.out.push(Op::Insert { to, into, from, offset, count })?;
                }
                Ok(whole)
            }
            (M::Pack4xI8 | M::Pack4xU8, ..) => {
                let to = self.out.room(1)?;
                self.out.push(Op::Pack { to, from: value })?;
                Ok(to)
            }
            (M::Unpack4xI8 | M::Unpack4xU8, ..) => {
                let whole = self.out.room(4)?;
                for byte in 0..4u8 {
                    let to = self.later(whole, u32::from(byte))?;
                    let op =
                        if fun == M::Unpack4xI8 { Unary::ByteS(byte) } else { Unary::ByteU(byte) };
                    self.out.push(Op::Unary { op, to, from: value })?;
                }
                Ok(whole)
            }
            _ => Err(Ineligible::Construct { what: "this built-in function" }),
        }
    }
}
