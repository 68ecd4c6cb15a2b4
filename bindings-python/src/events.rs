//! Events as Python subscribers get them: each its own object, converted only where it is looked at.

use std::sync::Arc;
use std::time::SystemTime;

use callweir::{CallEvent, EventKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use serde_json::Value;

use crate::error::to_py;
use crate::value::from_json;

/// One event. Its payloads are this subscriber's own copies.
#[pyclass(module = "callweir", frozen, name = "Event")]
pub(crate) struct Event {
    inner: Arc<callweir::Event>,
    data: PyOnceLock<Py<PyAny>>,
    metadata: PyOnceLock<Py<PyAny>>,
    category_profile: PyOnceLock<Py<PyAny>>,
}

/// Makes the object of an event.
pub(crate) fn object<'py>(py: Python<'py>, event: &Arc<callweir::Event>) -> PyResult<Bound<'py, PyAny>> {
    let event = Event {
        inner: event.clone(),
        data: PyOnceLock::new(),
        metadata: PyOnceLock::new(),
        category_profile: PyOnceLock::new(),
    };
    Bound::new(py, event).map(Bound::into_any)
}

fn lazily(py: Python<'_>, place: &PyOnceLock<Py<PyAny>>, value: &Value) -> PyResult<Py<PyAny>> {
    let made = place.get_or_try_init(py, || from_json(py, value).map(Bound::unbind));
    made.map(|object| object.clone_ref(py))
        .map_err(|error| to_py(py, &error))
}

#[pymethods]
impl Event {
    /// `scope` or `mark`.
    #[getter]
    fn kind(&self) -> &'static str {
        if self.inner.kind == EventKind::Mark {
            "mark"
        } else {
            "scope"
        }
    }

    /// `start` or `end`; None for a mark.
    #[getter]
    fn scope_category(&self) -> Option<&'static str> {
        match self.inner.kind {
            EventKind::Start => Some("start"),
            EventKind::End => Some("end"),
            EventKind::Mark => None,
        }
    }

    /// The version of the format.
    #[getter]
    #[allow(clippy::unused_self, reason = "a property of every event")]
    fn atof_version(&self) -> &'static str {
        callweir::ATOF_VERSION
    }

    /// The id; start and end share it.
    #[getter]
    fn uuid(&self) -> String {
        self.inner.uuid.to_string()
    }

    /// The id of the scope around it.
    #[getter]
    fn parent_uuid(&self) -> Option<String> {
        self.inner.parent_uuid.map(|id| id.to_string())
    }

    /// When it happened, RFC 3339.
    #[getter]
    fn timestamp(&self) -> String {
        self.inner.timestamp_text()
    }

    /// The name of the call, scope or mark.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The type of the scope; None for a mark.
    #[getter]
    fn category(&self) -> Option<&'static str> {
        self.inner.category.map(callweir::ScopeType::name)
    }

    /// Flags of the scope.
    #[getter]
    fn attributes(&self) -> Vec<String> {
        self.inner.attributes.iter().map(ToString::to_string).collect()
    }

    /// The payload.
    #[getter]
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        lazily(py, &self.data, &self.inner.data)
    }

    /// The schema of the payload.
    #[getter]
    fn data_schema(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        from_json(py, &self.inner.data_schema)
            .map(Bound::unbind)
            .map_err(|error| to_py(py, &error))
    }

    /// Free metadata and Callweir's own.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        lazily(py, &self.metadata, &self.inner.metadata)
    }

    /// Facts that belong to the category.
    #[getter]
    fn category_profile(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        lazily(py, &self.category_profile, &self.inner.category_profile)
    }

    /// How it ended; None for starts and marks.
    #[getter]
    fn outcome(&self) -> Option<String> {
        self.inner.meta("callweir.outcome").map(str::to_owned)
    }

    /// Returns the event in the wire format.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        from_json(py, &self.inner.to_json())
            .map(Bound::unbind)
            .map_err(|error| to_py(py, &error))
    }

    /// Returns the event as one line of JSON.
    fn to_json(&self) -> String {
        self.inner.to_json().to_string()
    }

    fn __repr__(&self) -> String {
        let what = self.scope_category().unwrap_or("mark");
        format!("Event({what} {} {})", self.inner.name, self.inner.uuid)
    }
}

/// Says that a registry call started.
#[pyclass(module = "callweir", frozen, name = "ToolCallStarted")]
pub(crate) struct ToolCallStarted(callweir::ToolCallStarted);

/// Says how a registry call ended.
#[pyclass(module = "callweir", frozen, name = "ToolCallCompleted")]
pub(crate) struct ToolCallCompleted(callweir::ToolCallCompleted);

/// Makes the object of a typed record.
pub(crate) fn call_object<'py>(py: Python<'py>, event: &CallEvent) -> PyResult<Bound<'py, PyAny>> {
    match event {
        CallEvent::Started(started) => Bound::new(py, ToolCallStarted(started.clone())).map(Bound::into_any),
        CallEvent::Completed(completed) => {
            Bound::new(py, ToolCallCompleted(completed.clone())).map(Bound::into_any)
        }
    }
}

fn seconds(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

#[pymethods]
impl ToolCallStarted {
    /// The tool's name.
    #[getter]
    fn tool(&self) -> &str {
        &self.0.tool
    }

    /// The caller's id.
    #[getter]
    fn caller_id(&self) -> Option<&str> {
        self.0.caller_id.as_deref()
    }

    /// The id of the call.
    #[getter]
    fn uuid(&self) -> String {
        self.0.uuid.to_string()
    }

    /// When it started, in seconds since 1970.
    #[getter]
    fn timestamp(&self) -> f64 {
        seconds(self.0.timestamp)
    }

    fn __repr__(&self) -> String {
        format!("ToolCallStarted({})", self.0.tool)
    }
}

#[pymethods]
impl ToolCallCompleted {
    /// The tool's name.
    #[getter]
    fn tool(&self) -> &str {
        &self.0.tool
    }

    /// The caller's id.
    #[getter]
    fn caller_id(&self) -> Option<&str> {
        self.0.caller_id.as_deref()
    }

    /// The id of the call.
    #[getter]
    fn uuid(&self) -> String {
        self.0.uuid.to_string()
    }

    /// When it ended, in seconds since 1970.
    #[getter]
    fn timestamp(&self) -> f64 {
        seconds(self.0.timestamp)
    }

    /// How it ended.
    #[getter]
    fn outcome(&self) -> &'static str {
        self.0.outcome.name()
    }

    /// The type of the failure.
    #[getter]
    fn error_type(&self) -> Option<&str> {
        self.0.error_type.as_deref()
    }

    /// How long it took, in seconds, middleware included.
    #[getter]
    fn duration(&self) -> f64 {
        self.0.duration.as_secs_f64()
    }

    /// Whether it was answered without running the tool.
    #[getter]
    fn short_circuited(&self) -> bool {
        self.0.short_circuited
    }

    fn __repr__(&self) -> String {
        format!("ToolCallCompleted({} {})", self.0.tool, self.0.outcome)
    }
}
