//! The Node door: conversion, driving, callbacks and idiom; all behaviour is the core's.
//!
//! The addon exports one function, `connect`, which the package's JavaScript gives the functions that callbacks are
//! called through. It answers with the native functions, of which [`FUNCTIONS`] is the list.

mod call;
mod drive;
mod error;
mod events;
mod foreign;
mod host;
mod instance;
mod js;
mod native;
mod registry;
mod runtime;
mod scope;
mod slab;
mod value;

use std::ptr;
use std::sync::Arc;

use callweir::Result;
use napi_sys as sys;

use foreign::{Answer, How};
use instance::{Instance, Shared};
use js::{Js, NOTHING, Raw};
use native::{Arguments, Function};

/// A call and its events are many small objects; the system's allocator was a third of their cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Every native function; `ts/native.ts` declares them.
const FUNCTIONS: &[Function] = &[
    ("execute", 1, runtime::execute),
    ("executeWith", 12, runtime::execute_with),
    ("dispatch", 13, registry::dispatch),
    ("proceed", 0, call::proceed),
    ("proceedWith", 9, call::proceed_with),
    ("settle", 0, settle),
    ("poll", 0, poll),
    ("nextAction", 0, next_action),
    ("forgetTask", 0, forget_task),
    ("cancel", 2, call::cancel),
    ("helper", 6, runtime::helper),
    ("flush", 5, runtime::flush),
    ("exit", 0, runtime::exit),
    ("drain", 0, host::drain),
    ("nextWoken", 0, next_woken),
    ("nextAbandoned", 0, next_abandoned),
    ("listFreed", 0, list_freed),
    ("makeRuntime", 2, runtime::make),
    ("forgetRuntime", 1, runtime::forget),
    ("configure", 3, runtime::configure),
    ("register", 7, runtime::register),
    ("deregister", 4, runtime::deregister),
    ("subscribe", 5, runtime::subscribe),
    ("unsubscribe", 3, runtime::unsubscribe),
    ("exportJsonl", 3, runtime::export_jsonl),
    ("registrations", 1, runtime::registrations),
    ("explain", 3, runtime::explain),
    ("counts", 1, runtime::counts),
    ("isShut", 1, runtime::is_shut),
    ("mark", 7, runtime::mark),
    ("startCall", 8, runtime::start_call),
    ("callScope", 1, runtime::call_scope),
    ("endCall", 5, runtime::end_call),
    ("forgetCall", 1, runtime::forget_call),
    ("openScope", 9, scope::open),
    ("closeScope", 6, scope::close),
    ("scopeFacts", 1, scope::facts),
    ("scopeIsOpen", 1, scope::is_open),
    ("scopePropagation", 1, scope::propagation),
    ("scopeOfTask", 1, scope::of_task),
    ("endedScope", 8, scope::ended),
    ("attach", 2, scope::attach),
    ("forgetScope", 1, scope::forget),
    ("makeRegistry", 1, registry::make),
    ("forgetRegistry", 1, registry::forget),
    ("registerTools", 2, registry::register),
    ("useMiddleware", 4, registry::use_middleware),
    ("subset", 2, registry::subset),
    ("manifest", 2, registry::manifest),
    ("explainTool", 3, registry::explain),
    ("checkArguments", 2, registry::check),
    ("describeKind", 2, describe),
    ("modelText", 1, for_model),
    ("argumentError", 2, argument_error),
    ("notJson", 2, not_json),
    ("cancelledError", 0, cancelled_error),
];

/// Takes a callback's late answer; the shared numbers are frame, how, answer.
fn settle(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let slot = given
        .given_slot(local, 2)
        .ok_or_else(|| native::wrong(2, "a place"))?;
    let how = How::of(local.given(1));
    drive::settle(instance, Arguments::given_id(local, 0), Answer { how, slot })
}

/// Polls a task; the shared number is the task's.
fn poll(instance: &Arc<Instance>, _: &Arguments<'_>) -> Result<Raw> {
    drive::poll(instance, Arguments::given_id(instance.here()?, 0))
}

/// Says which callback of a task comes next, while the one before has not answered; the shared number is the task's.
fn next_action(instance: &Arc<Instance>, _: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    Ok(drive::next_action(local, Arguments::given_id(local, 0)))
}

/// Gives up a task that JavaScript could not go on with; the shared number is the task's.
fn forget_task(instance: &Arc<Instance>, _: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    drive::forget(instance, local, Arguments::given_id(local, 0));
    Ok(NOTHING)
}

/// Answers the place of a task that was woken, or nothing when there are no more.
fn next_woken(instance: &Arc<Instance>, _: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    instance.take_remote()?;
    loop {
        let (next, left) = {
            let mut woken = local.woken.borrow_mut();
            (woken.pop_front(), woken.len())
        };
        local.set(Shared::Woken, i32::try_from(left).unwrap_or(i32::MAX));
        let Some(task) = next else {
            return Ok(NOTHING);
        };
        if let Some(task) = local.tasks.borrow_mut().get_mut(task) {
            return Ok(local.js.number(task.object.place()));
        }
    }
}

/// Answers the place of a task that was given up, or nothing when there are no more.
fn next_abandoned(instance: &Arc<Instance>, _: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (next, left) = {
        let mut abandoned = local.abandoned.borrow_mut();
        (abandoned.pop_front(), abandoned.len())
    };
    local.set(Shared::Abandoned, i32::try_from(left).unwrap_or(i32::MAX));
    // The place is free from here on, and JavaScript reads it before it fills it anew.
    Ok(next.map_or(local.js.undefined(), |object| local.js.number(object.place())))
}

/// Lists more places that are free again.
fn list_freed(instance: &Arc<Instance>, _: &Arguments<'_>) -> Result<Raw> {
    instance.list_freed()?;
    Ok(NOTHING)
}

/// Returns the text of an error of Callweir's own: `(kind, fields as JSON)`.
fn describe(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let text = error::describe(&given.text(0)?, &given.text(1)?);
    Ok(instance.here()?.js.text(&text))
}

/// Returns the text that a model may read of a thrown value.
fn for_model(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let error = error::from_thrown(local, given.slot(0)?);
    Ok(local.js.text(&error.for_model()))
}

/// Fails with the error of an argument: `(path, message)`.
fn argument_error(_: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    Err(callweir::Error::invalid_argument(given.text(0)?, given.text(1)?))
}

/// Fails with the error of a value that is not JSON: `(path, message)`.
fn not_json(_: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    Err(callweir::Error::not_json(given.text(0)?, given.text(1)?))
}

/// Fails with the error of a call that was cancelled.
fn cancelled_error(_: &Arc<Instance>, _: &Arguments<'_>) -> Result<Raw> {
    Err(callweir::Error::cancelled())
}

/// Exports `connect`; Node calls it once for each load in each environment.
///
/// # Safety
///
/// Only Node calls it, with an environment that is alive on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napi_register_module_v1(env: sys::napi_env, exports: Raw) -> Raw {
    #[cfg(windows)]
    // SAFETY: done once before any other function of Node's is called; the library stays loaded.
    unsafe {
        std::mem::forget(sys::setup());
    }
    let name = "connect";
    let mut function = ptr::null_mut();
    // SAFETY: the environment is alive on this thread, and the name is copied.
    unsafe {
        let status = sys::napi_create_function(
            env,
            name.as_ptr().cast(),
            name.len().cast_signed(),
            Some(connect),
            ptr::null_mut(),
            &raw mut function,
        );
        if status == sys::Status::napi_ok {
            sys::napi_set_property(env, exports, Js::new(env).text(name), function);
        }
    }
    exports
}

/// Tells Node which version of its interface the addon wants.
#[unsafe(no_mangle)]
pub extern "C" fn node_api_module_get_api_version_v1() -> i32 {
    8
}

/// Connects one load of the package: `connect(lent functions, shared integers, shared numbers, target)`.
unsafe extern "C" fn connect(env: sys::napi_env, info: sys::napi_callback_info) -> Raw {
    let js = Js::new(env);
    let mut values = [ptr::null_mut(); 4];
    let mut count = values.len();
    // SAFETY: the parts have room for what the function writes.
    unsafe {
        sys::napi_get_cb_info(
            env,
            info,
            &raw mut count,
            values.as_mut_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
        );
    }
    let [lent, integers, numbers, target] = values;
    if let Some(instance) = Instance::new(js, lent, integers, numbers) {
        native::bind(&instance, js, target, FUNCTIONS);
    }
    target
}
