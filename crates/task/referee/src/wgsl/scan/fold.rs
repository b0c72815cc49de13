//! What constants may be, so that folding them takes no more than the source is long.
//!
//! The parser folds an operator on an array by folding it on every element, even where the language
//! has no such operator and the source will be refused. An array of zeros is a few words of source
//! and a billion elements; arrays of arrays that name each other double with every line. Therefore:
//!
//! - Empty brackets behind a type, which mean zeros, are the whole of what a variable is given.
//! - A constant array or structure is made of scalars and vectors, and used by its parts only.
//!
//! What a source says beyond that is as large as it is long. The names of built-in things stay
//! theirs, because they are what the rules are told from.

use super::{Ineligible, Piece};
use std::collections::BTreeSet;

/// Words that give a scalar or a vector when they are applied.
const PLAIN: [&str; 42] = [
    "abs",
    "all",
    "any",
    "bitcast",
    "bool",
    "clamp",
    "countLeadingZeros",
    "countOneBits",
    "countTrailingZeros",
    "dot",
    "dot4I8Packed",
    "dot4U8Packed",
    "extractBits",
    "firstLeadingBit",
    "firstTrailingBit",
    "i32",
    "insertBits",
    "max",
    "min",
    "pack4xI8",
    "pack4xU8",
    "reverseBits",
    "select",
    "sign",
    "u32",
    "unpack4xI8",
    "unpack4xU8",
    "vec2",
    "vec2b",
    "vec2i",
    "vec2u",
    "vec3",
    "vec3b",
    "vec3i",
    "vec3u",
    "vec4",
    "vec4b",
    "vec4i",
    "vec4u",
    "workgroupBarrier",
    "storageBarrier",
    "textureBarrier",
];

/// Functions without an argument.
const BARRIERS: [&str; 3] = ["storageBarrier", "textureBarrier", "workgroupBarrier"];

/// Templates of which zeros may be given.
const TEMPLATES: [&str; 4] = ["array", "vec2", "vec3", "vec4"];

type Pieces<'a, 'b> = &'b [(usize, Piece<'a>)];

/// Refuses constants that could be folded into more than the source.
pub(super) fn folding(pieces: Pieces<'_, '_>, own: &BTreeSet<&str>) -> Result<(), Ineligible> {
    let refuse = |what| Err(Ineligible::Construct { what });
    let at = |index: usize| pieces.get(index).map(|(_, piece)| *piece);
    let composite = composites(pieces)?;
    let mut first = None;
    for (index, (_, piece)) in pieces.iter().enumerate() {
        let (before, behind) = (index.checked_sub(1).and_then(at), at(index.saturating_add(1)));
        let begins = matches!(before, None | Some(Piece::Sign(';' | '{' | '}')));
        first = if begins { Some(*piece) } else { first };
        match *piece {
            Piece::Word(name) if composite.contains(name) => {
                let declared = before == Some(Piece::Word("const"));
                let part = matches!(behind, Some(Piece::Sign('[' | '.')));
                if !declared && !part && before != Some(Piece::Sign('.')) {
                    return refuse("a constant array or structure that is used as a whole");
                }
            }
            Piece::Sign('(') if behind == Some(Piece::Sign(')')) => {
                let applied = match before {
                    Some(Piece::Word(word)) => own.contains(word) || BARRIERS.contains(&word),
                    _ => false,
                };
                let fixed =
                    matches!(first, Some(Piece::Word("const" | "let" | "override" | "return")));
                if !applied && (fixed || !assigned(pieces, index)) {
                    return refuse("zeros that are part of an expression");
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Names of constants that are arrays or structures.
fn composites<'a>(pieces: Pieces<'a, '_>) -> Result<BTreeSet<&'a str>, Ineligible> {
    let refuse = |what| Err(Ineligible::Construct { what });
    let mut names = BTreeSet::new();
    let mut rest = pieces;
    while let [(_, piece), behind @ ..] = rest {
        rest = behind;
        let (Piece::Word(word), [(_, Piece::Word(name)), ..]) = (*piece, behind) else { continue };
        if !matches!(word, "const" | "override" | "alias" | "struct") {
            continue;
        }
        if PLAIN.contains(name) || TEMPLATES.contains(name) {
            return refuse("a declaration with the name of something built in");
        }
        if matches!(word, "alias" | "struct") {
            continue;
        }
        let end = behind.iter().position(|(_, piece)| *piece == Piece::Sign(';'));
        let declaration = behind.get(..end.unwrap_or(behind.len())).unwrap_or_default();
        let value = declaration.iter().position(|(_, piece)| *piece == Piece::Sign('='));
        let value = declaration.get(value.unwrap_or(0)..).unwrap_or_default();
        match value.windows(2).filter(|pair| makes(pair)).count() {
            0 => {}
            1 => {
                names.insert(*name);
            }
            _ => return refuse("a constant of arrays within arrays"),
        }
    }
    Ok(names)
}

/// Whether a word and what follows it make an array or a structure.
fn makes(pair: Pieces<'_, '_>) -> bool {
    match pair {
        [(_, Piece::Word("array")), _] => true,
        [(_, Piece::Word(word)), (_, Piece::Sign('('))] => !PLAIN.contains(word),
        _ => false,
    }
}

/// Whether the type before these empty brackets is all that stands between `=` and `;`.
fn assigned(pieces: Pieces<'_, '_>, bracket: usize) -> bool {
    let ends = pieces.get(bracket.saturating_add(2)).map(|(_, piece)| *piece);
    if ends != Some(Piece::Sign(';')) {
        return false;
    }
    let before = pieces.get(..bracket).unwrap_or_default();
    let Some(equals) = before.iter().rposition(|(_, piece)| *piece == Piece::Sign('=')) else {
        return false;
    };
    let (target, value) = before.split_at(equals);
    let typed = match value {
        [_, (_, Piece::Word(_))] => true,
        [_, (_, Piece::Word(word)), (_, Piece::Sign('<')), list @ .., (_, Piece::Sign('>'))] => {
            TEMPLATES.contains(word)
                && list.iter().all(|(_, piece)| match piece {
                    Piece::Word(_) | Piece::Number(_) => true,
                    Piece::Sign(sign) => matches!(sign, '<' | '>' | ','),
                })
        }
        _ => false,
    };
    // `>=` and others end with the same sign; a type before `=` has a space behind it.
    let plain = match (target.last(), value.first()) {
        (Some((_, Piece::Word(_) | Piece::Sign(']' | ')'))), _) => true,
        (Some((end, Piece::Sign('>'))), Some((start, _))) => end.saturating_add(1) < *start,
        _ => false,
    };
    typed && plain
}

#[cfg(test)]
mod tests {
    use super::super::{super::Limits, scan};

    #[test]
    fn what_would_be_folded_into_more_than_the_source_is_refused() {
        for source in [
            "const a = -array<i32, 268435456>();",
            "const a = array<i32, 268435456>(); const b = -a;",
            "fn f() { x = -T(); }",
            "fn f() { x = (T()); }",
            "fn f() { x = 1 < array<i32, 268435456>(); }",
            "fn f() { b = a >= T(); }",
            "fn f() { b = a == T(); }",
            "fn f() { x += T(); }",
            "fn f() { let a = T(); }",
            "fn f() { const a = T(); }",
            "fn f() { return T(); }",
            "fn f() { x = g(T()); }",
            "const a = array(1, 2); const b = array(a, a);",
            "const a = array(1, 2); fn f() { x = -a; }",
            "const a = array(array(1, 2), array(3, 4));",
            "struct S { x: u32 } const a = S(1); const b = -a;",
            "alias MyBarrier = T; fn f() { x = -MyBarrier(); }",
            "for (const a = T(); b < 1; ) { x = -a; }",
            "alias vec2u = array<u32, 268435456>;",
            "const vec2 = 1;",
        ] {
            assert!(scan(source, &Limits::REFEREE).is_err(), "{source}");
        }
    }

    #[test]
    fn tables_and_fresh_variables_are_fine() {
        for source in [
            "const TABLE = array<u32, 3>(1u, 2u, 3u); fn f(i: u32) -> u32 { return TABLE[i]; }",
            "const HALF: u32 = min(SIZE, 64u) / 2u; const ORIGIN = vec3<u32>(0u, 0u, 0u);",
            "struct S { x: u32 } const A = S(1u); fn f() -> u32 { return A.x; }",
            "fn f() { var a: array<vec3<u32>, 4> = array<vec3<u32>, 4>(); a = T(); p[0] = T(); }",
            "var<private> kept: array<u32, 3> = array<u32, 3>();",
            "fn g() { } fn f() { g(); workgroupBarrier(); }",
        ] {
            assert_eq!(scan(source, &Limits::REFEREE), Ok(()), "{source}");
        }
    }
}
