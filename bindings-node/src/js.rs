//! Node's C interface, as little of it as the door needs: functions over integers and text.
//!
//! JavaScript values never cross. They stay in a table on the JavaScript side, and what crosses is their place in it;
//! a crossing thus costs a few nanoseconds, and primitives are held like objects.

use std::ffi::{c_char, c_void};
use std::ptr;

use napi_sys as sys;

/// A handle of a JavaScript value, valid until the native function returns.
pub(crate) type Raw = sys::napi_value;

/// What a native function returns for `undefined`.
pub(crate) const NOTHING: Raw = ptr::null_mut();

/// The interface of one environment, to be used on its own thread only.
#[derive(Clone, Copy)]
pub(crate) struct Js(sys::napi_env);

/// A function that JavaScript gave, held as long as the environment lives.
#[derive(Clone, Copy)]
pub(crate) struct Shim(sys::napi_ref);

impl Js {
    pub(crate) fn new(env: sys::napi_env) -> Self {
        Self(env)
    }

    pub(crate) fn env(self) -> sys::napi_env {
        self.0
    }

    pub(crate) fn undefined(self) -> Raw {
        let mut value = ptr::null_mut();
        // SAFETY: the environment is alive on this thread, and `value` is a place for one handle.
        unsafe { sys::napi_get_undefined(self.0, &raw mut value) };
        value
    }

    pub(crate) fn number(self, number: f64) -> Raw {
        let mut value = ptr::null_mut();
        // SAFETY: as above.
        unsafe { sys::napi_create_double(self.0, number, &raw mut value) };
        value
    }

    pub(crate) fn text(self, text: &str) -> Raw {
        let mut value = ptr::null_mut();
        let (start, length) = (text.as_ptr().cast::<c_char>(), text.len().cast_signed());
        // SAFETY: as above; the text is copied before the function returns.
        let status = unsafe {
            if text.is_ascii() {
                sys::napi_create_string_latin1(self.0, start, length, &raw mut value)
            } else {
                sys::napi_create_string_utf8(self.0, start, length, &raw mut value)
            }
        };
        // A text beyond what the engine can hold is left out.
        if status == sys::Status::napi_ok {
            value
        } else {
            self.undefined()
        }
    }

    pub(crate) fn as_number(self, value: Raw) -> Option<f64> {
        let mut number = 0.0;
        // SAFETY: `value` is a handle of this call, and `number` is a place for one number.
        let status = unsafe { sys::napi_get_value_double(self.0, value, &raw mut number) };
        (status == sys::Status::napi_ok).then_some(number)
    }

    pub(crate) fn as_flag(self, value: Raw) -> Option<bool> {
        let mut flag = false;
        // SAFETY: as above.
        let status = unsafe { sys::napi_get_value_bool(self.0, value, &raw mut flag) };
        (status == sys::Status::napi_ok).then_some(flag)
    }

    /// Returns a text; nothing for any other value.
    pub(crate) fn as_text(self, value: Raw) -> Option<String> {
        const SHORT: usize = 512;
        let mut short = [0_u8; SHORT];
        let mut length = 0;
        // SAFETY: `value` is a handle of this call; the function writes at most as many bytes as it is told.
        let status = unsafe {
            sys::napi_get_value_string_utf8(self.0, value, short.as_mut_ptr().cast(), SHORT, &raw mut length)
        };
        if status != sys::Status::napi_ok {
            return None;
        }
        // Text that may have been cut is read again; four bytes are the longest character, one is the final zero.
        if length < SHORT - 5 {
            return Some(String::from_utf8_lossy(short.get(..length)?).into_owned());
        }
        // SAFETY: as above; without a buffer the function tells the length.
        unsafe { sys::napi_get_value_string_utf8(self.0, value, ptr::null_mut(), 0, &raw mut length) };
        let mut long = vec![0_u8; length + 1];
        let room = long.len();
        // SAFETY: as above.
        unsafe {
            sys::napi_get_value_string_utf8(self.0, value, long.as_mut_ptr().cast(), room, &raw mut length)
        };
        long.truncate(length);
        Some(
            String::from_utf8(long)
                .unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned()),
        )
    }

    /// Calls a function; nothing if it threw, which only the end of the environment makes it do.
    pub(crate) fn call(self, shim: Shim, arguments: &[Raw]) -> Option<Raw> {
        let (mut function, mut result) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the reference lives as long as the environment; the handles are of this call.
        let status = unsafe {
            sys::napi_get_reference_value(self.0, shim.0, &raw mut function);
            // The receiver is never looked at; any value does.
            sys::napi_call_function(
                self.0,
                function,
                function,
                arguments.len(),
                arguments.as_ptr(),
                &raw mut result,
            )
        };
        if status == sys::Status::napi_ok {
            return Some(result);
        }
        let mut thrown = ptr::null_mut();
        // SAFETY: as above; what was thrown is dropped.
        unsafe { sys::napi_get_and_clear_last_exception(self.0, &raw mut thrown) };
        None
    }

    /// Returns the property of an object.
    pub(crate) fn property(self, object: Raw, name: &std::ffi::CStr) -> Raw {
        let mut value = ptr::null_mut();
        // SAFETY: the object is a handle of this call, and the name ends with a zero.
        let status = unsafe { sys::napi_get_named_property(self.0, object, name.as_ptr(), &raw mut value) };
        if status == sys::Status::napi_ok {
            value
        } else {
            self.undefined()
        }
    }

    /// Holds a function for as long as the environment lives.
    pub(crate) fn hold(self, function: Raw) -> Option<Shim> {
        let mut reference = ptr::null_mut();
        // SAFETY: as above.
        let status = unsafe { sys::napi_create_reference(self.0, function, 1, &raw mut reference) };
        (status == sys::Status::napi_ok).then_some(Shim(reference))
    }

    /// Returns where the integers of a typed array are, and how many.
    pub(crate) fn integers(self, array: Raw) -> Option<(*mut i32, usize)> {
        let (data, kind, length) = self.typed_array(array)?;
        (kind == sys::TypedarrayType::int32_array).then_some((data.cast::<i32>(), length))
    }

    fn typed_array(self, array: Raw) -> Option<(*mut c_void, i32, usize)> {
        let (mut kind, mut length, mut data) = (0, 0, ptr::null_mut::<c_void>());
        // SAFETY: as above; the parts that are not asked for may be null.
        let status = unsafe {
            sys::napi_get_typedarray_info(
                self.0,
                array,
                &raw mut kind,
                &raw mut length,
                &raw mut data,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        (status == sys::Status::napi_ok).then_some((data, kind, length))
    }

    /// Returns where the numbers of a typed array are.
    pub(crate) fn numbers(self, array: Raw) -> Option<*mut f64> {
        let (data, kind, _) = self.typed_array(array)?;
        (kind == sys::TypedarrayType::float64_array).then_some(data.cast::<f64>())
    }

    /// Runs `body` with handles that end with it, for loops that make many.
    pub(crate) fn scoped<T>(self, body: impl FnOnce() -> T) -> T {
        let mut scope = ptr::null_mut();
        // SAFETY: the scope is closed on this thread before the function returns, and nothing of it gets out.
        let opened = unsafe { sys::napi_open_handle_scope(self.0, &raw mut scope) };
        let result = body();
        if opened == sys::Status::napi_ok {
            // SAFETY: as above.
            unsafe { sys::napi_close_handle_scope(self.0, scope) };
        }
        result
    }
}
