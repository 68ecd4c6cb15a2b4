//! The end of the process, and forks of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::call::FAR;

/// Makes every runtime usable in the child of a fork.
#[pyfunction]
pub(crate) fn after_fork() {
    crate::attach::reopen();
    callweir::Runtime::after_fork();
}

/// How many threads run Python below a frame of ours that cannot be unwound.
static BLOCKED: AtomicUsize = AtomicUsize::new(0);

/// Counts this thread as one that the end of the interpreter must wait for.
pub(super) struct Blocked;

impl Blocked {
    pub(super) fn here() -> Self {
        BLOCKED.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        BLOCKED.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Delivers what is queued when the interpreter ends, for at most `timeout` seconds.
#[pyfunction]
pub(crate) fn at_exit(py: Python<'_>, timeout: f64) {
    let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(FAR);
    crate::drive::released(py, || {
        let until = Instant::now() + timeout;
        // The rest of the time is for callbacks that run already.
        callweir::Runtime::shutdown_all(timeout.mul_f32(0.9));
        // A dying interpreter ends daemon threads where they stand, which aborts the process under our frames.
        while BLOCKED.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        crate::attach::close(
            until
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(300)),
        );
    });
}
