//! Waiting while Rust itself is pending: wakers, and the future that the event loop waits for meanwhile.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use pyo3::prelude::*;

use crate::drive::Wait;
use crate::statics::statics;

/// What wakers of one drive wake.
pub(crate) struct WakeCell {
    woken: AtomicBool,
    /// Called, in Python, to resume the parked drive; taken by the first wake.
    resume: Mutex<Option<Py<PyAny>>>,
    waits: Mutex<Vec<Arc<Wait>>>,
    sleeping: Mutex<()>,
    changed: Condvar,
}

impl WakeCell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            woken: AtomicBool::new(false),
            resume: Mutex::new(None),
            waits: Mutex::new(Vec::new()),
            sleeping: Mutex::new(()),
            changed: Condvar::new(),
        })
    }

    /// Forgets wakes from before the next poll.
    pub(crate) fn reset(&self) {
        self.woken.store(false, Ordering::Release);
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Keeps a callback's wait, for a cancellation that comes while the drive is parked.
    pub(crate) fn remember(&self, wait: Arc<Wait>) {
        let mut waits = self.waits.lock();
        waits.retain(|wait| !wait.is_done());
        waits.push(wait);
    }

    /// Cancels what callbacks wait for; false if there is nothing that can be cancelled so.
    pub(crate) fn cancel_waits(&self, py: Python<'_>) -> bool {
        let waits: Vec<_> = self
            .waits
            .lock()
            .iter()
            .filter(|wait| !wait.is_done())
            .cloned()
            .collect();
        let mut any = false;
        for wait in waits {
            any |= wait.cancel(py);
        }
        any
    }

    /// Sets what resumes the drive; false if it has been woken meanwhile.
    fn arm(&self, resume: Py<PyAny>) -> bool {
        *self.resume.lock() = Some(resume);
        !self.is_woken()
    }

    fn disarm(&self) -> Option<Py<PyAny>> {
        self.resume.lock().take()
    }

    /// Wakes the drive, from any thread.
    pub(crate) fn wake(&self) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        drop(self.sleeping.lock());
        self.changed.notify_all();
        let _ = crate::attach::attach(|py| self.fire(py));
    }

    /// Calls what resumes the drive, if it has not been called yet.
    pub(crate) fn fire(&self, py: Python<'_>) {
        if let Some(resume) = self.disarm() {
            // A loop that has closed has nothing left to resume.
            let _ = resume.bind(py).call0();
        }
    }

    /// Sleeps until woken, at most this long; says whether it was.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let mut sleeping = self.sleeping.lock();
        if !self.is_woken() {
            self.changed.wait_for(&mut sleeping, longest);
        }
        self.is_woken()
    }
}

impl Wake for WakeCell {
    fn wake(self: Arc<Self>) {
        WakeCell::wake(&self);
    }
}

/// A waker that lives on the stack of one poll: it notices whether somebody keeps a copy, and makes the cell that
/// copies wake only then.
struct PollWaker<'a> {
    cell: RefCell<&'a mut Option<Arc<WakeCell>>>,
    cloned: Cell<bool>,
    woken: Cell<bool>,
}

const TABLE: RawWakerVTable = RawWakerVTable::new(clone_raw, wake_raw, wake_raw, drop_raw);

/// Returns the waker behind a raw one.
///
/// # Safety
///
/// `data` must point to the `PollWaker` of a `poll_waker` that has not returned. A borrowed waker cannot outlive
/// its poll, and a kept copy is a waker of its own, made by `clone_raw`.
unsafe fn behind<'a>(data: *const ()) -> &'a PollWaker<'a> {
    // SAFETY: the caller's promise.
    unsafe { &*data.cast::<PollWaker<'a>>() }
}

unsafe fn clone_raw(data: *const ()) -> RawWaker {
    // SAFETY: the table is only used with the data of `poll_waker`.
    let waker = unsafe { behind(data) };
    waker.cloned.set(true);
    let cell = waker.cell.borrow_mut().get_or_insert_with(WakeCell::new).clone();
    let kept = std::mem::ManuallyDrop::new(Waker::from(cell));
    RawWaker::new(kept.data(), kept.vtable())
}

unsafe fn wake_raw(data: *const ()) {
    // SAFETY: the table is only used with the data of `poll_waker`.
    unsafe { behind(data) }.woken.set(true);
}

unsafe fn drop_raw(_: *const ()) {}

/// What happened to the waker during a poll.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watched {
    /// Somebody keeps a copy and will wake the drive.
    pub(crate) cloned: bool,
    /// The drive was woken during the poll itself.
    pub(crate) woken: bool,
}

/// Polls with a waker that costs nothing unless it is kept.
pub(crate) fn poll_waker<T>(
    cell: &mut Option<Arc<WakeCell>>,
    poll: impl FnOnce(&mut Context<'_>) -> T,
) -> (T, Watched) {
    let on_stack = PollWaker {
        cell: RefCell::new(cell),
        cloned: Cell::new(false),
        woken: Cell::new(false),
    };
    // SAFETY: the table's functions match the data, which lives until this function returns.
    let waker = std::mem::ManuallyDrop::new(unsafe { Waker::new((&raw const on_stack).cast(), &TABLE) });
    let result = poll(&mut Context::from_waker(&waker));
    (
        result,
        Watched {
            cloned: on_stack.cloned.get(),
            woken: on_stack.woken.get(),
        },
    )
}

/// A drive that waits for a wake, as the event loop sees it: an awaitable of the loop's own library.
pub(crate) struct Park {
    iterator: Py<PyAny>,
    wake: Arc<WakeCell>,
}

impl Park {
    /// Begins to wait; nothing to yield if the wake has come already.
    pub(crate) fn begin(py: Python<'_>, wake: &Arc<WakeCell>) -> PyResult<(Self, Option<Py<PyAny>>)> {
        let (iterator, resume) = statics(py)?
            .support
            .bind(py)
            .call_method0("park")?
            .extract::<(Py<PyAny>, Py<PyAny>)>()?;
        let mut park = Self {
            iterator,
            wake: wake.clone(),
        };
        if !wake.arm(resume) {
            park.end(py);
            return Ok((park, None));
        }
        let first = park.send(py, py.None())?;
        Ok((park, first))
    }

    /// Resumes the wait; gives what is to be yielded, or nothing when it is over.
    pub(crate) fn send(&mut self, py: Python<'_>, value: Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let sent = self
            .iterator
            .bind(py)
            .call_method1(pyo3::intern!(py, "send"), (value,));
        match sent {
            Ok(yielded) => Ok(Some(yielded.unbind())),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends the wait from this side.
    pub(crate) fn end(&mut self, py: Python<'_>) {
        drop(self.wake.disarm());
        // Closing what has ended already does nothing.
        let _ = self.iterator.bind(py).call_method0("close");
    }
}

/// Says whether trio runs on this thread: its tasks cannot wait for a callback and for Rust at once.
pub(crate) fn is_trio(py: Python<'_>) -> bool {
    let running = statics(py).and_then(|known| known.running_loop.bind(py).call0());
    if running.is_ok_and(|running| !running.is_none()) {
        return false;
    }
    let asked = statics(py).and_then(|known| known.support.bind(py).call_method0("in_trio"));
    asked.and_then(|answer| answer.extract()).unwrap_or(false)
}

/// Lets a limit of a call end what a callback awaits under trio, by a cancel scope around the callback.
pub(crate) struct TrioGuard {
    cancel: Py<PyAny>,
    exit: Py<PyAny>,
}

impl TrioGuard {
    /// Enters a cancel scope; nothing unless trio runs here.
    pub(crate) fn enter(py: Python<'_>) -> PyResult<Option<Self>> {
        if !is_trio(py) {
            return Ok(None);
        }
        let made = statics(py)?.support.bind(py).call_method0("trio_guard")?;
        let (cancel, exit) = made.extract()?;
        Ok(Some(Self { cancel, exit }))
    }

    /// Makes the next wake cancel the scope; false if it has come already.
    pub(crate) fn arm(&self, py: Python<'_>, wake: &WakeCell) -> bool {
        wake.arm(self.cancel.clone_ref(py))
    }

    /// Leaves the scope.
    pub(crate) fn exit(self, py: Python<'_>) -> PyResult<()> {
        self.exit.bind(py).call0().map(drop)
    }
}

/// Says whether an exception is trio's cancellation.
pub(crate) fn is_trio_cancelled(exception: &Py<PyAny>) -> bool {
    let asked = crate::attach::attach(|py| {
        let support = statics(py)?.support.bind(py);
        support
            .call_method1("is_trio_cancelled", (exception,))?
            .extract::<bool>()
    });
    matches!(asked, Some(Ok(true)))
}
