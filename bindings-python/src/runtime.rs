//! The runtime as Python sees it.

pub(crate) mod exit;
mod settings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use callweir::foreign::Home;
use callweir::{
    Family, Invocation, ManualOptions, Mark, Options, Propagation, RegisterOptions, Registration,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::call::{ByIdentity, Cancellation, FAR, ManualCall, ScopeVariable};
use crate::drive::{Drive, Driven, Output, Source};
use crate::error::to_py;
use crate::foreign::{Callback, PyCallObserver, PyObserver, handler};
use crate::host::{Interpreter, current_loop};
use exit::Blocked;
use settings::{Settings, timeout_of};
pub(crate) use settings::{deadline_of, timestamp};

use crate::scope::{ScopeHandle, current, given_or_current};
use crate::statics::statics;
use crate::value::{Default, Object, optional_json, to_json};

/// Registrations, scopes and the dispatcher that belong together. Two runtimes share nothing.
#[pyclass(module = "callweir._native", frozen, subclass)]
#[derive(Clone)]
pub(crate) struct Runtime {
    core: callweir::Runtime,
    default: Default,
}

static DEFAULT: PyOnceLock<Py<Runtime>> = PyOnceLock::new();

/// Returns the runtime that the module-level functions use.
#[pyfunction]
pub(crate) fn default_runtime(py: Python<'_>) -> PyResult<Py<Runtime>> {
    let made = DEFAULT.get_or_try_init(py, || {
        let core = callweir::Runtime::with_host(Options::default(), Arc::new(Interpreter));
        callweir::Runtime::set_default(core.clone());
        Py::new(
            py,
            Runtime {
                core,
                default: Default::default(),
            },
        )
    });
    made.map(|runtime| runtime.clone_ref(py))
}

/// Renders registrations as dicts.
pub(crate) fn lines<'py>(py: Python<'py>, all: &[Registration]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let render = |line: &Registration| {
        let dict = PyDict::new(py);
        dict.set_item("stage", line.stage)?;
        dict.set_item("name", &*line.name)?;
        dict.set_item("level", line.level)?;
        dict.set_item("owner", line.owner.as_deref())?;
        dict.set_item("priority", line.priority)?;
        Ok(dict)
    };
    all.iter().map(render).collect()
}

impl Runtime {
    pub(crate) fn core(&self) -> &callweir::Runtime {
        &self.core
    }

    pub(crate) fn default(&self) -> Default {
        self.default.clone()
    }

    fn invocation(&self, call: Executed<'_, '_>) -> PyResult<Invocation> {
        if !call.function.is_callable() {
            return Err(PyTypeError::new_err("func must be callable"));
        }
        let name: Arc<str> = call.name.into();
        let work = Callback::new(
            call.function.unbind(),
            "func",
            name.clone(),
            self.default.clone(),
            Home::Core,
        );
        let arguments = Object::payload(call.arguments.unbind(), &self.default);
        let mut made = Invocation::new(name, arguments, work);
        made.metadata = optional_json(call.metadata, &self.default)?;
        made.tool_call_id = call.tool_call_id.map(Into::into);
        made.current = Some(ScopeVariable::boxed());
        if let Some(token) = call.cancellation {
            made.context = made.context.with_cancellation(token.0);
        }
        Ok(made)
    }

    /// Runs a future of a standalone helper: awaitable inside an event loop, else to its end here.
    fn helper(
        py: Python<'_>,
        start: impl FnOnce(Python<'_>) -> PyResult<Driven> + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        let drive = Drive::start(start);
        if in_loop(py)? {
            Ok(Py::new(py, drive)?.into_any())
        } else {
            let _counted = Blocked::here();
            drive.block(py)
        }
    }

    /// Says where a queued callback runs: asynchronous ones on their loop, others as they were registered.
    fn home(py: Python<'_>, function: &Bound<'_, PyAny>, inline: bool) -> PyResult<Home> {
        if inline
            || statics(py)?
                .support
                .bind(py)
                .call_method1("is_async", (function,))?
                .extract()?
        {
            return Ok(Home::Loop);
        }
        Ok(Home::HostThread)
    }

    fn callback(
        &self,
        py: Python<'_>,
        function: Bound<'_, PyAny>,
        stage: &'static str,
        name: &str,
        inline: bool,
    ) -> PyResult<Arc<Callback>> {
        if !function.is_callable() {
            return Err(PyTypeError::new_err(format!(
                "the callback of {stage} '{name}' is not callable"
            )));
        }
        let home = Self::home(py, &function, inline)?;
        Ok(Callback::new(
            function.unbind(),
            stage,
            name.into(),
            self.default.clone(),
            home,
        ))
    }
}

/// What `execute` was given.
struct Executed<'a, 'py> {
    name: &'a str,
    arguments: Bound<'py, PyAny>,
    function: Bound<'py, PyAny>,
    metadata: Option<&'a Bound<'py, PyAny>>,
    tool_call_id: Option<&'a str>,
    cancellation: Option<Cancellation>,
}

fn in_loop(py: Python<'_>) -> PyResult<bool> {
    Ok(current_loop(py)?.is_some() || crate::parked::is_trio(py))
}

/// Fails if waiting here would wait for itself: in a callback of the dispatcher, or on a running event loop.
fn check_may_wait(py: Python<'_>, blocking: bool) -> PyResult<()> {
    let deadlock = |text: &str| Err(to_py(py, &callweir::Error::would_deadlock(text)));
    let echo = statics(py)?.echo.bind(py).call_method0("get")?;
    if !echo.is_none() {
        return deadlock("a sanitizer or subscriber cannot flush: it would wait for itself");
    }
    if blocking && in_loop(py)? {
        return deadlock("this would block the running event loop; await the asynchronous form instead");
    }
    Ok(())
}

#[pymethods]
impl Runtime {
    #[new]
    #[pyo3(signature = (*, default=None, settings=None))]
    fn new(default: Option<Py<PyAny>>, settings: Option<Settings>) -> PyResult<Self> {
        let options = settings.unwrap_or_default().over(&Options::default())?;
        let made = Self {
            core: callweir::Runtime::with_host(options, Arc::new(Interpreter)),
            default: Default::default(),
        };
        made.default.set(default);
        Ok(made)
    }

    /// Changes the settings that are given.
    #[pyo3(signature = (*, default=None, settings=None))]
    fn change(&self, default: Option<Py<PyAny>>, settings: Option<Settings>) -> PyResult<()> {
        let options = settings.unwrap_or_default().over(&self.core.options())?;
        self.core.configure(options);
        if default.is_some() {
            self.default.set(default);
        }
        Ok(())
    }

    /// Registers a callback of a family.
    #[pyo3(signature = (family, name, fn_, *, priority=0, scope=None, break_chain=false))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the keyword arguments of one Python function"
    )]
    fn register(
        &self,
        py: Python<'_>,
        family: &str,
        name: &str,
        fn_: Bound<'_, PyAny>,
        priority: i32,
        scope: Option<&ScopeHandle>,
        break_chain: bool,
    ) -> PyResult<()> {
        let family: Family = family.parse().map_err(|error| to_py(py, &error))?;
        let callback = self.callback(py, fn_, family.wire_name(), name, false)?;
        let scope = scope.map(|scope| scope.0.clone());
        let options = RegisterOptions {
            priority,
            scope,
            break_chain,
            component: None,
        };
        let registered = self
            .core
            .register(family, name, handler(family, callback), &options);
        registered.map_err(|error| to_py(py, &error))
    }

    /// Removes a callback; returns whether it was there.
    #[pyo3(signature = (family, name, *, scope=None))]
    fn deregister(
        &self,
        py: Python<'_>,
        family: &str,
        name: &str,
        scope: Option<&ScopeHandle>,
    ) -> PyResult<bool> {
        let family: Family = family.parse().map_err(|error| to_py(py, &error))?;
        Ok(self.core.deregister(family, name, scope.map(|scope| &scope.0)))
    }

    /// Registers a subscriber of events.
    #[pyo3(signature = (name, fn_, *, scope=None, inline=false))]
    fn subscribe(
        &self,
        py: Python<'_>,
        name: &str,
        fn_: Bound<'_, PyAny>,
        scope: Option<&ScopeHandle>,
        inline: bool,
    ) -> PyResult<()> {
        let callback = self.callback(py, fn_, "subscriber", name, inline)?;
        let target = Arc::new(PyObserver(callback));
        self.core
            .subscribe(name, target, scope.map(|scope| &scope.0))
            .map_err(|error| to_py(py, &error))
    }

    /// Registers a subscriber of typed registry-call records.
    #[pyo3(signature = (name, fn_, *, scope=None, inline=false))]
    fn subscribe_calls(
        &self,
        py: Python<'_>,
        name: &str,
        fn_: Bound<'_, PyAny>,
        scope: Option<&ScopeHandle>,
        inline: bool,
    ) -> PyResult<()> {
        let callback = self.callback(py, fn_, "subscriber", name, inline)?;
        let target = Arc::new(PyCallObserver(callback));
        self.core
            .subscribe_calls(name, target, scope.map(|scope| &scope.0))
            .map_err(|error| to_py(py, &error))
    }

    /// Removes a subscriber; returns whether it was there.
    #[pyo3(signature = (name, *, scope=None))]
    fn unsubscribe(&self, name: &str, scope: Option<&ScopeHandle>) -> bool {
        self.core.unsubscribe(name, scope.map(|scope| &scope.0))
    }

    /// Writes events to a file as JSON lines.
    #[pyo3(signature = (path, name))]
    fn export_jsonl(&self, py: Python<'_>, path: std::path::PathBuf, name: &str) -> PyResult<()> {
        let opened = callweir::export::jsonl::JsonLines::open(path);
        let added = opened.and_then(|target| self.core.subscribe(name, target, None));
        added.map_err(|error| to_py(py, &error))
    }

    /// Makes a managed call; the awaitable gives the function's own result.
    #[pyo3(signature = (name, args, func, *, metadata=None, tool_call_id=None, cancellation=None))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the keyword arguments of one Python function"
    )]
    fn execute(
        &self,
        name: &str,
        args: Bound<'_, PyAny>,
        func: Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
        tool_call_id: Option<&str>,
        cancellation: Option<Cancellation>,
    ) -> PyResult<Drive> {
        let asked = Executed {
            name,
            arguments: args,
            function: func,
            metadata,
            tool_call_id,
            cancellation,
        };
        let call = self.invocation(asked)?;
        let context = call.context.clone();
        Ok(Drive::new(Source::Call(Box::new((call, self.core.clone())))).under(&context))
    }

    /// Runs an awaitable of this package to its end on this thread, outside any event loop.
    #[allow(clippy::unused_self, reason = "a method in Python")]
    fn run_blocking(&self, py: Python<'_>, awaitable: &Bound<'_, Drive>) -> PyResult<Py<PyAny>> {
        check_may_wait(py, true)?;
        let drive = std::mem::replace(&mut *awaitable.try_borrow_mut()?, Drive::new(Source::Done));
        let _counted = Blocked::here();
        drive.block(py)
    }

    /// Runs the guardrails of a tool call.
    fn conditional_execution(&self, py: Python<'_>, name: &str, args: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let (runtime, name, arguments) = (
            self.core.clone(),
            Arc::from(name),
            Object::payload(args, &self.default),
        );
        Self::helper(py, move |py| {
            let parent = current(py)?;
            let checked = callweir::conditional_execution(runtime, parent, name, arguments);
            Ok(Box::pin(async move { checked.await.map(|()| Output::Nothing) }))
        })
    }

    /// Runs the request intercepts of a tool call and gives the arguments.
    fn request_intercepts(&self, py: Python<'_>, name: &str, args: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let (runtime, name, arguments) = (
            self.core.clone(),
            Arc::from(name),
            Object::payload(args, &self.default),
        );
        Self::helper(py, move |py| {
            let parent = current(py)?;
            let folded = callweir::request_intercepts(runtime, parent, name, arguments);
            Ok(Box::pin(async move { folded.await.map(Output::Payload) }))
        })
    }

    /// Starts a call that the program runs itself.
    #[pyo3(signature = (name, args, *, metadata=None, tool_call_id=None, attributes=None, scope=None, timestamp=None))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the keyword arguments of one Python function"
    )]
    fn start_call(
        &self,
        py: Python<'_>,
        name: &str,
        args: Py<PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
        tool_call_id: Option<&str>,
        attributes: Option<Vec<String>>,
        scope: Option<&ScopeHandle>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ManualCall> {
        let options = ManualOptions {
            parent: given_or_current(py, scope)?,
            metadata: optional_json(metadata, &self.default)?,
            tool_call_id: tool_call_id.map(Into::into),
            attributes: flags(attributes),
            timestamp: timestamp.map(self::timestamp).transpose()?,
        };
        let arguments = Object::payload(args, &self.default);
        let started = callweir::ManualCall::start(&self.core, name.into(), &arguments, options);
        let call = started.map_err(|error| to_py(py, &error))?;
        Ok(ManualCall {
            call,
            default: ByIdentity(self.default.clone()),
        })
    }

    /// Opens a scope under the current one or the one given; it is not made current.
    #[pyo3(signature = (name, scope_type, *, parent=None, input=None, metadata=None, attributes=None, data_schema=None, timestamp=None))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the keyword arguments of one Python function"
    )]
    fn open_scope(
        &self,
        py: Python<'_>,
        name: &str,
        scope_type: &Bound<'_, PyAny>,
        parent: Option<&ScopeHandle>,
        input: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        attributes: Option<Vec<String>>,
        data_schema: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ScopeHandle> {
        let shown = scope_type.cast::<PyString>()?.to_string();
        let category = shown.parse().map_err(|error| to_py(py, &error))?;
        let options = callweir::ScopeOptions {
            input: optional_json(input, &self.default)?,
            metadata: optional_json(metadata, &self.default)?,
            attributes: flags(attributes),
            data_schema: optional_json(data_schema, &self.default)?,
            timestamp: timestamp.map(self::timestamp).transpose()?,
        };
        let parent = given_or_current(py, parent)?;
        let opened = self.core.open_scope(name, category, parent, options);
        opened.map(ScopeHandle).map_err(|error| to_py(py, &error))
    }

    /// Emits a mark.
    #[pyo3(signature = (name, data=None, metadata=None, *, scope=None, data_schema=None, timestamp=None))]
    #[allow(
        clippy::too_many_arguments,
        reason = "the keyword arguments of one Python function"
    )]
    fn mark(
        &self,
        py: Python<'_>,
        name: &str,
        data: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        scope: Option<&ScopeHandle>,
        data_schema: Option<&Bound<'_, PyAny>>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mark = Mark {
            data: optional_json(data, &self.default)?,
            metadata: optional_json(metadata, &self.default)?,
            data_schema: optional_json(data_schema, &self.default)?,
            timestamp: timestamp.map(self::timestamp).transpose()?,
        };
        self.core.mark(name, given_or_current(py, scope)?.as_ref(), mark);
        Ok(())
    }

    /// Returns a scope that stands for one of another process.
    fn attach(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<ScopeHandle> {
        let read = to_json(value, &self.default).and_then(|json| Propagation::from_json(&json));
        read.map(|from| ScopeHandle(self.core.attach(&from)))
            .map_err(|error| to_py(py, &error))
    }

    /// Waits until everything emitted before is delivered; returns how many events are still pending.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<usize> {
        check_may_wait(py, true)?;
        let timeout = timeout_of(timeout)?;
        self.wait(py, move |runtime| {
            Box::pin(async move { runtime.flush(timeout).await })
        })
    }

    /// Like `flush`, awaitable.
    #[pyo3(signature = (timeout=None))]
    fn flush_async(&self, timeout: Option<f64>) -> PyResult<Drive> {
        let (runtime, timeout) = (self.core.clone(), timeout_of(timeout)?);
        Ok(Drive::start(move |py| {
            check_may_wait(py, false)?;
            let here = current_loop(py)?;
            Ok(Box::pin(async move {
                let flush = runtime.flush(timeout);
                if let Some(here) = here {
                    // What belongs to this loop is done at once, without another turn of it.
                    here.drain();
                }
                flush.await.map(Output::Count)
            }))
        }))
    }

    /// Ends what is open, delivers what is queued and stops; returns how many events were not delivered.
    #[pyo3(signature = (timeout=5.0))]
    fn shutdown(&self, py: Python<'_>, timeout: f64) -> PyResult<usize> {
        check_may_wait(py, true)?;
        let timeout = timeout_of(Some(timeout))?.unwrap_or(FAR);
        self.wait(py, move |runtime| {
            Box::pin(async move { runtime.shutdown(timeout).await })
        })
    }

    /// Like `shutdown`, awaitable.
    #[pyo3(signature = (timeout=5.0))]
    fn shutdown_async(&self, timeout: f64) -> PyResult<Drive> {
        let (runtime, timeout) = (self.core.clone(), timeout_of(Some(timeout))?.unwrap_or(FAR));
        Ok(Drive::start(move |py| {
            check_may_wait(py, false)?;
            Ok(Box::pin(async move {
                runtime.shutdown(timeout).await.map(Output::Count)
            }))
        }))
    }

    /// Whether the runtime has been shut down.
    #[getter]
    fn is_shut(&self) -> bool {
        self.core.is_shut()
    }

    /// Lists what is installed, with its owners.
    fn registrations<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        lines(py, &self.core.registrations_list())
    }

    /// Lists what applies to a call made here, in the order in which it runs.
    #[pyo3(signature = (kind, name, *, scope=None))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        name: &str,
        scope: Option<&ScopeHandle>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let _ = name;
        let scope = given_or_current(py, scope)?;
        let explained = self
            .core
            .explain(kind, scope.as_ref())
            .map_err(|error| to_py(py, &error))?;
        lines(py, &explained)
    }

    /// Returns the dispatcher's counters.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.core.counts();
        let dict = PyDict::new(py);
        dict.set_item("pending", counts.pending)?;
        dict.set_item("pending_bytes", counts.pending_bytes)?;
        dict.set_item("dropped", counts.dropped)?;
        dict.set_item("skipped", counts.skipped)?;
        dict.set_item("failures", counts.failures)?;
        Ok(dict)
    }
}

type Waited = std::pin::Pin<Box<dyn Future<Output = callweir::Result<usize>> + Send>>;

impl Runtime {
    /// Blocks this thread without the interpreter, waking now and then for signals.
    fn wait(&self, py: Python<'_>, start: impl FnOnce(callweir::Runtime) -> Waited) -> PyResult<usize> {
        let mut waiting = start(self.core.clone());
        loop {
            let until = Instant::now() + Duration::from_millis(100);
            let done = crate::drive::released(py, || callweir::block_until(waiting.as_mut(), Some(until)));
            match done {
                Some(result) => return result.map_err(|error| to_py(py, &error)),
                None => py.check_signals()?,
            }
        }
    }
}

fn flags(given: Option<Vec<String>>) -> Vec<Arc<str>> {
    given.unwrap_or_default().into_iter().map(Into::into).collect()
}
