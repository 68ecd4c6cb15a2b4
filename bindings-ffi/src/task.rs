//! Tasks: calls that are run, started with a completion, or stepped by the host.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use callweir_core::foreign::BoxFuture;
use callweir_core::{Error, Payload, Result};
use parking_lot::Mutex;

use crate::boundary::{check, fallible};
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::host::{Host, callweir_host};
use crate::scope::Moment;
use crate::step::{Action, CALLWEIR_DONE, CALLWEIR_FAIL, CALLWEIR_WAIT, Quiet, Stepping, callweir_step};
use crate::value::callweir_value;

/// A call that has not ended: nothing happens until it is run, started or stepped.
pub enum callweir_task {}
handle!(callweir_task, 9, "task", Arc<Task>);

/// Who is told of the end of a call that was started.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct callweir_completion {
    /// Gets the error or the value, to own, on a thread of the library's; the other is NULL.
    pub function:
        Option<extern "C" fn(userdata: *mut c_void, error: *mut callweir_error, value: *mut callweir_value)>,
    /// What the function gets.
    pub userdata: *mut c_void,
}

// SAFETY: the program promises that its function may be called with the userdata from any thread.
unsafe impl Send for callweir_completion {}

/// A call, and who is to step it again.
pub(crate) struct Task {
    state: Mutex<State>,
    moment: Moment,
    notice: Arc<Notice>,
}

enum State {
    Ready(BoxFuture<Result<Payload>>),
    /// Being stepped, with what the step before left to do.
    Stepped(BoxFuture<Result<Payload>>, VecDeque<Action>),
    /// On another thread right now.
    Busy,
    Ended,
}

/// Tells the host that stepping is worth it again.
#[derive(Default)]
struct Notice {
    told: AtomicBool,
    target: Mutex<Option<(Arc<Host>, u64)>>,
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.told.swap(true, Ordering::AcqRel) || Quiet::is_for(Arc::as_ptr(self).addr()) {
            return;
        }
        if let Some((host, key)) = &*self.target.lock() {
            host.push(Action::Wake(*key));
        }
    }
}

impl Task {
    /// Makes a task of a call and gives it to the program.
    pub(crate) fn give(
        moment: Moment,
        future: impl Future<Output = Result<Payload>> + Send + 'static,
    ) -> *mut callweir_task {
        handles::give(Arc::new(Self {
            state: Mutex::new(State::Ready(Box::pin(future))),
            moment,
            notice: Arc::default(),
        }))
    }

    fn take(&self) -> Result<State> {
        let mut state = self.state.lock();
        match &*state {
            State::Busy => Err(unusable("it is in use on another thread")),
            State::Ended => Err(ended()),
            State::Ready(_) | State::Stepped(..) => Ok(std::mem::replace(&mut *state, State::Busy)),
        }
    }

    fn take_whole(&self) -> Result<BoxFuture<Result<Payload>>> {
        match self.take()? {
            State::Ready(future) => {
                *self.state.lock() = State::Ended;
                Ok(future)
            }
            other => {
                *self.state.lock() = other;
                Err(unusable("it is being stepped"))
            }
        }
    }

    /// Polls once, unless there is something left to do.
    fn step(&self) -> Result<callweir_step> {
        let (mut future, mut left) = match self.take()? {
            State::Ready(future) => (future, VecDeque::new()),
            State::Stepped(future, left) => (future, left),
            State::Busy | State::Ended => return Err(ended()),
        };
        let mut polled = Poll::Pending;
        if left.is_empty() {
            let call = Arc::as_ptr(&self.notice).addr();
            let (_stepping, _quiet) = (Stepping::enter(call), Quiet::enter(call));
            let waker = Waker::from(self.notice.clone());
            let mut cx = Context::from_waker(&waker);
            loop {
                self.notice.told.store(false, Ordering::Release);
                polled = self.moment.enter(|| future.as_mut().poll(&mut cx));
                left = Stepping::taken();
                // What woke during the poll is done at once, not after a turn of the host.
                if polled.is_ready() || !left.is_empty() || !self.notice.told.load(Ordering::Acquire) {
                    break;
                }
            }
        }
        if let Poll::Ready(result) = polled {
            *self.state.lock() = State::Ended;
            drop(future);
            return Ok(ending(result));
        }
        let step = left
            .pop_front()
            .map_or(callweir_step::new(CALLWEIR_WAIT), Action::into_step);
        *self.state.lock() = State::Stepped(future, left);
        Ok(step)
    }
}

fn unusable(why: &str) -> Error {
    Error::invalid_argument("$.task", why)
}

fn ended() -> Error {
    unusable("it has been run, started, or stepped to its end")
}

fn ending(result: Result<Payload>) -> callweir_step {
    match result {
        Ok(value) => callweir_step {
            value: handles::give(value),
            ..callweir_step::new(CALLWEIR_DONE)
        },
        Err(error) => callweir_step {
            error: handles::give(error),
            ..callweir_step::new(CALLWEIR_FAIL)
        },
    }
}

/// Runs a call to its end on this thread: blocking callbacks run here, too. The task is used up, and still to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_task_run(
    task: *const callweir_task,
    out: *mut *mut callweir_value,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let task = handles::get(task)?;
        let future = task.take_whole()?;
        let _hidden = Stepping::hide();
        let _loud = Quiet::enter(0);
        let value = task
            .moment
            .enter(|| crate::executor::blocking(|| callweir_core::block_on(future)))?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(value)) };
        Ok(())
    })
}

/// Starts a call on threads of the library's, and tells `completion` of its end, once. The task is used up, and still
/// to be freed; freeing it does not stop the call, a token does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_task_start(
    task: *const callweir_task,
    completion: callweir_completion,
) -> *mut callweir_error {
    fallible(|| {
        let task = handles::get(task)?;
        let function = completion.function;
        let function = function
            .ok_or_else(|| Error::invalid_argument("$.completion.function", "the function is NULL"))?;
        let future = task.take_whole()?;
        let done = move |result: Result<Payload>| {
            // The whole struct goes along, for it alone is `Send`.
            let completion = completion;
            match result {
                Ok(value) => function(completion.userdata, std::ptr::null_mut(), handles::give(value)),
                Err(error) => function(completion.userdata, handles::give(error), std::ptr::null_mut()),
            }
        };
        crate::executor::spawn(task.moment.clone(), future, Box::new(done));
        Ok(())
    })
}

/// Turns a call until the host has something to do, and tells what.
///
/// After `CALLWEIR_RUN` the host runs the callback, answers its request, and steps again; it may step before that.
/// After `CALLWEIR_WAIT` it steps again on a wake (`callweir_task_notify`) or once it has answered a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_task_step(
    task: *const callweir_task,
    out: *mut callweir_step,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let step = handles::get(task)?.step()?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(step) };
        Ok(())
    })
}

/// Sends the wakes of a call to a host, under this key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_task_notify(
    task: *const callweir_task,
    host: *const callweir_host,
    key: u64,
) -> *mut callweir_error {
    fallible(|| {
        let (task, host) = (handles::get(task)?, handles::get(host)?);
        *task.notice.target.lock() = Some((host, key));
        Ok(())
    })
}

/// Frees a task; a call that was begun by steps and has not ended is dropped, and ends as cancelled. NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_task_free(task: *mut callweir_task) {
    crate::boundary::doing(|| {
        if let Ok(task) = handles::take(task) {
            *task.notice.target.lock() = None;
            let moment = task.moment.clone();
            let state = std::mem::replace(&mut *task.state.lock(), State::Ended);
            moment.enter(|| drop(state));
        }
    });
}
