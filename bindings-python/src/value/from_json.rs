//! JSON to Python.

use callweir::foreign::{path_index, path_key};
use callweir::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde_json::{Number, Value};

use crate::error::from_py;

/// Makes a Python value; integers of any size stay integers, a number beyond a float is refused with its path.
pub(crate) fn from_json<'py>(py: Python<'py>, value: &Value) -> Result<Bound<'py, PyAny>> {
    build(py, value).map_err(|refused| match refused {
        Refused::Range(path, text) => {
            let mut place = String::from("$");
            path.iter().rev().for_each(|step| place = step.after(&place));
            Error::invalid_argument(place, format!("{text} does not fit a Python float"))
        }
        Refused::Raised(error) => from_py(py, error),
    })
}

enum Refused {
    Range(Vec<Step>, String),
    Raised(PyErr),
}

enum Step {
    Key(String),
    Index(usize),
}

impl Step {
    fn after(&self, place: &str) -> String {
        match self {
            Self::Key(key) => path_key(place, key),
            Self::Index(index) => path_index(place, *index),
        }
    }
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Refused {
    fn below(self, step: impl FnOnce() -> Step) -> Self {
        match self {
            Self::Range(mut path, text) => {
                path.push(step());
                Self::Range(path, text)
            }
            raised @ Self::Raised(_) => raised,
        }
    }
}

fn build<'py>(py: Python<'py>, value: &Value) -> std::result::Result<Bound<'py, PyAny>, Refused> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => build_number(py, number)?,
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for (index, item) in items.iter().enumerate() {
                list.append(build(py, item).map_err(|refused| refused.below(|| Step::Index(index)))?)?;
            }
            list.into_any()
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            for (key, item) in map {
                dict.set_item(
                    key,
                    build(py, item).map_err(|refused| refused.below(|| Step::Key(key.clone())))?,
                )?;
            }
            dict.into_any()
        }
    })
}

fn build_number<'py>(py: Python<'py>, number: &Number) -> std::result::Result<Bound<'py, PyAny>, Refused> {
    let text = number.as_str();
    if let Some(small) = number.as_i64() {
        return Ok(small.into_pyobject(py).map_err(PyErr::from)?.into_any());
    }
    if text.contains(['.', 'e', 'E']) {
        let float = text.parse::<f64>().ok().filter(|float| float.is_finite());
        let float = float.ok_or_else(|| Refused::Range(Vec::new(), text.to_owned()))?;
        return Ok(PyFloat::new(py, float).into_any());
    }
    Ok(py.get_type::<PyInt>().call1((text,))?)
}
