//! A look at the words of a source, before anything else reads it.
//!
//! Three things must be known that early. First, that there is no float: constants are folded while
//! the source is parsed, and a folded sine would depend on the machine that folded it. Second, that
//! the source is small and flat: the parser calls itself for what is nested, on a native stack.
//! Third, that constants stay as small as the source (see `fold`).
//!
//! This is no parser. It knows comments, words, numbers and brackets.

mod fold;

use super::{Ineligible, Limits, error::Location};
use std::collections::BTreeSet;

/// Words that name types of floats.
const TYPES: [&str; 27] = [
    "f16", "f32", "f64", "mat2x2", "mat2x2f", "mat2x3", "mat2x3f", "mat2x4", "mat2x4f", "mat3x2",
    "mat3x2f", "mat3x3", "mat3x3f", "mat3x4", "mat3x4f", "mat4x2", "mat4x2f", "mat4x3", "mat4x3f",
    "mat4x4", "mat4x4f", "vec2f", "vec2h", "vec3f", "vec3h", "vec4f", "vec4h",
];
/// Functions that compute with floats, even where they are given integers.
const FUNCTIONS: [&str; 55] = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "cross",
    "degrees",
    "determinant",
    "distance",
    "exp",
    "exp2",
    "faceForward",
    "floor",
    "fma",
    "fract",
    "frexp",
    "inverseSqrt",
    "ldexp",
    "length",
    "log",
    "log2",
    "mix",
    "modf",
    "normalize",
    "pack2x16float",
    "pack2x16snorm",
    "pack2x16unorm",
    "pack4x8snorm",
    "pack4x8unorm",
    "pow",
    "quantizeToF16",
    "radians",
    "reflect",
    "refract",
    "round",
    "saturate",
    "sin",
    "sinh",
    "smoothstep",
    "sqrt",
    "step",
    "tan",
    "tanh",
    "transpose",
    "trunc",
    "unpack2x16float",
    "unpack2x16snorm",
    "unpack2x16unorm",
    "unpack4x8snorm",
    "unpack4x8unorm",
];

/// Brackets within brackets.
const DEPTH: u64 = 32;
/// Operators, members and indices between two of `;`, `{` and `}`: no expression is deeper.
const OPERATORS: u64 = 128;
/// Times that `else` is followed by `if`: each is one block within another.
const CHAIN: u64 = 32;
/// Declarations outside of functions: they may be resolved one within the other.
const DECLARATIONS: u64 = 256;

/// What a piece of the source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Word(&'a str),
    Number(&'a str),
    Sign(char),
}

/// Refuses floats, and what is too large or too nested to be read.
pub(super) fn scan(source: &str, limits: &Limits) -> Result<(), Ineligible> {
    let most = |what, size: u64, limit: u64| {
        if size > limit { Err(Ineligible::TooLarge { what, size, limit }) } else { Ok(()) }
    };
    let wide = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    most("bytes of the source", wide(source.len()), wide(limits.source))?;
    let (mut depth, mut operators, mut chain, mut declarations) = (0u64, 0u64, 0u64, 0u64);
    let mut last = None;
    let own = declared(source);
    let all: Vec<(usize, Piece<'_>)> = Pieces { source, at: 0 }.collect();
    fold::folding(&all, &own)?;
    let mut pieces = all.into_iter().peekable();
    while let Some((start, piece)) = pieces.next() {
        let applied = matches!(pieces.peek(), Some((_, Piece::Sign('('))));
        let refused = |word| {
            TYPES.contains(&word) || applied && FUNCTIONS.contains(&word) && !own.contains(word)
        };
        match piece {
            Piece::Word(word) if refused(word) => return Err(float(source, start, word)),
            Piece::Number(number) if is_float(number) => return Err(float(source, start, number)),
            Piece::Word("if") if last == Some(Piece::Word("else")) => {
                chain = chain.saturating_add(1);
            }
            Piece::Word("const" | "alias" | "struct" | "fn" | "var" | "override") if depth == 0 => {
                declarations = declarations.saturating_add(1);
            }
            Piece::Word(_) | Piece::Number(_) => {}
            Piece::Sign(sign) => {
                match sign {
                    '(' | '[' | '{' => depth = depth.saturating_add(1),
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                match sign {
                    ';' | '{' | '}' => operators = 0,
                    '(' | ')' | ']' | ',' => {}
                    // The sign of a number in a list does not make anything deeper.
                    '-' if matches!(last, Some(Piece::Sign('(' | ','))) => {}
                    _ => operators = operators.saturating_add(1),
                }
            }
        }
        most("brackets within brackets", depth, DEPTH)?;
        most("operators of one statement", operators, OPERATORS)?;
        most("branches of `else if`", chain, CHAIN)?;
        most("declarations", declarations, DECLARATIONS)?;
        last = Some(piece);
    }
    Ok(())
}

/// Names that the source gives to functions of its own: they hide those of the language.
fn declared(source: &str) -> BTreeSet<&str> {
    let pieces = || Pieces { source, at: 0 }.map(|(_, piece)| piece);
    let named = pieces().zip(pieces().skip(1)).filter_map(|pair| match pair {
        (Piece::Word("fn"), Piece::Word(name)) => Some(name),
        _ => None,
    });
    named.collect()
}

/// The place of a byte.
pub(super) fn locate(source: &str, start: usize) -> Location {
    let before = source.as_bytes().get(..start).unwrap_or_default();
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
    let from_one = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
    Location { line: from_one(lines), column: from_one(column) }
}

fn float(source: &str, start: usize, what: &str) -> Ineligible {
    Ineligible::Float { at: locate(source, start), what: what.to_owned() }
}

/// Whether a number of WGSL has a fraction, an exponent or the suffix of a float.
fn is_float(number: &str) -> bool {
    let lower = number.to_ascii_lowercase();
    match lower.strip_prefix("0x") {
        Some(digits) => digits.contains(['.', 'p']),
        None => lower.contains(['.', 'e', 'f', 'h']),
    }
}

struct Pieces<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Pieces<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// Goes over as many bytes as these characters have.
    fn skip(&mut self, keep: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at = self.at.saturating_add(rest.find(|c| !keep(c)).unwrap_or(rest.len()));
    }

    /// Goes over a comment, if there is one.
    fn comment(&mut self) -> bool {
        let rest = self.rest();
        if rest.starts_with("//") {
            self.skip(|c| c != '\n');
            return true;
        }
        if !rest.starts_with("/*") {
            return false;
        }
        let mut depth = 0u32;
        while !self.rest().is_empty() {
            let (step, change) = match self.rest() {
                rest if rest.starts_with("/*") => (2, 1),
                rest if rest.starts_with("*/") => (2, -1),
                rest => (rest.chars().next().map_or(1, char::len_utf8), 0),
            };
            self.at = self.at.saturating_add(step);
            depth = depth.saturating_add_signed(change);
            if depth == 0 {
                break;
            }
        }
        true
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (usize, Piece<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip(char::is_whitespace);
        while self.comment() {
            self.skip(char::is_whitespace);
        }
        let start = self.at;
        let rest = self.rest();
        let first = rest.chars().next()?;
        let second = rest.chars().nth(1);
        let digit = |c: char| c.is_ascii_digit();
        if first.is_alphabetic() || first == '_' {
            self.skip(|c| c.is_alphanumeric() || c == '_');
            return Some((start, Piece::Word(self.source.get(start..self.at)?)));
        }
        if digit(first) || (first == '.' && second.is_some_and(digit)) {
            // A sign behind an exponent is left over: what is before it already says float.
            self.skip(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
            return Some((start, Piece::Number(self.source.get(start..self.at)?)));
        }
        self.at = self.at.saturating_add(first.len_utf8());
        Some((start, Piece::Sign(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str) -> Result<(), Ineligible> {
        scan(source, &Limits::REFEREE)
    }

    #[test]
    fn integers_of_every_notation_pass() {
        for number in ["0", "17", "17u", "3i", "0x1F", "0xefu", "0xFFi", "1_000"] {
            assert_eq!(check(&format!("const a = {number};")), Ok(()), "{number}");
        }
        assert_eq!(
            check("let b = v.x + v.xyz.y; // 1.5 and sqrt\n/* 2.0 /* f32 */ 3.0 */"),
            Ok(())
        );
    }

    #[test]
    fn floats_of_every_notation_are_found_where_they_stand() {
        for number in ["1.0", "1.", ".5", "1e3", "1f", "2h", "0x1p3", "0x1.8p1", "1e-3"] {
            let found = check(&format!("const ok = 1;\n  const a = {number};"));
            let at = Location { line: 2, column: 13 };
            let what = number.trim_end_matches("-3").to_owned();
            assert_eq!(found, Err(Ineligible::Float { at, what }), "{number}");
        }
        assert!(matches!(check("const k = u32(sqrt(2));"), Err(Ineligible::Float { .. })));
        assert!(matches!(check("var step: vec3f;"), Err(Ineligible::Float { .. })));
    }

    #[test]
    fn names_of_float_functions_are_free_for_other_things() {
        assert_eq!(
            check("fn mix(step: u32) -> u32 { let length = step; return mix(length); }"),
            Ok(())
        );
    }

    #[test]
    fn what_would_exhaust_the_stack_of_a_parser_is_refused() {
        let deep = format!("const a = {}1{};", "(".repeat(33), ")".repeat(33));
        let long = format!("const a = 1{};", " + 1".repeat(129));
        let members = format!("const a = b{};", ".x".repeat(129));
        let chain = format!("if a {{ }}{}", " else if b { }".repeat(33));
        let each: String = (0..257).map(|n| format!("const a{n} = a{}; ", n + 1)).collect();
        for source in [deep, long, members, chain, each] {
            assert!(matches!(check(&source), Err(Ineligible::TooLarge { .. })), "{source}");
        }
        let table = format!("const a = array({}1);", "-7, ".repeat(500));
        assert_eq!(check(&table), Ok(()));
    }
}
