//! Constants: words that are in the frame before an invocation begins.

use super::{super::code::Reg, Ineligible, Lower};
use naga::{Arena, Expression, Handle, Literal};

impl Lower<'_> {
    /// The words of a constant expression.
    pub(super) fn constant(
        &mut self,
        arena: &Arena<Expression>,
        handle: Handle<Expression>,
    ) -> Result<Reg, Ineligible> {
        if let Expression::ZeroValue(ty) = &arena[handle] {
            return self.out.zeros(self.layout.words(*ty));
        }
        // A table that is named often is collected once.
        let named = match &arena[handle] {
            Expression::Constant(constant) => Some(*constant),
            _ => None,
        };
        if let Some(found) = named.and_then(|constant| self.constants.get(&constant)) {
            return Ok(*found);
        }
        let mut words = Vec::new();
        self.collect(arena, handle, &mut words)?;
        self.out.work(words.len())?;
        let found = self.out.numbers(words)?;
        self.constants.extend(named.map(|constant| (constant, found)));
        Ok(found)
    }

    /// Depth is bounded by the types within types that a kernel may have.
    fn collect(
        &self,
        arena: &Arena<Expression>,
        handle: Handle<Expression>,
        words: &mut Vec<u32>,
    ) -> Result<(), Ineligible> {
        match &arena[handle] {
            Expression::Literal(Literal::U32(value)) => words.push(*value),
            Expression::Literal(Literal::I32(value)) => words.push(value.cast_unsigned()),
            Expression::Literal(Literal::Bool(value)) => words.push(u32::from(*value)),
            Expression::ZeroValue(ty) => {
                let count = self.out.count(self.layout.words(*ty))?;
                words.extend((0..count).map(|_| 0));
            }
            Expression::Constant(constant) => {
                let init = self.module.constants[*constant].init;
                self.collect(&self.module.global_expressions, init, words)?;
            }
            Expression::Compose { components, .. } => {
                for component in components {
                    self.collect(arena, *component, words)?;
                }
            }
            Expression::Splat { size, value } => {
                for _ in 0..u32::from(*size) {
                    self.collect(arena, *value, words)?;
                }
            }
            // Everything else that is constant was folded by the parser.
            _ => return Err(Ineligible::Construct { what: "a constant of this form" }),
        }
        let most = usize::from(u16::MAX);
        if words.len() > most {
            let size = u64::try_from(words.len()).unwrap_or(u64::MAX);
            let limit = u64::from(u16::MAX);
            return Err(Ineligible::TooLarge { what: "words of a constant", size, limit });
        }
        Ok(())
    }
}
