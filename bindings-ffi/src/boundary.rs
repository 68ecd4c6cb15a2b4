//! The panic boundary around every export.

use std::panic::{AssertUnwindSafe, catch_unwind};

use callweir_core::{Error, Result};

use crate::error::callweir_error;
use crate::handles;

/// Runs the body of a function that may fail; NULL is success.
pub(crate) fn fallible(body: impl FnOnce() -> Result<()>) -> *mut callweir_error {
    // Nothing that a panic leaves behind is used again.
    let result = catch_unwind(AssertUnwindSafe(body));
    let result = result.unwrap_or_else(|panic| Err(Error::from_panic(&*panic)));
    result.map_or_else(handles::give, |()| std::ptr::null_mut())
}

/// Runs the body of a function that only tells something; a panic tells nothing.
pub(crate) fn reading<T: Nothing>(body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| T::nothing())
}

/// Runs the body of a function that returns nothing.
pub(crate) fn doing(body: impl FnOnce()) {
    reading(body);
}

/// What a function that tells something returns where there is nothing to tell.
pub(crate) trait Nothing {
    fn nothing() -> Self;
}

impl Nothing for () {
    fn nothing() -> Self {}
}
impl Nothing for bool {
    fn nothing() -> Self {
        false
    }
}
impl Nothing for u32 {
    fn nothing() -> Self {
        0
    }
}
impl Nothing for i32 {
    fn nothing() -> Self {
        -1
    }
}
impl Nothing for u64 {
    fn nothing() -> Self {
        0
    }
}
impl Nothing for crate::callweir_text {
    fn nothing() -> Self {
        Self::absent()
    }
}
impl<T> Nothing for *mut T {
    fn nothing() -> Self {
        std::ptr::null_mut()
    }
}

/// Refuses a NULL pointer to an out value, before anything is done.
pub(crate) fn check<T>(out: *mut T) -> Result<()> {
    if out.is_null() {
        return Err(Error::invalid_argument("$.out", "the pointer is NULL"));
    }
    Ok(())
}

/// Ends a handle of a `_free` function.
pub(crate) fn end<H: handles::Handle>(handle: *const H) {
    // A handle that is none is left alone: freeing twice is a mistake that must not cost the process.
    doing(|| drop(handles::take(handle)));
}
