//! JSON values that are shared, and read from their text only when somebody looks.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::Value;

/// A JSON value, shared by all clones.
///
/// A host that writes JSON itself gives the text: who only passes it on never pays for reading it. Everybody else sees
/// a [`Value`].
#[derive(Clone)]
pub struct Json(Arc<Lazy>);

struct Lazy {
    text: Option<Box<str>>,
    value: OnceLock<Value>,
}

/// What a part of a value takes beside its text, in bytes.
const PART: usize = 96;

impl Json {
    /// Takes text that is known to be JSON on one line, nested no deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    ///
    /// Text that is not JSON after all reads as null.
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Lazy {
            text: Some(text.into()),
            value: OnceLock::new(),
        }))
    }

    /// Returns the text, if the value came as text.
    pub fn text(&self) -> Option<&str> {
        self.0.text.as_deref()
    }

    /// Returns the value, giving this handle up; a copy if there are others.
    pub fn into_value(self) -> Value {
        match Arc::try_unwrap(self.0) {
            Ok(mut lazy) => lazy.value.take().unwrap_or_else(|| read(lazy.text.as_deref())),
            Err(shared) => (*Self(shared)).clone(),
        }
    }

    /// Says whether two handles share one value.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Estimates the memory that the value holds, in bytes.
    pub(crate) fn weight(&self) -> usize {
        match &self.0.text {
            // What reading adds is mostly the places of its parts, of which there is one for about each comma.
            Some(text) => text.len() + text.bytes().filter(|byte| *byte == b',').count() * PART,
            None => super::weight(self),
        }
    }
}

fn read(text: Option<&str>) -> Value {
    text.and_then(|text| super::parse_json(text).ok())
        .unwrap_or(Value::Null)
}

impl Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.0.value.get_or_init(|| read(self.0.text.as_deref()))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(Arc::new(Lazy {
            text: None,
            value: OnceLock::from(value),
        }))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Value> for Json {
    fn eq(&self, other: &Value) -> bool {
        **self == *other
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => out.write_str(text),
            None => (**self).fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pay_2_text_is_read_once_and_only_when_looked_at() {
        let json = Json::from_text(r#"{"b":1.50,"a":[1]}"#);
        assert!(json.0.value.get().is_none());
        assert_eq!(json.to_string(), r#"{"b":1.50,"a":[1]}"#);
        assert_eq!(json["a"][0], 1);
        assert_eq!(json.clone().into_value().to_string(), json.to_string());
        assert!(json.is_same(&json.clone()) && !json.is_same(&Json::from(json.clone().into_value())));
        assert_eq!(Json::from_text("no JSON"), Value::Null);
    }
}
