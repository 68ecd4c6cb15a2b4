//! Numbers that JavaScript cannot hold: integers beyond the safe range cross as `BigInt`.

use callweir::foreign::{path_index, path_key};
use serde_json::{Number, Value};

/// What a text begins with that stands for something else; `ts/value.ts` has the other half.
const MARK: &str = "\u{0}\u{1}";
/// The largest integer that a JavaScript number holds exactly together with its neighbours.
const SAFE: u64 = (1 << 53) - 1;

/// Returns JSON text in which integers beyond the safe range are marked texts.
pub(crate) fn marked(value: &Value) -> String {
    let text = if is_plain(value) {
        serde_json::to_string(value)
    } else {
        serde_json::to_string(&mark(value))
    };
    // A value that was read as JSON can be written as JSON.
    text.unwrap_or_default()
}

/// Says whether JavaScript reads a value as it is.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Number(number) => !is_big(number),
        Value::String(text) => !text.starts_with(MARK),
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(map) => map.values().all(is_plain),
        Value::Null | Value::Bool(_) => true,
    }
}

/// Says whether JavaScript reads text as it is; may say no where it does.
pub(crate) fn is_plain_text(text: &str) -> bool {
    let mut digits = 0_u32;
    let longest = text.bytes().fold(0, |longest, byte| {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        longest.max(digits)
    });
    longest < 16 && !text.contains("\\u0000\\u0001")
}

/// Says whether a number is an integer that only a `BigInt` holds.
fn is_big(number: &Number) -> bool {
    let text = number.as_str();
    if text.len() < 16 || text.contains(['.', 'e', 'E']) {
        return false;
    }
    number
        .as_i64()
        .map(i64::unsigned_abs)
        .or_else(|| number.as_u64())
        .is_none_or(|size| size > SAFE)
}

fn mark(value: &Value) -> Value {
    match value {
        Value::Number(number) if is_big(number) => Value::from(format!("{MARK}n{number}")),
        Value::String(text) if text.starts_with(MARK) => Value::from(format!("{MARK}s{text}")),
        Value::Array(items) => items.iter().map(mark).collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), mark(item))).collect(),
        plain => plain.clone(),
    }
}

/// Returns the path of the first number that would become infinite.
pub(crate) fn beyond(value: &Value) -> Option<String> {
    let mut steps = steps(value)?;
    steps.reverse();
    let path = steps.iter().fold(String::from("$"), |path, step| match step {
        Step::Key(key) => path_key(&path, key),
        Step::Index(index) => path_index(&path, *index),
    });
    Some(path)
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Returns the steps to the number, innermost first.
fn steps(value: &Value) -> Option<Vec<Step<'_>>> {
    let below = |item, step| {
        let mut path = steps(item)?;
        path.push(step);
        Some(path)
    };
    match value {
        Value::Number(number) => {
            let text = number.as_str();
            let infinite = text.contains(['.', 'e', 'E']) && text.parse::<f64>().is_ok_and(f64::is_infinite);
            infinite.then(Vec::new)
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| below(item, Step::Index(index)))
        }
        Value::Object(map) => map.iter().find_map(|(key, item)| below(item, Step::Key(key))),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}
