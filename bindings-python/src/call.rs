//! Calls as Python sees them: the call object, its context, `next`, manual calls.

use std::time::{Duration, Instant};

use callweir::{CancellationToken, EndOptions, Outcome};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::drive::{Drive, Source};
use crate::error::{from_exception, to_py};
use crate::registry::Descriptor;
use crate::runtime::{deadline_of, timestamp};
use crate::scope::ScopeHandle;
use crate::value::{Default, Object, is_object, object_of};

/// A token that cancels the calls it was given to, once it is fired.
#[pyclass(module = "callweir", frozen, from_py_object, name = "Cancellation")]
#[derive(Clone)]
pub(crate) struct Cancellation(pub(crate) CancellationToken);

#[pymethods]
impl Cancellation {
    #[new]
    fn new() -> Self {
        Self(CancellationToken::new())
    }

    /// Cancels every call that was given the token, or one made from it.
    fn cancel(&self, py: Python<'_>) {
        // Waking the calls may enter Python from here; they must find the interpreter free.
        crate::drive::released(py, || self.0.cancel());
    }

    /// Whether the token has fired.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Returns a token that fires with this one, and can be fired alone.
    fn child(&self) -> Self {
        Self(self.0.child_token())
    }
}

/// Who makes a call and under which limits.
#[pyclass(module = "callweir", frozen, from_py_object, name = "ToolContext")]
#[derive(Clone)]
pub(crate) struct ToolContext(callweir::ToolContext);

impl ToolContext {
    pub(crate) fn of(context: callweir::ToolContext) -> Self {
        Self(context)
    }

    pub(crate) fn core(&self) -> callweir::ToolContext {
        self.0.clone()
    }
}

#[pymethods]
impl ToolContext {
    #[new]
    #[pyo3(signature = (caller_id=None, metadata=None, cancellation=None, deadline=None))]
    fn new(
        caller_id: Option<String>,
        metadata: Option<Py<PyAny>>,
        cancellation: Option<Cancellation>,
        deadline: Option<f64>,
    ) -> PyResult<Self> {
        let mut context = callweir::ToolContext::new();
        if let Some(caller_id) = caller_id {
            context = context.with_caller_id(caller_id);
        }
        if let Some(metadata) = metadata {
            context = context.with_metadata(Object::payload(metadata, &Default::default()));
        }
        if let Some(token) = cancellation {
            context = context.with_cancellation(token.0);
        }
        if let Some(deadline) = deadline {
            context = context.with_deadline(deadline_of(deadline)?);
        }
        Ok(Self(context))
    }

    /// The caller's id.
    #[getter]
    fn caller_id(&self) -> Option<&str> {
        self.0.caller_id().map(|id| &**id)
    }

    /// Metadata of the run, the very object that was given.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0
            .metadata()
            .map(|metadata| object_of(py, metadata))
            .transpose()
            .map_err(|error| to_py(py, &error))
    }

    /// The token that cancels the call.
    #[getter]
    fn cancellation(&self) -> Option<Cancellation> {
        self.0.cancellation().map(|token| Cancellation(token.clone()))
    }

    /// Seconds left until the deadline; less than 0 when it has passed.
    #[getter]
    fn deadline(&self) -> Option<f64> {
        let deadline = self.0.deadline()?;
        let now = Instant::now();
        Some(match deadline.checked_duration_since(now) {
            Some(left) => left.as_secs_f64(),
            None => -now.duration_since(deadline).as_secs_f64(),
        })
    }

    /// Returns a copy with another caller's id.
    fn with_caller_id(&self, caller_id: String) -> Self {
        Self(self.0.clone().with_caller_id(caller_id))
    }

    /// Returns a copy with other metadata.
    fn with_metadata(&self, metadata: Py<PyAny>) -> Self {
        Self(
            self.0
                .clone()
                .with_metadata(Object::payload(metadata, &Default::default())),
        )
    }

    /// Returns a copy with another token.
    fn with_cancellation(&self, cancellation: Cancellation) -> Self {
        Self(self.0.clone().with_cancellation(cancellation.0))
    }

    /// Returns a copy with a deadline in so many seconds, unless it has an earlier one.
    fn with_deadline(&self, deadline: f64) -> PyResult<Self> {
        Ok(Self(self.0.clone().with_deadline(deadline_of(deadline)?)))
    }

    fn __repr__(&self) -> String {
        match self.0.caller_id() {
            Some(id) => format!("ToolContext(caller_id={id:?})"),
            None => "ToolContext()".to_owned(),
        }
    }
}

/// One tool call on its way in.
#[pyclass(module = "callweir", frozen, name = "ToolCall")]
pub(crate) struct ToolCall {
    call: callweir::ToolCall,
    default: Default,
}

impl ToolCall {
    pub(crate) fn new(call: callweir::ToolCall, default: Default) -> Self {
        Self { call, default }
    }

    fn with(&self, call: callweir::ToolCall) -> Self {
        Self {
            call,
            default: self.default.clone(),
        }
    }
}

#[pymethods]
impl ToolCall {
    #[new]
    #[pyo3(signature = (name, arguments, context=None, descriptor=None))]
    fn make(
        name: String,
        arguments: Py<PyAny>,
        context: Option<ToolContext>,
        descriptor: Option<Descriptor>,
    ) -> Self {
        let default = Default::default();
        let context = context.map(|context| context.0).unwrap_or_default();
        let mut call = callweir::ToolCall::new(name, Object::payload(arguments, &default), context);
        if let Some(descriptor) = descriptor {
            call = call.with_descriptor(descriptor.0);
        }
        Self { call, default }
    }

    /// The tool's name; it cannot be changed.
    #[getter]
    fn name(&self) -> &str {
        self.call.name()
    }

    /// The arguments, as the stage before left them.
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object_of(py, self.call.arguments()).map_err(|error| to_py(py, &error))
    }

    /// Who makes the call.
    #[getter]
    fn context(&self) -> ToolContext {
        ToolContext(self.call.context().clone())
    }

    /// The tool's manifest entry; None outside a registry.
    #[getter]
    fn descriptor(&self) -> Option<Descriptor> {
        self.call
            .descriptor()
            .map(|descriptor| Descriptor(descriptor.clone()))
    }

    /// Returns the call with other arguments.
    fn with_arguments(&self, arguments: Py<PyAny>) -> Self {
        self.with(
            self.call
                .clone()
                .with_arguments(Object::payload(arguments, &self.default)),
        )
    }

    /// Returns the call with another context; a later deadline is ignored.
    fn with_context(&self, context: ToolContext) -> Self {
        self.with(self.call.clone().with_context(context.0))
    }

    /// Returns the call with another token.
    fn with_cancellation(&self, cancellation: Cancellation) -> Self {
        self.with(self.call.clone().with_cancellation(cancellation.0))
    }

    fn __repr__(&self) -> String {
        format!("ToolCall({})", self.call.name())
    }
}

/// The rest of a chain.
#[pyclass(module = "callweir", frozen, name = "Next")]
pub(crate) struct Next {
    rest: callweir::Next,
    /// The call whose arguments an intercept may replace; nothing for a middleware, which passes a call.
    call: Option<callweir::ToolCall>,
    default: Default,
}

impl Next {
    pub(crate) fn of_arguments(next: callweir::Next, call: callweir::ToolCall, default: Default) -> Self {
        Self {
            rest: next,
            call: Some(call),
            default,
        }
    }

    pub(crate) fn of_calls(next: callweir::Next, default: Default) -> Self {
        Self {
            rest: next,
            call: None,
            default,
        }
    }
}

#[pymethods]
impl Next {
    /// Runs the rest of the chain once the result is awaited; in a synchronous call it runs at once.
    fn __call__(&self, py: Python<'_>, argument: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let call = match &self.call {
            // Passing on what it got is the common case, and needs no new payload.
            Some(call) if is_object(call.arguments(), &argument) => call.clone(),
            Some(call) => call
                .clone()
                .with_arguments(Object::payload(argument.unbind(), &self.default)),
            None => {
                let call = argument.cast::<ToolCall>().map_err(|_| {
                    PyTypeError::new_err(
                        "next() takes the ToolCall that the middleware got, or an edited copy of it",
                    )
                })?;
                call.get().call.clone()
            }
        };
        let context = call.context().clone();
        let drive = Drive::new(Source::Next(self.rest.clone(), call)).under(&context);
        // Outside an event loop nothing could await the rest of the chain: there its result is given at once.
        if crate::drive::is_plain_thread() {
            return drive.block(py);
        }
        Ok(Py::new(py, drive)?.into_any())
    }
}

/// A call that the program runs itself.
#[pyclass(module = "callweir", frozen, name = "ManualCall", eq, hash)]
#[derive(PartialEq, Eq)]
pub(crate) struct ManualCall {
    pub(crate) call: callweir::ManualCall,
    pub(crate) default: ByIdentity,
}

/// A converter, which has no part in comparisons.
pub(crate) struct ByIdentity(pub(crate) Default);

impl PartialEq for ByIdentity {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ByIdentity {}

impl std::hash::Hash for ManualCall {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.call.scope().hash(state);
    }
}

#[pymethods]
impl ManualCall {
    /// The scope of the call.
    #[getter]
    fn scope(&self) -> ScopeHandle {
        ScopeHandle(self.call.scope().clone())
    }

    /// The id of the call.
    #[getter]
    fn uuid(&self) -> String {
        self.call.scope().uuid().to_string()
    }

    /// Ends the call.
    #[pyo3(signature = (result, *, error=None, outcome=None, timestamp=None))]
    fn end(
        &self,
        py: Python<'_>,
        result: Option<Py<PyAny>>,
        error: Option<Bound<'_, PyAny>>,
        outcome: Option<&str>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let outcome = outcome
            .map(str::parse::<Outcome>)
            .transpose()
            .map_err(|error| to_py(py, &error))?;
        let failed = error.is_some();
        let options = EndOptions {
            result: result
                .filter(|_| !failed)
                .map(|result| Object::payload(result, &self.default.0)),
            error: error.map(|error| from_exception(&error)),
            outcome,
            timestamp: timestamp_of(timestamp)?,
        };
        self.call.end(options).map_err(|error| to_py(py, &error))
    }
}

fn timestamp_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<std::time::SystemTime>> {
    given.map(timestamp).transpose()
}

/// Returns the call that this code runs in, or None.
#[pyfunction]
pub(crate) fn current_call(py: Python<'_>) -> PyResult<Option<ScopeHandle>> {
    let mut place = crate::scope::current(py)?;
    while let Some(scope) = place {
        if scope.is_call() {
            return Ok(Some(ScopeHandle(scope)));
        }
        place = scope.parent().cloned();
    }
    Ok(None)
}

/// Makes the scope of a call current in the task's context variables.
pub(crate) struct ScopeVariable(Option<Py<PyAny>>);

impl ScopeVariable {
    pub(crate) fn boxed() -> Box<dyn callweir::foreign::Current> {
        Box::new(Self(None))
    }
}

impl callweir::foreign::Current for ScopeVariable {
    fn enter(&mut self, scope: &callweir::Scope) {
        self.0 = crate::attach::attach(|py| crate::scope::set(py, scope).ok()).flatten();
    }
    fn leave(&mut self) {
        if let Some(token) = self.0.take() {
            // In another context than the one it was set in there is nothing to reset.
            let _ = crate::attach::attach(|py| crate::scope::reset(py, token));
        }
    }
}

/// The longest time that a deadline or time-out may be away; longer is as good as never.
pub(crate) const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 10);
