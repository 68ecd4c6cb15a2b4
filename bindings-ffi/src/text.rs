//! Texts that carry their length: borrowed from the program, or owned by it.

use std::ffi::c_char;

use callweir_core::{Error, Result, parse_json};
use serde_json::{Map, Value};

use crate::boundary::{check, doing, fallible};
use crate::error::callweir_error;

/// UTF-8 text that belongs to whoever gives it; `data` NULL stands for no text.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct callweir_text {
    /// The bytes; no terminator is needed.
    pub data: *const c_char,
    /// How many bytes.
    pub len: usize,
}

/// UTF-8 text that belongs to whoever got it, to be given to `callweir_string_free`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct callweir_string {
    /// The bytes, with a NUL after the last; NULL stands for no text.
    pub data: *mut c_char,
    /// How many bytes, without the NUL.
    pub len: usize,
}

impl callweir_text {
    pub(crate) const fn of(text: &'static str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            len: text.len(),
        }
    }

    pub(crate) const fn absent() -> Self {
        Self {
            data: std::ptr::null(),
            len: 0,
        }
    }

    /// Reads a text that may be absent; `what` names it in the error.
    pub(crate) unsafe fn read<'a>(self, what: &str) -> Result<Option<&'a str>> {
        if self.data.is_null() {
            return Ok(None);
        }
        if isize::try_from(self.len).is_err() {
            return Err(Error::invalid_argument(
                format!("$.{what}"),
                "the length is beyond memory",
            ));
        }
        // SAFETY: the program promises that `len` bytes are there while the function runs.
        let bytes = unsafe { std::slice::from_raw_parts(self.data.cast::<u8>(), self.len) };
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Error::invalid_argument(
                format!("$.{what}"),
                format!("not UTF-8 at byte {}", error.valid_up_to()),
            )
        });
        text.map(Some)
    }

    /// Reads a text that must be there.
    pub(crate) unsafe fn need<'a>(self, what: &str) -> Result<&'a str> {
        // SAFETY: as for `read`.
        let text = unsafe { self.read(what) }?;
        text.ok_or_else(|| Error::invalid_argument(format!("$.{what}"), "the text is missing"))
    }

    /// Reads JSON text that may be absent.
    pub(crate) unsafe fn json(self, what: &str) -> Result<Option<Value>> {
        // SAFETY: as for `read`.
        let text = unsafe { self.read(what) }?;
        text.map(|text| {
            parse_json(text).map_err(|error| Error::invalid_argument(format!("$.{what}"), error.to_string()))
        })
        .transpose()
    }

    /// Reads options: a JSON object with no other keys than `known`.
    pub(crate) unsafe fn options(self, known: &[&str]) -> Result<Map<String, Value>> {
        // SAFETY: as for `read`.
        match unsafe { self.json("options") }? {
            None => Ok(Map::new()),
            Some(Value::Object(map)) => match map.keys().find(|key| !known.contains(&key.as_str())) {
                Some(key) => Err(Error::invalid_argument(
                    format!("$.options.{key}"),
                    format!("no such option; there are {}", known.join(", ")),
                )),
                None => Ok(map),
            },
            Some(_) => Err(Error::invalid_argument("$.options", "expected an object")),
        }
    }
}

impl callweir_string {
    pub(crate) const fn absent() -> Self {
        Self {
            data: std::ptr::null_mut(),
            len: 0,
        }
    }

    pub(crate) fn own(text: impl Into<String>) -> Self {
        let mut bytes = text.into().into_bytes();
        let len = bytes.len();
        bytes.push(0);
        let data = Box::into_raw(bytes.into_boxed_slice());
        Self {
            data: data.cast(),
            len,
        }
    }

    pub(crate) fn maybe(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::absent(), Self::own)
    }

    /// Takes the text back.
    pub(crate) unsafe fn into_text(self) -> Result<Option<String>> {
        if self.data.is_null() {
            return Ok(None);
        }
        let whole = std::ptr::slice_from_raw_parts_mut(self.data.cast::<u8>(), self.len + 1);
        // SAFETY: strings are only made by `own`, which gave `len + 1` bytes away.
        let mut bytes = unsafe { Box::from_raw(whole) }.into_vec();
        bytes.pop();
        let text = String::from_utf8(bytes);
        text.map(Some)
            .map_err(|_| Error::invalid_argument("$.text", "not UTF-8"))
    }
}

/// Copies a text into a string of the library's, for callbacks that give one away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_string_new(
    text: callweir_text,
    out: *mut callweir_string,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        // SAFETY: the program's promises about texts and out values.
        unsafe { out.write(callweir_string::own(text.need("text")?)) };
        Ok(())
    })
}

/// Frees a string; one without text is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_string_free(string: callweir_string) {
    // SAFETY: the program gives back what it got, once.
    doing(|| drop(unsafe { string.into_text() }));
}
