//! Registering callbacks, subscribers and the exporter.

use std::sync::Arc;

use callweir_core::export::jsonl::JsonLines;
use callweir_core::{Error, Family, RegisterOptions, Result};

use crate::boundary::fallible;
use crate::callback::{Callback, Entry, callweir_callback, handler};
use crate::error::callweir_error;
use crate::handles;
use crate::runtime::callweir_runtime;
use crate::scope::{Moment, callweir_scope};
use crate::text::callweir_text;

/// Where and how an entry is registered.
#[repr(C)]
pub struct callweir_register_options {
    /// Lower runs first.
    pub priority: i32,
    /// Whether later request intercepts are skipped once this one has run.
    pub break_chain: bool,
    /// The scope that owns the entry; NULL for a global one.
    pub scope: *const callweir_scope,
    /// The component that owns the entry; absent for none.
    pub component: callweir_text,
}

/// Returns the number of a family: its place in the table of families, from 1; 0 for none.
pub(crate) fn number(family: Option<Family>) -> u32 {
    let place = family.and_then(|family| Family::ALL.iter().position(|known| *known == family));
    place.and_then(|place| u32::try_from(place + 1).ok()).unwrap_or(0)
}

fn family_of(number: u32) -> Result<Family> {
    let place = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let family = place.and_then(|place| Family::ALL.get(place)).copied();
    family.ok_or_else(|| Error::invalid_argument("$.family", format!("no family has the number {number}")))
}

unsafe fn options_of(options: *const callweir_register_options) -> Result<RegisterOptions> {
    // SAFETY: the program's promises about pointers.
    let Some(given) = (unsafe { options.as_ref() }) else {
        return Ok(RegisterOptions::default());
    };
    // SAFETY: the program's promises about texts.
    let component = unsafe { given.component.read("component") }?;
    Ok(RegisterOptions {
        priority: given.priority,
        break_chain: given.break_chain,
        scope: Moment::of(given.scope)?.scope,
        component: component.map(Into::into),
    })
}

/// Registers a callback of a family (`CALLWEIR_TOOL_...`), globally or for one scope; NULL options are the defaults.
///
/// A taken name is an error, and the first entry stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_register(
    runtime: *const callweir_runtime,
    family: u32,
    name: callweir_text,
    callback: *const callweir_callback,
    options: *const callweir_register_options,
) -> *mut callweir_error {
    fallible(|| {
        let known = family_of(family);
        let label = known.as_ref().map_or("entry", |family| family.wire_name());
        // SAFETY: the program's promises about texts.
        let name = unsafe { name.need("name") };
        let shown = *name.as_ref().unwrap_or(&"");
        // SAFETY: the program's promises about pointers; taken first, so that `free` is called whatever fails.
        let callback = unsafe { Callback::take(callback, label, known.as_ref().ok().copied(), shown) }?;
        let (family, name, runtime) = (known?, name?, handles::get(runtime)?);
        // SAFETY: the program's promises about pointers.
        let options = unsafe { options_of(options) }?;
        runtime.register(family, name, handler(family, callback), &options)
    })
}

/// Removes a callback; `was_there` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_deregister(
    runtime: *const callweir_runtime,
    family: u32,
    name: callweir_text,
    scope: *const callweir_scope,
    was_there: *mut bool,
) -> *mut callweir_error {
    fallible(|| {
        let (runtime, family, moment) = (handles::get(runtime)?, family_of(family)?, Moment::of(scope)?);
        // SAFETY: the program's promises about texts.
        let name = unsafe { name.need("name") }?;
        let found = runtime.deregister(family, name, moment.scope.as_ref());
        // SAFETY: the program's promises about out values.
        unsafe { tell(was_there, found) };
        Ok(())
    })
}

unsafe fn tell(out: *mut bool, found: bool) {
    if !out.is_null() {
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(found) };
    }
}

/// Removes everything that a component owns; `was_there` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_remove_component(
    runtime: *const callweir_runtime,
    name: callweir_text,
    was_there: *mut bool,
) -> *mut callweir_error {
    fallible(|| {
        let runtime = handles::get(runtime)?;
        // SAFETY: the program's promises about texts.
        let found = runtime.remove_component(unsafe { name.need("name") }?);
        // SAFETY: the program's promises about out values.
        unsafe { tell(was_there, found) };
        Ok(())
    })
}

/// Takes a subscriber's callback, and its name.
unsafe fn subscriber<'a>(
    name: callweir_text,
    callback: *const callweir_callback,
) -> Result<(&'a str, Arc<Entry>)> {
    // SAFETY: the program's promises about texts.
    let name = unsafe { name.need("name") };
    let shown = *name.as_ref().unwrap_or(&"");
    // SAFETY: the program's promises about pointers; taken first, so that `free` is called whatever fails.
    let callback = unsafe { Callback::take(callback, "subscriber", None, shown) }?;
    Ok((name?, Arc::new(Entry(callback))))
}

/// Registers a subscriber of events, for all or for what happens inside `scope`; asked at `CALLWEIR_STAGE_EVENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_subscribe(
    runtime: *const callweir_runtime,
    name: callweir_text,
    callback: *const callweir_callback,
    scope: *const callweir_scope,
) -> *mut callweir_error {
    fallible(|| {
        // SAFETY: the program's promises about texts and pointers.
        let (name, entry) = unsafe { subscriber(name, callback) }?;
        handles::get(runtime)?.subscribe(name, entry, Moment::of(scope)?.scope.as_ref())
    })
}

/// Registers a subscriber of typed records of registry calls; asked at `CALLWEIR_STAGE_RECORD`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_subscribe_calls(
    runtime: *const callweir_runtime,
    name: callweir_text,
    callback: *const callweir_callback,
    scope: *const callweir_scope,
) -> *mut callweir_error {
    fallible(|| {
        // SAFETY: the program's promises about texts and pointers.
        let (name, entry) = unsafe { subscriber(name, callback) }?;
        handles::get(runtime)?.subscribe_calls(name, entry, Moment::of(scope)?.scope.as_ref())
    })
}

/// Removes a subscriber of either kind; what was emitted before still reaches it. `was_there` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_unsubscribe(
    runtime: *const callweir_runtime,
    name: callweir_text,
    scope: *const callweir_scope,
    was_there: *mut bool,
) -> *mut callweir_error {
    fallible(|| {
        let (runtime, moment) = (handles::get(runtime)?, Moment::of(scope)?);
        // SAFETY: the program's promises about texts.
        let found = runtime.unsubscribe(unsafe { name.need("name") }?, moment.scope.as_ref());
        // SAFETY: the program's promises about out values.
        unsafe { tell(was_there, found) };
        Ok(())
    })
}

/// Appends events to a file as JSON lines, as a subscriber of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_export_jsonl(
    runtime: *const callweir_runtime,
    path: callweir_text,
    name: callweir_text,
) -> *mut callweir_error {
    fallible(|| {
        let runtime = handles::get(runtime)?;
        // SAFETY: the program's promises about texts.
        let (path, name) = unsafe { (path.need("path")?, name.need("name")?) };
        runtime.subscribe(name, JsonLines::open(path)?, None)
    })
}
