//! Error objects: Callweir's own, and failures of the program's own kind.

use std::any::Any;
use std::sync::Arc;

use callweir_core::{Error, ErrorKind, HostFailure, Result};
use serde_json::{Map, Value, json};

use crate::boundary::{check, end, fallible, reading};
use crate::handles::{self, handle};
use crate::text::{callweir_string, callweir_text};

/// An error, immutable; its handles may be used from any thread.
pub enum callweir_error {}
handle!(callweir_error, 1, "error", Error);

/// A failure of the program's own, as a callback reports it.
#[repr(C)]
pub struct callweir_failure {
    /// The type's name as events show it in `error.type`; absent for a failure without a type.
    pub type_name: callweir_text,
    /// The text, for people.
    pub message: callweir_text,
    /// What stands for the failure in the program; 0 for nothing.
    pub object: u64,
    /// Called once when no error carries the object any more, from any thread; may be NULL.
    pub release: Option<extern "C" fn(object: u64)>,
    /// Whether this is control flow, such as the end of a thread, and not a failure of the work.
    pub control: bool,
}

/// The program's own object for a failure.
struct Carried {
    type_name: Option<String>,
    message: String,
    object: u64,
    release: Option<extern "C" fn(object: u64)>,
    control: bool,
}

impl HostFailure for Carried {
    fn type_name(&self) -> Option<String> {
        self.type_name.clone()
    }
    fn message(&self) -> String {
        self.message.clone()
    }
    fn is_control(&self) -> bool {
        self.control
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            release(self.object);
        }
    }
}

/// Returns the number of a kind: its place in the table of kinds, from 1; 0 for a failure of the program's own.
fn number(error: &Error) -> u32 {
    let place = error
        .kind()
        .and_then(|kind| ErrorKind::ALL.iter().position(|known| *known == kind));
    place.and_then(|place| u32::try_from(place + 1).ok()).unwrap_or(0)
}

fn kind_of(number: u32) -> Result<ErrorKind> {
    let place = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let kind = place.and_then(|place| ErrorKind::ALL.get(place)).copied();
    kind.ok_or_else(|| Error::invalid_argument("$.kind", format!("no error kind has the number {number}")))
}

fn is_a(error: &Error, wanted: ErrorKind) -> bool {
    let mut at = error.kind();
    while let Some(kind) = at {
        if kind == wanted {
            return true;
        }
        at = ErrorKind::ALL
            .iter()
            .copied()
            .find(|known| known.name() == kind.parent());
    }
    false
}

/// Returns everything about an error as JSON.
fn shown(error: &Error) -> Value {
    let fields: Map<String, Value> = error
        .fields()
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())))
        .collect();
    let mut out = json!({
        "kind": error.kind().map_or("Host", ErrorKind::name),
        "code": error.code(),
        "message": error.to_string(),
        "type": error.type_value(),
        "fields": fields,
        "for_model": error.for_model(),
    });
    if let (Some(cause), Value::Object(map)) = (error.cause(), &mut out) {
        map.insert("cause".to_owned(), shown(cause));
    }
    out
}

/// Writes a text that is read from an error.
unsafe fn tell(
    error: *const callweir_error,
    out: *mut callweir_string,
    read: impl FnOnce(&Error) -> String,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let error = handles::get(error)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(callweir_string::own(read(&error))) };
        Ok(())
    })
}

/// Returns the number of the error's kind, `CALLWEIR_ERROR_HOST` for a failure of the program's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_kind(error: *const callweir_error) -> u32 {
    reading(|| handles::look(error, number).unwrap_or(0))
}

/// Tells the stable code; empty for a failure of the program's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_code(
    error: *const callweir_error,
    out: *mut callweir_string,
) -> *mut callweir_error {
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(error, out, |error| error.code().unwrap_or_default().to_owned()) }
}

/// Tells the text, for people.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_message(
    error: *const callweir_error,
    out: *mut callweir_string,
) -> *mut callweir_error {
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(error, out, Error::to_string) }
}

/// Tells kind, code, message, type, fields, text for a model, and cause, as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_json(
    error: *const callweir_error,
    out: *mut callweir_string,
) -> *mut callweir_error {
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(error, out, |error| shown(error).to_string()) }
}

/// Tells the text that a model may read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_for_model(
    error: *const callweir_error,
    out: *mut callweir_string,
) -> *mut callweir_error {
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(error, out, Error::for_model) }
}

/// Says whether the error is of this kind, or of one that is a special case of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_is(error: *const callweir_error, kind: u32) -> bool {
    reading(|| {
        let Ok(error) = handles::get(error) else {
            return false;
        };
        kind_of(kind).is_ok_and(|kind| is_a(&error, kind)) || (kind == 0 && error.kind().is_none())
    })
}

/// Tells the program's object that the error carries; false if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_object(error: *const callweir_error, out: *mut u64) -> bool {
    reading(|| {
        let Ok(error) = handles::get(error) else {
            return false;
        };
        let carried = error
            .host_failure()
            .and_then(|failure| failure.as_any().downcast_ref::<Carried>());
        match carried {
            Some(carried) if carried.object != 0 && !out.is_null() => {
                // SAFETY: the pointer was checked, and the program promises that it may be written.
                unsafe { out.write(carried.object) };
                true
            }
            _ => false,
        }
    })
}

/// Returns what led to the error; NULL for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_cause(error: *const callweir_error) -> *mut callweir_error {
    reading(|| handles::give_some(handles::get(error).ok().and_then(|error| error.cause().cloned())))
}

/// Returns another handle of the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_clone(error: *const callweir_error) -> *mut callweir_error {
    reading(|| handles::give_some(handles::get(error).ok()))
}

/// Says whether two handles stand for one error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_same(a: *const callweir_error, b: *const callweir_error) -> bool {
    reading(|| match (handles::get(a), handles::get(b)) {
        (Ok(a), Ok(b)) => a.same(&b),
        _ => false,
    })
}

/// Makes an error of Callweir's own; bad input gives the error that says so.
///
/// Without a message the text is the kind's own, made of the fields (a JSON object of texts). A code refines the
/// kind's, as policies do for denials.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_new(
    kind: u32,
    message: callweir_text,
    fields: callweir_text,
    code: callweir_text,
) -> *mut callweir_error {
    fallible(|| {
        let kind = kind_of(kind)?;
        // SAFETY: the program's promises about texts.
        let (message, given, code) = unsafe {
            (
                message.read("message")?,
                fields.json("fields")?,
                code.read("code")?,
            )
        };
        let given = match given {
            Some(Value::Object(given)) => given,
            None => Map::new(),
            Some(_) => return Err(Error::invalid_argument("$.fields", "expected an object")),
        };
        if let Some(key) = given.keys().find(|key| !kind.fields().contains(&key.as_str())) {
            return Err(Error::invalid_argument(
                format!("$.fields.{key}"),
                format!("{} has no such field", kind.name()),
            ));
        }
        let mut fields = Vec::new();
        for name in kind.fields() {
            match given.get(*name) {
                Some(Value::String(text)) => fields.push((*name, text.clone())),
                None | Some(Value::Null) => {}
                Some(_) => {
                    return Err(Error::invalid_argument(
                        format!("$.fields.{name}"),
                        "expected text",
                    ));
                }
            }
        }
        let text = message.map_or_else(|| kind.describe(&fields), str::to_owned);
        let error = fields
            .into_iter()
            .fold(Error::new(kind, text), |error, (name, value)| {
                error.with_field(name, value)
            });
        Err(match code {
            Some(code) => error.with_code(code.to_owned()),
            None => error,
        })
    })
}

/// Makes an error of the program's own; bad input gives the error that says so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_host(failure: *const callweir_failure) -> *mut callweir_error {
    fallible(|| {
        // SAFETY: the program's promises about pointers.
        let given = unsafe { failure.as_ref() };
        let given = given.ok_or_else(|| Error::invalid_argument("$.failure", "the pointer is NULL"))?;
        // SAFETY: the program's promises about texts.
        let (type_name, message) =
            unsafe { (given.type_name.read("type_name")?, given.message.read("message")?) };
        Err(Error::host(Arc::new(Carried {
            type_name: type_name.map(str::to_owned),
            message: message.unwrap_or_default().to_owned(),
            object: given.object,
            release: given.release,
            control: given.control,
        })))
    })
}

/// Returns an error of Callweir's own that carries the program's object for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_with_object(
    error: *const callweir_error,
    object: u64,
    release: Option<extern "C" fn(object: u64)>,
) -> *mut callweir_error {
    fallible(|| {
        let error = handles::get(error)?;
        Err(error.with_host(Arc::new(Carried {
            type_name: None,
            message: String::new(),
            object,
            release,
            control: false,
        })))
    })
}

/// Frees a handle of an error; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_error_free(error: *mut callweir_error) {
    end(error);
}
