//! The native functions: how JavaScript's arguments are read, and the boundary where errors and panics are kept.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use callweir::{Error, Result};
use napi_sys as sys;

use crate::drive::Standing;
use crate::instance::{Instance, Local, Shared};
use crate::js::{Js, NOTHING, Raw};
use crate::value::Slot;

/// A native function's body.
pub(crate) type Body = fn(&Arc<Instance>, &Arguments<'_>) -> Result<Raw>;

/// A native function: its name, how many arguments it takes beside the shared numbers, and its body.
pub(crate) type Function = (&'static str, usize, Body);

/// The most arguments that a native function takes.
const MOST: usize = 16;

/// The arguments of one native call.
pub(crate) struct Arguments<'a> {
    js: Js,
    instance: &'a Arc<Instance>,
    values: [Raw; MOST],
}

impl Arguments<'_> {
    fn value(&self, index: usize) -> Raw {
        self.values
            .get(index)
            .copied()
            .unwrap_or_else(|| self.js.undefined())
    }

    pub(crate) fn number_or_none(&self, index: usize) -> Option<f64> {
        self.js.as_number(self.value(index))
    }

    pub(crate) fn number(&self, index: usize) -> Result<f64> {
        self.number_or_none(index).ok_or_else(|| wrong(index, "a number"))
    }

    /// Reads an id, which JavaScript made or was given.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ids are whole numbers above 0"
    )]
    pub(crate) fn id(&self, index: usize) -> Result<u64> {
        let number = self.number(index)?;
        if number >= 1.0 {
            Ok(number as u64)
        } else {
            Err(wrong(index, "an id"))
        }
    }

    /// Takes over a place of the table.
    pub(crate) fn slot(&self, index: usize) -> Result<Slot> {
        self.slot_or_none(index).ok_or_else(|| wrong(index, "a place"))
    }

    /// Reads an id from the shared numbers.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ids are whole numbers above 0"
    )]
    pub(crate) fn given_id(local: &Local, index: usize) -> u64 {
        local.given(index) as u64
    }

    /// Takes over a place of the table from the shared numbers; nothing for a negative one.
    pub(crate) fn given_slot(&self, local: &Local, index: usize) -> Option<Slot> {
        Slot::take(self.instance, local.given(index))
    }

    pub(crate) fn slot_or_none(&self, index: usize) -> Option<Slot> {
        Slot::take(self.instance, self.number_or_none(index)?)
    }

    pub(crate) fn text(&self, index: usize) -> Result<String> {
        self.text_or_none(index).ok_or_else(|| wrong(index, "a text"))
    }

    pub(crate) fn text_or_none(&self, index: usize) -> Option<String> {
        self.js.as_text(self.value(index))
    }

    pub(crate) fn flag(&self, index: usize) -> bool {
        self.js.as_flag(self.value(index)).unwrap_or(false)
    }

    /// Reads JSON that JavaScript wrote, such as metadata; nothing if there is none.
    pub(crate) fn json_or_none(&self, index: usize) -> Result<Option<serde_json::Value>> {
        self.text_or_none(index)
            .map(|text| callweir::parse_json(&text))
            .transpose()
    }
}

pub(crate) fn wrong(index: usize, expected: &str) -> Error {
    Error::internal(format!(
        "the package's JavaScript gave no {expected} as argument {index}"
    ))
}

/// A native function with what it needs.
struct Bound {
    instance: Arc<Instance>,
    count: usize,
    body: Body,
}

/// Everything that native functions refer to, dropped when the environment has ended.
struct Everything {
    instance: Arc<Instance>,
    bound: Vec<*mut Bound>,
}

/// Makes the native functions of an instance as properties of `target`.
pub(crate) fn bind(instance: &Arc<Instance>, js: Js, target: Raw, functions: &[Function]) {
    let mut everything = Box::new(Everything {
        instance: instance.clone(),
        bound: Vec::new(),
    });
    for (name, count, body) in functions {
        let bound = Box::into_raw(Box::new(Bound {
            instance: instance.clone(),
            count: *count,
            body: *body,
        }));
        everything.bound.push(bound);
        let mut function = ptr::null_mut();
        // SAFETY: the environment is alive on this thread; the name is copied, and `bound` is dropped only when no
        // function can be called any more.
        unsafe {
            let status = sys::napi_create_function(
                js.env(),
                name.as_ptr().cast(),
                name.len().cast_signed(),
                Some(called),
                bound.cast::<c_void>(),
                &raw mut function,
            );
            if status == sys::Status::napi_ok {
                sys::napi_set_property(js.env(), target, js.text(name), function);
            }
        }
    }
    // SAFETY: as above; the hook takes the box back.
    unsafe {
        sys::napi_add_env_cleanup_hook(js.env(), Some(ended), Box::into_raw(everything).cast::<c_void>());
    }
}

/// Runs when the environment ends.
unsafe extern "C" fn ended(everything: *mut c_void) {
    // SAFETY: the pointer was made by `bind`, and the hook runs once.
    let everything = unsafe { Box::from_raw(everything.cast::<Everything>()) };
    everything.instance.close();
    for bound in everything.bound {
        // SAFETY: made by `bind`; JavaScript runs no more.
        drop(unsafe { Box::from_raw(bound) });
    }
}

/// Runs a native function; what fails is given as a place, never thrown.
unsafe extern "C" fn called(env: sys::napi_env, info: sys::napi_callback_info) -> Raw {
    let js = Js::new(env);
    let (mut none, mut data) = (0, ptr::null_mut());
    // SAFETY: nothing but the data is asked for.
    unsafe {
        sys::napi_get_cb_info(
            env,
            info,
            &raw mut none,
            ptr::null_mut(),
            ptr::null_mut(),
            &raw mut data,
        );
    }
    // SAFETY: the data is what `bind` gave, and lives until the environment ends.
    let bound = unsafe { &*data.cast_const().cast::<Bound>() };
    let mut values = [NOTHING; MOST];
    let mut count = bound.count.min(MOST);
    if count > 0 {
        // SAFETY: there is room for as many arguments as are asked for.
        unsafe {
            let (values, data) = (values.as_mut_ptr(), ptr::null_mut());
            sys::napi_get_cb_info(env, info, &raw mut count, values, ptr::null_mut(), data);
        }
    }
    let instance = &bound.instance;
    let given = Arguments { js, instance, values };
    let result = instance.entered(|| {
        // What the steps of a task do not overwrite: an answer that is what it says.
        let local = instance.here()?;
        local.set(Shared::Standing, Standing::Plain as i32);
        crate::drive::caught(|| (bound.body)(instance, &given))
    });
    result.unwrap_or_else(|error| refuse(instance, &error))
}

fn refuse(instance: &Arc<Instance>, error: &Error) -> Raw {
    let Some(local) = instance.local() else {
        return NOTHING;
    };
    crate::drive::fail(instance, local, error).unwrap_or_else(|_| {
        // The environment is ending: there is nobody left to tell.
        local.set(Shared::Standing, Standing::Stale as i32);
        NOTHING
    })
}
