//! Runtimes: settings, listings, flush and shutdown.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use callweir_core::foreign::{DispatchHost, Origin};
use callweir_core::{Error, Options, Registration, Result, Runtime};
use serde_json::{Map, Value, json};

use crate::boundary::{check, end, fallible};
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::scope::{Moment, callweir_scope};
use crate::text::{callweir_string, callweir_text};

/// A runtime: registrations, scopes and the dispatcher of events. Two of them share nothing.
pub enum callweir_runtime {}
handle!(callweir_runtime, 6, "runtime", Runtime);

/// What this door lends the dispatcher.
struct CHost;

impl DispatchHost for CHost {
    fn capture(&self) -> Origin {
        Origin {
            echo: crate::scope::echo(),
            ..Origin::default()
        }
    }
}

fn default_runtime() -> &'static Runtime {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        // Another door of this process may have made it already; then that one is it.
        Runtime::set_default(Runtime::with_host(Options::default(), Arc::new(CHost)));
    });
    Runtime::default()
}

fn check_version(given: u32) -> Result<()> {
    let own = crate::CALLWEIR_ABI_VERSION;
    if given == own {
        return Ok(());
    }
    let text = format!("the program was compiled for ABI version {given}; this library has version {own}");
    Err(Error::invalid_argument("$.abi_version", text))
}

/// Changes `old` by what is given.
fn settings(given: &Map<String, Value>, old: &Options) -> Result<Options> {
    let wrong = |key: &str, what: &str| {
        Error::invalid_argument(format!("$.options.{key}"), format!("expected {what}"))
    };
    let mut options = old.clone();
    for (key, value) in given {
        match key.as_str() {
            "queue_events" => options.limits.events = size(value).ok_or_else(|| wrong(key, "a number"))?,
            "queue_bytes" => options.limits.bytes = size(value).ok_or_else(|| wrong(key, "a number"))?,
            "sanitizer_timeout" => {
                let time = value
                    .as_f64()
                    .and_then(|time| Duration::try_from_secs_f64(time).ok());
                options.limits.callback_time = time.ok_or_else(|| wrong(key, "seconds"))?;
            }
            "credential_headers" => {
                let names = value.as_array().and_then(|names| {
                    names
                        .iter()
                        .map(|name| name.as_str().map(str::to_owned))
                        .collect::<Option<Vec<_>>>()
                });
                options.credential_headers = names.ok_or_else(|| wrong(key, "an array of names"))?;
            }
            _ => options.error_text = value.as_bool().ok_or_else(|| wrong(key, "true or false"))?,
        }
    }
    Ok(options)
}

fn size(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|size| usize::try_from(size).ok())
}

const SETTINGS: [&str; 5] = [
    "queue_events",
    "queue_bytes",
    "sanitizer_timeout",
    "credential_headers",
    "error_text",
];

/// Makes a runtime; `abi_version` is `CALLWEIR_ABI_VERSION` of the header that the program was compiled with.
///
/// Options: `queue_events`, `queue_bytes`, `sanitizer_timeout` (seconds), `credential_headers` (names), `error_text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_runtime_new(
    abi_version: u32,
    options: callweir_text,
    out: *mut *mut callweir_runtime,
) -> *mut callweir_error {
    fallible(|| {
        check_version(abi_version)?;
        check(out)?;
        crate::fork::prepare();
        // SAFETY: the program's promises about texts.
        let given = unsafe { options.options(&SETTINGS) }?;
        let runtime = Runtime::with_host(settings(&given, &Options::default())?, Arc::new(CHost));
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(runtime)) };
        Ok(())
    })
}

/// Returns a handle of the process's default runtime; `abi_version` as in `callweir_runtime_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_runtime_default(
    abi_version: u32,
    out: *mut *mut callweir_runtime,
) -> *mut callweir_error {
    fallible(|| {
        check_version(abi_version)?;
        check(out)?;
        crate::fork::prepare();
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(default_runtime().clone())) };
        Ok(())
    })
}

/// Frees a handle of a runtime, which does not shut it down; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_runtime_free(runtime: *mut callweir_runtime) {
    end(runtime);
}

/// Changes the settings that are given, from now on; see `callweir_runtime_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_runtime_configure(
    runtime: *const callweir_runtime,
    options: callweir_text,
) -> *mut callweir_error {
    fallible(|| {
        let runtime = handles::get(runtime)?;
        // SAFETY: the program's promises about texts.
        let given = unsafe { options.options(&SETTINGS) }?;
        runtime.configure(settings(&given, &runtime.options())?);
        Ok(())
    })
}

unsafe fn tell(
    runtime: *const callweir_runtime,
    out: *mut callweir_string,
    read: impl FnOnce(&Runtime) -> Result<Value>,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let runtime = handles::get(runtime)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(callweir_string::own(read(&runtime)?.to_string())) };
        Ok(())
    })
}

/// Tells `pending`, `pending_bytes`, `dropped`, `skipped` and `failures` as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_runtime_counts(
    runtime: *const callweir_runtime,
    out: *mut callweir_string,
) -> *mut callweir_error {
    let read = |runtime: &Runtime| {
        let counts = runtime.counts();
        Ok(json!({
            "pending": counts.pending, "pending_bytes": counts.pending_bytes, "dropped": counts.dropped,
            "skipped": counts.skipped, "failures": counts.failures,
        }))
    };
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(runtime, out, read) }
}

/// Returns entries as JSON: objects with `stage`, `name`, `level`, `owner`, `priority`.
pub(crate) fn lines(entries: &[Registration]) -> Value {
    let line = |entry: &Registration| {
        json!({
            "stage": entry.stage, "name": &*entry.name, "level": entry.level,
            "owner": entry.owner.as_deref(), "priority": entry.priority,
        })
    };
    entries.iter().map(line).collect()
}

/// Tells what is installed: a JSON array of objects with `stage`, `name`, `level`, `owner`, `priority`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_runtime_registrations(
    runtime: *const callweir_runtime,
    out: *mut callweir_string,
) -> *mut callweir_error {
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(runtime, out, |runtime| Ok(lines(&runtime.registrations_list()))) }
}

/// Tells what applies to a call of `kind` (`tool` or `llm`) made inside `scope`, NULL for none, in its order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_runtime_explain(
    runtime: *const callweir_runtime,
    kind: callweir_text,
    scope: *const callweir_scope,
    out: *mut callweir_string,
) -> *mut callweir_error {
    let read = |runtime: &Runtime| {
        // SAFETY: the program's promises about texts.
        let kind = unsafe { kind.need("kind") }?;
        Ok(lines(&runtime.explain(kind, Moment::of(scope)?.scope.as_ref())?))
    };
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(runtime, out, read) }
}

fn time(milliseconds: u64) -> Option<Duration> {
    (milliseconds != u64::MAX).then(|| Duration::from_millis(milliseconds))
}

/// Blocks until everything emitted before is delivered; `pending` is told how many events are not, and may be NULL.
///
/// `timeout_ms` `UINT64_MAX` waits for ever. `from` is the scope of the callback that this is called from, NULL
/// elsewhere: inside a sanitizer or subscriber flushing fails, for it would wait for itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_flush(
    runtime: *const callweir_runtime,
    from: *const callweir_scope,
    timeout_ms: u64,
    pending: *mut u64,
) -> *mut callweir_error {
    fallible(|| {
        let runtime = handles::get(runtime)?;
        Moment::of(from)?.check_outside()?;
        let left = crate::executor::blocking(|| runtime.flush_blocking(time(timeout_ms)))?;
        if !pending.is_null() {
            // SAFETY: the pointer was checked, and the program promises that it may be written.
            unsafe { pending.write(left as u64) };
        }
        Ok(())
    })
}

/// Ends what is open, delivers what is queued and stops; arguments as in `callweir_flush`. A second one does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_shutdown(
    runtime: *const callweir_runtime,
    from: *const callweir_scope,
    timeout_ms: u64,
    pending: *mut u64,
) -> *mut callweir_error {
    fallible(|| {
        let runtime = handles::get(runtime)?;
        Moment::of(from)?.check_outside()?;
        // Without a limit a subscriber that hangs would hold the program's end for ever; a day is as good.
        let time = time(timeout_ms).unwrap_or(Duration::from_secs(24 * 60 * 60));
        let left = crate::executor::blocking(|| runtime.shutdown_blocking(time))?;
        if !pending.is_null() {
            // SAFETY: the pointer was checked, and the program promises that it may be written.
            unsafe { pending.write(left as u64) };
        }
        Ok(())
    })
}
