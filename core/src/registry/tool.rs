//! Tools: a name, a description, a schema for the arguments, and the work.

use std::collections::HashSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ToolRegistry;
use crate::call::{Descriptor, ToolCall, ToolContext};
use crate::chain::{BoxFuture, Step, Work};
use crate::error::{Error, Result};
use crate::value::{Payload, check_finite, path_key};

impl Descriptor {
    /// Checks that arguments are an object with the required names and no unexpected ones, as dispatching does.
    pub fn check(&self, arguments: &Payload) -> Result<()> {
        Parameters::of(&self.parameters)?.check(arguments)
    }
}

/// A tool that a registry can hold.
pub trait Tool: Send + Sync + 'static {
    /// Returns what the registry tells about the tool.
    fn descriptor(&self) -> &Arc<Descriptor>;

    /// Does the work.
    fn run(&self, call: ToolCall) -> Step<Payload>;
}

/// Name, description and flags of a tool that is being defined.
#[derive(Clone, Debug, Default)]
pub struct ToolSpec {
    name: String,
    description: String,
    read_only: bool,
    idempotent: bool,
}

impl ToolSpec {
    /// Starts the definition of a tool.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            ..Self::default()
        }
    }

    /// Says that the tool changes nothing.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Says that running the tool twice is as good as once.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Makes a tool from a function over a struct; the schema is derived from the struct.
    pub fn function<I, O, F, R>(self, function: F) -> FunctionTool
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + 'static,
        F: Fn(I, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O>> + Send + 'static,
    {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .with(|settings| settings.inline_subschemas = true)
            .into_generator()
            .into_root_schema_for::<I>();
        let mut parameters = schema.to_value();
        if let Value::Object(map) = &mut parameters {
            // What only describes the schema document itself is no use to a model.
            map.shift_remove("$schema");
            map.shift_remove("title");
        }
        self.json(parameters, move |call| {
            let arguments = call.arguments().parse::<I>();
            let running = arguments.map(|arguments| function(arguments, call.context().clone()));
            async move {
                let output = running?.await?;
                check_finite(&output)?;
                Ok(Payload::from(serde_json::to_value(output).map_err(not_json)?))
            }
        })
    }

    /// Makes a tool from a JSON Schema and a function over the call.
    pub fn json<F, R>(self, parameters: Value, function: F) -> FunctionTool
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Payload>> + Send + 'static,
    {
        let Self {
            name,
            description,
            read_only,
            idempotent,
        } = self;
        let descriptor = Descriptor {
            name: name.into(),
            description,
            parameters,
            read_only,
            idempotent,
        };
        FunctionTool {
            descriptor: Arc::new(descriptor),
            function: Arc::new(move |call| Box::pin(function(call))),
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn not_json(error: serde_json::Error) -> Error {
    Error::not_json("$", error.to_string())
}

/// A tool made from a Rust function.
#[derive(Clone)]
pub struct FunctionTool {
    descriptor: Arc<Descriptor>,
    function: Arc<dyn Fn(ToolCall) -> BoxFuture<Result<Payload>> + Send + Sync>,
}

impl FunctionTool {
    /// Runs the tool directly: no middleware, not a managed call, no event.
    pub async fn execute_with(&self, arguments: impl Into<Payload>, context: ToolContext) -> Result<Payload> {
        let call = ToolCall::new(self.descriptor.name.clone(), arguments, context);
        self.descriptor.check(call.arguments())?;
        self.run(call).settle().await
    }
}

impl Tool for FunctionTool {
    fn descriptor(&self) -> &Arc<Descriptor> {
        &self.descriptor
    }

    fn run(&self, call: ToolCall) -> Step<Payload> {
        Step::Later((self.function)(call))
    }
}

/// A registered tool.
pub(super) struct ToolEntry {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) descriptor: Arc<Descriptor>,
    parameters: Arc<Parameters>,
    /// The registries that it came through, outermost first.
    pub(super) through: Vec<ToolRegistry>,
}

impl ToolEntry {
    pub(super) fn new(tool: Arc<dyn Tool>) -> Result<Self> {
        let descriptor = tool.descriptor().clone();
        if descriptor.name.is_empty() {
            return Err(Error::invalid_argument("$.name", "a tool needs a name"));
        }
        let parameters = Arc::new(Parameters::of(&descriptor.parameters).map_err(|error| {
            let path = error.field("path").unwrap_or("$.parameters").to_owned();
            Error::invalid_argument(path, format!("tool '{}': {error}", descriptor.name))
        })?);
        Ok(Self {
            tool,
            descriptor,
            parameters,
            through: Vec::new(),
        })
    }

    /// Returns the entry as it is inside a registry that is registered into another.
    pub(super) fn inside(&self, registry: &ToolRegistry) -> Self {
        let through = std::iter::once(registry.clone())
            .chain(self.through.iter().cloned())
            .collect();
        let (tool, descriptor) = (self.tool.clone(), self.descriptor.clone());
        Self {
            tool,
            descriptor,
            parameters: self.parameters.clone(),
            through,
        }
    }
}

/// The innermost part of a dispatched call: the arguments are checked, then the tool runs.
pub(super) struct ToolWork(pub(super) Arc<ToolEntry>);

impl Work for ToolWork {
    fn run(&self, call: ToolCall) -> Step<Payload> {
        match self.0.parameters.check(call.arguments()) {
            Ok(()) => self.0.tool.run(call),
            Err(error) => Step::Ready(Err(of_tool(&error, call.name()))),
        }
    }
}

/// Says of which tool an argument is.
fn of_tool(error: &Error, tool: &str) -> Error {
    let path = error.field("path").unwrap_or("$").to_owned();
    let text = error.to_string();
    let message = text
        .strip_prefix(&format!("{path}: "))
        .unwrap_or(&text)
        .to_owned();
    Error::invalid_argument(path, format!("{message} (tool '{tool}')"))
}

/// The names of a tool's parameters.
pub(crate) struct Parameters {
    required: Vec<String>,
    known: HashSet<String>,
    /// Whether names beside the known ones are allowed.
    open: bool,
}

impl Parameters {
    /// Reads the names out of a schema.
    ///
    /// A schema that lists properties allows no others, unless it says so with `additionalProperties` or
    /// `patternProperties`.
    pub(crate) fn of(schema: &Value) -> Result<Self> {
        let Value::Object(schema) = schema else {
            return Err(Error::invalid_argument(
                "$.parameters",
                "the schema is not an object",
            ));
        };
        if let Some(kind) = schema.get("type").filter(|kind| kind.as_str() != Some("object")) {
            return Err(Error::invalid_argument(
                "$.parameters.type",
                format!("expected \"object\", not {kind}"),
            ));
        }
        let known = match schema.get("properties") {
            Some(Value::Object(properties)) => Some(properties.keys().cloned().collect::<HashSet<_>>()),
            Some(_) => {
                return Err(Error::invalid_argument(
                    "$.parameters.properties",
                    "expected an object",
                ));
            }
            None => None,
        };
        let required = match schema.get("required") {
            Some(Value::Array(names)) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect(),
            Some(_) => None,
            None => Some(Vec::new()),
        };
        let required = required
            .ok_or_else(|| Error::invalid_argument("$.parameters.required", "expected an array of names"))?;
        let open = match schema.get("additionalProperties") {
            Some(extra) => extra != &Value::Bool(false),
            None => known.is_none() || schema.contains_key("patternProperties"),
        };
        Ok(Self {
            required,
            known: known.unwrap_or_default(),
            open,
        })
    }

    /// Checks that the arguments are an object with the required names and no unexpected ones.
    pub(crate) fn check(&self, arguments: &Payload) -> Result<()> {
        let mut missing: Vec<_> = self.required.iter().map(String::as_str).collect();
        let mut unexpected = None;
        let is_object = arguments.keys(&mut |key| {
            missing.retain(|name| *name != key);
            if !self.open && unexpected.is_none() && !self.known.contains(key) {
                unexpected = Some(path_key("$", key));
            }
        });
        if !is_object {
            return Err(Error::invalid_argument("$", "the arguments are not an object"));
        }
        if let Some(name) = missing.first() {
            return Err(Error::invalid_argument(
                path_key("$", name),
                "the argument is missing",
            ));
        }
        match unexpected {
            Some(path) => Err(Error::invalid_argument(path, "the tool has no such argument")),
            None => Ok(()),
        }
    }
}
