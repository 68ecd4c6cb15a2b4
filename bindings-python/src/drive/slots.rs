//! The two type slots that the interpreter steps a coroutine through, without an exception for each result.
//!
//! Only a version-specific build has them: the stable ABI gives no access to a type's slots after it was made.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTypeInfo, ffi};

use super::{Drive, Resume, Stepped};

/// Puts the slots into the type; called once, when the module is made.
pub(crate) fn install(py: Python<'_>) {
    let kind = Drive::type_object_raw(py);
    // SAFETY: the type is a heap type of this module, made just now; its async methods lie inside it. Both functions
    // have the signature of their slot.
    unsafe {
        if let Some(methods) = (*kind).tp_as_async.as_mut() {
            methods.am_send = Some(send);
        }
        (*kind).tp_iternext = Some(next);
        ffi::PyType_Modified(kind);
    }
}

/// Takes one step; a panic becomes an error, since no unwinding may reach the interpreter.
fn step(py: Python<'_>, this: *mut ffi::PyObject, sent: Py<PyAny>) -> PyResult<Stepped> {
    let stepped = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the interpreter calls the slot with an object of the type.
        let this = unsafe { Bound::from_borrowed_ptr(py, this).cast_into_unchecked::<Drive>() };
        let mut drive = this.try_borrow_mut()?;
        drive.step(py, Resume::Send(sent))
    }));
    stepped.unwrap_or_else(|panic| {
        let error = callweir::Error::from_panic(&*panic);
        Err(crate::error::to_py(py, &error))
    })
}

unsafe extern "C" fn send(
    this: *mut ffi::PyObject,
    argument: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    Python::attach(|py| {
        // SAFETY: the argument is a borrowed reference to a live object.
        let sent = unsafe { Bound::from_borrowed_ptr(py, argument) }.unbind();
        let (how, value) = match step(py, this, sent) {
            Ok(Stepped::Yield(value)) => (ffi::PySendResult::PYGEN_NEXT, value.into_ptr()),
            Ok(Stepped::Return(value)) => (ffi::PySendResult::PYGEN_RETURN, value.into_ptr()),
            Err(error) => {
                error.restore(py);
                (ffi::PySendResult::PYGEN_ERROR, std::ptr::null_mut())
            }
        };
        // SAFETY: the interpreter gives a place for the result.
        unsafe { *result = value };
        how
    })
}

unsafe extern "C" fn next(this: *mut ffi::PyObject) -> *mut ffi::PyObject {
    Python::attach(|py| match step(py, this, py.None()) {
        Ok(Stepped::Yield(value)) => value.into_ptr(),
        Ok(Stepped::Return(value)) => {
            stop(py, value.into_bound(py));
            std::ptr::null_mut()
        }
        Err(error) => {
            error.restore(py);
            std::ptr::null_mut()
        }
    })
}

/// Sets `StopIteration` with a value, as generators do it.
fn stop(py: Python<'_>, value: Bound<'_, PyAny>) {
    if value.is_none() {
        // No exception at all means the same and is cheaper.
        return;
    }
    if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyBaseException>() {
        // These would be taken for the exception's arguments, or for the exception.
        let made = py.get_type::<pyo3::exceptions::PyStopIteration>().call1((value,));
        match made {
            Ok(stop) => PyErr::from_value(stop).restore(py),
            Err(error) => error.restore(py),
        }
        return;
    }
    // SAFETY: both are live objects; the function takes references of its own.
    unsafe { ffi::PyErr_SetObject(ffi::PyExc_StopIteration, value.as_ptr()) };
}
