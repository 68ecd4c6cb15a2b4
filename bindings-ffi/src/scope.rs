//! Scopes by explicit handles, and marks.

use std::cell::Cell;
use std::sync::Arc;
use std::time::SystemTime;

use callweir_core::{CloseOptions, Error, Mark, Propagation, Result, Scope, ScopeOptions};
use serde_json::{Map, Value, json};

use crate::boundary::{check, end, fallible, reading};
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::runtime::callweir_runtime;
use crate::text::{callweir_string, callweir_text};

/// A place in the tree of scopes: the parent for what is started there. Some stand for no scope.
pub enum callweir_scope {}
handle!(callweir_scope, 5, "scope", Moment);

thread_local! {
    static ECHO: Cell<u32> = const { Cell::new(0) };
}

/// Where something happens: inside which scope, and behind how many of the dispatcher's callbacks.
#[derive(Clone, Default)]
pub(crate) struct Moment {
    pub(crate) scope: Option<Scope>,
    /// Events that observers emit count on from here, so that they cannot feed themselves for ever.
    pub(crate) echo: u32,
}

impl Moment {
    /// The present moment of this thread, inside `scope`.
    pub(crate) fn now(scope: Option<Scope>) -> Self {
        let echo = callweir_core::foreign::echo_depth().max(ECHO.get());
        Self { scope, echo }
    }

    pub(crate) fn of(handle: *const callweir_scope) -> Result<Self> {
        Ok(handles::get_some(handle)?.unwrap_or_default())
    }

    /// Runs `body` with what it emits counted on from here.
    pub(crate) fn enter<T>(&self, body: impl FnOnce() -> T) -> T {
        struct Leave(u32);
        impl Drop for Leave {
            fn drop(&mut self) {
                ECHO.set(self.0);
            }
        }
        let _leave = Leave(ECHO.replace(self.echo.max(ECHO.get())));
        body()
    }

    /// Refuses what would wait for the callback that this moment belongs to.
    pub(crate) fn check_outside(&self) -> Result<()> {
        if self.echo == 0 {
            return Ok(());
        }
        let text = "a sanitizer or subscriber cannot flush: it would wait for itself";
        Err(Error::would_deadlock(text))
    }
}

/// How deep the events of this moment are in others, as the dispatcher asks.
pub(crate) fn echo() -> u32 {
    ECHO.get()
}

/// Takes an option that is text.
pub(crate) fn text_of(options: &mut Map<String, Value>, key: &str) -> Result<Option<String>> {
    match options.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Error::invalid_argument(
            format!("$.options.{key}"),
            "expected text",
        )),
    }
}

/// Takes the option of when something happened.
pub(crate) fn timestamp(options: &mut Map<String, Value>) -> Result<Option<SystemTime>> {
    let text = text_of(options, "timestamp")?;
    text.map(|text| {
        humantime::parse_rfc3339(&text)
            .map_err(|error| Error::invalid_argument("$.options.timestamp", format!("'{text}': {error}")))
    })
    .transpose()
}

/// Takes the option of flags.
pub(crate) fn flags(options: &mut Map<String, Value>) -> Result<Vec<Arc<str>>> {
    let wrong = || Error::invalid_argument("$.options.attributes", "expected an array of texts");
    match options.remove("attributes") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(flags)) => {
            let flags = flags
                .iter()
                .map(|flag| flag.as_str().map(Arc::from).ok_or_else(wrong));
            flags.collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// Opens a scope under `parent`, NULL for none, and queues its start event.
///
/// Options: `input`, `metadata`, `attributes` (texts), `data_schema`, `timestamp` (RFC 3339).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_scope_open(
    runtime: *const callweir_runtime,
    name: callweir_text,
    r#type: callweir_text,
    parent: *const callweir_scope,
    options: callweir_text,
    out: *mut *mut callweir_scope,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let (runtime, parent) = (handles::get(runtime)?, Moment::of(parent)?);
        // SAFETY: the program's promises about texts.
        let (name, kind) = unsafe { (name.need("name")?, r#type.read("type")?) };
        let kind = kind.unwrap_or("function").parse();
        let kind = kind.map_err(|error: Error| Error::invalid_argument("$.type", error.to_string()))?;
        let known = ["input", "metadata", "attributes", "data_schema", "timestamp"];
        // SAFETY: the program's promises about texts.
        let mut given = unsafe { options.options(&known) }?;
        let options = ScopeOptions {
            input: given.remove("input"),
            metadata: given.remove("metadata"),
            attributes: flags(&mut given)?,
            data_schema: given.remove("data_schema"),
            timestamp: timestamp(&mut given)?,
        };
        let scope = parent.enter(|| runtime.open_scope(name, kind, parent.scope.clone(), options))?;
        let moment = Moment {
            scope: Some(scope),
            echo: parent.echo,
        };
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(moment)) };
        Ok(())
    })
}

/// Closes a scope; one that is closed, or stands for none, is left alone.
///
/// Options: `output`, `metadata`, `outcome`, `error_type`, `timestamp` (RFC 3339).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_scope_close(
    scope: *const callweir_scope,
    options: callweir_text,
) -> *mut callweir_error {
    fallible(|| {
        let moment = handles::get(scope)?;
        let known = ["output", "metadata", "outcome", "error_type", "timestamp"];
        // SAFETY: the program's promises about texts.
        let mut given = unsafe { options.options(&known) }?;
        let options = CloseOptions {
            output: given.remove("output"),
            metadata: given.remove("metadata"),
            outcome: outcome(&mut given)?,
            error_type: given.remove("error_type"),
            timestamp: timestamp(&mut given)?,
        };
        if let Some(scope) = &moment.scope {
            moment.enter(|| scope.close(options));
        }
        Ok(())
    })
}

/// Takes the option of how something ended.
pub(crate) fn outcome(options: &mut Map<String, Value>) -> Result<Option<callweir_core::Outcome>> {
    let text = text_of(options, "outcome")?;
    text.map(|text| {
        text.parse()
            .map_err(|error: Error| Error::invalid_argument("$.options.outcome", error.to_string()))
    })
    .transpose()
}

/// Tells `uuid`, `name`, `type`, `parent_uuid` and `open` as JSON; `null` where the handle stands for no scope.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_scope_json(
    scope: *const callweir_scope,
    out: *mut callweir_string,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let moment = handles::get(scope)?;
        let told = moment.scope.map_or(Value::Null, |scope| {
            json!({
                "uuid": scope.uuid().to_string(),
                "name": &**scope.name(),
                "type": scope.category().name(),
                "parent_uuid": scope.parent_uuid().map(|id| id.to_string()),
                "open": scope.is_open(),
            })
        });
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(callweir_string::own(told.to_string())) };
        Ok(())
    })
}

/// Returns another handle of the scope.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_scope_clone(scope: *const callweir_scope) -> *mut callweir_scope {
    reading(|| handles::give_some(handles::get(scope).ok()))
}

/// Says whether two handles stand for one scope.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_scope_same(a: *const callweir_scope, b: *const callweir_scope) -> bool {
    reading(|| match (handles::get(a), handles::get(b)) {
        (Ok(a), Ok(b)) => a.scope == b.scope,
        _ => false,
    })
}

/// Tells what another process needs to continue under the scope, as JSON with a `traceparent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_scope_propagation(
    scope: *const callweir_scope,
    out: *mut callweir_string,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let scope = handles::get(scope)?.scope;
        let scope =
            scope.ok_or_else(|| Error::invalid_argument("$.scope", "the handle stands for no scope"))?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(callweir_string::own(scope.propagation().to_json().to_string())) };
        Ok(())
    })
}

/// Makes a scope that stands for one of another process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_scope_attach(
    runtime: *const callweir_runtime,
    propagation: callweir_text,
    out: *mut *mut callweir_scope,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let runtime = handles::get(runtime)?;
        // SAFETY: the program's promises about texts.
        let from = unsafe { propagation.json("propagation") }?.unwrap_or_default();
        let scope = runtime.attach(&Propagation::from_json(&from)?);
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(Moment::now(Some(scope)))) };
        Ok(())
    })
}

/// Emits a mark under `scope`, NULL for none.
///
/// Options: `data`, `metadata`, `data_schema`, `timestamp` (RFC 3339).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_mark(
    runtime: *const callweir_runtime,
    name: callweir_text,
    scope: *const callweir_scope,
    options: callweir_text,
) -> *mut callweir_error {
    fallible(|| {
        let (runtime, moment) = (handles::get(runtime)?, Moment::of(scope)?);
        // SAFETY: the program's promises about texts.
        let name = unsafe { name.need("name") }?;
        let known = ["data", "metadata", "data_schema", "timestamp"];
        // SAFETY: the program's promises about texts.
        let mut given = unsafe { options.options(&known) }?;
        let mark = Mark {
            data: given.remove("data"),
            metadata: given.remove("metadata"),
            data_schema: given.remove("data_schema"),
            timestamp: timestamp(&mut given)?,
        };
        moment.enter(|| runtime.mark(name, moment.scope.as_ref(), mark));
        Ok(())
    })
}

/// Frees a handle of a scope, which does not close it; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_scope_free(scope: *mut callweir_scope) {
    end(scope);
}
