//! Cancellation tokens, and the contexts that calls carry.

use std::time::{Duration, Instant};

use callweir_core::{CancellationToken, Error, ToolContext};

use crate::boundary::{check, doing, end, fallible, reading};
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::text::{callweir_string, callweir_text};
use crate::value::callweir_value;

/// A token that cancels calls.
pub enum callweir_token {}
handle!(callweir_token, 3, "token", CancellationToken);

/// Who makes a call and under which limits; immutable.
pub enum callweir_context {}
handle!(callweir_context, 4, "context", ToolContext);

/// What a context holds.
#[repr(C)]
pub struct callweir_context_options {
    /// The caller's id.
    pub caller_id: callweir_text,
    /// Metadata of the run, such as a tenant; NULL for none.
    pub metadata: *const callweir_value,
    /// The token that cancels the call; NULL for none.
    pub token: *const callweir_token,
    /// Microseconds until the deadline; 0 for none, `UINT64_MAX` for one that has passed.
    pub deadline_us: u64,
    /// Where what is not given comes from; NULL for nowhere. A later deadline than the base's is ignored.
    pub base: *const callweir_context,
}

/// Makes a token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_token_new(out: *mut *mut callweir_token) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(CancellationToken::new())) };
        Ok(())
    })
}

/// Fires a token; from any thread, as often as one likes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_token_cancel(token: *const callweir_token) {
    doing(|| {
        if let Ok(token) = handles::get(token) {
            token.cancel();
        }
    });
}

/// Says whether a token has fired.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_token_is_cancelled(token: *const callweir_token) -> bool {
    reading(|| handles::look(token, CancellationToken::is_cancelled).unwrap_or(false))
}

/// Returns another handle of the token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_token_clone(token: *const callweir_token) -> *mut callweir_token {
    reading(|| handles::give_some(handles::get(token).ok()))
}

/// Frees a handle of a token, which does not fire it; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_token_free(token: *mut callweir_token) {
    end(token);
}

/// Makes a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_context_new(
    options: *const callweir_context_options,
    out: *mut *mut callweir_context,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        // SAFETY: the program's promises about pointers.
        let given = unsafe { options.as_ref() };
        let given = given.ok_or_else(|| Error::invalid_argument("$.options", "the pointer is NULL"))?;
        let mut context = handles::get_some(given.base)?.unwrap_or_default();
        // SAFETY: the program's promises about texts.
        if let Some(id) = unsafe { given.caller_id.read("caller_id") }? {
            context = context.with_caller_id(id);
        }
        if let Some(metadata) = handles::get_some(given.metadata)? {
            context = context.with_metadata(metadata);
        }
        if let Some(token) = handles::get_some(given.token)? {
            context = context.with_cancellation(token);
        }
        let left = match given.deadline_us {
            0 => None,
            u64::MAX => Some(Duration::ZERO),
            left => Some(Duration::from_micros(left)),
        };
        if let Some(at) = left.and_then(|left| Instant::now().checked_add(left)) {
            context = context.with_deadline(at);
        }
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(context)) };
        Ok(())
    })
}

/// Tells the caller's id; no text if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_context_caller_id(
    context: *const callweir_context,
    out: *mut callweir_string,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let context = handles::get(context)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(callweir_string::maybe(context.caller_id().map(|id| &**id))) };
        Ok(())
    })
}

/// Returns the metadata of the run; NULL for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_context_metadata(context: *const callweir_context) -> *mut callweir_value {
    reading(|| {
        let context = handles::get(context).unwrap_or_default();
        handles::give_some(context.metadata().cloned())
    })
}

/// Returns the token; NULL for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_context_token(context: *const callweir_context) -> *mut callweir_token {
    reading(|| {
        let context = handles::get(context).unwrap_or_default();
        handles::give_some(context.cancellation().cloned())
    })
}

/// Tells the microseconds until the deadline, 0 if it has passed; false if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_context_deadline_us(
    context: *const callweir_context,
    left: *mut u64,
) -> bool {
    reading(|| {
        let context = handles::get(context).unwrap_or_default();
        let Some(at) = context.deadline().filter(|_| !left.is_null()) else {
            return false;
        };
        let time = at.saturating_duration_since(Instant::now()).as_micros();
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { left.write(u64::try_from(time).unwrap_or(u64::MAX)) };
        true
    })
}

/// Frees a handle of a context; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_context_free(context: *mut callweir_context) {
    end(context);
}
