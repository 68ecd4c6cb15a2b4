//! Leaves: the coroutines of callbacks inside a driven future.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};

use callweir::foreign::Origin;
use callweir::{Error, Result};
use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use tokio::sync::oneshot;

use super::Resume;
use super::active::{Active, active};
use crate::error::from_py;
use crate::parked::WakeCell;
use crate::statics::statics;
use crate::value::attached;

/// Says whether a callback's result has to be awaited.
pub(crate) fn is_awaitable(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind = value.get_type();
    if kind.is(statics(py)?.coroutine.bind(py)) {
        return Ok(true);
    }
    if value.is_none() || value.is_exact_instance_of::<PyDict>() || value.is_exact_instance_of::<PyString>() {
        return Ok(false);
    }
    kind.hasattr(pyo3::intern!(py, "__await__"))
}

/// Returns what a coroutine is driven through: itself, or the iterator that `__await__` gives.
pub(crate) fn awaitable<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if value
        .get_type()
        .is(statics(value.py())?.coroutine.bind(value.py()))
    {
        return Ok(value.clone());
    }
    value.call_method0(pyo3::intern!(value.py(), "__await__"))
}

/// A callback's coroutine as a future.
pub(crate) struct Leaf {
    coroutine: Py<PyAny>,
    state: State,
    origin: Origin,
}

enum State {
    New,
    Waiting(Arc<Wait>),
    Away(oneshot::Receiver<Result<Py<PyAny>>>),
    Done,
}

/// One thing that a coroutine waits for.
pub(crate) struct Wait {
    mode: AtomicU8,
    done: AtomicBool,
    awaited: Mutex<Option<Py<PyAny>>>,
    wake: Mutex<Option<Arc<WakeCell>>>,
}

/// The host resumes the coroutine through the drive.
const STRAIGHT: u8 = 0;
/// The drive waits for several things; a callback of the awaited future says when this one is done.
const BESIDE: u8 = 1;

/// Something that a leaf gave to be passed to the host.
pub(super) struct Yielded {
    wait: Arc<Wait>,
    fresh: bool,
}

impl Yielded {
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Hands the object to the host, which will resume the drive.
    pub(super) fn pass_up(self, py: Python<'_>) -> Py<PyAny> {
        self.wait.mode.store(STRAIGHT, Ordering::Relaxed);
        self.wait
            .awaited
            .lock()
            .as_ref()
            .map_or_else(|| py.None(), |object| object.clone_ref(py))
    }

    /// Asks the awaited future itself to say when it is done.
    pub(super) fn subscribe(self, py: Python<'_>, wake: &Arc<WakeCell>) -> PyResult<()> {
        if !self.fresh && self.wait.mode.load(Ordering::Relaxed) == BESIDE {
            return Ok(());
        }
        self.wait.mode.store(BESIDE, Ordering::Relaxed);
        *self.wait.wake.lock() = Some(wake.clone());
        let object = self
            .wait
            .awaited
            .lock()
            .as_ref()
            .map(|object| object.clone_ref(py));
        let done = Bound::new(py, WaitDone(self.wait.clone()))?;
        match object.filter(|object| !object.is_none(py)) {
            Some(object) => {
                let object = object.bind(py);
                // What `await` on the future set to show that its result is wanted.
                object.setattr(pyo3::intern!(py, "_asyncio_future_blocking"), false)?;
                object.call_method1(pyo3::intern!(py, "add_done_callback"), (done,))?;
            }
            None => {
                let running = statics(py)?.running_loop.bind(py).call0()?;
                running.call_method1(pyo3::intern!(py, "call_soon"), (done,))?;
            }
        }
        wake.remember(self.wait);
        Ok(())
    }
}

impl Wait {
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Cancels the awaited future; false if it cannot be.
    pub(crate) fn cancel(&self, py: Python<'_>) -> bool {
        let object = self.awaited.lock().as_ref().map(|object| object.clone_ref(py));
        let Some(object) = object.filter(|object| !object.is_none(py)) else {
            return false;
        };
        object
            .bind(py)
            .call_method0("cancel")
            .and_then(|cancelled| cancelled.extract())
            .unwrap_or(false)
    }
}

/// Called by an awaited future when it is done.
#[pyclass(module = "callweir._native", frozen)]
struct WaitDone(Arc<Wait>);

#[pymethods]
impl WaitDone {
    #[pyo3(signature = (*_future))]
    fn __call__(&self, _future: &Bound<'_, pyo3::types::PyTuple>) {
        self.0.done.store(true, Ordering::Release);
        let wake = self.0.wake.lock().clone();
        if let Some(wake) = wake {
            wake.wake();
        }
    }
}

enum Sent {
    Yielded(Py<PyAny>),
    Returned(Py<PyAny>),
}

impl Leaf {
    /// Makes a leaf of a callback's awaitable; `origin` says where it runs if nobody drives it.
    pub(crate) fn new(coroutine: Py<PyAny>, origin: Origin) -> Self {
        Self {
            coroutine,
            state: State::New,
            origin,
        }
    }

    fn send(&self, py: Python<'_>, value: &Py<PyAny>) -> PyResult<Sent> {
        let mut result = std::ptr::null_mut();
        // SAFETY: both are live objects, the interpreter is attached, and `result` is a place for one reference.
        let how = unsafe { ffi::PyIter_Send(self.coroutine.as_ptr(), value.as_ptr(), &raw mut result) };
        match how {
            ffi::PySendResult::PYGEN_ERROR => Err(PyErr::fetch(py)),
            // SAFETY: for these two answers `result` is a new reference.
            ffi::PySendResult::PYGEN_RETURN => Ok(Sent::Returned(
                unsafe { Bound::from_owned_ptr(py, result) }.unbind(),
            )),
            ffi::PySendResult::PYGEN_NEXT => Ok(Sent::Yielded(
                unsafe { Bound::from_owned_ptr(py, result) }.unbind(),
            )),
        }
    }

    fn throw(&self, py: Python<'_>, error: PyErr) -> PyResult<Sent> {
        let thrown = self
            .coroutine
            .bind(py)
            .call_method1(pyo3::intern!(py, "throw"), (error.into_value(py),));
        match thrown {
            Ok(yielded) => Ok(Sent::Yielded(yielded.unbind())),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) => {
                Ok(Sent::Returned(error.value(py).getattr("value")?.unbind()))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes one step under the drive that polls on this thread.
    fn step(&mut self, py: Python<'_>, active: &Active) -> Poll<Result<Py<PyAny>>> {
        let resume = match &self.state {
            State::New => Some(Resume::Send(py.None())),
            State::Waiting(wait) if wait.mode.load(Ordering::Relaxed) == STRAIGHT => active.take_resume(),
            State::Waiting(_) if active.has_throw() => active.take_resume(),
            State::Waiting(wait) if wait.is_done() => Some(Resume::Send(py.None())),
            State::Waiting(_) | State::Away(_) | State::Done => None,
        };
        let sent = match resume {
            Some(Resume::Send(value)) => self.send(py, &value),
            Some(Resume::Throw(error)) => self.throw(py, error),
            None => {
                if let State::Waiting(wait) = &self.state {
                    active.push(Yielded {
                        wait: wait.clone(),
                        fresh: false,
                    });
                }
                return Poll::Pending;
            }
        };
        match sent {
            Ok(Sent::Returned(value)) => {
                self.state = State::Done;
                Poll::Ready(Ok(value))
            }
            Ok(Sent::Yielded(object)) => {
                let wait = Arc::new(Wait {
                    mode: AtomicU8::new(STRAIGHT),
                    done: AtomicBool::new(false),
                    awaited: Mutex::new(Some(object)),
                    wake: Mutex::new(None),
                });
                active.push(Yielded {
                    wait: wait.clone(),
                    fresh: true,
                });
                self.state = State::Waiting(wait);
                Poll::Pending
            }
            Err(error) => {
                self.state = State::Done;
                Poll::Ready(Err(from_py(py, error)))
            }
        }
    }

    /// Hands the coroutine to its own event loop, since nobody drives it here.
    fn send_away(&mut self, py: Python<'_>) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        let settle = Settle(Mutex::new(Some(sender)));
        let spawned = statics(py).and_then(|known| {
            let event_loop = crate::host::loop_object(py, &self.origin);
            let context = crate::host::context_object(py, &self.origin);
            let arguments = (
                self.coroutine.bind(py),
                event_loop,
                context,
                Bound::new(py, settle)?,
            );
            known.support.bind(py).call_method1("run_away", arguments)
        });
        spawned.map_err(|error| from_py(py, error))?;
        self.state = State::Away(receiver);
        Ok(())
    }
}

impl Future for Leaf {
    type Output = Result<Py<PyAny>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Away(receiver) = &mut self.state {
            return match Pin::new(receiver).poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(result)) => Poll::Ready(result),
                Poll::Ready(Err(_)) => {
                    // The loop of the callback closed before it was done.
                    Poll::Ready(Err(Error::cancelled()))
                }
            };
        }
        let me = &mut *self;
        let stepped = attached(|py| {
            active(|active| match active {
                Some(active) => Ok(Some(me.step(py, active))),
                None => me.send_away(py).map(|()| None),
            })
        });
        match stepped {
            Ok(Some(polled)) => polled,
            Ok(None) => self.poll(cx),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Done | State::Away(_) => {}
            State::New => {
                // Closing a coroutine that never ran keeps Python from warning about it.
                let _ = crate::attach::attach(|py| self.coroutine.bind(py).call_method0("close").map(drop));
            }
            State::Waiting(wait) => {
                let _ = crate::attach::attach(|py| {
                    let awaited = wait.awaited.lock().take();
                    let event_loop = crate::host::loop_object(py, &self.origin);
                    let arguments = (self.coroutine.bind(py), awaited, event_loop);
                    statics(py)?
                        .support
                        .bind(py)
                        .call_method1("abandon", arguments)
                        .map(drop)
                });
            }
        }
    }
}

/// Takes the end of a coroutine that ran on its own loop.
#[pyclass(module = "callweir._native", frozen)]
struct Settle(Mutex<Option<oneshot::Sender<Result<Py<PyAny>>>>>);

#[pymethods]
impl Settle {
    #[pyo3(signature = (value, error))]
    fn __call__(&self, value: Py<PyAny>, error: Option<Bound<'_, PyAny>>) {
        let result = match error {
            Some(error) => Err(crate::error::from_exception(&error)),
            None => Ok(value),
        };
        if let Some(sender) = self.0.lock().take() {
            // Whoever waited may have given up.
            let _ = sender.send(result);
        }
    }
}
