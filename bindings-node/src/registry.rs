//! Registries by their ids: tools, middleware, dispatching.

use std::sync::Arc;

use callweir::{Arguments as Given, DispatchRequest, Error, Provider, Registrable, Result, ToolRegistry};
use serde::Deserialize;
use serde_json::Value;

use crate::call::{TaskScope, context_of};
use crate::drive::{Driven, Output, Task, launch};
use crate::foreign::{NodeMiddleware, NodeTool};
use crate::instance::{Instance, Local};
use crate::js::{NOTHING, Raw};
use crate::native::Arguments;
use crate::runtime::{lines, runtime_of};
use crate::scope::given_scope;
use crate::value::{Default, Object, Slot, from_text};

fn registry_of(local: &Local, given: &Arguments<'_>, index: usize) -> Result<(ToolRegistry, Default)> {
    let known = local.registries.borrow().get(&given.id(index)?).cloned();
    known.ok_or_else(|| Error::internal("no registry of this id"))
}

#[allow(clippy::cast_precision_loss, reason = "ids stay far below 2^53")]
fn keep(local: &Local, registry: ToolRegistry, default: Default) -> Raw {
    let id = local.new_id();
    local.registries.borrow_mut().insert(id, (registry, default));
    local.js.number(id as f64)
}

/// Makes an empty registry: `(runtime)`.
pub(crate) fn make(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, default) = runtime_of(local, given, 0)?;
    Ok(keep(local, ToolRegistry::with_runtime(runtime), default))
}

/// Lets go of a registry that JavaScript no longer refers to.
pub(crate) fn forget(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let gone = local.registries.borrow_mut().remove(&given.id(0)?);
    drop(gone);
    Ok(NOTHING)
}

/// One thing to register, as JavaScript describes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Described {
    Registry {
        registry: u64,
    },
    #[serde(rename_all = "camelCase")]
    Tool {
        function: u32,
        name: String,
        description: String,
        parameters: Value,
        read_only: bool,
        idempotent: bool,
    },
}

/// Registers tools and registries, all or none: `(registry, JSON)`.
pub(crate) fn register(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (registry, default) = registry_of(local, given, 0)?;
    let described: Vec<Described> = read(&given.text(1)?)?;
    let items = described.into_iter().map(|item| match item {
        Described::Registry { registry } => {
            let inner = local
                .registries
                .borrow()
                .get(&registry)
                .map(|(inner, _)| inner.clone());
            inner
                .map(Registrable::Registry)
                .ok_or_else(|| Error::internal("no registry of this id"))
        }
        Described::Tool {
            function,
            name,
            description,
            parameters,
            read_only,
            idempotent,
        } => {
            let descriptor = callweir::Descriptor {
                name: name.into(),
                description,
                parameters,
                read_only,
                idempotent,
            };
            let function = Slot::new(instance, function);
            Ok(Registrable::from(NodeTool::new(
                instance,
                Arc::new(descriptor),
                function,
                &default,
            )))
        }
    });
    // All are made before any fails: each owns a place of the table from here on.
    let items: Vec<Result<Registrable>> = items.collect();
    registry.register_all(items.into_iter().collect::<Result<Vec<_>>>()?)?;
    Ok(NOTHING)
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::internal(error.to_string()))
}

/// Checks the names of arguments as a dispatch does: `(parameters, arguments)`.
pub(crate) fn check(_: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let arguments = Object::payload(given.slot(1)?, &Default::default());
    let descriptor = callweir::Descriptor {
        name: "".into(),
        description: String::new(),
        parameters: given.json_or_none(0)?.unwrap_or_default(),
        read_only: false,
        idempotent: false,
    };
    descriptor.check(&arguments)?;
    Ok(NOTHING)
}

/// Adds a middleware inside those that are there: `(registry, name, run, on refused)`.
pub(crate) fn use_middleware(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (run, on_refused) = (given.slot(2)?, given.slot_or_none(3));
    let (registry, default) = registry_of(local, given, 0)?;
    let made = NodeMiddleware::new(instance, &given.text(1)?, run, on_refused, &default);
    registry.use_any(Arc::new(made));
    Ok(NOTHING)
}

/// Copies the named tools and the middleware as they are now: `(registry, JSON)`.
pub(crate) fn subset(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (registry, default) = registry_of(local, given, 0)?;
    let names: Vec<String> = read(&given.text(1)?)?;
    let subset = registry.subset(names.iter().map(String::as_str))?;
    Ok(keep(local, subset, default))
}

/// Renders the tools for a provider, or neutrally, as JSON: `(registry, provider)`.
pub(crate) fn manifest(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (registry, _) = registry_of(local, given, 0)?;
    let provider = given
        .text_or_none(1)
        .map(|provider| provider.parse::<Provider>())
        .transpose()?;
    Ok(local.js.text(&registry.manifest(provider)?.to_string()))
}

/// Lists what runs for a call to a tool, as JSON: `(registry, tool, scope)`.
pub(crate) fn explain(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (registry, _) = registry_of(local, given, 0)?;
    let scope = given_scope(local, given, 2);
    Ok(local
        .js
        .text(&lines(&registry.explain(&given.text(1)?, scope.as_ref())?)))
}

/// Calls a tool: `(object, registry, name, arguments, JSON text, as text, parent, metadata, tool call id,
/// context...)`.
pub(crate) fn dispatch(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (object, arguments) = (given.slot(0)?, given.slot_or_none(3));
    let mut task = Task::new(object, None);
    let (context, token) = context_of(given, 9)?;
    task.token = token;
    let (registry, default) = registry_of(local, given, 1)?;
    let arguments = match arguments {
        Some(slot) => Given::Value(Object::payload(slot, &default)),
        None => {
            let instance = instance.clone();
            let wrap = move |value| from_text(&instance, &value, &default);
            Given::Text(given.text(4)?, Box::new(wrap))
        }
    };
    let mut request = DispatchRequest::new(given.text(2)?, arguments, context);
    request.parent = given_scope(local, given, 6);
    request.metadata = given.json_or_none(7)?;
    request.tool_call_id = given.text_or_none(8).map(Into::into);
    request.current = Some(Box::new(TaskScope {
        instance: instance.clone(),
        task: task.id(),
    }));
    let as_text = given.flag(5);
    launch(instance, task, || {
        Ok(if as_text {
            Driven::other(async move {
                let text = callweir::foreign::dispatch_text(registry, request);
                text.await.map(Output::Text)
            })
        } else {
            Driven::Call(Box::pin(async move { registry.dispatch_request(request).await }))
        })
    })
}
