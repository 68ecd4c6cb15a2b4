//! Driving: a task is polled on the JavaScript thread, at once when it is launched and whenever a callback has
//! answered. Only what Rust itself waits for wakes it from elsewhere.
//!
//! Rust calls no callback of a call. A poll that comes to one ends with an *action*; JavaScript, which polled, carries
//! it out and settles its frame. So a callback costs no crossing of its own, and calls inside calls nest as deeply as
//! JavaScript itself.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use callweir::foreign::BoxFuture;
use callweir::{Error, NextFuture, Payload, Result, Scope};

use crate::call::{Proceed, Token};
use crate::foreign::{Action, Answer};
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

/// What a task runs.
pub(crate) enum Driven {
    /// The rest of a chain.
    Rest(NextFuture),
    /// A call.
    Call(BoxFuture<Result<Payload>>),
    /// Anything else.
    Other(BoxFuture<Result<Output>>),
}

impl Driven {
    pub(crate) fn other(future: impl Future<Output = Result<Output>> + Send + 'static) -> Self {
        Self::Other(Box::pin(future))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Output>> {
        match self {
            Self::Rest(rest) => Pin::new(rest).poll(cx).map_ok(Output::Payload),
            Self::Call(call) => call.as_mut().poll(cx).map_ok(Output::Payload),
            Self::Other(other) => other.as_mut().poll(cx),
        }
    }
}

/// How a task stands after a step; `ts/native.ts` has the same list.
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
    /// Cancelled; the answer is the place of the error for it.
    Aborted,
    /// Nothing was polled: the task is over, or is being polled.
    Stale,
    /// A callback is to be called; the numbers say which.
    Run,
}

/// A promise that JavaScript has been given, from Rust's side.
pub(crate) struct Task {
    running: Option<Running>,
    /// JavaScript's own object for the task; the task's id is its place, and one more.
    pub(crate) object: Slot,
    /// The scope of the call, once it is the current one.
    pub(crate) scope: Option<Scope>,
    /// Fired by the call's `AbortSignal`.
    pub(crate) token: Option<Token>,
    /// Callbacks that are to be called.
    pub(crate) actions: VecDeque<Action>,
    /// The frame of the callback whose `next` this is; nothing for a task of the program's own, which keeps the
    /// process alive.
    frame: Option<u64>,
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

/// Tasks by their ids.
#[derive(Default)]
pub(crate) struct Tasks(Vec<Option<Box<Task>>>);

impl Tasks {
    fn index(id: u64) -> usize {
        usize::try_from(id).unwrap_or(0).wrapping_sub(1)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Task> {
        self.0.get_mut(Self::index(id))?.as_deref_mut()
    }

    fn insert(&mut self, id: u64, task: Task) {
        let index = Self::index(id);
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        if let Some(place) = self.0.get_mut(index) {
            *place = Some(Box::new(task));
        }
    }

    fn remove(&mut self, id: u64) -> Option<Box<Task>> {
        self.0.get_mut(Self::index(id))?.take()
    }
}

/// A callback that has been called, or is about to be, until its answer has been read.
pub(crate) struct Frame {
    /// The task inside which it is called; 0 for one of the dispatcher's.
    task: u64,
    answer: Option<Answer>,
    waker: Option<Waker>,
    /// What its `next` runs.
    pub(crate) proceed: Option<Proceed>,
    /// The last task of its `next`, and those before.
    tasks: (Option<u64>, Vec<u64>),
    /// What the callback is given, until it has it.
    #[allow(dead_code, reason = "held for its drop")]
    given: Option<Payload>,
}

impl Frame {
    pub(crate) fn new(local: &Local, proceed: Option<Proceed>, given: Option<Payload>) -> Self {
        Self {
            task: local.current.get(),
            answer: None,
            waker: None,
            proceed,
            tasks: (None, Vec::new()),
            given,
        }
    }

    /// Notes a task of its `next`.
    pub(crate) fn add_task(&mut self, task: u64) {
        if let Some(before) = self.tasks.0.replace(task) {
            self.tasks.1.push(before);
        }
    }
}

impl Task {
    /// Makes a task that is known by its JavaScript object.
    pub(crate) fn new(object: Slot, frame: Option<u64>) -> Self {
        Self {
            running: None,
            object,
            scope: None,
            token: None,
            actions: VecDeque::new(),
            frame,
            counted: false,
        }
    }

    /// Returns the id.
    pub(crate) fn id(&self) -> u64 {
        self.object.number() + 1
    }
}

/// Starts a task: `make` runs as part of it.
pub(crate) fn launch(
    instance: &Arc<Instance>,
    task: Task,
    make: impl FnOnce() -> Result<Driven>,
) -> Result<Raw> {
    let local = instance.here()?;
    let id = task.id();
    local.tasks.borrow_mut().insert(id, task);
    let before = local.current.replace(id);
    let started = caught(make);
    local.current.set(before);
    match started {
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

/// Polls a task.
pub(crate) fn poll(instance: &Arc<Instance>, id: u64) -> Result<Raw> {
    let local = instance.here()?;
    let running = {
        let mut tasks = local.tasks.borrow_mut();
        tasks.get_mut(id).and_then(|task| task.running.take())
    };
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
        let polled = caught(|| Ok(running.future.poll(&mut cx)));
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

/// Puts a task back that waits, and says what for.
fn park(instance: &Arc<Instance>, local: &Local, id: u64, running: Running) {
    let waits = Arc::strong_count(&running.cell) > 2;
    let mut tasks = local.tasks.borrow_mut();
    let Some(task) = tasks.get_mut(id) else {
        // Given up while it was polled. What it holds may come back here, and must find the list free.
        drop(tasks);
        drop(running);
        stale(local);
        return;
    };
    task.running = Some(running);
    let counts = task.frame.is_none() && !task.counted;
    task.counted |= counts;
    say(local, task, waits);
    drop(tasks);
    if counts {
        instance.count_pending(true);
    }
}

/// Says what a waiting task waits for: a callback that is to be called, one that has been, or Rust itself.
fn say(local: &Local, task: &mut Task, waits: bool) {
    let waiting = if waits {
        Standing::Waiting
    } else {
        Standing::Pending
    };
    local.set(Shared::Otherwise, waiting as i32);
    let standing = match task.actions.pop_front() {
        Some(action) => {
            local.set(
                Shared::Actions,
                i32::try_from(task.actions.len()).unwrap_or(i32::MAX),
            );
            action.tell(local);
            Standing::Run
        }
        None => waiting,
    };
    local.set(Shared::Standing, standing as i32);
}

/// Says which callback of a task comes next, while the one before has not answered.
pub(crate) fn next_action(local: &Local, id: u64) -> Raw {
    let mut tasks = local.tasks.borrow_mut();
    match tasks.get_mut(id) {
        Some(task) => {
            let waits = task
                .running
                .as_ref()
                .is_some_and(|running| Arc::strong_count(&running.cell) > 2);
            say(local, task, waits);
            NOTHING
        }
        None => stale(local),
    }
}

/// Ends a task and gives its result.
fn end(instance: &Arc<Instance>, local: &Local, id: u64, result: Result<Output>) -> Result<Raw> {
    let task = local.tasks.borrow_mut().remove(id);
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
    let place = crate::error::thrown_place(instance, local, error)?;
    local.give(0, place);
    Ok(if error.is_control() {
        Standing::Aborted
    } else {
        Standing::Failed
    })
}

/// Takes a callback's answer, and polls the task that waits for it.
pub(crate) fn settle(instance: &Arc<Instance>, frame: u64, answer: Answer) -> Result<Raw> {
    let local = instance.here()?;
    let (task, waker) = {
        let mut frames = local.frames.borrow_mut();
        let Some(frame) = frames.get_mut(frame) else {
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

/// The answer of a callback, as a future.
pub(crate) struct Leaf {
    instance: Arc<Instance>,
    frame: u64,
    answered: bool,
}

impl Leaf {
    pub(crate) fn new(instance: &Arc<Instance>, frame: u64) -> Self {
        Self {
            instance: instance.clone(),
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
        let Some(frame) = frames.get_mut(me.frame) else {
            return Poll::Ready(Err(Error::cancelled()));
        };
        if frame.answer.is_none() {
            // A task polls its callbacks itself when they answer; whoever else polls has to be woken.
            if frame.task == 0 || cx.waker().data() != local.polled.get() {
                frame.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let frame = frames.remove(me.frame);
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
        let frame = local.frames.borrow_mut().remove(self.frame);
        if let Some(frame) = frame {
            let tasks = frame.tasks.1.iter().chain(&frame.tasks.0);
            tasks.for_each(|task| abandon(local, self.frame, *task));
        }
    }
}

/// Gives up a task of a `next` whose callback was given up; its promise is rejected soon.
fn abandon(local: &Local, frame: u64, id: u64) {
    let task = {
        let mut tasks = local.tasks.borrow_mut();
        // The task may have ended, and its id be another's.
        let is_mine = tasks.get_mut(id).is_some_and(|task| task.frame == Some(frame));
        if is_mine { tasks.remove(id) } else { None }
    };
    let Some(task) = task else { return };
    let Task { running, object, .. } = *task;
    let count = {
        let mut abandoned = local.abandoned.borrow_mut();
        abandoned.push_back(object);
        abandoned.len()
    };
    local.set(Shared::Abandoned, i32::try_from(count).unwrap_or(i32::MAX));
    drop(running);
}

/// Gives up a task that JavaScript could not go on with.
pub(crate) fn forget(instance: &Arc<Instance>, local: &Local, id: u64) {
    let task = local.tasks.borrow_mut().remove(id);
    if task.as_ref().is_some_and(|task| task.counted) {
        instance.count_pending(false);
    }
    drop(task);
}

/// Runs `body`, turning a panic into an error.
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // What a panic leaves behind is not used again.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => Err(Error::from_panic(&*panic)),
    }
}
