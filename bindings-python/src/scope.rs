//! Scopes as Python sees them: handles, and the context variable that holds the current one.

mod variable;

use callweir::{CloseOptions, Outcome, Scope};
use pyo3::prelude::*;

use crate::error::to_py;
use crate::runtime::timestamp;
use crate::value::{Default, optional_json};

/// A handle of a scope; all handles of one scope are equal.
#[pyclass(module = "callweir", frozen, name = "ScopeHandle", eq, hash)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ScopeHandle(pub(crate) Scope);

/// Returns the current scope of the task.
pub(crate) fn current(py: Python<'_>) -> PyResult<Option<Scope>> {
    let value = variable::get(py)?;
    if value.is_none() {
        return Ok(None);
    }
    Ok(Some(value.cast::<ScopeHandle>()?.get().0.clone()))
}

/// Returns the scope that was given, or the current one.
pub(crate) fn given_or_current(py: Python<'_>, given: Option<&ScopeHandle>) -> PyResult<Option<Scope>> {
    match given {
        Some(handle) => Ok(Some(handle.0.clone())),
        None => current(py),
    }
}

/// Makes a scope current and returns the token that undoes it.
pub(crate) fn set(py: Python<'_>, scope: &Scope) -> PyResult<Py<PyAny>> {
    let handle = Bound::new(py, ScopeHandle(scope.clone()))?;
    variable::set(py, handle.as_any())
}

/// Undoes [`set`].
pub(crate) fn reset(py: Python<'_>, token: Py<PyAny>) -> PyResult<()> {
    variable::reset(py, token)
}

/// Returns the current scope, or None.
#[pyfunction]
pub(crate) fn get_handle(py: Python<'_>) -> PyResult<Option<ScopeHandle>> {
    Ok(current(py)?.map(ScopeHandle))
}

#[pymethods]
impl ScopeHandle {
    /// The id.
    #[getter]
    fn uuid(&self) -> String {
        self.0.uuid().to_string()
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The type.
    #[getter]
    fn scope_type(&self) -> &'static str {
        self.0.category().name()
    }

    /// The id of the scope around it.
    #[getter]
    fn parent_uuid(&self) -> Option<String> {
        self.0.parent_uuid().map(|id| id.to_string())
    }

    /// The scope around it.
    #[getter]
    fn parent(&self) -> Option<Self> {
        self.0.parent().cloned().map(Self)
    }

    /// Whether it has not ended yet.
    #[getter]
    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// Closes the scope; what is open inside ends first. Closing a closed scope does nothing.
    #[pyo3(signature = (output=None, *, metadata=None, outcome=None, error=None, error_type=None, timestamp=None))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the keyword arguments of one Python function"
    )]
    fn close(
        &self,
        py: Python<'_>,
        output: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        outcome: Option<&str>,
        error: Option<&Bound<'_, PyAny>>,
        error_type: Option<String>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let default = Default::default();
        let error = error.map(crate::error::from_exception);
        // What ends a block without being a failure of it: a cancellation, or the end of the process.
        let by_error = error.as_ref().filter(|error| error.is_control()).map(Outcome::of);
        let options = CloseOptions {
            output: optional_json(output, &default)?,
            metadata: optional_json(metadata, &default)?,
            outcome: outcome
                .map(str::parse::<Outcome>)
                .transpose()
                .map_err(|error| to_py(py, &error))?
                .or(by_error),
            error_type: error
                .as_ref()
                .map(callweir::Error::type_value)
                .or(error_type.map(Into::into)),
            timestamp: timestamp.map(self::timestamp).transpose()?,
        };
        self.0.close(options);
        Ok(())
    }

    /// Makes the scope current; returns what `leave` needs.
    fn enter(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        set(py, &self.0)
    }

    /// Makes the scope from before `enter` current again.
    #[allow(clippy::unused_self, reason = "a method in Python")]
    fn leave(&self, py: Python<'_>, token: Py<PyAny>) {
        // Left in another task than it was entered in: there is nothing to undo there.
        let _ = reset(py, token);
    }

    /// Makes the nearest open scope around this one current, if this one is.
    fn step_out(&self, py: Python<'_>) -> PyResult<()> {
        if current(py)?.as_ref() != Some(&self.0) {
            return Ok(());
        }
        let around =
            std::iter::successors(self.0.parent(), |scope| scope.parent()).find(|scope| scope.is_open());
        let value = around
            .map(|scope| Bound::new(py, Self(scope.clone())))
            .transpose()?;
        match value {
            Some(value) => variable::set(py, value.as_any()).map(drop),
            None => variable::set(py, py.None().bind(py)).map(drop),
        }
    }

    /// Returns what another process needs to continue under the scope.
    fn propagation(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let json = self.0.propagation().to_json();
        crate::value::from_json(py, &json)
            .map(Bound::unbind)
            .map_err(|error| to_py(py, &error))
    }

    fn __repr__(&self) -> String {
        format!("ScopeHandle({} {})", self.0.category(), self.0.name())
    }
}
