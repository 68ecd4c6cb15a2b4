//! Objects of the interpreter that are looked up once.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// What the door needs of the interpreter and of the package's own Python part.
pub(crate) struct Statics {
    /// The type of coroutines that `async def` makes.
    pub(crate) coroutine: Py<PyType>,
    /// `asyncio._get_running_loop`.
    pub(crate) running_loop: Py<PyAny>,
    /// `contextvars.copy_context`.
    pub(crate) copy_context: Py<PyAny>,
    /// The context variable that holds the current scope.
    pub(crate) scope: Py<PyAny>,
    /// Its bound `set` and `reset`, looked up once because every call needs them.
    #[cfg(feature = "abi3")]
    pub(crate) scope_set: Py<PyAny>,
    #[cfg(feature = "abi3")]
    pub(crate) scope_reset: Py<PyAny>,
    /// The context variable that says how deep in the dispatcher's callbacks a task is.
    pub(crate) echo: Py<PyAny>,
    /// Error classes by the name of their kind.
    pub(crate) errors: Py<PyDict>,
    /// The base class of Callweir's errors.
    pub(crate) error_base: Py<PyType>,
    /// `_support`: the few things that are better written in Python.
    pub(crate) support: Py<PyAny>,
}

static STATICS: PyOnceLock<Statics> = PyOnceLock::new();

/// Returns the looked-up objects.
pub(crate) fn statics(py: Python<'_>) -> PyResult<&'static Statics> {
    STATICS
        .get(py)
        .ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("import callweir, not callweir._native"))
}

/// Hands over the package's Python part; called once by `callweir/__init__.py`.
#[pyfunction]
pub(crate) fn setup(
    py: Python<'_>,
    errors: Py<PyDict>,
    error_base: Py<PyType>,
    support: Bound<'_, PyAny>,
) -> PyResult<()> {
    // SAFETY: the interpreter is attached, so that there is a present one.
    let interpreter = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if interpreter != 0 {
        // What is looked up here belongs to one interpreter, and its objects must not reach another.
        return Err(PyImportError::new_err(
            "callweir works in the main interpreter only",
        ));
    }
    let asyncio = py.import("_asyncio")?;
    let contextvars = py.import("_contextvars")?;
    let (scope, echo) = (support.getattr("current_scope")?, support.getattr("echo")?);
    let coroutine = support.getattr("CoroutineType")?.cast_into::<PyType>()?.unbind();
    let made = Statics {
        coroutine,
        running_loop: asyncio.getattr("_get_running_loop")?.unbind(),
        copy_context: contextvars.getattr("copy_context")?.unbind(),
        #[cfg(feature = "abi3")]
        scope_set: scope.getattr("set")?.unbind(),
        #[cfg(feature = "abi3")]
        scope_reset: scope.getattr("reset")?.unbind(),
        scope: scope.unbind(),
        echo: echo.unbind(),
        errors,
        error_base,
        support: support.unbind(),
    };
    // A second import of the package in one process finds the first one's objects.
    let _ = STATICS.set(py, made);
    Ok(())
}
