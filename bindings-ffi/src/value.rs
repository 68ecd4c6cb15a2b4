//! Values: JSON text, or an object of the program that is passed along by reference.

use std::any::Any;
use std::sync::Arc;

use callweir_core::foreign::HostValue;
use callweir_core::{Error, Json, Payload, Result, parse_json};
use serde_json::Value;

use crate::boundary::{check, end, fallible, reading};
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::text::{callweir_string, callweir_text};

/// A value, immutable; its handles may be used from any thread.
pub enum callweir_value {}
handle!(callweir_value, 2, "value", Payload);

/// What a kind of objects of the program can do; it must outlive every object of it.
///
/// The functions are called from any thread.
#[repr(C)]
pub struct callweir_class {
    /// Writes the object as JSON text with `callweir_string_new`, or gives an error away.
    pub json: Option<extern "C" fn(object: u64, text: *mut callweir_string, error: *mut *mut callweir_error)>,
    /// Makes a copy of the object's containers, or gives an error away; NULL where objects go by reference.
    pub copy: Option<extern "C" fn(object: u64, copy: *mut u64, error: *mut *mut callweir_error) -> bool>,
    /// Lets go of an object, once; NULL where there is nothing to do.
    pub release: Option<extern "C" fn(object: u64)>,
}

/// An object of the program as a payload.
struct Object(Arc<Held>);

/// An object, until nothing refers to it.
struct Held {
    class: &'static callweir_class,
    object: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(release) = self.class.release {
            release(self.object);
        }
    }
}

fn payload(class: &'static callweir_class, object: u64) -> Payload {
    Payload::Host(Arc::new(Object(Arc::new(Held { class, object }))))
}

impl Held {
    fn json(&self) -> Result<Value> {
        let json = self
            .class
            .json
            .ok_or_else(|| Error::not_json("$", "the class has no `json`"))?;
        let (mut text, mut error) = (callweir_string::absent(), std::ptr::null_mut());
        json(self.object, &raw mut text, &raw mut error);
        if !error.is_null() {
            return Err(handles::take(error)?);
        }
        // SAFETY: the class made the text with `callweir_string_new` and gives it away.
        let text = unsafe { text.into_text() }?;
        let text = text.ok_or_else(|| Error::not_json("$", "the class wrote no JSON text"))?;
        parse_json(&text).map_err(|error| Error::not_json("$", error.to_string()))
    }
}

impl HostValue for Object {
    fn to_json(&self) -> Result<Json> {
        self.0.json().map(Json::from)
    }

    fn isolate(&self) -> Result<Payload> {
        let Some(copy) = self.0.class.copy else {
            return Ok(Payload::Host(Arc::new(Self(self.0.clone()))));
        };
        let (mut made, mut error) = (0, std::ptr::null_mut());
        let copied = copy(self.0.object, &raw mut made, &raw mut error);
        if !error.is_null() {
            return Err(handles::take(error)?);
        }
        Ok(if copied {
            payload(self.0.class, made)
        } else {
            Payload::Host(Arc::new(Self(self.0.clone())))
        })
    }

    fn keys(&self, visit: &mut dyn FnMut(&str)) -> bool {
        match self.0.json() {
            Ok(Value::Object(map)) => {
                map.keys().for_each(|key| visit(key));
                true
            }
            _ => false,
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the object of a payload, if it is one of `class`.
fn object_of(payload: &Payload, class: *const callweir_class) -> Option<u64> {
    let Payload::Host(value) = payload else {
        return None;
    };
    let object = value.as_any().downcast_ref::<Object>()?;
    std::ptr::eq(object.0.class, class).then_some(object.0.object)
}

/// Makes a value of JSON text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_value_json(
    json: callweir_text,
    out: *mut *mut callweir_value,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        // SAFETY: the program's promises about texts and out values.
        unsafe { out.write(handles::give(Payload::from(parse_json(json.need("json")?)?))) };
        Ok(())
    })
}

/// Makes a value of an object, which it takes: the class's `release` gets it once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_value_object(
    class: *const callweir_class,
    object: u64,
    out: *mut *mut callweir_value,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        // SAFETY: the program promises that the class lives as long as its objects.
        let class = unsafe { class.as_ref() };
        let class = class.ok_or_else(|| Error::invalid_argument("$.class", "the pointer is NULL"))?;
        let value = payload(class, object);
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(value)) };
        Ok(())
    })
}

/// Tells the object of a value, if it is one of `class`; it still belongs to the value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_value_is_object(
    value: *const callweir_value,
    class: *const callweir_class,
    object: *mut u64,
) -> bool {
    reading(|| {
        let found = handles::look(value, |payload| object_of(payload, class));
        match found.ok().flatten() {
            Some(found) if !object.is_null() => {
                // SAFETY: the pointer was checked, and the program promises that it may be written.
                unsafe { object.write(found) };
                true
            }
            _ => false,
        }
    })
}

unsafe fn tell(
    value: *const callweir_value,
    out: *mut callweir_string,
    read: impl FnOnce(&Payload) -> Result<String>,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let value = handles::get(value)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(callweir_string::own(read(&value)?)) };
        Ok(())
    })
}

/// Tells the value as JSON text; numbers that came as text keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_value_text(
    value: *const callweir_value,
    out: *mut callweir_string,
) -> *mut callweir_error {
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(value, out, |value| value.to_json().map(|json| json.to_string())) }
}

/// Tells the text `{"result": ...}` of a result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_value_result(
    value: *const callweir_value,
    out: *mut callweir_string,
) -> *mut callweir_error {
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(value, out, callweir_core::foreign::result_text) }
}

/// Returns another handle of the value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_value_clone(value: *const callweir_value) -> *mut callweir_value {
    reading(|| handles::give_some(handles::get(value).ok()))
}

/// Frees a handle of a value; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_value_free(value: *mut callweir_value) {
    end(value);
}
