//! Driving: a task is polled on the JavaScript thread, at once when it is launched and whenever a callback has
//! answered. Only what Rust itself waits for wakes it from elsewhere.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use callweir::foreign::BoxFuture;
use callweir::{Error, Payload, Result, Scope};

use crate::call::{Proceed, Token};
use crate::foreign::Answer;
use crate::instance::{Instance, Local, Shared};
use crate::js::{NOTHING, Raw};
use crate::value::{Slot, held};

/// What a task gives.
pub(crate) enum Output {
    Payload(Payload),
    Text(String),
    Count(usize),
    Nothing,
}

/// A future that gives an [`Output`].
pub(crate) type Driven = BoxFuture<Result<Output>>;

/// How a task stands after a step; `ts/engine.ts` has the same list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Done; the answer is a place of the table.
    Done,
    /// Done; the answer is the value itself.
    Plain,
    /// A callback has not answered yet.
    Pending,
    /// Rust itself waits, and may wake the task from elsewhere.
    Waiting,
    /// Failed; the answer is the place of what is thrown.
    Failed,
    /// Cancelled; the answer is the place of Callweir's own error for it.
    Aborted,
    /// Nothing was polled: the task is over, or is being polled.
    Stale,
}

/// A promise that JavaScript has been given, from Rust's side.
pub(crate) struct Task {
    running: Option<Running>,
    /// JavaScript's own object for the task.
    pub(crate) object: Slot,
    /// The scope of the call, once it is the current one.
    pub(crate) scope: Option<Scope>,
    /// Fired by the call's `AbortSignal`.
    pub(crate) token: Option<Token>,
    /// Whether the task keeps the process alive: one of the program's own, and not of a `next`.
    pub(crate) is_root: bool,
    counted: bool,
}

struct Running {
    future: Driven,
    cell: Arc<WakeCell>,
    /// Made from the cell, so that this and the cell are the two references that a poll knows of.
    waker: Waker,
}

struct WakeCell {
    instance: Arc<Instance>,
    task: u64,
    woken: AtomicBool,
}

impl Wake for WakeCell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.instance.wake(self.task);
        }
    }
}

/// A callback that may answer later, from the moment it is called.
pub(crate) struct Frame {
    /// The task inside which it was called; 0 for one of the dispatcher's.
    task: u64,
    answer: Option<Answer>,
    waker: Option<Waker>,
    /// What its `next` runs.
    pub(crate) proceed: Option<Proceed>,
    /// The tasks of its `next`.
    pub(crate) tasks: Vec<u64>,
}

impl Frame {
    pub(crate) fn new(local: &Local, proceed: Option<Proceed>) -> Self {
        Self {
            task: local.current.get(),
            answer: None,
            waker: None,
            proceed,
            tasks: Vec::new(),
        }
    }
}

/// Starts a task: `make` runs as part of it, and may call callbacks.
pub(crate) fn launch(
    instance: &Arc<Instance>,
    id: u64,
    task: Task,
    make: impl FnOnce() -> Result<Driven>,
) -> Result<Raw> {
    let local = instance.here()?;
    local.tasks.borrow_mut().insert(id, task);
    let before = local.current.replace(id);
    let made = caught(make);
    local.current.set(before);
    match made {
        Ok(future) => {
            let cell = Arc::new(WakeCell {
                instance: instance.clone(),
                task: id,
                woken: AtomicBool::new(false),
            });
            let waker = Waker::from(cell.clone());
            drive(instance, local, id, Running { future, cell, waker })
        }
        Err(error) => end(instance, local, id, Err(error)),
    }
}

impl Task {
    pub(crate) fn new(object: Slot, is_root: bool) -> Self {
        Self {
            running: None,
            object,
            scope: None,
            token: None,
            is_root,
            counted: false,
        }
    }
}

/// Polls a task.
pub(crate) fn poll(instance: &Arc<Instance>, id: u64) -> Result<Raw> {
    let local = instance.here()?;
    let running = local
        .tasks
        .borrow_mut()
        .get_mut(&id)
        .and_then(|task| task.running.take());
    match running {
        Some(running) => drive(instance, local, id, running),
        None => Ok(stale(local)),
    }
}

fn stale(local: &Local) -> Raw {
    local.set(Shared::Standing, Standing::Stale as i32);
    NOTHING
}

fn drive(instance: &Arc<Instance>, local: &Local, id: u64, mut running: Running) -> Result<Raw> {
    let before = local.current.replace(id);
    let waker_before = local.polled.replace(running.waker.data());
    let polled = loop {
        running.cell.woken.store(false, Ordering::Release);
        let mut cx = Context::from_waker(&running.waker);
        let polled = caught(|| Ok(running.future.as_mut().poll(&mut cx)));
        match polled.unwrap_or_else(|panic| Poll::Ready(Err(panic))) {
            Poll::Pending if running.cell.woken.load(Ordering::Acquire) => {}
            polled => break polled,
        }
    };
    local.current.set(before);
    local.polled.set(waker_before);
    match polled {
        Poll::Pending => {
            park(instance, local, id, running);
            Ok(NOTHING)
        }
        Poll::Ready(result) => {
            drop(running);
            end(instance, local, id, result)
        }
    }
}

/// Puts a task back that waits.
fn park(instance: &Arc<Instance>, local: &Local, id: u64, running: Running) {
    let waits = Arc::strong_count(&running.cell) > 2;
    let standing = if waits {
        Standing::Waiting
    } else {
        Standing::Pending
    };
    local.set(Shared::Standing, standing as i32);
    let mut tasks = local.tasks.borrow_mut();
    let Some(task) = tasks.get_mut(&id) else {
        // Given up while it was polled. What it holds may call back, and must find the list free.
        drop(tasks);
        drop(running);
        return;
    };
    task.running = Some(running);
    let counts = task.is_root && !task.counted;
    task.counted |= counts;
    drop(tasks);
    if counts {
        instance.count_pending(true);
    }
}

/// Ends a task and gives its result.
fn end(instance: &Arc<Instance>, local: &Local, id: u64, result: Result<Output>) -> Result<Raw> {
    let task = local.tasks.borrow_mut().remove(&id);
    if let Some(task) = &task {
        if task.counted {
            instance.count_pending(false);
        }
        let scope = task.scope.as_ref();
        local.tell_id(scope.and_then(callweir::foreign::seen_id));
    }
    drop(task);
    let (standing, raw) = match result {
        Ok(Output::Payload(payload)) => match held(instance, local, &payload) {
            Ok(held) => {
                local.give(0, held.place());
                (Standing::Done, NOTHING)
            }
            Err(error) => (failed(instance, local, &error)?, NOTHING),
        },
        Ok(Output::Text(text)) => (Standing::Plain, local.js.text(&text)),
        #[allow(clippy::cast_precision_loss, reason = "a count of queued events is small")]
        Ok(Output::Count(count)) => (Standing::Plain, local.js.number(count as f64)),
        Ok(Output::Nothing) => (Standing::Plain, NOTHING),
        Err(error) => (failed(instance, local, &error)?, NOTHING),
    };
    local.set(Shared::Standing, standing as i32);
    Ok(raw)
}

/// Fails a task that has not begun.
pub(crate) fn fail(instance: &Arc<Instance>, local: &Local, error: &Error) -> Result<Raw> {
    let standing = failed(instance, local, error)?;
    local.set(Shared::Standing, standing as i32);
    Ok(NOTHING)
}

/// Answers with the place of what is thrown, and returns how a failed task stands.
///
/// The place may be freed at once: JavaScript reads it before it fills it anew.
fn failed(instance: &Arc<Instance>, local: &Local, error: &Error) -> Result<Standing> {
    let own = error.is_control() && error.host_failure().is_none();
    let place = crate::error::thrown_place(instance, local, error)?;
    local.give(0, place);
    Ok(if own { Standing::Aborted } else { Standing::Failed })
}

/// Takes a callback's late answer, and polls the task that waits for it.
pub(crate) fn settle(instance: &Arc<Instance>, frame: u64, answer: Answer) -> Result<Raw> {
    let local = instance.here()?;
    let (task, waker) = {
        let mut frames = local.frames.borrow_mut();
        let Some(frame) = frames.get_mut(&frame) else {
            // Nobody waits any more: the work was abandoned.
            drop(frames);
            drop(answer);
            return Ok(stale(local));
        };
        frame.answer = Some(answer);
        (frame.task, frame.waker.take())
    };
    if let Some(waker) = waker {
        waker.wake();
    }
    if task == 0 {
        Ok(stale(local))
    } else {
        poll(instance, task)
    }
}

/// The late answer of a callback, as a future.
pub(crate) struct Leaf {
    instance: Arc<Instance>,
    frame: u64,
    answered: bool,
}

impl Leaf {
    pub(crate) fn new(instance: Arc<Instance>, frame: u64) -> Self {
        Self {
            instance,
            frame,
            answered: false,
        }
    }
}

impl Future for Leaf {
    type Output = Result<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = &mut *self;
        let local = me.instance.here()?;
        let mut frames = local.frames.borrow_mut();
        let Some(frame) = frames.get_mut(&me.frame) else {
            return Poll::Ready(Err(Error::cancelled()));
        };
        if frame.answer.is_none() {
            // A task polls its callbacks itself when they answer; whoever else polls has to be woken.
            if frame.task == 0 || cx.waker().data() != local.polled.get() {
                frame.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let frame = frames.remove(&me.frame);
        drop(frames);
        me.answered = true;
        frame
            .and_then(|frame| frame.answer)
            .map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)))
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let Some(local) = self.instance.local() else {
            return;
        };
        let frame = local.frames.borrow_mut().remove(&self.frame);
        if let Some(frame) = frame {
            frame.tasks.iter().for_each(|task| abandon(local, *task));
        }
    }
}

/// Gives up a task of a `next` whose callback was given up; its promise is rejected soon.
fn abandon(local: &Local, id: u64) {
    let task = local.tasks.borrow_mut().remove(&id);
    let Some(Task { running, object, .. }) = task else {
        return;
    };
    let count = {
        let mut abandoned = local.abandoned.borrow_mut();
        abandoned.push_back(object);
        abandoned.len()
    };
    local.set(Shared::Abandoned, i32::try_from(count).unwrap_or(i32::MAX));
    drop(running);
}

/// Runs `body`, turning a panic into an error.
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // What a panic leaves behind is not used again.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => Err(Error::from_panic(&*panic)),
    }
}
