//! Statements, functions, and the phases in which invocations meet.

use super::{Trait, Writer};

/// How deep expressions of a statement are.
const DEPTH: u32 = 3;

impl Writer {
    /// The body of the entry point.
    pub(super) fn main(
        &mut self,
        shared: bool,
        barrier: bool,
        atomics: bool,
        functions: bool,
        planted: Option<u32>,
    ) {
        self.statements(4, 2);
        if functions {
            self.traits.insert(Trait::Functions);
            let (first, second) = (self.unsigned(DEPTH), self.signed(DEPTH));
            self.line(&format!("u0 = helper({first}, {second}, &u1);"));
        }
        if shared {
            self.traits.insert(Trait::Shared);
            match self.random.below(3) {
                0 => self.board(),
                1 => self.reduction(),
                _ => self.total(),
            }
        }
        if atomics {
            self.traits.insert(Trait::Atomics);
            self.tally();
        }
        if barrier {
            self.traits.insert(Trait::BufferBarrier);
            self.neighbours();
        }
        if let Some(race) = planted {
            self.race(race);
        }
        self.statements(3, 2);
        self.line("output[own] = u0 ^ u1;");
        self.line("output[own + 1u] = bitcast<u32>(i0 + i1 * kept);");
        self.line("output[own + 2u] = u2 + v0.x * 3u + v0.y + list[1] + pair.z[2];");
        self.line("output[own + 3u] = bitcast<u32>(w0.x ^ w0.w) + u32(b0) + params.a;");
    }

    /// A function with a value, a pointer and an answer, and its text.
    pub(super) fn helper(&mut self) -> String {
        self.inside = true;
        self.statements(3, 1);
        if self.random.below(2) == 0 {
            let early = self.boolean(1);
            self.line(&format!("if {early} {{ return u0; }}"));
        }
        self.line("*into += u1;");
        self.line("return u0 ^ bitcast<u32>(i1) ^ v0.x ^ list[0] ^ bitcast<u32>(w0.y);");
        self.inside = false;
        let body = std::mem::take(&mut self.body);
        format!(
            "fn helper(first: u32, second: i32, into: ptr<function, u32>) -> u32 {{
  var u0 = first; var u1 = *into; var i0 = second; var i1 = -2147483647i - 1i; var b0 = false;
  var v0 = vec3<u32>(first, u1, 5u); var w0 = vec4<i32>(second); var list: array<u32, 6>;
{body}}}
"
        )
    }

    /// Some statements, with so many blocks within blocks.
    fn statements(&mut self, count: u32, depth: u32) {
        for _ in 0..count.saturating_add(self.random.below(3)) {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: u32) {
        let choice = self.random.below(if depth == 0 { 11 } else { 17 });
        match choice {
            0..=2 => {
                let variable = self.random.choose(&["u0", "u1", "v0.x", "v0.z", "list[1]"]);
                let op = self.random.choose(&["=", "+=", "^=", "*="]);
                let value = self.unsigned(DEPTH);
                self.line(&format!("{variable} {op} {value};"));
            }
            3..=5 => {
                let variable = self.random.choose(&["i0", "i1", "kept", "w0.y"]);
                let op = self.random.choose(&["=", "-=", "|="]);
                let value = self.signed(DEPTH);
                self.line(&format!("{variable} {op} {value};"));
            }
            6 => {
                let value = self.vector_unsigned(DEPTH);
                self.line(&format!("v0 = {value};"));
            }
            7 => {
                let value = self.vector_signed(DEPTH);
                self.line(&format!("w0 = {value};"));
            }
            8 => {
                let value = self.boolean(DEPTH);
                self.line(&format!("b0 = {value};"));
            }
            9 | 10 => {
                self.traits.insert(Trait::Indices);
                let array = if self.inside {
                    "list"
                } else {
                    self.random.choose(&["list", "pair.z", "v0"])
                };
                let (index, value) = (self.index(2), self.unsigned(DEPTH));
                self.line(&format!("{array}[{index}] = {value};"));
            }
            11 | 12 => self.branch(depth.saturating_sub(1)),
            13..=15 => self.repeat(depth.saturating_sub(1)),
            _ => self.switch(depth.saturating_sub(1)),
        }
    }

    fn nested(&mut self, depth: u32) {
        self.indent = self.indent.saturating_add(1);
        self.statements(1, depth);
        self.indent = self.indent.saturating_sub(1);
    }

    fn branch(&mut self, depth: u32) {
        let condition = self.boolean(2);
        self.line(&format!("if {condition} {{"));
        self.nested(depth);
        self.line("} else {");
        self.nested(depth);
        self.line("}");
    }

    fn repeat(&mut self, depth: u32) {
        self.traits.insert(Trait::Loops);
        let (counter, end) = (self.name("n"), self.name("end"));
        let times = self.unsigned(1);
        self.line(&format!("let {end} = ({times}) & 7u;"));
        let leave = self.random.below(3) == 0;
        let form = self.random.below(3);
        match form {
            0 => self.line(&format!("for (var {counter} = 0u; {counter} < {end}; {counter}++) {{")),
            1 => self.line(&format!("var {counter} = 0u; while {counter} < {end} {{")),
            _ => self.line(&format!("var {counter} = 0u; loop {{")),
        }
        if form == 1 {
            self.line(&format!("  {counter}++;"));
        }
        self.counters.push(counter.clone());
        self.line("  var fresh: u32; fresh += u0; u1 ^= fresh;");
        if leave {
            let (condition, how) = (self.boolean(1), self.random.choose(&["break", "continue"]));
            self.line(&format!("  if {condition} {{ {how}; }}"));
        }
        self.nested(depth);
        self.counters.pop();
        if form == 2 {
            self.line(&format!("  continuing {{ {counter}++; break if {counter} >= {end}; }}"));
        }
        self.line("}");
    }

    fn switch(&mut self, depth: u32) {
        self.traits.insert(Trait::Switches);
        let signed = self.random.below(2) == 0;
        let (selector, suffix) = if signed {
            (format!("({}) % 3i", self.signed(2)), "i")
        } else {
            (format!("({}) & 3u", self.unsigned(2)), "u")
        };
        self.line(&format!("switch {selector} {{"));
        self.line(&format!("case 0{suffix}: {{"));
        self.nested(depth);
        self.line(&format!("}} case 1{suffix}, 2{suffix}: {{"));
        self.nested(depth);
        self.line("} default: {");
        self.nested(depth);
        self.line("} }");
    }

    /// Everyone writes a word of the board and reads any, some times.
    fn board(&mut self) {
        let round = self.name("round");
        let rounds = self.random.up_to(3);
        self.line(&format!("for (var {round} = 0u; {round} < {rounds}u; {round}++) {{"));
        self.counters.push(round);
        let (value, index) = (self.unsigned(2), self.unsigned(1));
        self.line(&format!("  board[index] = {value};"));
        self.line("  workgroupBarrier();");
        self.line(&format!("  u0 ^= board[({index}) % SIZE] + board[{}];", self.counter()));
        self.line("  workgroupBarrier();");
        self.counters.pop();
        self.line("}");
    }

    fn counter(&self) -> String {
        self.counters.last().cloned().unwrap_or_default()
    }

    /// A sum over the group, by halves.
    fn reduction(&mut self) {
        let op = self.random.choose(&["+=", "^=", "*="]);
        let value = self.unsigned(2);
        self.line(&format!("board[index] = {value};"));
        self.line("workgroupBarrier();");
        self.line("for (var half = 32u; half > 0u; half >>= 1u) {");
        self.traits.insert(Trait::Shifts);
        self.line(&format!(
            "  if index < half && index + half < SIZE {{ board[index] {op} board[index + half]; }}"
        ));
        self.line("  workgroupBarrier();");
        self.line("}");
        self.line("u0 += board[0];");
        self.line("workgroupBarrier();");
    }

    /// A tally of the group, that everyone reads.
    fn total(&mut self) {
        let (function, value) = (
            self.random.choose(&["atomicAdd", "atomicMax", "atomicXor", "atomicSub", "atomicOr"]),
            self.unsigned(2),
        );
        self.traits.insert(Trait::Atomics);
        self.line(&format!("{function}(&total, {value});"));
        self.line("workgroupBarrier();");
        self.line("u1 ^= atomicLoad(&total);");
        self.line("workgroupBarrier();");
        self.line("if index == 0u { atomicStore(&total, 7u); }");
    }

    /// Tallies of the whole grid, that nobody reads.
    fn tally(&mut self) {
        for _ in 0..=self.random.below(2) {
            let index = self.index(2);
            let value = if self.tally == "u32" { self.unsigned(2) } else { self.signed(2) };
            let (function, condition) = (self.atomic, self.boolean(1));
            self.line(&format!("if {condition} {{ {function}(&tallies[{index}], {value}); }}"));
        }
        // At least once, so that the buffer is bound.
        self.line(&format!("{}(&tallies[0], {}(u0));", self.atomic, self.tally));
    }

    /// Everyone reads what a neighbour of the same group wrote.
    fn neighbours(&mut self) {
        let value = self.unsigned(2);
        self.line(&format!("output[own] = {value};"));
        self.line("storageBarrier();");
        self.line("u1 += output[(number * SIZE + (index + 1u) % SIZE) * 4u];");
        self.line("storageBarrier();");
    }

    /// Two touches in no order.
    fn race(&mut self, race: u32) {
        let other = if self.atomic == "atomicOr" { "atomicAdd" } else { "atomicOr" };
        match race {
            0 => self.line("output[3] = u0;"),
            1 => self.line("board[0] = index;"),
            2 => {
                self.line("board[index] = u0;");
                self.line("u1 += board[(index + 1u) % SIZE];");
            }
            3 => self.line(&format!("{other}(&tallies[0], {}(1));", self.tally)),
            4 => self.line("u1 += u32(atomicLoad(&tallies[0]));"),
            // Only the groups race, not the invocations of one.
            _ => self.line("if index == 0u { output[3] = number; }"),
        }
    }
}
