//! One load of the package in one environment: what it holds, and the JavaScript functions that it calls.
//!
//! An environment is the main thread or a worker. Everything here belongs to its thread; other threads may only
//! drop places of the table, wake tasks and schedule lanes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use callweir::foreign::Runnable;
use callweir::{Error, ManualCall, Result, Runtime, Scope, ToolRegistry};
use napi_sys as sys;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::drive::{Frame, Tasks};
use crate::js::{Js, Raw, Shim};
use crate::slab::Slab;
use crate::value::{Default, Slot};

macro_rules! shims {
    ($($shim:ident => $name:literal),* $(,)?) => {
        /// The functions that JavaScript lends.
        #[derive(Clone, Copy)]
        pub(crate) enum Lent {
            $($shim),*
        }

        /// Their names, in the order of [`Lent`].
        const NAMES: &[&CStr] = &[$($name),*];
    };
}
shims! {
    Sanitize => c"sanitize",
    SanitizeEvent => c"sanitizeEvent",
    Observe => c"observe",
    ObserveCall => c"observeCall",
    Stringify => c"stringify",
    Isolate => c"isolate",
    Keys => c"keys",
    Parse => c"parse",
    Again => c"again",
    TextOf => c"textOf",
    Verdict => c"verdict",
    Explain => c"explain",
    Build => c"build",
    Context => c"context",
    Capture => c"capture",
    Soon => c"soon",
    Log => c"log",
    Wake => c"wake",
}

/// Integers that both sides read and write, by their place.
#[derive(Clone, Copy)]
pub(crate) enum Shared {
    /// How a task stands after a step; see [`crate::drive::Standing`].
    Standing,
    /// How a task stands once its callback has been called and has not answered.
    Otherwise,
    /// What the callback is called for; see [`crate::foreign::Kind`].
    Kind,
    /// How many more callbacks of the task are to be called.
    Actions,
    /// How a callback answered; see [`crate::foreign::How`].
    How,
    /// How many tasks wait to be polled again.
    Woken,
    /// How many promises of abandoned work wait to be rejected.
    Abandoned,
    /// How many places of the table are free again and listed below.
    Freed,
    /// Whether more places are free than the list could hold.
    More,
    /// How many callbacks of the dispatcher lie behind this moment.
    Echo,
    /// Whether the id of the call that ended was ever seen; it then follows.
    Seen,
    /// The id's four parts, of 32 bits each.
    Id,
}

/// Where the list of freed places begins.
const LIST: usize = 16;

thread_local! {
    static THREAD: u8 = const { 0 };
}

/// Returns a number that no other living thread has: asked for at every step, it must cost next to nothing.
fn here() -> usize {
    THREAD.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// What belongs to the environment's thread.
pub(crate) struct Local {
    pub(crate) js: Js,
    shims: Vec<Shim>,
    shared: *mut i32,
    numbers: *mut f64,
    /// How many places the list of freed places has.
    room: usize,
    pub(crate) frames: RefCell<Slab<Frame>>,
    pub(crate) tasks: RefCell<Tasks>,
    pub(crate) scopes: RefCell<FxHashMap<u64, Scope>>,
    pub(crate) runtimes: RefCell<FxHashMap<u64, (Runtime, Default)>>,
    pub(crate) registries: RefCell<FxHashMap<u64, (ToolRegistry, Default)>>,
    pub(crate) calls: RefCell<FxHashMap<u64, (ManualCall, Default)>>,
    /// The task that is being polled; 0 for none.
    pub(crate) current: Cell<u64>,
    /// What the waker of that task is known by.
    pub(crate) polled: Cell<*const ()>,
    pub(crate) woken: RefCell<VecDeque<u64>>,
    pub(crate) abandoned: RefCell<VecDeque<Slot>>,
    /// How many tasks of the program wait, each of which keeps the process alive.
    pub(crate) pending: Cell<usize>,
    /// How many native functions run inside each other.
    inside: Cell<u32>,
    next_id: Cell<u64>,
}

/// One load of the package.
pub(crate) struct Instance {
    thread: usize,
    local: Local,
    closed: AtomicBool,
    signal: sys::napi_threadsafe_function,
    /// Places that were freed on other threads, or beyond the list.
    freed: Mutex<Vec<u32>>,
    has_freed: AtomicBool,
    /// Tasks that were woken on other threads.
    remote: Mutex<Vec<u64>>,
    /// Warnings from other threads.
    pub(crate) warnings: Mutex<Vec<String>>,
    pub(crate) lanes: Mutex<VecDeque<Runnable>>,
    /// Whether the environment has been asked to run the lanes.
    pub(crate) asked: AtomicBool,
    /// Whether a signal is under way.
    signalled: AtomicBool,
}

// SAFETY: `local` is reached through `Instance::local` only, which refuses other threads, and the thread-safe
// function is made to be called from any; after `closed` it is left alone.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// Makes an instance over the functions and the integers that JavaScript lends.
    pub(crate) fn new(js: Js, lent: Raw, integers: Raw, numbers: Raw) -> Option<Arc<Self>> {
        let shims = NAMES
            .iter()
            .map(|name| js.hold(js.property(lent, name)))
            .collect::<Option<Vec<_>>>()?;
        let (shared, length) = js.integers(integers)?;
        let numbers_at = js.numbers(numbers)?;
        // Held for their memory, which JavaScript must not collect before the environment ends.
        js.hold(integers)?;
        js.hold(numbers)?;
        let local = Local {
            js,
            shims,
            shared,
            numbers: numbers_at,
            room: length.checked_sub(LIST)?,
            frames: RefCell::default(),
            tasks: RefCell::default(),
            scopes: RefCell::default(),
            runtimes: RefCell::default(),
            registries: RefCell::default(),
            calls: RefCell::default(),
            current: Cell::new(0),
            polled: Cell::new(ptr::null()),
            woken: RefCell::default(),
            abandoned: RefCell::default(),
            pending: Cell::new(0),
            inside: Cell::new(0),
            next_id: Cell::new(0),
        };
        let made = Arc::new_cyclic(|me: &std::sync::Weak<Self>| Self {
            thread: here(),
            signal: signal(js, me.as_ptr()),
            local,
            closed: AtomicBool::new(false),
            freed: Mutex::default(),
            has_freed: AtomicBool::new(false),
            remote: Mutex::default(),
            warnings: Mutex::default(),
            lanes: Mutex::default(),
            asked: AtomicBool::new(false),
            signalled: AtomicBool::new(false),
        });
        (!made.signal.is_null()).then_some(made)
    }

    /// Returns what belongs to the thread; nothing on another thread, or once the environment has ended.
    pub(crate) fn local(&self) -> Option<&Local> {
        (here() == self.thread && !self.closed.load(Ordering::Acquire)).then_some(&self.local)
    }

    /// Returns what belongs to the thread, or the error of a callback whose environment has ended.
    pub(crate) fn here(&self) -> Result<&Local> {
        self.local().ok_or_else(Error::shut_down)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Runs a native function's body; what it wakes is found by the JavaScript that called it.
    pub(crate) fn entered<T>(&self, body: impl FnOnce() -> T) -> T {
        let Some(local) = self.local() else { return body() };
        local.inside.set(local.inside.get() + 1);
        let result = body();
        local.inside.set(local.inside.get() - 1);
        if self.has_freed.load(Ordering::Relaxed) {
            local.set(Shared::More, 1);
        }
        result
    }

    /// Frees a place of the table, from any thread.
    pub(crate) fn free(&self, place: u32) {
        match self.local() {
            Some(local) if local.list(place) => {}
            _ => {
                self.freed.lock().push(place);
                self.has_freed.store(true, Ordering::Release);
            }
        }
    }

    /// Lists places that were freed elsewhere; says whether there are more.
    pub(crate) fn list_freed(&self) -> Result<bool> {
        let local = self.here()?;
        let mut freed = self.freed.lock();
        self.has_freed.store(false, Ordering::Release);
        while let Some(place) = freed.pop() {
            if !local.list(place) {
                freed.push(place);
                self.has_freed.store(true, Ordering::Release);
                return Ok(true);
            }
        }
        local.set(Shared::More, 0);
        Ok(false)
    }

    /// Has a task polled again, from any thread.
    pub(crate) fn wake(&self, task: u64) {
        if let Some(local) = self.local() {
            if local.current.get() == task {
                return;
            }
            let mut woken = local.woken.borrow_mut();
            woken.push_back(task);
            local.set(Shared::Woken, i32::try_from(woken.len()).unwrap_or(i32::MAX));
            if local.inside.get() > 0 {
                return;
            }
        } else {
            self.remote.lock().push(task);
        }
        self.signal();
    }

    /// Takes over what other threads have woken.
    pub(crate) fn take_remote(&self) -> Result<()> {
        let local = self.here()?;
        self.signalled.store(false, Ordering::Release);
        let remote = std::mem::take(&mut *self.remote.lock());
        local.woken.borrow_mut().extend(remote);
        let warnings = std::mem::take(&mut *self.warnings.lock());
        for warning in warnings {
            local.call(Lent::Log, &[local.js.text(&warning)]);
        }
        Ok(())
    }

    /// Wakes the environment's thread.
    pub(crate) fn signal(&self) {
        if self.is_closed() || self.signalled.swap(true, Ordering::AcqRel) {
            return;
        }
        // SAFETY: the function lives until the environment ends, and its queue has no bound. When it is closing the
        // call is refused, and there is nobody left to wake.
        unsafe {
            sys::napi_call_threadsafe_function(
                self.signal,
                ptr::null_mut(),
                sys::ThreadsafeFunctionCallMode::nonblocking,
            );
        }
    }

    /// Asks the environment to run the lanes soon.
    pub(crate) fn ask_for_drain(&self) {
        match self.local() {
            Some(local) if local.inside.get() > 0 => {
                local.call(Lent::Soon, &[]);
            }
            _ => self.signal(),
        }
    }

    /// Counts a task that waits, or has ended waiting; the process lives while there is one.
    pub(crate) fn count_pending(&self, grows: bool) {
        let Some(local) = self.local() else { return };
        let before = local.pending.get();
        let after = if grows {
            before + 1
        } else {
            before.saturating_sub(1)
        };
        local.pending.set(after);
        // SAFETY: the function lives as long as the environment, and this is its thread.
        unsafe {
            if before == 0 && after == 1 {
                sys::napi_ref_threadsafe_function(local.js.env(), self.signal);
            } else if before == 1 && after == 0 {
                sys::napi_unref_threadsafe_function(local.js.env(), self.signal);
            }
        }
    }

    /// Lets go of everything when the environment ends; JavaScript cannot run any more.
    pub(crate) fn close(&self) {
        let Some(local) = self.local() else { return };
        self.closed.store(true, Ordering::Release);
        // From here on drops of places do nothing, and wakes reach nobody.
        drop(local.tasks.take());
        drop(local.frames.take());
        drop(local.abandoned.take());
        drop(local.registries.take());
        drop(local.calls.take());
        drop(local.scopes.take());
        drop(local.runtimes.take());
        drop(std::mem::take(&mut *self.lanes.lock()));
    }
}

impl Local {
    /// Calls a lent function; nothing if the environment is ending.
    pub(crate) fn call(&self, lent: Lent, arguments: &[Raw]) -> Option<Raw> {
        let shim = self.shims.get(lent as usize)?;
        self.js.call(*shim, arguments)
    }

    /// Calls a lent function that answers with a number, such as a place of the table.
    pub(crate) fn call_for_number(&self, lent: Lent, arguments: &[Raw]) -> Result<f64> {
        self.call(lent, arguments)
            .and_then(|answer| self.js.as_number(answer))
            .ok_or_else(crate::error::unable)
    }

    /// Calls a lent function that answers with a text, or with nothing.
    pub(crate) fn call_for_text(&self, lent: Lent, arguments: &[Raw]) -> Option<String> {
        self.call(lent, arguments)
            .and_then(|answer| self.js.as_text(answer))
    }

    /// Returns a number that no other frame, task or scope of the instance has.
    pub(crate) fn new_id(&self) -> u64 {
        let id = self.next_id.get() + 1;
        self.next_id.set(id);
        id
    }

    /// Returns a number that JavaScript wrote for the native function that it calls.
    pub(crate) fn given(&self, index: usize) -> f64 {
        // SAFETY: as below; callers name one of the first few places.
        unsafe { self.numbers.add(index).read() }
    }

    /// Writes a number for JavaScript: an argument, or as the first one an answer.
    pub(crate) fn give(&self, index: usize, number: f64) {
        // SAFETY: as below; callers name one of the first few places.
        unsafe { self.numbers.add(index).write(number) };
    }

    /// Calls a lent function whose arguments and answer are shared numbers: the answer is a place of the table.
    pub(crate) fn call_with(&self, lent: Lent, arguments: &[f64]) -> Option<f64> {
        arguments
            .iter()
            .enumerate()
            .for_each(|(index, number)| self.give(index, *number));
        self.call(lent, &[])?;
        Some(self.given(0))
    }

    pub(crate) fn get(&self, which: Shared) -> i32 {
        // SAFETY: the memory is held, longer than any of these places, and only this thread uses it.
        unsafe { self.shared.add(which as usize).read() }
    }

    pub(crate) fn set(&self, which: Shared, value: i32) {
        // SAFETY: as above.
        unsafe { self.shared.add(which as usize).write(value) }
    }

    /// Tells JavaScript the id of a call that has ended, if anybody has seen it.
    pub(crate) fn tell_id(&self, id: Option<[u8; 16]>) {
        self.set(Shared::Seen, i32::from(id.is_some()));
        let parts = id.unwrap_or_default();
        for (index, part) in parts.as_chunks::<4>().0.iter().enumerate() {
            // SAFETY: as above; the four places of the id come before the list.
            unsafe {
                let place = self.shared.add(Shared::Id as usize + index);
                place.write(i32::from_be_bytes(*part));
            }
        }
    }

    /// Lists a freed place; false if the list is full.
    fn list(&self, place: u32) -> bool {
        let count = self.get(Shared::Freed);
        let index = usize::try_from(count).unwrap_or(usize::MAX);
        if index >= self.room {
            return false;
        }
        // SAFETY: as above; the index was checked.
        unsafe { self.shared.add(LIST + index).write(place.cast_signed()) };
        self.set(Shared::Freed, count + 1);
        true
    }
}

/// Makes the function by which other threads wake the environment; it keeps no process alive by itself.
fn signal(js: Js, instance: *const Instance) -> sys::napi_threadsafe_function {
    let mut made = ptr::null_mut();
    let name = js.text("callweir");
    // SAFETY: the environment is alive on this thread. The instance outlives the function, which is closed with the
    // environment; the cleanup hook that drops the instance was added before and so runs after.
    unsafe {
        let status = sys::napi_create_threadsafe_function(
            js.env(),
            ptr::null_mut(),
            ptr::null_mut(),
            name,
            0,
            1,
            ptr::null_mut(),
            None,
            instance.cast_mut().cast::<c_void>(),
            Some(signalled),
            &raw mut made,
        );
        if status != sys::Status::napi_ok {
            return ptr::null_mut();
        }
        sys::napi_unref_threadsafe_function(js.env(), made);
    }
    made
}

/// Runs on the environment's thread after a signal.
unsafe extern "C" fn signalled(env: sys::napi_env, _: Raw, instance: *mut c_void, _: *mut c_void) {
    if env.is_null() || instance.is_null() {
        return;
    }
    // SAFETY: see `signal`: the instance lives as long as the environment.
    let instance = unsafe { &*instance.cast_const().cast::<Instance>() };
    if let Some(local) = instance.local() {
        local.call(Lent::Wake, &[]);
    }
}
