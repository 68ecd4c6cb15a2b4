//! The registry's native half; the package's Python part gives it its shape.

use std::sync::Arc;

use callweir::{Arguments, DispatchRequest, Error, Provider, Registrable};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::call::{ScopeVariable, ToolContext};
use crate::drive::{Drive, Driven, Output};
use crate::error::{from_py, to_py};
use crate::foreign::{PyMiddleware, PyTool};
use crate::runtime::{Runtime, lines};
use crate::scope::{ScopeHandle, current, given_or_current};
use crate::statics::statics;
use crate::value::{Default, Object, from_json, from_text, optional_json, text};

/// What a registry tells about a tool.
#[pyclass(module = "callweir", frozen, from_py_object, name = "Descriptor")]
#[derive(Clone)]
pub(crate) struct Descriptor(pub(crate) Arc<callweir::Descriptor>);

#[pymethods]
impl Descriptor {
    #[new]
    #[pyo3(signature = (name, description="", parameters=None, *, read_only=false, idempotent=false))]
    fn new(
        name: String,
        description: &str,
        parameters: Option<&Bound<'_, PyAny>>,
        read_only: bool,
        idempotent: bool,
    ) -> PyResult<Self> {
        let parameters = optional_json(parameters, &Default::default())?;
        let parameters = parameters.unwrap_or_else(|| serde_json::json!({ "type": "object" }));
        let description = description.to_owned();
        Ok(Self(Arc::new(callweir::Descriptor {
            name: name.into(),
            description,
            parameters,
            read_only,
            idempotent,
        })))
    }

    /// The tool's name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// What the tool does.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// The JSON Schema of the arguments.
    #[getter]
    fn parameters(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        from_json(py, &self.0.parameters)
            .map(Bound::unbind)
            .map_err(|error| to_py(py, &error))
    }

    /// Whether the tool changes nothing.
    #[getter]
    fn read_only(&self) -> bool {
        self.0.read_only
    }

    /// Whether running the tool twice is as good as once.
    #[getter]
    fn idempotent(&self) -> bool {
        self.0.idempotent
    }

    /// Checks the names of arguments, as a dispatch does: a missing or unexpected one is `InvalidArgument`.
    fn check(&self, py: Python<'_>, arguments: Py<PyAny>) -> PyResult<()> {
        let arguments = Object::payload(arguments, &Default::default());
        self.0.check(&arguments).map_err(|error| to_py(py, &error))
    }

    fn __repr__(&self) -> String {
        format!("Descriptor({})", self.0.name)
    }
}

/// A tool made from a Python function.
#[pyclass(module = "callweir._native", frozen)]
pub(crate) struct NativeTool {
    descriptor: Arc<callweir::Descriptor>,
    function: Py<PyAny>,
    bind: Option<Py<PyAny>>,
    blocking: bool,
}

#[pymethods]
impl NativeTool {
    #[new]
    #[pyo3(signature = (descriptor, function, bind, blocking))]
    fn new(descriptor: &Descriptor, function: Py<PyAny>, bind: Option<Py<PyAny>>, blocking: bool) -> Self {
        Self {
            descriptor: descriptor.0.clone(),
            function,
            bind,
            blocking,
        }
    }
}

/// Turns what a signature's `bind` raised into the error that names the argument.
pub(crate) fn bind_error(py: Python<'_>, error: &PyErr) -> Error {
    let exception = error.value(py);
    let path = exception
        .getattr("path")
        .and_then(|path| path.extract::<String>());
    match path {
        Ok(path) => {
            let message = exception
                .getattr("message")
                .and_then(|message| message.extract::<String>());
            Error::invalid_argument(path, message.unwrap_or_else(|_| exception.to_string()))
        }
        Err(_) => from_py(py, error.clone_ref(py)),
    }
}

/// The native half of a registry.
#[pyclass(module = "callweir._native", frozen)]
pub(crate) struct NativeRegistry {
    registry: callweir::ToolRegistry,
    default: Default,
}

impl NativeRegistry {
    /// Takes arguments given as JSON text.
    fn text_arguments(&self, json: &Bound<'_, PyString>) -> PyResult<Arguments> {
        let shown = text(json);
        let escaped = shown
            .split("\\u")
            .skip(1)
            .any(|rest| rest.starts_with(['d', 'D']));
        if escaped || json.to_str().is_err() {
            let support = statics(json.py())?.support.bind(json.py());
            let parsed = support.call_method1("parse", (json,))?;
            if !parsed.is(support.getattr("NOT_PLAIN")?) {
                return Ok(Arguments::Value(Object::payload(parsed.unbind(), &self.default)));
            }
        }
        let default = self.default.clone();
        Ok(Arguments::Text(
            shown,
            Box::new(move |value| from_text(&value, &default)),
        ))
    }

    fn request(
        &self,
        name: &str,
        arguments: &Bound<'_, PyAny>,
        context: Option<&ToolContext>,
        extra: &Extra<'_, '_>,
    ) -> PyResult<DispatchRequest> {
        let arguments = match arguments.cast::<PyString>() {
            Ok(json) => self.text_arguments(json)?,
            Err(_) => Arguments::Value(Object::payload(arguments.clone().unbind(), &self.default)),
        };
        let context = context.map(ToolContext::core).unwrap_or_default();
        let mut request = DispatchRequest::new(name, arguments, context);
        request.parent = None;
        request.metadata = optional_json(extra.metadata, &self.default)?;
        request.tool_call_id = extra.tool_call_id.map(Into::into);
        request.current = Some(ScopeVariable::boxed());
        Ok(request)
    }

    /// Makes the awaitable of a call, which finds the scope around it when it is first awaited.
    fn drive(
        &self,
        name: &str,
        arguments: &Bound<'_, PyAny>,
        context: Option<&ToolContext>,
        extra: &Extra<'_, '_>,
        make: fn(callweir::ToolRegistry, DispatchRequest) -> Driven,
    ) -> PyResult<Drive> {
        let mut request = self.request(name, arguments, context, extra)?;
        let (registry, context) = (self.registry.clone(), request.context.clone());
        let drive = Drive::start(move |py| {
            request.parent = current(py)?;
            Ok(make(registry, request))
        });
        Ok(drive.under(&context))
    }
}

/// What a dispatch may be given beside the call itself.
struct Extra<'a, 'py> {
    metadata: Option<&'a Bound<'py, PyAny>>,
    tool_call_id: Option<&'a str>,
}

#[pymethods]
impl NativeRegistry {
    #[new]
    fn new(runtime: &Runtime) -> Self {
        let registry = callweir::ToolRegistry::with_runtime(runtime.core().clone());
        Self {
            registry,
            default: runtime.default(),
        }
    }

    /// Registers tools and registries: all or none.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what Python gives is extracted into a value"
    )]
    fn register(&self, py: Python<'_>, items: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let taken = items.iter().map(|item| {
            if let Ok(tool) = item.cast::<NativeTool>() {
                let tool = tool.get();
                let bind = tool.bind.as_ref().map(|bind| bind.clone_ref(py));
                let function = tool.function.clone_ref(py);
                let made = PyTool::new(
                    tool.descriptor.clone(),
                    function,
                    bind,
                    tool.blocking,
                    self.default.clone(),
                );
                return Ok(Registrable::from(made));
            }
            let inner = item
                .cast::<Self>()
                .map_err(|_| PyTypeError::new_err("expected a tool or a registry"))?;
            Ok(Registrable::Registry(inner.get().registry.clone()))
        });
        let taken = taken.collect::<PyResult<Vec<_>>>()?;
        self.registry
            .register_all(taken)
            .map(drop)
            .map_err(|error| to_py(py, &error))
    }

    /// Adds a middleware inside those that are there.
    fn use_middleware(&self, middleware: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        self.registry.use_any(Arc::new(PyMiddleware::new(
            middleware,
            &name.into(),
            &self.default,
        )?));
        Ok(())
    }

    /// Lists the middleware objects, outermost first.
    fn middleware(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let all = self.registry.middleware();
        let known = all
            .iter()
            .filter_map(|middleware| middleware.as_any().downcast_ref::<PyMiddleware>());
        known.map(|middleware| middleware.object.clone_ref(py)).collect()
    }

    /// Lists the tools' manifest entries.
    fn descriptors(&self) -> Vec<Descriptor> {
        self.registry.descriptors().into_iter().map(Descriptor).collect()
    }

    /// Copies the named tools and the middleware as they are now.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what Python gives is extracted into a value"
    )]
    fn subset(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Self> {
        let registry = self
            .registry
            .subset(names.iter().map(String::as_str))
            .map_err(|error| to_py(py, &error))?;
        Ok(Self {
            registry,
            default: self.default.clone(),
        })
    }

    /// Renders the tools for a provider, or neutrally.
    #[pyo3(signature = (provider=None))]
    fn manifest(&self, py: Python<'_>, provider: Option<&str>) -> PyResult<Py<PyAny>> {
        let rendered = provider.map(str::parse::<Provider>).transpose();
        let rendered = rendered.and_then(|provider| self.registry.manifest(provider));
        let rendered = rendered.and_then(|manifest| from_json(py, &manifest).map(Bound::unbind));
        rendered.map_err(|error| to_py(py, &error))
    }

    /// Lists what runs for a call to `name` made here.
    #[pyo3(signature = (name, scope=None))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        scope: Option<&ScopeHandle>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let scope = given_or_current(py, scope)?;
        let explained = self
            .registry
            .explain(name, scope.as_ref())
            .map_err(|error| to_py(py, &error))?;
        lines(py, &explained)
    }

    /// Makes a call; the awaitable gives the tool's own result.
    #[pyo3(signature = (name, arguments, context=None, *, metadata=None, tool_call_id=None))]
    fn dispatch(
        &self,
        name: &str,
        arguments: &Bound<'_, PyAny>,
        context: Option<&ToolContext>,
        metadata: Option<&Bound<'_, PyAny>>,
        tool_call_id: Option<&str>,
    ) -> PyResult<Drive> {
        let extra = Extra {
            metadata,
            tool_call_id,
        };
        self.drive(name, arguments, context, &extra, |registry, request| {
            Box::pin(async move { registry.dispatch_request(request).await.map(Output::Payload) })
        })
    }

    /// Makes a call; the awaitable gives the text `{"result": ...}`.
    #[pyo3(signature = (name, arguments, context=None, *, metadata=None, tool_call_id=None))]
    fn dispatch_json(
        &self,
        name: &str,
        arguments: &Bound<'_, PyAny>,
        context: Option<&ToolContext>,
        metadata: Option<&Bound<'_, PyAny>>,
        tool_call_id: Option<&str>,
    ) -> PyResult<Drive> {
        let extra = Extra {
            metadata,
            tool_call_id,
        };
        self.drive(name, arguments, context, &extra, |registry, request| {
            Box::pin(async move {
                callweir::foreign::dispatch_text(registry, request)
                    .await
                    .map(Output::Text)
            })
        })
    }
}
