//! Control flow: structured statements become jumps.

use super::{
    super::code::{Op, Sync},
    Activation, Exits, Held, Ineligible, Lower,
};
use naga::{Barrier, Block, Expression, Function, Handle, Statement, SwitchCase, SwitchValue};

impl<'a> Lower<'a> {
    /// Depth is bounded by the blocks within blocks that a kernel may have.
    pub(super) fn block(
        &mut self,
        on: &mut Activation<'a>,
        block: &'a Block,
        depth: usize,
    ) -> Result<(), Ineligible> {
        block.iter().try_for_each(|statement| self.statement(on, statement, depth))
    }

    fn statement(
        &mut self,
        on: &mut Activation<'a>,
        statement: &'a Statement,
        depth: usize,
    ) -> Result<(), Ineligible> {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    let held = self.evaluate(on, handle)?;
                    on.held.insert(handle, held);
                }
                Ok(())
            }
            Statement::Block(inner) => self.block(on, inner, depth),
            Statement::If { condition, accept, reject } => {
                let condition = self.value(on, *condition)?;
                let (otherwise, end) = (self.out.label()?, self.out.label()?);
                self.out.push(Op::JumpUnless(condition, otherwise))?;
                self.block(on, accept, depth)?;
                if !reject.is_empty() {
                    self.out.push(Op::Jump(end))?;
                }
                self.out.bind(otherwise);
                self.block(on, reject, depth)?;
                self.out.bind(end);
                Ok(())
            }
            Statement::Switch { selector, cases } => self.switch(on, *selector, cases, depth),
            Statement::Loop { body, continuing, break_if } => {
                self.repeat(on, body, continuing, *break_if, depth)
            }
            Statement::Break => self.leave(on.exits.last().map(|exits| exits.leave)),
            Statement::Continue => self.leave(on.exits.iter().rev().find_map(|exits| exits.again)),
            Statement::Return { value } => {
                if let (Some(value), Some((to, count))) = (value, on.given) {
                    let from = self.value(on, *value)?;
                    self.copy(to, from, u32::from(count))?;
                }
                self.out.push(Op::Jump(on.end))
            }
            Statement::ControlBarrier(flags) => {
                self.barriers = true;
                let shared = flags.contains(Barrier::WORK_GROUP);
                let buffers = flags.contains(Barrier::STORAGE);
                self.out.push(Op::Barrier(Sync { shared, buffers }))
            }
            Statement::Store { pointer, value } => {
                let from = self.value(on, *value)?;
                self.store(on, *pointer, from)
            }
            Statement::Atomic { pointer, fun, value, .. } => {
                let value = self.value(on, *value)?;
                self.atomic(on, *pointer, *fun, value)
            }
            Statement::Call { function, arguments, result } => {
                self.inline(on, *function, arguments, *result, depth)
            }
            _ => Err(Ineligible::Construct { what: "a statement of this kind" }),
        }
    }

    fn leave(&mut self, label: Option<u32>) -> Result<(), Ineligible> {
        let label = label.ok_or(Ineligible::Construct { what: "a `break` out of nothing" })?;
        self.out.push(Op::Jump(label))
    }

    fn repeat(
        &mut self,
        on: &mut Activation<'a>,
        body: &'a Block,
        continuing: &'a Block,
        break_if: Option<Handle<Expression>>,
        depth: usize,
    ) -> Result<(), Ineligible> {
        let (start, again, leave) = (self.out.label()?, self.out.label()?, self.out.label()?);
        let at = self.out.room(1)?;
        let around = match self.around {
            Some(around) => around,
            None => self.out.zeros(1)?,
        };
        self.out.push(Op::Enter { at })?;
        self.out.bind(start);
        // There are fewer loops than operations.
        self.out.push(Op::Round { at, around, number: self.loops })?;
        self.loops = self.loops.saturating_add(1);
        let outer = self.around.replace(at);
        on.exits.push(Exits { leave, again: Some(again) });
        self.block(on, body, depth)?;
        self.out.bind(again);
        self.block(on, continuing, depth)?;
        on.exits.pop();
        match break_if {
            Some(condition) => {
                let condition = self.value(on, condition)?;
                self.out.push(Op::JumpUnless(condition, start))?;
            }
            None => self.out.push(Op::Jump(start))?,
        }
        self.out.bind(leave);
        self.around = outer;
        Ok(())
    }

    fn switch(
        &mut self,
        on: &mut Activation<'a>,
        selector: Handle<Expression>,
        cases: &'a [SwitchCase],
        depth: usize,
    ) -> Result<(), Ineligible> {
        let selector = self.value(on, selector)?;
        let leave = self.out.label()?;
        let labels = cases.iter().map(|_| self.out.label()).collect::<Result<Vec<u32>, _>>()?;
        let mut otherwise = leave;
        for (case, label) in cases.iter().zip(&labels) {
            let bits = match case.value {
                SwitchValue::I32(value) => value.cast_unsigned(),
                SwitchValue::U32(value) => value,
                SwitchValue::Default => {
                    otherwise = *label;
                    continue;
                }
            };
            let number = self.out.number(bits)?;
            self.out.push(Op::JumpEqual(selector, number, *label))?;
        }
        self.out.push(Op::Jump(otherwise))?;
        on.exits.push(Exits { leave, again: None });
        for (case, label) in cases.iter().zip(&labels) {
            self.out.bind(*label);
            self.block(on, &case.body, depth)?;
            if !case.fall_through {
                self.out.push(Op::Jump(leave))?;
            }
        }
        on.exits.pop();
        self.out.bind(leave);
        Ok(())
    }

    /// Compiles a function in the place of its call.
    fn inline(
        &mut self,
        on: &mut Activation<'a>,
        function: Handle<Function>,
        arguments: &[Handle<Expression>],
        given: Option<Handle<Expression>>,
        depth: usize,
    ) -> Result<(), Ineligible> {
        let (module, info) = (self.module, self.info);
        let held: Result<_, _> =
            arguments.iter().map(|argument| self.held(on, *argument)).collect();
        let callee = &module.functions[function];
        let mut inner = Activation::new(callee, &info[function], held?);
        inner.end = self.out.label()?;
        if let Some(answer) = &callee.result {
            let words = self.layout.words(answer.ty);
            inner.given = Some((self.out.room(words)?, self.out.count(words)?));
        }
        self.enter(&mut inner, depth.saturating_add(1))?;
        self.out.bind(inner.end);
        if let (Some(handle), Some((value, _))) = (given, inner.given) {
            on.held.insert(handle, Held::Value(value));
        }
        Ok(())
    }
}
