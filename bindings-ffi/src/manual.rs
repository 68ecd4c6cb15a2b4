//! Manual calls: the program runs the work and reports its start and end.

use callweir_core::{EndOptions, ManualCall, ManualOptions};

use crate::boundary::{check, end, fallible, reading};
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::runtime::callweir_runtime;
use crate::scope::{Moment, callweir_scope, flags, outcome, text_of, timestamp};
use crate::text::callweir_text;
use crate::value::callweir_value;

/// A call that the program runs itself.
pub enum callweir_manual {}
handle!(callweir_manual, 11, "manual", ManualCall);

/// Starts a tool call that the program runs itself, and queues its start event; never waits.
///
/// Options: `metadata`, `tool_call_id`, `attributes` (texts), `timestamp` (RFC 3339).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_tool_call(
    runtime: *const callweir_runtime,
    name: callweir_text,
    arguments: *const callweir_value,
    parent: *const callweir_scope,
    options: callweir_text,
    out: *mut *mut callweir_manual,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let (runtime, arguments, parent) = (
            handles::get(runtime)?,
            handles::get(arguments)?,
            Moment::of(parent)?,
        );
        let known = ["metadata", "tool_call_id", "attributes", "timestamp"];
        // SAFETY: the program's promises about texts.
        let (name, mut given) = unsafe { (name.need("name")?, options.options(&known)?) };
        let options = ManualOptions {
            parent: parent.scope.clone(),
            metadata: given.remove("metadata"),
            tool_call_id: text_of(&mut given, "tool_call_id")?.map(Into::into),
            attributes: flags(&mut given)?,
            timestamp: timestamp(&mut given)?,
        };
        let call = parent.enter(|| ManualCall::start(&runtime, name.into(), &arguments, options))?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(call)) };
        Ok(())
    })
}

/// Ends a call, with a result, an error, or neither; a second end fails.
///
/// Options: `outcome`, `timestamp` (RFC 3339).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_tool_call_end(
    call: *const callweir_manual,
    result: *const callweir_value,
    error: *const callweir_error,
    options: callweir_text,
) -> *mut callweir_error {
    fallible(|| {
        let (call, result, error) = (
            handles::get(call)?,
            handles::get_some(result)?,
            handles::get_some(error)?,
        );
        // SAFETY: the program's promises about texts.
        let mut given = unsafe { options.options(&["outcome", "timestamp"]) }?;
        call.end(EndOptions {
            result,
            error,
            outcome: outcome(&mut given)?,
            timestamp: timestamp(&mut given)?,
        })
    })
}

/// Returns the scope of the call: the parent for what happens inside it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_manual_scope(call: *const callweir_manual) -> *mut callweir_scope {
    reading(|| {
        handles::give_some(
            handles::get(call)
                .ok()
                .map(|call| Moment::now(Some(call.scope().clone()))),
        )
    })
}

/// Frees a handle of a manual call, which does not end it; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_manual_free(call: *mut callweir_manual) {
    end(call);
}
