//! Managed calls, single phases, and `next`.

use std::sync::Arc;

use callweir_core::foreign::Work;
use callweir_core::{Error, Invocation, Next, Payload, Result, ToolCall, ToolContext};
use serde_json::Value;

use crate::boundary::{check, end, fallible};
use crate::callback::{Callback, Entry, callweir_callback};
use crate::context::callweir_context;
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::runtime::callweir_runtime;
use crate::scope::{Moment, callweir_scope};
use crate::task::{Task, callweir_task};
use crate::text::callweir_text;
use crate::value::callweir_value;

/// The rest of a chain, as an execution intercept or middleware gets it.
pub enum callweir_next {}
handle!(callweir_next, 10, "next", NextHandle);

/// A `next`, and the call that it passes on where nothing else is given.
#[derive(Clone)]
pub(crate) struct NextHandle {
    pub(crate) next: Next,
    pub(crate) call: Option<ToolCall>,
    pub(crate) moment: Moment,
}

/// What a call may be given beside name and arguments.
#[repr(C)]
pub struct callweir_call_options {
    /// Who calls and under which limits; NULL for none.
    pub context: *const callweir_context,
    /// The scope around the call; NULL for none.
    pub scope: *const callweir_scope,
    /// Free metadata for start and end event, JSON text.
    pub metadata: callweir_text,
    /// The id that the model gave the call.
    pub tool_call_id: callweir_text,
}

/// The same, read.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) context: ToolContext,
    pub(crate) moment: Moment,
    pub(crate) metadata: Option<Value>,
    pub(crate) tool_call_id: Option<Arc<str>>,
}

impl Given {
    pub(crate) unsafe fn read(options: *const callweir_call_options) -> Result<Self> {
        // SAFETY: the program's promises about pointers.
        let Some(given) = (unsafe { options.as_ref() }) else {
            return Ok(Self {
                moment: Moment::now(None),
                ..Self::default()
            });
        };
        // SAFETY: the program's promises about texts.
        let (metadata, id) = unsafe {
            (
                given.metadata.json("metadata")?,
                given.tool_call_id.read("tool_call_id")?,
            )
        };
        Ok(Self {
            context: handles::get_some(given.context)?.unwrap_or_default(),
            moment: Moment::of(given.scope)?,
            metadata,
            tool_call_id: id.map(Into::into),
        })
    }
}

/// Makes the task of a managed call; `work` is asked at the stage `CALLWEIR_STAGE_WORK`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_execute(
    runtime: *const callweir_runtime,
    name: callweir_text,
    arguments: *const callweir_value,
    work: *const callweir_callback,
    options: *const callweir_call_options,
    out: *mut *mut callweir_task,
) -> *mut callweir_error {
    fallible(|| {
        // SAFETY: the program's promises about pointers; taken first, so that `free` is called whatever fails.
        let work = unsafe { Callback::take(work, "work", None, "work") }?;
        check(out)?;
        let (runtime, arguments) = (handles::get(runtime)?, handles::get(arguments)?);
        // SAFETY: the program's promises about texts and pointers.
        let (name, given) = unsafe { (name.need("name")?, Given::read(options)?) };
        let mut call = Invocation::new(name, arguments, Arc::new(Entry(work)) as Arc<dyn Work>);
        call.context = given.context;
        call.parent.clone_from(&given.moment.scope);
        call.metadata = given.metadata;
        call.tool_call_id = given.tool_call_id;
        let task = Task::give(given.moment, call.execute(runtime));
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(task) };
        Ok(())
    })
}

/// Makes the task that runs the guardrails of a tool call and nothing else; its value is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_conditional_execution(
    runtime: *const callweir_runtime,
    name: callweir_text,
    arguments: *const callweir_value,
    scope: *const callweir_scope,
    out: *mut *mut callweir_task,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let (runtime, arguments, moment) = (
            handles::get(runtime)?,
            handles::get(arguments)?,
            Moment::of(scope)?,
        );
        // SAFETY: the program's promises about texts.
        let name = unsafe { name.need("name") }?.into();
        let asked = callweir_core::conditional_execution(runtime, moment.scope.clone(), name, arguments);
        let task = Task::give(
            moment,
            async move { asked.await.map(|()| Payload::from(Value::Null)) },
        );
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(task) };
        Ok(())
    })
}

/// Makes the task that runs the request intercepts of a tool call and nothing else; its value is the arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_intercepts(
    runtime: *const callweir_runtime,
    name: callweir_text,
    arguments: *const callweir_value,
    scope: *const callweir_scope,
    out: *mut *mut callweir_task,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let (runtime, arguments, moment) = (
            handles::get(runtime)?,
            handles::get(arguments)?,
            Moment::of(scope)?,
        );
        // SAFETY: the program's promises about texts.
        let name = unsafe { name.need("name") }?.into();
        let asked = callweir_core::request_intercepts(runtime, moment.scope.clone(), name, arguments);
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(Task::give(moment, asked)) };
        Ok(())
    })
}

/// Makes the task of a `next`; NULL arguments or context are those of the call.
///
/// It is to be run before the callback has answered: afterwards it fails as expired.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_next_run(
    next: *const callweir_next,
    arguments: *const callweir_value,
    context: *const callweir_context,
    out: *mut *mut callweir_task,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let next = handles::get(next)?;
        let (arguments, context) = (handles::get_some(arguments)?, handles::get_some(context)?);
        let mut call = match next.call {
            Some(call) => call,
            None => ToolCall::new("next", Payload::from(Value::Null), ToolContext::new()),
        };
        if let Some(context) = context {
            call = call.with_context(context);
        }
        if let Some(arguments) = arguments {
            call = call.with_arguments(arguments);
        }
        let rest = next.next;
        let task = Task::give(next.moment, async move { rest.run(call).await });
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(task) };
        Ok(())
    })
}

/// Makes a `next` by hand, to test a middleware alone; the callback is asked at the stage `CALLWEIR_STAGE_WORK`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_next_new(
    callback: *const callweir_callback,
    out: *mut *mut callweir_next,
) -> *mut callweir_error {
    fallible(|| {
        // SAFETY: the program's promises about pointers.
        let callback = unsafe { Callback::take(callback, "next", None, "next") }?;
        check(out)?;
        let next = Next::from_fn(move |call| {
            let step = callback.work(&call);
            async move { step.settle().await }
        });
        let handle = NextHandle {
            next,
            call: None,
            moment: Moment::now(None),
        };
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(handle)) };
        Ok(())
    })
}

/// Makes the task of a middleware alone, around a `next` made by hand; a NULL context is an empty one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_middleware_run(
    middleware: *const callweir_callback,
    name: callweir_text,
    arguments: *const callweir_value,
    context: *const callweir_context,
    next: *const callweir_next,
    out: *mut *mut callweir_task,
) -> *mut callweir_error {
    fallible(|| {
        // SAFETY: the program's promises about pointers.
        let callback = unsafe { Callback::take(middleware, "middleware", None, "middleware") }?;
        check(out)?;
        let (arguments, next) = (handles::get(arguments)?, handles::get(next)?);
        let context = handles::get_some(context)?.unwrap_or_default();
        // SAFETY: the program's promises about texts.
        let name = unsafe { name.need("name") }?;
        if name.is_empty() {
            return Err(Error::invalid_argument("$.name", "the name is empty"));
        }
        let call = ToolCall::new(name, arguments, context);
        let task = Task::give(Moment::now(None), async move {
            callback.around(&call, next.next).settle().await
        });
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(task) };
        Ok(())
    })
}

/// Frees a handle of a `next`; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_next_free(next: *mut callweir_next) {
    end(next);
}
