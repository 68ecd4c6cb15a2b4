//! Driving: a coroutine object whose `send` polls a future of the core on the host's own thread.
//!
//! What a callback's coroutine yields goes up to the event loop as `yield from` would pass it. Only when Rust
//! itself is pending does the object wait for a future of its own.

mod active;
mod leaf;
#[cfg(not(feature = "abi3"))]
pub(crate) mod slots;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use callweir::foreign::BoxFuture;
use callweir::{Invocation, NextFuture, Payload, Result};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;

pub(crate) use active::{
    Active, Host, active, is_driving, is_plain_thread, name_text, needs_loop, outside, released,
};
pub(crate) use leaf::{Leaf, Wait, awaitable, is_awaitable};

use leaf::Yielded;

use crate::error::to_py;
use crate::parked::{Park, TrioGuard, WakeCell, Watched, poll_waker};
use crate::value::object_of;

/// What a driven future gives.
pub(crate) enum Output {
    Payload(Payload),
    Text(String),
    Count(usize),
    Nothing,
}

impl Output {
    fn into_object(self, py: Python<'_>) -> Result<Py<PyAny>> {
        Ok(match self {
            Self::Payload(payload) => object_of(py, &payload)?.unbind(),
            Self::Text(text) => pyo3::types::PyString::new(py, &text).into_any().unbind(),
            Self::Count(count) => match count.into_pyobject(py) {
                Ok(count) => count.into_any().unbind(),
                Err(never) => match never {},
            },
            Self::Nothing => py.None(),
        })
    }
}

/// A future that gives an [`Output`].
pub(crate) type Driven = Pin<Box<dyn Future<Output = Result<Output>> + Send>>;

/// What makes the future at the first step: a call that is never awaited never happens.
pub(crate) type Start = Box<dyn FnOnce(Python<'_>) -> PyResult<Driven> + Send>;

/// What is driven.
pub(crate) enum Source {
    Start(Start),
    /// Boxed, so that the many drives of `next` stay small.
    Call(Box<(Invocation, callweir::Runtime)>),
    Next(callweir::Next, callweir::ToolCall),
    Rest(NextFuture),
    Running(Driven),
    Calling(BoxFuture<Result<Payload>>),
    Done,
}

/// An awaitable that runs on the host's thread. It counts as a coroutine wherever one is asked for.
#[pyclass(module = "callweir._native")]
pub(crate) struct Drive {
    source: Source,
    active: Active,
    /// Made when something of Rust's keeps a waker.
    wake: Option<Arc<WakeCell>>,
    park: Option<Park>,
    /// Whether a callback's awaited object was passed up, so that what the host says is for that callback.
    passed: bool,
    /// Whether the call may reach a limit of its own, a token or a deadline.
    limited: bool,
    guard: Option<TrioGuard>,
}

// SAFETY: the parts that are not `Sync` are only reached through `&mut self`, which the interpreter's borrow check
// gives to one thread at a time.
unsafe impl Sync for Drive {}

/// What the host says when it resumes a coroutine.
pub(crate) enum Resume {
    Send(Py<PyAny>),
    Throw(PyErr),
}

/// What one step gives the host.
enum Stepped {
    Yield(Py<PyAny>),
    Return(Py<PyAny>),
}

impl Drive {
    pub(crate) fn new(source: Source) -> Self {
        let active = Active::new(Host::EventLoop);
        Self {
            source,
            active,
            wake: None,
            park: None,
            passed: false,
            limited: false,
            guard: None,
        }
    }

    /// Returns the drive of a call with this context.
    pub(crate) fn under(mut self, context: &callweir::ToolContext) -> Self {
        self.limited = context.cancellation().is_some() || context.deadline().is_some();
        self
    }

    /// Makes a drive from a function that makes the future at the first step.
    pub(crate) fn start(start: impl FnOnce(Python<'_>) -> PyResult<Driven> + Send + 'static) -> Self {
        Self::new(Source::Start(Box::new(start)))
    }

    /// Runs the future to its end on this thread, outside any event loop.
    ///
    /// Awaitable callbacks are errors that name the entry; while Rust waits, the thread sleeps.
    pub(crate) fn block(mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.active = Active::new(Host::Plain);
        let wake = self.wake.get_or_insert_with(WakeCell::new).clone();
        loop {
            wake.reset();
            let (polled, watched) = self.poll(py)?;
            if let Some(value) = polled {
                return Ok(value);
            }
            while !watched.woken && !released(py, || wake.wait(Duration::from_millis(100))) {
                py.check_signals()?;
            }
        }
    }

    /// Polls once; no value while pending.
    fn poll(&mut self, py: Python<'_>) -> PyResult<(Option<Py<PyAny>>, Watched)> {
        let (polled, watched) = {
            let _entered = self.active.enter();
            poll_waker(&mut self.wake, |cx| self.source.poll(py, cx))
        };
        match polled? {
            Poll::Pending => Ok((None, watched)),
            Poll::Ready(result) => {
                self.source = Source::Done;
                let value = result.and_then(|output| output.into_object(py));
                Ok((Some(value.map_err(|error| to_py(py, &error))?), watched))
            }
        }
    }

    fn step(&mut self, py: Python<'_>, resume: Resume) -> PyResult<Stepped> {
        if std::mem::take(&mut self.limited) {
            self.guard = TrioGuard::enter(py)?;
        }
        let stepped = self.go_on(py, resume);
        if !matches!(stepped, Ok(Stepped::Yield(_)))
            && let Some(guard) = self.guard.take()
        {
            guard.exit(py)?;
        }
        stepped.map_err(|error| uncaught_stop(py, error))
    }

    fn go_on(&mut self, py: Python<'_>, resume: Resume) -> PyResult<Stepped> {
        match (&self.source, resume) {
            (Source::Done, _) => Err(PyRuntimeError::new_err(
                "cannot reuse an awaitable that was awaited already",
            )),
            (Source::Start(_) | Source::Call(..) | Source::Next(..), Resume::Throw(error)) => {
                self.source = Source::Done;
                Err(error)
            }
            (_, resume) => match self.park.take() {
                Some(park) => self.unpark(py, park, resume),
                None => {
                    if std::mem::take(&mut self.passed) || matches!(resume, Resume::Throw(_)) {
                        self.active.resume(resume);
                    }
                    self.turn(py)
                }
            },
        }
    }

    /// Goes on after the host resumed while Rust itself was pending.
    fn unpark(&mut self, py: Python<'_>, mut park: Park, resume: Resume) -> PyResult<Stepped> {
        match resume {
            Resume::Send(value) => match park.send(py, value)? {
                Some(again) => {
                    self.park = Some(park);
                    Ok(Stepped::Yield(again))
                }
                None => self.turn(py),
            },
            Resume::Throw(error) => {
                park.end(py);
                // As asyncio does it: what a callback waits for is cancelled, and it hears of it from there.
                if !self.wake.as_ref().is_some_and(|wake| wake.cancel_waits(py)) {
                    self.active.resume(Resume::Throw(error));
                }
                self.turn(py)
            }
        }
    }

    /// Polls until the future is done or the host has to take over.
    fn turn(&mut self, py: Python<'_>) -> PyResult<Stepped> {
        loop {
            if let Some(wake) = &self.wake {
                wake.reset();
            }
            let polled = self.poll(py);
            let unheard = self.active.unheard();
            if let Some(error) = unheard {
                // No callback was there to hear it: what Rust does is given up.
                self.source = Source::Done;
                return Err(error);
            }
            let (value, watched) = polled.inspect_err(|_| self.source = Source::Done)?;
            if let Some(value) = value {
                return Ok(Stepped::Return(value));
            }
            let mut yielded = self.active.take_yielded();
            let alone = yielded.len() == 1 && yielded.iter().all(Yielded::is_fresh);
            if alone
                && (!watched.cloned || crate::parked::is_trio(py))
                && let Some(one) = yielded.pop()
            {
                if let (Some(guard), Some(wake)) = (&self.guard, &self.wake) {
                    // A limit that was reached in this very turn cancels the scope all the same.
                    if !guard.arm(py, wake) {
                        wake.fire(py);
                    }
                }
                self.passed = true;
                return Ok(Stepped::Yield(one.pass_up(py)));
            }
            let wake = self.wake.get_or_insert_with(WakeCell::new).clone();
            for one in yielded {
                one.subscribe(py, &wake)?;
            }
            if watched.woken || wake.is_woken() {
                continue;
            }
            let (park, first) = Park::begin(py, &wake)?;
            if let Some(first) = first {
                self.park = Some(park);
                return Ok(Stepped::Yield(first));
            }
        }
    }

    fn finish(stepped: PyResult<Stepped>) -> PyResult<Py<PyAny>> {
        match stepped? {
            Stepped::Yield(value) => Ok(value),
            Stepped::Return(value) => Err(PyStopIteration::new_err((value,))),
        }
    }
}

/// Keeps a callback's own `StopIteration` from ending the await as if it were a result (PEP 479).
fn uncaught_stop(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py) {
        return error;
    }
    let raised = PyRuntimeError::new_err("a callback raised StopIteration");
    raised.set_cause(py, Some(error));
    raised
}

impl Drop for Drive {
    fn drop(&mut self) {
        // What ends with the call runs Python; the exception that may be on its way must not be lost over it.
        let source = std::mem::replace(&mut self.source, Source::Done);
        if matches!(source, Source::Done) {
            return;
        }
        let _ = crate::attach::attach(move |py| {
            let on_its_way = PyErr::take(py);
            drop(source);
            if let Some(error) = on_its_way {
                error.restore(py);
            }
        });
    }
}

impl Source {
    fn poll(&mut self, py: Python<'_>, cx: &mut Context<'_>) -> PyResult<Poll<Result<Output>>> {
        loop {
            match self {
                Self::Running(future) => return Ok(future.as_mut().poll(cx)),
                Self::Rest(future) => return Ok(Pin::new(future).poll(cx).map_ok(Output::Payload)),
                Self::Calling(future) => return Ok(future.as_mut().poll(cx).map_ok(Output::Payload)),
                Self::Start(_) => {
                    let Self::Start(start) = std::mem::replace(self, Self::Done) else {
                        continue;
                    };
                    *self = Self::Running(start(py)?);
                }
                Self::Call(..) => {
                    let Self::Call(parts) = std::mem::replace(self, Self::Done) else {
                        continue;
                    };
                    let (mut call, runtime) = *parts;
                    call.parent = crate::scope::current(py)?;
                    *self = Self::Calling(Box::pin(call.execute(runtime)));
                }
                Self::Next(..) => {
                    let Self::Next(next, call) = std::mem::replace(self, Self::Done) else {
                        continue;
                    };
                    *self = Self::Rest(next.run(call));
                }
                Self::Done => return Err(PyRuntimeError::new_err("polled after its end")),
            }
        }
    }
}

#[pymethods]
impl Drive {
    fn __await__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let stepped = self.step(py, Resume::Send(py.None()));
        Self::finish(stepped)
    }

    fn send(&mut self, py: Python<'_>, value: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let stepped = self.step(py, Resume::Send(value));
        Self::finish(stepped)
    }

    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        // An exception object carries its own.
        drop(traceback);
        let exception = match value {
            Some(value) if value.is_instance_of::<pyo3::exceptions::PyBaseException>() => value,
            Some(value) if !value.is_none() => kind.call1((value,))?,
            _ if kind.is_instance_of::<pyo3::types::PyType>() => kind.call0()?,
            _ => kind,
        };
        let stepped = self.step(py, Resume::Throw(PyErr::from_value(exception)));
        Self::finish(stepped)
    }

    /// Gives the call up; what was started ends as cancelled.
    fn close(&mut self, py: Python<'_>) {
        if let Some(mut park) = self.park.take() {
            park.end(py);
        }
        if self.passed {
            self.active
                .resume(Resume::Throw(pyo3::exceptions::PyGeneratorExit::new_err(())));
            // What a callback raises in its clean-up has nobody to go to.
            let _ = self.turn(py);
        }
        self.source = Source::Done;
        if let Some(guard) = self.guard.take() {
            // The scope of a task that has ended has nothing left to leave.
            let _ = guard.exit(py);
        }
    }
}
