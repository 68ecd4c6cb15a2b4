//! The context variable of the current scope, by the interpreter's own functions where a build may use them.

use crate::statics::statics;

#[cfg(not(feature = "abi3"))]
mod direct {
    use pyo3::ffi;
    use pyo3::prelude::*;

    use super::statics;

    pub(crate) fn get(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let mut value = std::ptr::null_mut();
        // SAFETY: the variable is a context variable, and `value` is a place for one reference.
        let failed = unsafe {
            ffi::PyContextVar_Get(statics(py)?.scope.as_ptr(), std::ptr::null_mut(), &raw mut value) < 0
        };
        if failed {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference; the variable has a default, so there always is one.
        unsafe { Bound::from_owned_ptr_or_err(py, value) }
    }

    pub(crate) fn set(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        // SAFETY: the variable is a context variable; the token is a new reference or null with an exception.
        let token = unsafe {
            let token = ffi::PyContextVar_Set(statics(py)?.scope.as_ptr(), value.as_ptr());
            Bound::from_owned_ptr_or_err(py, token)?
        };
        Ok(token.unbind())
    }

    #[allow(clippy::needless_pass_by_value, reason = "a token is used once")]
    pub(crate) fn reset(py: Python<'_>, token: Py<PyAny>) -> PyResult<()> {
        // SAFETY: the variable is a context variable, and the token came from `set`.
        if unsafe { ffi::PyContextVar_Reset(statics(py)?.scope.as_ptr(), token.as_ptr()) } < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(())
    }
}

#[cfg(feature = "abi3")]
mod direct {
    use pyo3::prelude::*;

    use super::statics;

    pub(crate) fn get(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        statics(py)?.scope.bind(py).call_method0(pyo3::intern!(py, "get"))
    }

    pub(crate) fn set(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        statics(py)?.scope_set.bind(py).call1((value,)).map(Bound::unbind)
    }

    pub(crate) fn reset(py: Python<'_>, token: Py<PyAny>) -> PyResult<()> {
        statics(py)?.scope_reset.bind(py).call1((token,)).map(drop)
    }
}

pub(super) use direct::{get, reset, set};
