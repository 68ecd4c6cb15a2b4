//! Python values as payloads: by reference, with JSON copies only for who reads them.

mod from_json;
mod isolate;
mod to_json;

use std::any::Any;
use std::sync::Arc;

use callweir::foreign::HostValue;
use callweir::{Error, Json, Payload, Result};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::Value;

use crate::error::from_py;

pub(crate) use from_json::from_json;
pub(crate) use to_json::{text, to_json};

/// The runtime's converter for values that JSON has no form for.
pub(crate) type Default = Arc<Converter>;

/// A converter that can be set while payloads refer to it.
#[derive(Default)]
pub(crate) struct Converter(Mutex<Option<Py<PyAny>>>);

impl Converter {
    pub(crate) fn set(&self, function: Option<Py<PyAny>>) {
        let old = std::mem::replace(&mut *self.0.lock(), function);
        // Dropped outside the lock: a host may run code of its own then.
        drop(old);
    }

    fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.0.lock().as_ref().map(|function| function.clone_ref(py))
    }
}

/// A Python object as a payload.
pub(crate) struct Object {
    pub(crate) object: Py<PyAny>,
    default: Default,
}

impl Object {
    /// Wraps an object.
    pub(crate) fn payload(object: Py<PyAny>, default: &Default) -> Payload {
        Payload::Host(Arc::new(Self {
            object,
            default: default.clone(),
        }))
    }
}

impl HostValue for Object {
    fn to_json(&self) -> Result<Json> {
        attached(|py| to_json(self.object.bind(py), &self.default)).map(Json::from)
    }

    fn isolate(&self) -> Result<Payload> {
        attached(|py| {
            let copy = isolate::copy(self.object.bind(py)).map_err(|error| from_py(py, error))?;
            Ok(Self::payload(copy.unbind(), &self.default))
        })
    }

    fn keys(&self, visit: &mut dyn FnMut(&str)) -> bool {
        let walked = attached(|py| {
            let Ok(dict) = self.object.bind(py).cast::<PyDict>() else {
                return Ok(false);
            };
            for (key, _) in dict.iter() {
                match key.cast::<PyString>() {
                    Ok(key) => visit(&text(key)),
                    // A key that is no text names no parameter.
                    Err(_) => visit(&key.repr().map(|shown| shown.to_string()).unwrap_or_default()),
                }
            }
            Ok(true)
        });
        walked.unwrap_or(false)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Runs `body` with the interpreter; an interpreter that is going away is an error and not a hang.
pub(crate) fn attached<T>(body: impl FnOnce(Python<'_>) -> Result<T>) -> Result<T> {
    if crate::drive::is_driving() {
        // SAFETY: a drive polls on this thread, and it does so with the interpreter attached. Asking again for each
        // stage would be a tenth of what a stage costs.
        return body(unsafe { Python::assume_attached() });
    }
    crate::attach::attach(body).unwrap_or_else(|| Err(Error::shut_down()))
}

/// Returns the Python object of a payload: the very object, or one made from JSON.
pub(crate) fn object_of<'py>(py: Python<'py>, payload: &Payload) -> Result<Bound<'py, PyAny>> {
    match payload {
        Payload::Host(value) => match value.as_any().downcast_ref::<Object>() {
            Some(object) => Ok(object.object.bind(py).clone()),
            None => from_json(py, &*value.to_json()?),
        },
        Payload::Json(value) => from_json(py, value),
    }
}

/// Says whether a payload is this very object.
pub(crate) fn is_object(payload: &Payload, object: &Bound<'_, PyAny>) -> bool {
    match payload {
        Payload::Host(value) => value
            .as_any()
            .downcast_ref::<Object>()
            .is_some_and(|own| own.object.is(object)),
        Payload::Json(_) => false,
    }
}

/// Makes the payload of JSON text that has been parsed; a number that Python cannot hold is refused.
pub(crate) fn from_text(value: &Value, default: &Default) -> Result<Payload> {
    attached(|py| Ok(Object::payload(from_json(py, value)?.unbind(), default)))
}

/// Converts an optional Python value, such as metadata, at once.
pub(crate) fn optional_json(value: Option<&Bound<'_, PyAny>>, default: &Default) -> PyResult<Option<Value>> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    to_json(value, default)
        .map(Some)
        .map_err(|error| crate::error::to_py(value.py(), &error))
}
