//! Tool registries.

use std::sync::Arc;

use callweir_core::{
    Arguments, Descriptor, DispatchRequest, Error, Payload, Registrable, Result, Tool, ToolCall, ToolRegistry,
};
use serde_json::{Value, json};

use crate::boundary::{check, end, fallible};
use crate::call::{Given, callweir_call_options};
use crate::callback::{CTool, Callback, Middleware, callweir_callback};
use crate::context::callweir_context;
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::runtime::{callweir_runtime, lines};
use crate::scope::{Moment, callweir_scope};
use crate::task::{Task, callweir_task};
use crate::text::{callweir_string, callweir_text};
use crate::value::callweir_value;

/// Tools by name, with middleware around every call that is dispatched through it.
pub enum callweir_registry {}
handle!(callweir_registry, 12, "registry", ToolRegistry);

/// A tool of the program.
#[repr(C)]
pub struct callweir_tool {
    /// The name, compared byte by byte.
    pub name: callweir_text,
    /// What the tool does, for the model; may be absent.
    pub description: callweir_text,
    /// The JSON Schema of the arguments, an object; any arguments if absent.
    pub parameters: callweir_text,
    /// Whether the tool changes nothing.
    pub read_only: bool,
    /// Whether running it twice is as good as once.
    pub idempotent: bool,
    /// Does the work; asked at `CALLWEIR_STAGE_WORK`.
    pub run: callweir_callback,
}

unsafe fn tool_of(given: &callweir_tool) -> Result<Registrable> {
    // SAFETY: the program's promises about texts.
    let name = unsafe { given.name.need("name") };
    let shown = *name.as_ref().unwrap_or(&"");
    // SAFETY: the program's promises about pointers; taken first, so that `free` is called whatever fails.
    let run = unsafe { Callback::take(&raw const given.run, "tool", None, shown) }?;
    // SAFETY: the program's promises about texts.
    let (description, parameters) = unsafe {
        (
            given.description.read("description")?,
            given.parameters.json("parameters")?,
        )
    };
    let descriptor = Descriptor {
        name: name?.into(),
        description: description.unwrap_or_default().to_owned(),
        parameters: parameters.unwrap_or_else(|| json!({ "type": "object" })),
        read_only: given.read_only,
        idempotent: given.idempotent,
    };
    let tool: Arc<dyn Tool> = Arc::new(CTool {
        descriptor: Arc::new(descriptor),
        run,
    });
    Ok(Registrable::from(tool))
}

/// Reads `count` items of an array that may be NULL if there are none.
unsafe fn items<'a, T>(given: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if given.is_null() || !given.is_aligned() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::invalid_argument(
            format!("$.{what}"),
            "the array is NULL, or beyond memory",
        ));
    }
    // SAFETY: the program promises that `count` items are there.
    Ok(unsafe { std::slice::from_raw_parts(given, count) })
}

/// Makes an empty registry on a runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_registry_new(
    runtime: *const callweir_runtime,
    out: *mut *mut callweir_registry,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let registry = ToolRegistry::with_runtime(handles::get(runtime)?);
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(registry)) };
        Ok(())
    })
}

/// Registers tools, and all tools of other registries with their middleware: all of them, or none.
///
/// The callbacks of the tools are taken in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_registry_add(
    registry: *const callweir_registry,
    tools: *const callweir_tool,
    tool_count: usize,
    registries: *const *mut callweir_registry,
    registry_count: usize,
) -> *mut callweir_error {
    fallible(|| {
        // SAFETY: the program's promises about arrays.
        let (tools, registries) = unsafe {
            (
                items(tools, tool_count, "tools")?,
                items(registries, registry_count, "registries")?,
            )
        };
        // All are taken before the first mistake is told, so that each `free` is called.
        // SAFETY: the program's promises about what the structs hold.
        let made: Vec<_> = tools.iter().map(|tool| unsafe { tool_of(tool) }).collect();
        let registry = handles::get(registry)?;
        let mut all = made.into_iter().collect::<Result<Vec<_>>>()?;
        for inner in registries {
            all.push(handles::get(inner.cast_const())?.into());
        }
        registry.register_all(all).map(drop)
    })
}

/// Adds a middleware inside those that are there; `on_refused` may be NULL. Its callback is asked at
/// `CALLWEIR_STAGE_AROUND`, the other at `CALLWEIR_STAGE_REFUSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_registry_use(
    registry: *const callweir_registry,
    name: callweir_text,
    run: *const callweir_callback,
    on_refused: *const callweir_callback,
) -> *mut callweir_error {
    fallible(|| {
        // SAFETY: the program's promises about texts.
        let name = unsafe { name.need("name") };
        let shown = *name.as_ref().unwrap_or(&"");
        // SAFETY: the program's promises about pointers; both are taken first, so that each `free` is called.
        let (run, refused) = unsafe {
            (
                Callback::take(run, "middleware", None, shown),
                (!on_refused.is_null()).then(|| Callback::take(on_refused, "on_refused", None, shown)),
            )
        };
        name?;
        let middleware = Middleware {
            run: run?,
            refused: refused.transpose()?,
        };
        handles::get(registry)?.use_any(Arc::new(middleware));
        Ok(())
    })
}

/// Copies the named tools, and the middleware as it is now, into a registry of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_registry_subset(
    registry: *const callweir_registry,
    names: *const callweir_text,
    count: usize,
    out: *mut *mut callweir_registry,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let registry = handles::get(registry)?;
        // SAFETY: the program's promises about arrays and texts.
        let names = unsafe { items(names, count, "names") }?;
        // SAFETY: as above.
        let names = names
            .iter()
            .map(|name| unsafe { name.need("names") })
            .collect::<Result<Vec<_>>>()?;
        let subset = registry.subset(names)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(subset)) };
        Ok(())
    })
}

unsafe fn tell(
    registry: *const callweir_registry,
    out: *mut callweir_string,
    read: impl FnOnce(&ToolRegistry) -> Result<Value>,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let registry = handles::get(registry)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(callweir_string::own(read(&registry)?.to_string())) };
        Ok(())
    })
}

/// Tells the tools as a provider wants them, or neutrally if `provider` is absent, as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_registry_manifest(
    registry: *const callweir_registry,
    provider: callweir_text,
    out: *mut callweir_string,
) -> *mut callweir_error {
    let read = |registry: &ToolRegistry| {
        // SAFETY: the program's promises about texts.
        let provider = unsafe { provider.read("provider") }?;
        registry.manifest(provider.map(str::parse).transpose()?)
    };
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(registry, out, read) }
}

/// Tells the names of the middleware, outermost first, as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_registry_middleware(
    registry: *const callweir_registry,
    out: *mut callweir_string,
) -> *mut callweir_error {
    let read = |registry: &ToolRegistry| {
        Ok(registry
            .middleware()
            .iter()
            .map(|one| Value::from(&*one.name()))
            .collect())
    };
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(registry, out, read) }
}

/// Tells what runs for a call to `tool` made inside `scope`, NULL for none, as `callweir_runtime_explain` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_registry_explain(
    registry: *const callweir_registry,
    tool: callweir_text,
    scope: *const callweir_scope,
    out: *mut callweir_string,
) -> *mut callweir_error {
    let read = |registry: &ToolRegistry| {
        // SAFETY: the program's promises about texts.
        let tool = unsafe { tool.need("tool") }?;
        Ok(lines(&registry.explain(tool, Moment::of(scope)?.scope.as_ref())?))
    };
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(registry, out, read) }
}

fn dispatched(registry: ToolRegistry, tool: &str, arguments: Arguments, given: Given) -> *mut callweir_task {
    let mut request = DispatchRequest::new(tool, arguments, given.context);
    request.parent.clone_from(&given.moment.scope);
    request.metadata = given.metadata;
    request.tool_call_id = given.tool_call_id;
    Task::give(
        given.moment,
        async move { registry.dispatch_request(request).await },
    )
}

/// Makes the task of a managed call of a tool; NULL options are the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_dispatch(
    registry: *const callweir_registry,
    tool: callweir_text,
    arguments: *const callweir_value,
    options: *const callweir_call_options,
    out: *mut *mut callweir_task,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let (registry, arguments) = (handles::get(registry)?, handles::get(arguments)?);
        // SAFETY: the program's promises about texts and pointers.
        let (tool, given) = unsafe { (tool.need("tool")?, Given::read(options)?) };
        let task = dispatched(registry, tool, Arguments::Value(arguments), given);
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(task) };
        Ok(())
    })
}

/// Like `callweir_dispatch`, with arguments as JSON text, as models give them; text that is not JSON fails the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_dispatch_text(
    registry: *const callweir_registry,
    tool: callweir_text,
    arguments: callweir_text,
    options: *const callweir_call_options,
    out: *mut *mut callweir_task,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let registry = handles::get(registry)?;
        // SAFETY: the program's promises about texts and pointers.
        let (tool, text, given) = unsafe {
            (
                tool.need("tool")?,
                arguments.need("arguments")?,
                Given::read(options)?,
            )
        };
        let task = dispatched(registry, tool, Arguments::from(text), given);
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(task) };
        Ok(())
    })
}

/// Makes the task of a tool alone: no middleware, not a managed call, no event. A NULL context is an empty one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_tool_run(
    registry: *const callweir_registry,
    tool: callweir_text,
    arguments: *const callweir_value,
    context: *const callweir_context,
    out: *mut *mut callweir_task,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let (registry, arguments) = (handles::get(registry)?, handles::get(arguments)?);
        let context = handles::get_some(context)?.unwrap_or_default();
        // SAFETY: the program's promises about texts.
        let name = unsafe { tool.need("tool") }?;
        // The registry knows better than this door why a tool is not there.
        registry.explain(name, None)?;
        let tool = registry
            .get(name)
            .ok_or_else(|| Error::internal("the tool was just there"))?;
        let call = ToolCall::new(name, arguments, context).with_descriptor(tool.descriptor().clone());
        let task = Task::give(Moment::now(None), async move {
            tool.descriptor().check(call.arguments())?;
            let step = tool.run(call);
            step.settle().await as Result<Payload>
        });
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(task) };
        Ok(())
    })
}

/// Frees a handle of a registry; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_registry_free(registry: *mut callweir_registry) {
    end(registry);
}
