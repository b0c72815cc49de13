//! What is wrong with a body, in words of JSON. What the parser says names types of Rust, which mean
//! nothing to whoever wrote the body.

use super::{super::problem::Problem, shorten};
use serde::de::{DeserializeOwned, IgnoredAny};

/// Why a body cannot be read as what it should be.
pub(super) fn problem<T: DeserializeOwned>(body: &[u8]) -> Problem {
    let no_json = |error| Problem::unreadable(format!("the body is not JSON: {error}"));
    let first = match body.trim_ascii_start().first() {
        None => return Problem::unreadable("the body is empty; it must be a JSON object"),
        Some(first) => *first,
    };
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        return no_json(error);
    }
    if first != b'{' {
        let message = format!("the body must be a JSON object, not {}", kind(first));
        return Problem::unreadable(message);
    }
    let mut from = serde_json::Deserializer::from_slice(body);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut from) else {
        return Problem::unreadable("the body cannot be read");
    };
    let place = error.path().to_string();
    let error = error.into_inner();
    if !error.is_data() {
        return no_json(error);
    }
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    of_field(&place, text)
}

/// Of what kind JSON is that begins so.
const fn kind(first: u8) -> &'static str {
    match first {
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        _ => "a number",
    }
}

/// What the parser says of a field.
fn of_field(place: &str, text: &str) -> Problem {
    let inside = |field: &str| match place {
        "." => field.to_owned(),
        place => format!("{place}.{field}"),
    };
    let named = |prefix| text.strip_prefix(prefix).and_then(|rest: &str| rest.strip_suffix('`'));
    if let Some(field) = named("missing field `") {
        let field = inside(field);
        let message = format!("`{field}` is required");
        return Problem::invalid(field, message);
    }
    if let Some(field) = named("duplicate field `") {
        let field = inside(field);
        let message = format!("`{field}` is there more than once");
        return Problem::invalid(field, message);
    }
    let message = match text.rsplit_once(", expected ") {
        Some((found, wanted)) => {
            format!("`{place}` must be {}, not {}", in_json(wanted), shown(found))
        }
        None => text.to_owned(),
    };
    Problem::invalid(place, message)
}

/// What was wanted.
fn in_json(wanted: &str) -> &str {
    match wanted {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number of 0 or more",
        "i64" => "a whole number of 64 bits",
        "f32" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        other => other,
    }
}

/// What was there instead. Numbers are repeated, and texts if their content is what is wrong.
fn shown(found: &str) -> String {
    let Some((what, found)) = found.split_once(": ") else {
        // The parser counts the elements of an array that stands for an object.
        return "an array".to_owned();
    };
    match found.split_once(' ') {
        None if found == "sequence" => "an array".to_owned(),
        None if found == "map" => "an object".to_owned(),
        None => found.to_owned(),
        Some(("string", text)) if what == "invalid value" => shorten(text),
        Some(("string", _)) => "a string".to_owned(),
        Some((_, number)) => number.trim_start_matches("point ").trim_matches('`').to_owned(),
    }
}
