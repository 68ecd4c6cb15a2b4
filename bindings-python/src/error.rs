//! Errors in both directions; an exception that a callback raised stays the same object.

use std::any::Any;
use std::sync::Arc;

use callweir::{Error, ErrorKind, HostFailure};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::statics::statics;

/// An exception as the core carries it.
struct Raised(Py<PyAny>);

impl HostFailure for Raised {
    fn type_name(&self) -> Option<String> {
        crate::attach::attach(|py| {
            self.0
                .bind(py)
                .get_type()
                .name()
                .map(|name| name.to_string())
                .ok()
        })
        .flatten()
    }
    fn message(&self) -> String {
        crate::attach::attach(|py| self.0.bind(py).str().map(|text| crate::value::text(&text)).ok())
            .flatten()
            .unwrap_or_default()
    }
    fn is_control(&self) -> bool {
        crate::attach::attach(|py| !self.0.bind(py).is_instance_of::<pyo3::exceptions::PyException>())
            .unwrap_or(false)
    }
    fn is_release(&self) -> bool {
        crate::parked::is_trio_cancelled(&self.0)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Takes an exception into the core.
pub(crate) fn from_py(py: Python<'_>, error: PyErr) -> Error {
    from_exception(error.into_value(py).bind(py).as_any())
}

/// Takes an exception object into the core; one of Callweir's own keeps its kind and fields.
pub(crate) fn from_exception(exception: &Bound<'_, PyAny>) -> Error {
    let raised = Arc::new(Raised(exception.clone().unbind()));
    match own(exception) {
        Ok(Some(error)) => error.with_host(raised),
        Ok(None) | Err(_) => Error::host(raised),
    }
}

fn own(exception: &Bound<'_, PyAny>) -> PyResult<Option<Error>> {
    let py = exception.py();
    if !exception.is_instance(statics(py)?.error_base.bind(py))? {
        return Ok(None);
    }
    let kind: String = exception.getattr("kind")?.extract()?;
    let Some(kind) = ErrorKind::ALL.iter().find(|known| known.name() == kind) else {
        return Ok(None);
    };
    let mut error = Error::new(*kind, exception.str()?.to_string());
    for field in kind.fields() {
        if let Ok(value) = exception.getattr(*field)?.cast::<PyString>() {
            error = error.with_field(field, value.to_string());
        }
    }
    let code: String = exception.getattr("code")?.extract()?;
    Ok(Some(if code == kind.code() {
        error
    } else {
        error.with_code(code)
    }))
}

/// Returns the exception for an error: the one that was raised, or a new one of the kind's class.
pub(crate) fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    if let Some(raised) = error
        .host_failure()
        .and_then(|failure| failure.as_any().downcast_ref::<Raised>())
    {
        return PyErr::from_value(raised.0.bind(py).clone());
    }
    build(py, error).unwrap_or_else(|failed| failed)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let kind = error.shown_kind();
    let fields = PyDict::new(py);
    for (name, value) in error.fields() {
        fields.set_item(name, value)?;
    }
    if error.kind().is_none() {
        fields.set_item("type", error.type_name())?;
    }
    let code = error.code().unwrap_or(kind.code());
    let class = statics(py)?.errors.bind(py).get_item(kind.name())?;
    let class =
        class.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("no class for an error kind"))?;
    let made = class.call_method1("_build", (error.to_string(), code, fields))?;
    let made = PyErr::from_value(made);
    if let Some(cause) = error.cause() {
        made.set_cause(py, Some(to_py(py, cause)));
    }
    Ok(made)
}

/// Adds the note that names the stage and entry where an exception was raised, once.
pub(crate) fn note(py: Python<'_>, error: &PyErr, stage: &str, entry: &str) {
    let exception = error.value(py);
    if !exception.is_instance_of::<pyo3::exceptions::PyException>() {
        return;
    }
    let noted = exception.getattr("__notes__").and_then(|notes| {
        notes.try_iter()?.try_fold(false, |found, note| {
            Ok(found
                || note?
                    .cast::<PyString>()
                    .is_ok_and(|note| note.to_string_lossy().starts_with("callweir: ")))
        })
    });
    if !noted.unwrap_or(false) {
        // An exception that takes no notes is raised without one.
        let _ = exception.call_method1("add_note", (format!("callweir: raised in {stage} '{entry}'"),));
    }
}

/// Returns the text that a model may read of an exception.
#[pyfunction]
pub(crate) fn for_model(error: &Bound<'_, PyAny>) -> String {
    from_exception(error).for_model()
}

/// Returns the error of an argument that a tool's signature refused.
#[pyfunction]
pub(crate) fn argument_error(py: Python<'_>, path: String, message: String) -> Py<PyAny> {
    to_py(py, &Error::invalid_argument(path, message))
        .into_value(py)
        .into_any()
}

/// Returns the text of an error of Callweir's own, for exceptions that a program makes itself.
#[pyfunction]
#[allow(
    clippy::needless_pass_by_value,
    reason = "what Python gives is extracted into a value"
)]
pub(crate) fn describe(kind: &str, fields: std::collections::HashMap<String, String>) -> String {
    let Some(kind) = ErrorKind::ALL.iter().find(|known| known.name() == kind) else {
        return kind.to_owned();
    };
    let known = kind
        .fields()
        .iter()
        .filter_map(|name| Some((*name, fields.get(*name)?.clone())));
    kind.describe(&known.collect::<Vec<_>>())
}
