//! What the interpreter lends the dispatcher: contexts, event loops, batches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use callweir::foreign::{DispatchHost, HostLoop, Origin, Runnable};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::statics::statics;

/// The interpreter as a host.
pub(crate) struct Interpreter;

impl DispatchHost for Interpreter {
    fn capture(&self) -> Origin {
        // A thread of the core may emit too (a call dropped there); it has no Python context.
        crate::attach::attach(|py| capture(py).unwrap_or_default()).unwrap_or_default()
    }

    fn batch(&self, run: &mut dyn FnMut()) {
        // Held over the batch: each callback then costs no hand-over of its own.
        if crate::attach::attach(|_| run()).is_none() {
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
    }

    fn log(&self, message: &str) {
        let _ = crate::attach::attach(|py| {
            statics(py)?
                .support
                .bind(py)
                .call_method1("log", (message,))
                .map(drop)
        });
    }
}

/// A captured context, and whether a callback is inside it.
pub(crate) struct Captured {
    pub(crate) context: Py<PyAny>,
    entered: AtomicBool,
}

impl Captured {
    /// Runs `body` with the context to enter: itself, or a copy while another callback is inside.
    pub(crate) fn using<'py, T>(
        &self,
        py: Python<'py>,
        body: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> PyResult<T> {
        if self.entered.swap(true, Ordering::AcqRel) {
            return body(&self.context.bind(py).call_method0(pyo3::intern!(py, "copy"))?);
        }
        let result = body(self.context.bind(py));
        self.entered.store(false, Ordering::Release);
        result
    }
}

fn capture(py: Python<'_>) -> PyResult<Origin> {
    let known = statics(py)?;
    let context = known.copy_context.bind(py).call0()?.unbind();
    let echo = known
        .echo
        .bind(py)
        .call_method0("get")?
        .extract::<Option<u32>>()?
        .unwrap_or(0);
    let event_loop = current_loop(py)?.map(|found| found as Arc<dyn HostLoop>);
    Ok(Origin {
        context: Some(Arc::new(Captured {
            context,
            entered: AtomicBool::new(false),
        })),
        event_loop,
        echo,
    })
}

/// An asyncio event loop.
pub(crate) struct EventLoop {
    pub(crate) object: Py<PyAny>,
    lanes: Mutex<VecDeque<Runnable>>,
    called: AtomicBool,
    closed: AtomicBool,
    me: Weak<Self>,
}

thread_local! {
    static LAST: std::cell::RefCell<Option<Arc<EventLoop>>> = const { std::cell::RefCell::new(None) };
}

/// Returns the loop that runs on this thread.
pub(crate) fn current_loop(py: Python<'_>) -> PyResult<Option<Arc<EventLoop>>> {
    let mut running = statics(py)?.running_loop.bind(py).call0()?;
    let known = LAST.with_borrow(|last| last.clone().filter(|known| known.object.is(&running)));
    if known.is_some() {
        return Ok(known);
    }
    running = statics(py)?.support.bind(py).call_method0("home_loop")?;
    if running.is_none() {
        return Ok(None);
    }
    LAST.with_borrow_mut(|last| {
        if let Some(known) = last.as_ref().filter(|known| known.object.is(&running)) {
            return Ok(Some(known.clone()));
        }
        let made = Arc::new_cyclic(|me| EventLoop {
            object: running.unbind(),
            lanes: Mutex::new(VecDeque::new()),
            called: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            me: me.clone(),
        });
        *last = Some(made.clone());
        Ok(Some(made))
    })
}

impl EventLoop {
    /// Calls a function soon on the loop, from any thread.
    pub(crate) fn call_soon<'py>(
        &self,
        py: Python<'py>,
        arguments: impl pyo3::call::PyCallArgs<'py>,
    ) -> PyResult<()> {
        let here = statics(py)?.running_loop.bind(py).call0()?.is(&self.object);
        let how = if here { "call_soon" } else { "call_soon_threadsafe" };
        self.object.bind(py).getattr(how)?.call1(arguments).map(drop)
    }

    /// Runs the lanes that wait for this loop; called on the loop.
    pub(crate) fn drain(self: &Arc<Self>) {
        // A flush may do this in its own poll; the callbacks below are not the ones that it drives.
        let _outside = crate::drive::outside();
        self.called.store(false, Ordering::Release);
        let lanes: Vec<_> = self.lanes.lock().drain(..).collect();
        let me: Arc<dyn HostLoop> = self.clone();
        lanes.into_iter().for_each(|lane| lane.run(&me));
    }
}

impl HostLoop for EventLoop {
    fn schedule(&self, lane: Runnable) -> bool {
        self.lanes.lock().push_back(lane);
        if self.called.swap(true, Ordering::AcqRel) {
            return true;
        }
        let scheduled = crate::attach::attach(|py| {
            let Some(me) = self.me.upgrade() else { return false };
            Bound::new(py, Drain(me))
                .and_then(|drain| self.call_soon(py, (drain,)))
                .is_ok()
        });
        if scheduled == Some(true) {
            return true;
        }
        self.called.store(false, Ordering::Release);
        self.closed.store(true, Ordering::Release);
        // The lane that was just added goes back to who asked; others are moved when the watch finds them.
        drop(self.lanes.lock().pop_back());
        false
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn check_closed(&self) -> bool {
        let closed = crate::attach::attach(|py| {
            self.object
                .bind(py)
                .call_method0("is_closed")
                .and_then(|closed| closed.extract())
                .unwrap_or(true)
        })
        .unwrap_or(true);
        if closed {
            self.closed.store(true, Ordering::Release);
        }
        closed
    }

    fn id(&self) -> usize {
        self.object.as_ptr() as usize
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// Calls back into [`EventLoop::drain`].
#[pyclass(module = "callweir._native", frozen)]
struct Drain(Arc<EventLoop>);

#[pymethods]
impl Drain {
    fn __call__(&self) {
        self.0.drain();
    }
}

/// Returns the event loop of an origin, or the running one, or None.
pub(crate) fn loop_object<'py>(py: Python<'py>, origin: &Origin) -> Bound<'py, PyAny> {
    match origin
        .event_loop
        .as_ref()
        .and_then(|event_loop| event_loop.as_any().downcast_ref::<EventLoop>())
    {
        Some(event_loop) => event_loop.object.bind(py).clone(),
        None => {
            let running = statics(py).and_then(|known| known.support.bind(py).call_method0("home_loop"));
            running.unwrap_or_else(|_| py.None().into_bound(py))
        }
    }
}

/// Returns the captured context of an origin.
pub(crate) fn captured(origin: &Origin) -> Option<&Captured> {
    origin.context.as_ref()?.downcast_ref()
}

/// Returns the context of an origin, or None.
pub(crate) fn context_object<'py>(py: Python<'py>, origin: &Origin) -> Bound<'py, PyAny> {
    match captured(origin) {
        Some(captured) => captured.context.bind(py).clone(),
        None => py.None().into_bound(py),
    }
}
