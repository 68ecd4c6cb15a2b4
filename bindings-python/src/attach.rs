//! Entering the interpreter from threads of the core, until the process ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Set when the interpreter is about to end: a thread that enters it then could be torn down inside Rust.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// How many threads of the core are inside.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs `body` with the interpreter; nothing if it has ended or is about to.
///
/// A thread that has the interpreter already is never refused.
pub(crate) fn attach<T>(body: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    if has_interpreter() {
        return Python::try_attach(body);
    }
    INSIDE.fetch_add(1, Ordering::AcqRel);
    let _inside = Inside;
    if CLOSED.load(Ordering::Acquire) {
        return None;
    }
    Python::try_attach(body)
}

#[cfg(not(feature = "abi3"))]
fn has_interpreter() -> bool {
    // SAFETY: the function only looks at the state of this thread.
    unsafe { pyo3::ffi::PyGILState_Check() == 1 }
}

#[cfg(feature = "abi3")]
fn has_interpreter() -> bool {
    // The stable ABI cannot say; a drive on this thread has it for certain.
    crate::drive::is_driving()
}

/// Lets no more threads in, and waits at most `patience` for those inside.
pub(crate) fn close(patience: Duration) {
    CLOSED.store(true, Ordering::Release);
    let until = Instant::now() + patience;
    while INSIDE.load(Ordering::Acquire) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets threads in again; in the child of a fork, those of the parent are gone.
pub(crate) fn reopen() {
    INSIDE.store(0, Ordering::Release);
    CLOSED.store(false, Ordering::Release);
}
