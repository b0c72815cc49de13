//! The rules about operators and built-in functions.

use super::{Rebuild, Shape};
use naga::{
    BinaryOperator as B, Expression, Handle, Literal, MathFunction as M, ScalarKind, Span,
    TypeInner, UnaryOperator, VectorSize,
};

type Node = Handle<Expression>;

impl Rebuild<'_> {
    /// A number; equal ones are one expression.
    pub(super) fn number(&mut self, signed: bool, bits: u32) -> Node {
        let new = &mut self.new;
        *self.numbers.entry((signed, bits)).or_insert_with(|| {
            let literal =
                if signed { Literal::I32(bits.cast_signed()) } else { Literal::U32(bits) };
            new.append(Expression::Literal(literal), Span::UNDEFINED)
        })
    }

    /// A number in as many components as the shape has.
    fn like(&mut self, shape: Shape, bits: u32) -> Node {
        let value = self.number(shape.signed, bits);
        match shape.size {
            Some(size) => self.emit(Expression::Splat { size, value }),
            None => value,
        }
    }

    /// A built-in function of two values.
    pub(super) fn apply(&mut self, fun: M, arg: Node, other: Node) -> Node {
        self.emit(Expression::Math { fun, arg, arg1: Some(other), arg2: None, arg3: None })
    }

    fn operate(&mut self, op: B, left: Node, right: Node) -> Node {
        self.emit(Expression::Binary { op, left, right })
    }

    fn shape(&self, handle: Node) -> Shape {
        let inner = self.inner(handle);
        let size = match inner {
            TypeInner::Vector { size, .. } => Some(*size),
            _ => None,
        };
        Shape { signed: inner.scalar_kind() == Some(ScalarKind::Sint), size }
    }

    /// The bits of an old expression that is one number in all components.
    fn known(&self, handle: Node) -> Option<u32> {
        match &self.old.expressions[handle] {
            Expression::Literal(Literal::U32(value)) => Some(*value),
            Expression::Literal(Literal::I32(value)) => Some(value.cast_unsigned()),
            Expression::Splat { value, .. } => match &self.old.expressions[*value] {
                Expression::Literal(Literal::U32(value)) => Some(*value),
                Expression::Literal(Literal::I32(value)) => Some(value.cast_unsigned()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The rules about operators.
    pub(super) fn binary(&mut self, op: B, left: Node, right: Node) -> Node {
        let (shape, known) = (self.shape(left), self.known(right));
        let by = self.shape(right);
        let (x, y) = (self.at(left), self.at(right));
        match op {
            B::Divide | B::Modulo => {
                let safe = known.is_some_and(|bits| bits != 0 && bits != u32::MAX);
                let shape = Shape { size: shape.size.or(by.size), ..shape };
                let y = if safe { y } else { self.divisor(shape, x, y) };
                if op == B::Divide || !shape.signed {
                    return self.operate(op, x, y);
                }
                let quotient = self.operate(B::Divide, x, y);
                let product = self.operate(B::Multiply, quotient, y);
                self.operate(B::Subtract, x, product)
            }
            B::ShiftLeft | B::ShiftRight if known.is_none_or(|bits| bits > 31) => {
                let mask = self.like(Shape { signed: false, size: by.size }, 31);
                let amount = self.operate(B::And, y, mask);
                self.operate(op, x, amount)
            }
            _ => self.operate(op, x, y),
        }
    }

    /// A divisor by which everything can be divided: one where the language makes an exception.
    fn divisor(&mut self, shape: Shape, x: Node, y: Node) -> Node {
        let zero = self.like(shape, 0);
        let mut exception = self.operate(B::Equal, y, zero);
        if shape.signed {
            let least = self.like(shape, i32::MIN.cast_unsigned());
            let minus = self.like(shape, u32::MAX);
            let from = self.operate(B::Equal, x, least);
            let by = self.operate(B::Equal, y, minus);
            let both = self.operate(B::And, from, by);
            exception = self.operate(B::InclusiveOr, exception, both);
        }
        let one = self.like(shape, 1);
        self.emit(Expression::Select { condition: exception, accept: one, reject: y })
    }

    /// The rules about built-in functions.
    pub(super) fn math(&mut self, fun: M, first: Node, others: [Option<Node>; 3]) -> Node {
        let shape = self.shape(first);
        let arg = self.at(first);
        let [arg1, arg2, arg3] = others.map(|argument| argument.map(|it| self.at(it)));
        match (fun, arg1, arg2, arg3) {
            (M::Abs, ..) if !shape.signed => arg,
            (M::Abs, ..) => {
                let op = UnaryOperator::Negate;
                let minus = self.emit(Expression::Unary { op, expr: arg });
                self.apply(M::Max, arg, minus)
            }
            (M::Clamp, Some(low), Some(high), _) => {
                let raised = self.apply(M::Max, arg, low);
                self.apply(M::Min, raised, high)
            }
            (M::Sign, ..) => {
                let (minus, one) = (self.like(shape, u32::MAX), self.like(shape, 1));
                let raised = self.apply(M::Max, arg, minus);
                self.apply(M::Min, raised, one)
            }
            (M::Dot, Some(other), ..) => self.dot(shape.size, arg, other),
            (M::ExtractBits, Some(offset), Some(count), _) => {
                let (offset, count) = self.bit_range(offset, count);
                let (arg1, arg2) = (Some(offset), Some(count));
                self.emit(Expression::Math { fun, arg, arg1, arg2, arg3 })
            }
            (M::InsertBits, _, Some(offset), Some(count)) => {
                let (offset, count) = self.bit_range(offset, count);
                let (arg2, arg3) = (Some(offset), Some(count));
                self.emit(Expression::Math { fun, arg, arg1, arg2, arg3 })
            }
            _ => self.emit(Expression::Math { fun, arg, arg1, arg2, arg3 }),
        }
    }

    fn dot(&mut self, size: Option<VectorSize>, a: Node, b: Node) -> Node {
        let mut sum = None;
        for index in 0..size.map_or(0, u32::from) {
            let x = self.emit(Expression::AccessIndex { base: a, index });
            let y = self.emit(Expression::AccessIndex { base: b, index });
            let product = self.operate(B::Multiply, x, y);
            sum = Some(match sum {
                Some(before) => self.operate(B::Add, before, product),
                None => product,
            });
        }
        sum.unwrap_or(a)
    }

    /// A range of bits that lies within a word.
    fn bit_range(&mut self, offset: Node, count: Node) -> (Node, Node) {
        let width = self.number(false, 32);
        let offset = self.apply(M::Min, offset, width);
        let left = self.operate(B::Subtract, width, offset);
        (offset, self.apply(M::Min, count, left))
    }
}
