//! Python to JSON: the copy that observers, sanitizers and exporters read.

use callweir::foreign::{path_index, path_key};
use callweir::{Error, MAX_DEPTH, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use serde_json::{Map, Number, Value};

use super::Default;
use crate::statics::statics;

/// Copies a value as JSON; what has no JSON form is `NotJson` with its path.
pub(crate) fn to_json(value: &Bound<'_, PyAny>, default: &Default) -> Result<Value> {
    let mut walk = Walk {
        default,
        depth: 0,
        around: Vec::new(),
    };
    walk.copy(value).map_err(|refused| {
        let mut place = String::from("$");
        refused.path.iter().rev().for_each(|step| match step {
            Step::Key(key) => place = path_key(&place, key),
            Step::Index(index) => place = path_index(&place, *index),
        });
        Error::not_json(place, refused.why)
    })
}

/// Returns the text of a string; a lone surrogate becomes U+FFFD.
pub(crate) fn text(string: &Bound<'_, PyString>) -> String {
    if let Ok(text) = string.to_str() {
        return text.to_owned();
    }
    let encoded = string.call_method1("encode", ("utf-8", "surrogatepass"));
    let Ok(bytes) = encoded.and_then(|bytes| bytes.extract::<Vec<u8>>()) else {
        return string.to_string_lossy().into_owned();
    };
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.as_slice();
    while let Some((&first, tail)) = rest.split_first() {
        // A surrogate's three bytes are as long as those of U+FFFD.
        if let (0xED, [0xA0..=0xBF, _, after @ ..]) = (first, tail) {
            out.extend_from_slice("\u{FFFD}".as_bytes());
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

struct Refused {
    path: Vec<Step>,
    why: String,
}

enum Step {
    Key(String),
    Index(usize),
}

impl Refused {
    fn new(why: impl Into<String>) -> Self {
        Self {
            path: Vec::new(),
            why: why.into(),
        }
    }

    fn below(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }
}

type Copied = std::result::Result<Value, Refused>;

struct Walk<'a> {
    default: &'a Default,
    depth: usize,
    /// The containers around the present value, to notice one that contains itself.
    around: Vec<usize>,
}

impl Walk<'_> {
    fn copy(&mut self, value: &Bound<'_, PyAny>) -> Copied {
        if let Ok(string) = value.cast::<PyString>() {
            return Ok(Value::String(text(string)));
        }
        if value.is_none() {
            return Ok(Value::Null);
        }
        if let Ok(flag) = value.cast::<PyBool>() {
            return Ok(Value::Bool(flag.is_true()));
        }
        if let Ok(integer) = value.cast::<PyInt>() {
            return copy_integer(integer);
        }
        if let Ok(float) = value.cast::<PyFloat>() {
            return copy_float(float);
        }
        if let Ok(dict) = value.cast::<PyDict>() {
            return self.inside(value, |walk| walk.copy_dict(dict));
        }
        if let Ok(list) = value.cast::<PyList>() {
            return self.inside(value, |walk| walk.copy_items(list.iter()));
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            return self.inside(value, |walk| walk.copy_items(tuple.iter()));
        }
        self.inside(value, |walk| walk.copy_other(value))
    }

    /// Copies what a container holds, one level deeper.
    fn inside(&mut self, container: &Bound<'_, PyAny>, copy: impl FnOnce(&mut Self) -> Copied) -> Copied {
        let address = container.as_ptr() as usize;
        if self.depth >= MAX_DEPTH {
            return Err(Refused::new(format!("nested deeper than {MAX_DEPTH}")));
        }
        if self.around.contains(&address) {
            return Err(Refused::new("a value that contains itself"));
        }
        self.depth += 1;
        self.around.push(address);
        let copied = copy(self);
        self.around.pop();
        self.depth -= 1;
        copied
    }

    fn copy_items<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>) -> Copied {
        let copied = items.enumerate().map(|(index, item)| {
            self.copy(&item)
                .map_err(|refused| refused.below(Step::Index(index)))
        });
        copied
            .collect::<std::result::Result<Vec<_>, _>>()
            .map(Value::Array)
    }

    fn copy_dict(&mut self, dict: &Bound<'_, PyDict>) -> Copied {
        let mut map = Map::with_capacity(dict.len());
        for (key, item) in dict.iter() {
            let key = key_text(&key)?;
            let copied = match self.copy(&item) {
                Ok(copied) => copied,
                Err(refused) => return Err(refused.below(Step::Key(key))),
            };
            map.insert(key, copied);
        }
        if map.len() < dict.len() {
            return Err(clash(dict));
        }
        Ok(Value::Object(map))
    }

    /// Copies what is not one of the plain types: data classes, models, dates, or by the runtime's converter.
    fn copy_other(&mut self, value: &Bound<'_, PyAny>) -> Copied {
        let py = value.py();
        let raised = |error: PyErr| Refused::new(format!("its conversion raised {}", error_name(py, &error)));
        let support = statics(py).map_err(raised)?.support.bind(py);
        let plain = support.call_method1("plain", (value,)).map_err(raised)?;
        if !plain.is(support.getattr("NOT_PLAIN").map_err(raised)?) {
            return self.copy(&plain);
        }
        if let Some(default) = self.default.get(py) {
            let converted = default.bind(py).call1((value,)).map_err(raised)?;
            return self.copy(&converted);
        }
        Err(Refused::new(format!("{} has no JSON form", type_name(value))))
    }
}

/// Names the first key of a dict whose text an earlier key has too.
fn clash(dict: &Bound<'_, PyDict>) -> Refused {
    let mut seen = std::collections::HashSet::new();
    let texts = dict.iter().filter_map(|(key, _)| key_text(&key).ok());
    let twice = texts.into_iter().find(|key| !seen.insert(key.clone()));
    Refused::new("two keys become the same text").below(Step::Key(twice.unwrap_or_default()))
}

fn error_name(py: Python<'_>, error: &PyErr) -> String {
    error
        .get_type(py)
        .name()
        .map(|name| name.to_string())
        .unwrap_or_default()
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "the value".to_owned(), |name| name.to_string())
}

fn key_text(key: &Bound<'_, PyAny>) -> std::result::Result<String, Refused> {
    if let Ok(string) = key.cast::<PyString>() {
        return Ok(text(string));
    }
    if key.is_exact_instance_of::<PyInt>() {
        return key
            .str()
            .map(|shown| shown.to_string())
            .map_err(|_| Refused::new("an integer key"));
    }
    let kind: Bound<'_, PyType> = key.get_type();
    let kind = kind.name().map(|name| name.to_string()).unwrap_or_default();
    Err(Refused::new(format!("a key of type {kind}")))
}

fn copy_integer(integer: &Bound<'_, PyInt>) -> Copied {
    if let Ok(number) = integer.extract::<i64>() {
        return Ok(Value::from(number));
    }
    integer
        .extract::<u64>()
        .map(Value::from)
        .map_err(|_| Refused::new("an integer beyond 64 bits"))
}

fn copy_float(float: &Bound<'_, PyFloat>) -> Copied {
    if !float.value().is_finite() {
        return Err(Refused::new(format!("{} is not a JSON number", float.value())));
    }
    // The text is Python's own, so that a reader sees what the program would have printed.
    let shown = float
        .py()
        .get_type::<PyFloat>()
        .call_method1("__repr__", (float,));
    let shown = shown
        .and_then(|shown| shown.extract::<String>())
        .map_err(|_| Refused::new("a float"))?;
    shown
        .parse::<Number>()
        .map(Value::Number)
        .map_err(|_| Refused::new("a float"))
}
