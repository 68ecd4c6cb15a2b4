//! Payloads: JSON, or a value of the host language that nobody has had to convert yet.

mod exact;
mod finite;
mod json;

pub(crate) use finite::check_finite;
pub use json::Json;

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, Result};

/// The deepest nesting that counts as JSON.
pub const MAX_DEPTH: usize = 512;

/// A value of the host language, passed along by reference.
pub trait HostValue: Send + Sync + 'static {
    /// Returns a JSON copy of the value as it is now, or [`NotJson`](crate::ErrorKind::NotJson) with the path.
    fn to_json(&self) -> Result<Json>;

    /// Returns a copy of the value's JSON containers, made in the host language.
    fn isolate(&self) -> Result<Payload>;

    /// Calls `visit` for each top-level key; returns false if the value is not an object.
    fn keys(&self, visit: &mut dyn FnMut(&str)) -> bool;

    /// Returns the value for downcasts.
    fn as_any(&self) -> &dyn Any;
}

/// What travels through a chain: arguments, a request, a result.
///
/// Cloning is cheap. A host value stays the host's own object from the first stage to the last.
#[derive(Clone)]
pub enum Payload {
    /// A JSON value, shared until somebody edits it.
    Json(Json),
    /// An object of the host language.
    Host(Arc<dyn HostValue>),
}

impl Payload {
    /// Returns a JSON copy of the payload as it is now.
    pub fn to_json(&self) -> Result<Json> {
        match self {
            Self::Json(value) => Ok(value.clone()),
            Self::Host(value) => value.to_json(),
        }
    }

    /// Returns the payload as an owned JSON value.
    pub fn into_json(self) -> Result<Value> {
        match self {
            Self::Json(value) => Ok(value.into_value()),
            Self::Host(value) => value.to_json().map(Json::into_value),
        }
    }

    /// Deserialises the payload into a Rust type.
    ///
    /// A mismatch, and a number that no Rust number holds, is
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        let json = self.to_json()?;
        if let Some(path) = beyond(&json) {
            return Err(Error::invalid_argument(
                path,
                "the number is beyond every Rust number",
            ));
        }
        T::deserialize(&*json).map_err(|error| Error::invalid_argument("$", error.to_string()))
    }

    /// Returns a payload that the chain may change without the caller seeing it.
    pub(crate) fn isolate(&self) -> Result<Self> {
        match self {
            Self::Json(value) => Ok(Self::Json(value.clone())),
            Self::Host(value) => value.isolate(),
        }
    }

    /// Calls `visit` for each top-level key; returns false if the payload is not an object.
    pub(crate) fn keys(&self, visit: &mut dyn FnMut(&str)) -> bool {
        match self {
            Self::Json(value) => match &**value {
                Value::Object(map) => {
                    map.keys().for_each(|key| visit(key));
                    true
                }
                _ => false,
            },
            Self::Host(value) => value.keys(visit),
        }
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self::Json(value.into())
    }
}

impl From<Json> for Payload {
    fn from(json: Json) -> Self {
        Self::Json(json)
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(value) => value.fmt(out),
            Self::Host(_) => out.write_str("<host value>"),
        }
    }
}

/// Parses JSON text, keeping key order and the text of numbers.
///
/// Malformed text, and nesting deeper than [`MAX_DEPTH`], is
/// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) with the place in the text.
pub fn parse_json(text: &str) -> Result<Value> {
    // Counting is much faster than finding out how deep it is, and mostly enough.
    let opening = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if opening > MAX_DEPTH && text_depth(text) > MAX_DEPTH {
        return Err(Error::invalid_argument(
            "$",
            format!("nested deeper than {MAX_DEPTH}"),
        ));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    // The depth was bounded above, and more generously than serde_json's own limit.
    reader.disable_recursion_limit();
    let parsed = <Value as serde::Deserialize>::deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    let value = parsed.map_err(|error| Error::invalid_argument("$", format!("not JSON text: {error}")))?;
    if exact::has_exponent(text) {
        return Ok(exact::read(text).unwrap_or(value));
    }
    Ok(value)
}

fn text_depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Returns the path of a key below `path`: `$.a`, or `$["a b"]` where the key is not a plain name.
pub fn path_key(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && !key.starts_with(|first: char| first.is_ascii_digit())
        && key
            .chars()
            .all(|one| one.is_alphanumeric() || one == '_' || one == '-');
    if plain {
        format!("{path}.{key}")
    } else {
        format!("{path}[{}]", Value::from(key))
    }
}

/// Returns the path of an element below `path`: `$[3]`.
pub fn path_index(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// Returns the path of the first value that is nested too deeply to count as JSON.
pub(crate) fn too_deep(value: &Value) -> Option<String> {
    if !exceeds(value, MAX_DEPTH) {
        return None;
    }
    let (mut path, mut place, mut left) = ("$".to_owned(), value, MAX_DEPTH);
    while left > 0 {
        left -= 1;
        (path, place) = match place {
            Value::Array(items) => {
                let (index, item) = items.iter().enumerate().find(|(_, item)| exceeds(item, left))?;
                (path_index(&path, index), item)
            }
            Value::Object(map) => {
                let (key, item) = map.iter().find(|(_, item)| exceeds(item, left))?;
                (path_key(&path, key), item)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
    }
    Some(path)
}

/// Returns the path of the first number that becomes infinite: serde would hand it over as such.
fn beyond(value: &Value) -> Option<String> {
    /// The steps to the number, innermost first; the path is only written when there is one.
    fn steps(value: &Value) -> Option<Vec<String>> {
        let below = |item: &Value, step: &dyn Fn() -> String| {
            let mut path = steps(item)?;
            path.push(step());
            Some(path)
        };
        match value {
            Value::Number(number) => {
                let infinite = number.as_str().parse::<f64>().is_ok_and(f64::is_infinite);
                infinite.then(Vec::new)
            }
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| below(item, &|| path_index("", index)))
            }
            Value::Object(map) => map
                .iter()
                .find_map(|(key, item)| below(item, &|| path_key("", key))),
            Value::Null | Value::Bool(_) | Value::String(_) => None,
        }
    }
    let path = steps(value)?;
    Some(path.iter().rev().fold("$".to_owned(), |path, step| path + step))
}

/// Says whether containers are nested more than `depth` deep; looks no deeper than that.
fn exceeds(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if depth == 0 => true,
        Value::Array(items) => items.iter().any(|item| exceeds(item, depth - 1)),
        Value::Object(map) => map.values().any(|item| exceeds(item, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Estimates the memory that a JSON copy holds, in bytes.
pub(crate) fn weight(value: &Value) -> usize {
    // What an allocation takes beside what it holds, and an entry of a map beside key and value.
    const ALLOCATED: usize = 16;
    const ENTRY: usize = 64;
    let own = size_of::<Value>();
    match value {
        Value::Null | Value::Bool(_) => own,
        Value::Number(number) => own + ALLOCATED + number.as_str().len(),
        Value::String(text) => own + ALLOCATED + text.len(),
        Value::Array(items) => own + ALLOCATED + items.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            own + 2 * ALLOCATED
                + map
                    .iter()
                    .map(|(key, item)| ENTRY + ALLOCATED + key.len() + weight(item))
                    .sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pay_3_text_keeps_numbers_and_order() {
        let text = r#"{"z":1.50,"a":[1e400,12345678901234567890123]}"#;
        assert_eq!(parse_json(text).unwrap().to_string(), text);
    }

    #[test]
    fn pay_3_depth_is_bounded() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(parse_json(&nested(512)).is_ok());
        let error = parse_json(&nested(513)).unwrap_err();
        assert_eq!(error.code(), Some("invalid_argument"));
        assert!(parse_json(&format!("\"{}\"", "[".repeat(600))).is_ok());
    }

    #[test]
    fn broken_text_is_typed() {
        for text in ["", "{", "{\"a\":}", "[1,]", "nul", "1 2"] {
            assert_eq!(parse_json(text).unwrap_err().field("path"), Some("$"), "{text}");
        }
    }
}
