//! Expressions of every type.
//!
//! The language refuses constants that overflow, divide by zero or shift too far. So the first
//! operand of everything is no constant, and neither is any divisor or amount of a shift: what is
//! dangerous happens when the kernel runs.

use super::{Trait, Writer};

impl Writer {
    /// An expression that is no constant, of unsigned type.
    fn unsigned_leaf(&mut self) -> String {
        let count = u32::try_from(self.counters.len()).unwrap_or(0);
        if count > 0 && self.random.below(3) == 0 {
            let index = usize::try_from(self.random.below(count)).unwrap_or(0);
            return self.counters.get(index).cloned().unwrap_or_default();
        }
        let inside = ["u0", "u1", "v0.y", "list[2]", "params.a", "params.c.x"];
        let main = ["u0", "u1", "u2", "index", "number", "global.x", "v0.z", "pair.x", "list[3]"];
        let leaf =
            if self.inside { self.random.choose(&inside) } else { self.random.choose(&main) };
        leaf.to_owned()
    }

    fn signed_leaf(&mut self) -> String {
        let inside = ["i0", "i1", "kept", "w0.x", "params.f"];
        let main = ["i0", "i1", "i2", "kept", "w0.z", "params.b", "pair.y.x", "w0.w"];
        let leaf =
            if self.inside { self.random.choose(&inside) } else { self.random.choose(&main) };
        leaf.to_owned()
    }

    /// The second operand of something harmless.
    fn unsigned_or_number(&mut self, depth: u32) -> String {
        if self.random.below(4) == 0 {
            return format!("{}u", self.random.number());
        }
        self.unsigned(depth)
    }

    fn signed_or_number(&mut self, depth: u32) -> String {
        if self.random.below(4) == 0 {
            let number = self.random.number().cast_signed();
            // The least integer has no literal of its own.
            let least = number == i32::MIN;
            return if least { self.signed_leaf() } else { format!("({number}i)") };
        }
        self.signed(depth)
    }

    pub(super) fn unsigned(&mut self, depth: u32) -> String {
        let Some(below) = depth.checked_sub(1) else { return self.unsigned_leaf() };
        match self.random.below(21) {
            0..=4 => {
                let op = self.random.choose(&["+", "-", "*", "&", "|", "^"]);
                let (left, right) = (self.unsigned(below), self.unsigned_or_number(below));
                format!("({left} {op} {right})")
            }
            5 => {
                let op = self.random.choose(&["/", "%"]);
                format!("({} {op} {})", self.unsigned(below), self.unsigned(below))
            }
            6 | 7 => {
                self.traits.insert(Trait::Shifts);
                let op = self.random.choose(&["<<", ">>"]);
                let amount = if self.random.below(3) == 0 {
                    format!("{}u", self.random.below(32))
                } else {
                    self.unsigned(below)
                };
                format!("({} {op} {amount})", self.unsigned(below))
            }
            8 => {
                let function = self.random.choose(&["min", "max"]);
                let left = self.unsigned(below);
                format!("{function}({left}, {})", self.unsigned_or_number(below))
            }
            9 => {
                let (low, high) = (self.unsigned(below), self.unsigned(below));
                format!("clamp({}, {low}, {high})", self.unsigned(below))
            }
            10 => self.unsigned_bits(below),
            11 => format!("u32({})", self.signed(below)),
            12 => format!("bitcast<u32>({})", self.signed(below)),
            13 => format!("u32({})", self.boolean(below)),
            14 => {
                let (reject, accept) = (self.unsigned(below), self.unsigned_or_number(below));
                format!("select({reject}, {accept}, {})", self.boolean(below))
            }
            15..=17 => self.unsigned_element(below),
            // A constant index, that may be behind the end.
            18 => format!("input[{}]", self.random.below(60)),
            19 => format!("dot({}, {})", self.vector_unsigned(below), self.vector_unsigned(below)),
            _ => format!("(~{})", self.unsigned(below)),
        }
    }

    fn unsigned_bits(&mut self, below: u32) -> String {
        self.traits.insert(Trait::Bits);
        let value = self.unsigned(below);
        match self.random.below(9) {
            0 => {
                let (offset, count) = (self.unsigned(below), self.unsigned(below));
                format!("extractBits({value}, {offset} & 31u, {count})")
            }
            1 => {
                let (bits, offset) = (self.unsigned(below), self.unsigned(below));
                format!("insertBits({value}, {bits}, {offset}, {})", self.unsigned(below))
            }
            2 => format!("dot4U8Packed({value}, {})", self.unsigned(below)),
            3 => format!("pack4xI8({})", self.vector_signed(below)),
            4 => format!("unpack4xU8({value}).z"),
            _ => {
                let function = self.random.choose(&[
                    "countOneBits",
                    "countLeadingZeros",
                    "countTrailingZeros",
                    "reverseBits",
                    "firstLeadingBit",
                    "firstTrailingBit",
                ]);
                format!("{function}({value})")
            }
        }
    }

    /// Something that an index chooses, in bounds or not.
    fn unsigned_element(&mut self, below: u32) -> String {
        self.traits.insert(Trait::Indices);
        let index = self.index(below);
        if self.inside {
            let array = self.random.choose(&["input", "TABLE", "list", "v0"]);
            return format!("{array}[{index}]");
        }
        let array = self.random.choose(&["input", "input", "TABLE", "list", "pair.z", "v0"]);
        format!("{array}[{index}]")
    }

    pub(super) fn index(&mut self, below: u32) -> String {
        match self.random.below(3) {
            0 => self.signed(below),
            1 => format!("({} & 7u)", self.unsigned(below)),
            _ => self.unsigned(below),
        }
    }

    pub(super) fn signed(&mut self, depth: u32) -> String {
        let Some(below) = depth.checked_sub(1) else { return self.signed_leaf() };
        match self.random.below(18) {
            0..=4 => {
                let op = self.random.choose(&["+", "-", "*", "&", "|", "^"]);
                let (left, right) = (self.signed(below), self.signed_or_number(below));
                format!("({left} {op} {right})")
            }
            5..=7 => {
                self.traits.insert(Trait::SignedDivision);
                let op = self.random.choose(&["/", "%"]);
                format!("({} {op} {})", self.signed(below), self.signed(below))
            }
            8 => {
                self.traits.insert(Trait::Shifts);
                let op = self.random.choose(&["<<", ">>"]);
                format!("({} {op} {})", self.signed(below), self.unsigned(below))
            }
            9 => {
                let function = self.random.choose(&["min", "max"]);
                let left = self.signed(below);
                format!("{function}({left}, {})", self.signed_or_number(below))
            }
            10 => {
                let function = self.random.choose(&["abs", "sign", "-", "~"]);
                format!("{function}({})", self.signed(below))
            }
            11 => {
                let (low, high) = (self.signed(below), self.signed(below));
                format!("clamp({}, {low}, {high})", self.signed(below))
            }
            12 => self.signed_bits(below),
            13 => format!("i32({})", self.unsigned(below)),
            14 => format!("i32({})", self.boolean(below)),
            15 => {
                let (reject, accept) = (self.signed(below), self.signed_or_number(below));
                format!("select({reject}, {accept}, {})", self.boolean(below))
            }
            16 => format!("dot({}, {})", self.vector_signed(below), self.vector_signed(below)),
            _ => {
                self.traits.insert(Trait::Indices);
                format!("w0[{}]", self.index(below))
            }
        }
    }

    fn signed_bits(&mut self, below: u32) -> String {
        self.traits.insert(Trait::Bits);
        let value = self.signed(below);
        match self.random.below(5) {
            0 => {
                let (offset, count) = (self.unsigned(below), self.unsigned(below));
                format!("extractBits({value}, {offset} & 31u, {count})")
            }
            1 => {
                let (left, right) = (self.unsigned(below), self.unsigned(below));
                format!("dot4I8Packed({left}, {right})")
            }
            2 => format!("unpack4xI8({}).y", self.unsigned(below)),
            _ => {
                let function =
                    self.random.choose(&["firstLeadingBit", "firstTrailingBit", "countOneBits"]);
                format!("{function}({value})")
            }
        }
    }

    pub(super) fn boolean(&mut self, depth: u32) -> String {
        let Some(below) = depth.checked_sub(1) else {
            return format!("({} > {})", self.unsigned_leaf(), self.random.number());
        };
        let compare = self.random.choose(&["<", "<=", ">", ">=", "==", "!="]);
        match self.random.below(8) {
            0 | 1 => format!("({} {compare} {})", self.unsigned(below), self.unsigned(below)),
            2 | 3 => format!("({} {compare} {})", self.signed(below), self.signed(below)),
            4 => {
                let op = self.random.choose(&["&&", "||", "&", "|"]);
                format!("({} {op} {})", self.boolean(below), self.boolean(below))
            }
            5 => format!("(!{})", self.boolean(below)),
            6 => format!("bool({})", self.unsigned(below)),
            _ => {
                let function = self.random.choose(&["all", "any"]);
                let (left, right) = (self.vector_unsigned(below), self.vector_unsigned(below));
                format!("{function}({left} {compare} {right})")
            }
        }
    }

    /// A vector of three unsigned integers.
    pub(super) fn vector_unsigned(&mut self, depth: u32) -> String {
        let Some(below) = depth.checked_sub(1) else { return "v0".to_owned() };
        match self.random.below(7) {
            0 | 1 => {
                let op = self.random.choose(&["+", "-", "*", "&", "|", "^", "/", "%"]);
                let left = self.vector_unsigned(below);
                format!("({left} {op} {})", self.vector_unsigned(below))
            }
            2 => {
                self.traits.insert(Trait::Shifts);
                let left = self.vector_unsigned(below);
                format!("({left} >> {})", self.vector_unsigned(below))
            }
            3 => {
                let (x, y) = (self.unsigned(below), self.unsigned(below));
                format!("vec3<u32>({x}, {y}, {})", self.unsigned(below))
            }
            4 => format!("vec3<u32>({})", self.unsigned(below)),
            5 => format!("{}.zxy", self.vector_unsigned(below)),
            _ => format!("bitcast<vec3<u32>>({}.xxw)", self.vector_signed(below)),
        }
    }

    /// A vector of four signed integers.
    pub(super) fn vector_signed(&mut self, depth: u32) -> String {
        let Some(below) = depth.checked_sub(1) else { return "w0".to_owned() };
        match self.random.below(6) {
            0 | 1 => {
                let op = self.random.choose(&["+", "-", "*", "&", "|", "^"]);
                let left = self.vector_signed(below);
                format!("({left} {op} {})", self.vector_signed(below))
            }
            2 => {
                self.traits.insert(Trait::SignedDivision);
                let op = self.random.choose(&["/", "%"]);
                let left = self.vector_signed(below);
                format!("({left} {op} {})", self.vector_signed(below))
            }
            3 => {
                let (x, y) = (self.signed(below), self.signed(below));
                let left = format!("vec2<i32>({x}, {y})");
                format!("vec4<i32>({left}, {}, {})", self.signed(below), self.signed(below))
            }
            4 => format!("abs({}.wzyx)", self.vector_signed(below)),
            _ => {
                let (reject, accept) = (self.vector_signed(below), self.vector_signed(below));
                format!("select({reject}, {accept}, {accept} > {reject})")
            }
        }
    }
}
