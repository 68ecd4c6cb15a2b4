//! Callbacks: the core's traits over Python callables.

use std::any::Any;
use std::sync::{Arc, Weak};

use callweir::foreign::{
    AnyMiddleware, Around, Context, Gate, Home, Observe, ObserveCalls, Origin, Subject, Transform,
    Transformed, Work,
};
use callweir::{
    CallEvent, Error, Event, Family, Handler, Next, Payload, Result, Shape, Step, ToolCall, Verdict,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::drive::{Leaf, awaitable, is_awaitable, is_plain_thread, name_text, needs_loop};
use crate::error::{from_exception, from_py, note};
use crate::host::captured;
use crate::statics::statics;
use crate::value::{Default, Object, attached, object_of, text};

/// A registered callable, and what it is called for.
pub(crate) struct Callback {
    function: Py<PyAny>,
    stage: &'static str,
    name: Arc<str>,
    default: Default,
    home: Home,
    /// Itself, for what outlives the call of the function.
    me: Weak<Self>,
}

impl Callback {
    pub(crate) fn new(
        function: Py<PyAny>,
        stage: &'static str,
        name: Arc<str>,
        default: Default,
        home: Home,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            function,
            stage,
            name,
            default,
            home,
            me: me.clone(),
        })
    }

    fn raised(&self, py: Python<'_>, error: PyErr) -> Error {
        note(py, &error, self.stage, &self.name);
        from_py(py, error)
    }

    fn wrong(&self, message: &str) -> Error {
        Error::invalid_return(self.stage, &self.name, message)
    }

    /// Calls the function; its result is read by `read`, at once or when it has been awaited.
    fn call<'py, T: Send + 'static>(
        self: &Arc<Self>,
        py: Python<'py>,
        arguments: impl pyo3::call::PyCallArgs<'py>,
        read: fn(&Self, Python<'_>, Bound<'_, PyAny>) -> Result<T>,
    ) -> Step<T> {
        let called = self.function.bind(py).call1(arguments);
        self.take(py, called, &Origin::default(), read)
    }

    /// Calls the function in a captured context, as queued callbacks are.
    fn call_in<T: Send + 'static>(
        self: &Arc<Self>,
        py: Python<'_>,
        origin: &Origin,
        arguments: &[Bound<'_, PyAny>],
        read: fn(&Self, Python<'_>, Bound<'_, PyAny>) -> Result<T>,
    ) -> Step<T> {
        let called = match captured(origin) {
            None => PyTuple::new(py, arguments).and_then(|arguments| self.function.bind(py).call1(arguments)),
            Some(captured) => captured.using(py, |context| {
                let all: Vec<_> = std::iter::once(self.function.bind(py)).chain(arguments).collect();
                context.call_method1(pyo3::intern!(py, "run"), PyTuple::new(py, all)?)
            }),
        };
        self.take(py, called, origin, read)
    }

    fn take<T: Send + 'static>(
        self: &Arc<Self>,
        py: Python<'_>,
        called: PyResult<Bound<'_, PyAny>>,
        origin: &Origin,
        read: fn(&Self, Python<'_>, Bound<'_, PyAny>) -> Result<T>,
    ) -> Step<T> {
        let value = match called {
            Ok(value) => value,
            Err(error) => return Step::Ready(Err(self.raised(py, error))),
        };
        match is_awaitable(py, &value) {
            Ok(false) => Step::Ready(read(self, py, value)),
            Ok(true) if is_plain_thread() => {
                // An awaitable that nobody awaits must not warn about it.
                let _ = value.call_method0("close");
                Step::Ready(Err(needs_loop(self.stage, &self.name)))
            }
            Ok(true) => self.later(py, &value, origin, read),
            Err(error) => Step::Ready(Err(self.raised(py, error))),
        }
    }

    fn later<T: Send + 'static>(
        self: &Arc<Self>,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        origin: &Origin,
        read: fn(&Self, Python<'_>, Bound<'_, PyAny>) -> Result<T>,
    ) -> Step<T> {
        let coroutine = match awaitable(value) {
            Ok(coroutine) => coroutine.unbind(),
            Err(error) => return Step::Ready(Err(self.raised(py, error))),
        };
        let leaf = Leaf::new(coroutine, origin.clone());
        let me = self.clone();
        Step::later(async move {
            let awaited = leaf.await;
            attached(|py| match awaited {
                Ok(value) => me.read_awaited(py, value.into_bound(py), read),
                Err(error) => {
                    if error.kind().is_none() {
                        note(py, &crate::error::to_py(py, &error), me.stage, &me.name);
                    }
                    Err(error)
                }
            })
        })
    }

    /// Reads what an awaited callback gave; an awaitable there was forgotten, and would never run.
    fn read_awaited<T>(
        &self,
        py: Python<'_>,
        value: Bound<'_, PyAny>,
        read: fn(&Self, Python<'_>, Bound<'_, PyAny>) -> Result<T>,
    ) -> Result<T> {
        let forgotten = value.is_instance_of::<crate::drive::Drive>()
            || statics(py).is_ok_and(|known| value.get_type().is(known.coroutine.bind(py)));
        if forgotten {
            // Closed, so that Python does not warn about it as well.
            let _ = value.call_method0("close");
            return Err(self.wrong("returned an awaitable that it did not await"));
        }
        read(self, py, value)
    }

    fn payload(&self, value: Bound<'_, PyAny>) -> Payload {
        Object::payload(value.unbind(), &self.default)
    }
}

/// Makes the handler of a family from a callable.
pub(crate) fn handler(family: Family, callback: Arc<Callback>) -> Handler {
    match family.shape() {
        Shape::Gate => Handler::Gate(Arc::new(PyGate(callback))),
        Shape::Transform => Handler::Transform(Arc::new(PyTransform(callback))),
        Shape::Around | Shape::Stream => Handler::Around(Arc::new(PyAround(callback))),
    }
}

struct PyGate(Arc<Callback>);

impl Gate for PyGate {
    fn check(&self, call: &ToolCall) -> Step<Verdict> {
        let checked = attached(|py| {
            let arguments = (name_text(py, call.name()), object_of(py, call.arguments())?);
            Ok(self.0.call(py, arguments, read_verdict))
        });
        checked.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
    fn is_host(&self) -> bool {
        true
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape of a reader")]
fn read_verdict(callback: &Callback, py: Python<'_>, value: Bound<'_, PyAny>) -> Result<Verdict> {
    if value.is_none() {
        return Ok(Verdict::Allow);
    }
    if let Ok(reason) = value.cast::<PyString>() {
        return Ok(Verdict::reject(text(reason)));
    }
    let verdict =
        statics(py).and_then(|known| known.support.bind(py).call_method1("read_verdict", (&value,)));
    match verdict.and_then(|verdict| verdict.extract::<Option<(bool, String)>>()) {
        Ok(Some((true, _))) => Ok(Verdict::Allow),
        Ok(Some((false, reason))) => Ok(Verdict::reject(reason)),
        Ok(None) => Err(callback.wrong("expected None, a reason or a Verdict")),
        Err(error) => Err(from_py(py, error)),
    }
}

struct PyTransform(Arc<Callback>);

impl Transform for PyTransform {
    fn apply(&self, subject: &Subject<'_>, payload: Payload, context: &Context) -> Step<Transformed> {
        let applied = attached(|py| {
            let value = object_of(py, &payload)?;
            let first = match subject {
                Subject::Call(name) => name_text(py, name).into_any(),
                Subject::Event(event) => {
                    crate::events::object(py, event).map_err(|error| from_py(py, error))?
                }
            };
            if context.is_none() {
                return Ok(self.0.call(py, (first, value), read_payload));
            }
            let origin = Origin {
                context: context.clone(),
                ..Origin::default()
            };
            Ok(self.0.call_in(py, &origin, &[first, value], read_payload))
        });
        applied.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
    fn is_host(&self) -> bool {
        true
    }
    fn home(&self) -> Home {
        self.0.home
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a reader")]
fn read_payload(callback: &Callback, _: Python<'_>, value: Bound<'_, PyAny>) -> Result<Transformed> {
    Ok(if value.is_none() {
        None
    } else {
        Some(callback.payload(value))
    })
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a reader")]
fn read_any(callback: &Callback, _: Python<'_>, value: Bound<'_, PyAny>) -> Result<Payload> {
    Ok(callback.payload(value))
}

/// Reads what a middleware returned: a denial that is returned counts as raised.
fn read_result(callback: &Callback, py: Python<'_>, value: Bound<'_, PyAny>) -> Result<Payload> {
    let is_error = statics(py).and_then(|known| value.is_instance(known.error_base.bind(py)));
    if is_error.unwrap_or(false) {
        let error = from_exception(&value);
        if error.is_denial() {
            return Err(error);
        }
    }
    Ok(callback.payload(value))
}

struct PyAround(Arc<Callback>);

impl Around for PyAround {
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        let ran = attached(|py| {
            let (name, value) = (name_text(py, call.name()), object_of(py, call.arguments())?);
            let next = crate::call::Next::of_arguments(next, call, self.0.default.clone());
            let next = Bound::new(py, next).map_err(|error| from_py(py, error))?;
            Ok(self.0.call(py, (name, value, next), read_any))
        });
        ran.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
    fn is_host(&self) -> bool {
        true
    }
}

/// The function that the program gave to a managed call.
impl Work for Callback {
    fn run(&self, call: ToolCall) -> Step<Payload> {
        let Some(me) = self.me.upgrade() else {
            return Step::Ready(Err(Error::cancelled()));
        };
        let ran = attached(|py| Ok(me.call(py, (object_of(py, call.arguments())?,), read_any)));
        ran.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
}

/// A callable as a registry's middleware.
pub(crate) struct PyMiddleware {
    pub(crate) object: Py<PyAny>,
    run: Arc<Callback>,
    on_refused: Option<Arc<Callback>>,
}

impl PyMiddleware {
    pub(crate) fn new(object: &Bound<'_, PyAny>, name: &Arc<str>, default: &Default) -> PyResult<Self> {
        let make = |function: Bound<'_, PyAny>| {
            Callback::new(
                function.unbind(),
                "middleware",
                name.clone(),
                default.clone(),
                Home::Core,
            )
        };
        let hook = object.getattr_opt(pyo3::intern!(object.py(), "on_refused"))?;
        Ok(Self {
            object: object.clone().unbind(),
            run: make(object.clone()),
            on_refused: hook.map(make),
        })
    }
}

impl AnyMiddleware for PyMiddleware {
    fn name(&self) -> Arc<str> {
        self.run.name.clone()
    }
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        let ran = attached(|py| {
            let default = self.run.default.clone();
            let made = Bound::new(py, crate::call::ToolCall::new(call, default.clone())).and_then(|call| {
                let next = Bound::new(py, crate::call::Next::of_calls(next, default))?;
                Ok((call, next))
            });
            Ok(self
                .run
                .call(py, made.map_err(|error| from_py(py, error))?, read_result))
        });
        ran.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
    fn on_refused(&self, call: &ToolCall, refusal: &Error) -> Step<()> {
        let Some(hook) = &self.on_refused else {
            return Step::Ready(Ok(()));
        };
        let told = attached(|py| {
            let call = Bound::new(py, crate::call::ToolCall::new(call.clone(), hook.default.clone()));
            let call = call.map_err(|error| from_py(py, error))?;
            let refusal = crate::error::to_py(py, refusal).into_value(py);
            Ok(hook.call(py, (call, refusal), read_nothing))
        });
        told.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
    fn is_host(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[allow(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "the shape of a reader"
)]
fn read_nothing(_: &Callback, _: Python<'_>, _: Bound<'_, PyAny>) -> Result<()> {
    Ok(())
}

/// A callable as a subscriber of events.
pub(crate) struct PyObserver(pub(crate) Arc<Callback>);

impl Observe for PyObserver {
    fn observe(&self, event: &Arc<Event>, origin: &Origin) -> Step<()> {
        let told = attached(|py| {
            let event = crate::events::object(py, event).map_err(|error| from_py(py, error))?;
            Ok(self.0.call_in(py, origin, &[event], read_nothing))
        });
        told.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
    fn home(&self) -> Home {
        self.0.home
    }
}

/// A callable as a subscriber of typed call records.
pub(crate) struct PyCallObserver(pub(crate) Arc<Callback>);

impl ObserveCalls for PyCallObserver {
    fn observe(&self, event: &CallEvent, origin: &Origin) -> Step<()> {
        let told = attached(|py| {
            let event = crate::events::call_object(py, event).map_err(|error| from_py(py, error))?;
            Ok(self.0.call_in(py, origin, &[event], read_nothing))
        });
        told.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
    fn home(&self) -> Home {
        self.0.home
    }
}

/// A tool whose function is Python's.
pub(crate) struct PyTool {
    pub(crate) descriptor: Arc<callweir::Descriptor>,
    /// The function that the program wrote, called with keyword arguments.
    callback: Arc<Callback>,
    /// Turns arguments into keyword arguments; nothing where they are taken as they are.
    bind: Option<Py<PyAny>>,
    /// Whether the function blocks, and so runs on a pool thread when an event loop drives the call.
    blocking: bool,
}

impl PyTool {
    pub(crate) fn new(
        descriptor: Arc<callweir::Descriptor>,
        function: Py<PyAny>,
        bind: Option<Py<PyAny>>,
        blocking: bool,
        default: Default,
    ) -> Self {
        let callback = Callback::new(function, "tool", descriptor.name.clone(), default, Home::Core);
        Self {
            descriptor,
            callback,
            bind,
            blocking,
        }
    }

    fn keywords<'py>(&self, py: Python<'py>, call: &ToolCall) -> Result<Bound<'py, PyDict>> {
        let arguments = object_of(py, call.arguments())?;
        let bound = match &self.bind {
            None => Ok(arguments),
            Some(bind) => Bound::new(py, crate::call::ToolContext::of(call.context().clone()))
                .and_then(|context| bind.bind(py).call1((arguments, context))),
        };
        let bound = bound.map_err(|error| crate::registry::bind_error(py, &error))?;
        bound
            .cast_into::<PyDict>()
            .map_err(|_| Error::invalid_argument("$", "the arguments are not a dict"))
    }
}

impl callweir::Tool for PyTool {
    fn descriptor(&self) -> &Arc<callweir::Descriptor> {
        &self.descriptor
    }

    fn run(&self, call: ToolCall) -> Step<Payload> {
        let ran = attached(|py| {
            let keywords = self.keywords(py, &call)?;
            let function = self.callback.function.bind(py);
            if self.blocking && crate::pool::is_wanted(py) {
                return crate::pool::run(py, function, &keywords, &self.callback);
            }
            let called = function.call((), Some(&keywords));
            Ok(self.callback.take(py, called, &Origin::default(), read_any))
        });
        ran.unwrap_or_else(|error| Step::Ready(Err(error)))
    }
}

impl Callback {
    /// Reads what a function gave on a pool thread; an awaitable is awaited where the call runs.
    pub(crate) fn pooled(
        self: &Arc<Self>,
        py: Python<'_>,
        result: Result<Py<PyAny>>,
    ) -> Result<Step<Payload>> {
        match result {
            Ok(value) => Ok(self.take(py, Ok(value.into_bound(py)), &Origin::default(), read_any)),
            Err(error) => {
                if error.kind().is_none() {
                    note(py, &crate::error::to_py(py, &error), self.stage, &self.name);
                }
                Err(error)
            }
        }
    }
}
