//! Stepping: what a host that turns its calls itself is told to do next.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;

use crate::error::callweir_error;
use crate::handles;
use crate::request::{Request, callweir_request};
use crate::value::callweir_value;

/// Run the stepped callback `userdata` with `request`, which the host then owns.
pub const CALLWEIR_RUN: u32 = 1;
/// Nothing to do until a wake, or an answer.
pub const CALLWEIR_WAIT: u32 = 2;
/// The call has ended with `value`.
pub const CALLWEIR_DONE: u32 = 3;
/// The call has ended with `error`.
pub const CALLWEIR_FAIL: u32 = 4;
/// The call with this `key` is to be stepped again; comes from a host only.
pub const CALLWEIR_WAKE: u32 = 5;

/// What a host is to do next. What it holds belongs to the host.
#[repr(C)]
pub struct callweir_step {
    /// `CALLWEIR_RUN`, `CALLWEIR_WAIT`, `CALLWEIR_DONE`, `CALLWEIR_FAIL` or `CALLWEIR_WAKE`.
    pub action: u32,
    /// The request's stage, for `CALLWEIR_RUN`.
    pub stage: u32,
    /// The callback's, for `CALLWEIR_RUN`.
    pub userdata: *mut c_void,
    /// What the callback is asked, for `CALLWEIR_RUN`.
    pub request: *mut callweir_request,
    /// The result, for `CALLWEIR_DONE`.
    pub value: *mut callweir_value,
    /// The failure, for `CALLWEIR_FAIL`.
    pub error: *mut callweir_error,
    /// The call's key, for `CALLWEIR_WAKE`.
    pub key: u64,
}

impl callweir_step {
    pub(crate) const fn new(action: u32) -> Self {
        Self {
            action,
            stage: 0,
            userdata: std::ptr::null_mut(),
            request: std::ptr::null_mut(),
            value: std::ptr::null_mut(),
            error: std::ptr::null_mut(),
            key: 0,
        }
    }
}

/// Something for a host to do.
pub(crate) enum Action {
    Run {
        userdata: *mut c_void,
        request: Arc<Request>,
    },
    Wake(u64),
}

// SAFETY: the userdata is only handed back to the program, which may use it on any thread.
unsafe impl Send for Action {}

impl Action {
    pub(crate) fn into_step(self) -> callweir_step {
        match self {
            Self::Run { userdata, request } => callweir_step {
                stage: request.stage,
                userdata,
                request: handles::give(request),
                ..callweir_step::new(CALLWEIR_RUN)
            },
            Self::Wake(key) => callweir_step {
                key,
                ..callweir_step::new(CALLWEIR_WAKE)
            },
        }
    }
}

thread_local! {
    /// What the poll on this thread asks of the host, while it is a step.
    static OUTBOX: RefCell<Option<Outbox>> = const { RefCell::new(None) };
    static QUIET: Cell<usize> = const { Cell::new(0) };
}

/// What a step gives out, and of which call it is.
struct Outbox {
    call: usize,
    actions: VecDeque<Action>,
}

/// The step on this thread.
pub(crate) struct Stepping(Option<Outbox>);

impl Stepping {
    /// Begins a step of `call`; what was around it, such as a step whose callback steps another call, comes back after.
    pub(crate) fn enter(call: usize) -> Self {
        Self(OUTBOX.replace(Some(Outbox {
            call,
            actions: VecDeque::new(),
        })))
    }

    /// Hides a step from what is polled otherwise on this thread.
    pub(crate) fn hide() -> Self {
        Self(OUTBOX.replace(None))
    }

    /// Returns the call that is being stepped, 0 for none.
    pub(crate) fn call() -> usize {
        OUTBOX.with_borrow(|outbox| outbox.as_ref().map_or(0, |outbox| outbox.call))
    }

    pub(crate) fn push(action: Action) {
        OUTBOX.with_borrow_mut(|outbox| {
            if let Some(outbox) = outbox {
                outbox.actions.push_back(action);
            }
        });
    }

    /// Takes what was asked so far.
    pub(crate) fn taken() -> VecDeque<Action> {
        OUTBOX.with_borrow_mut(|outbox| {
            outbox
                .as_mut()
                .map(|outbox| std::mem::take(&mut outbox.actions))
                .unwrap_or_default()
        })
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        OUTBOX.set(self.0.take());
    }
}

/// While it lives, wakes of one call on this thread are not told to its host, which is about to step it by itself.
pub(crate) struct Quiet(usize);

impl Quiet {
    /// Keeps the wakes of `call` quiet, 0 for none.
    pub(crate) fn enter(call: usize) -> Self {
        Self(QUIET.replace(call))
    }

    pub(crate) fn is_for(call: usize) -> bool {
        QUIET.get() == call
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(self.0);
    }
}
