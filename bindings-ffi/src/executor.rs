//! The threads that poll calls which were started with a completion; they grow while callbacks block.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use arc_swap::ArcSwap;
use callweir_core::foreign::BoxFuture;
use callweir_core::{Payload, Result};
use parking_lot::{Condvar, Mutex};

use crate::scope::Moment;

/// How long a thread without work stays.
const IDLE_TIME: Duration = Duration::from_secs(2);

static EXECUTOR: LazyLock<ArcSwap<Executor>> = LazyLock::new(|| ArcSwap::from_pointee(Executor::default()));

thread_local! {
    static WORKER: Cell<bool> = const { Cell::new(false) };
}

#[derive(Default)]
struct Executor {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<Job>>,
    threads: usize,
    idle: usize,
    /// Threads inside a callback that may block.
    blocked: usize,
}

/// A call on its way, and who is told of its end.
struct Job {
    state: AtomicU8,
    moment: Moment,
    work: Mutex<Option<Work>>,
}

struct Work {
    future: BoxFuture<Result<Payload>>,
    done: Box<dyn FnOnce(Result<Payload>) + Send>,
}

const SLEEPING: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
/// Woken while it ran.
const AGAIN: u8 = 3;

impl Wake for Job {
    fn wake(self: Arc<Self>) {
        loop {
            let (from, to) = match self.state.load(Ordering::Acquire) {
                SLEEPING => (SLEEPING, QUEUED),
                RUNNING => (RUNNING, AGAIN),
                _ => return,
            };
            let changed = self
                .state
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
            if changed.is_ok() {
                if to == QUEUED {
                    EXECUTOR.load_full().push(self);
                }
                return;
            }
        }
    }
}

impl Job {
    fn poll(self: Arc<Self>) {
        self.state.store(RUNNING, Ordering::Release);
        let taken = self.work.lock().take();
        let Some(mut work) = taken else { return };
        let waker = Waker::from(self.clone());
        let polled = self
            .moment
            .enter(|| work.future.as_mut().poll(&mut Context::from_waker(&waker)));
        match polled {
            Poll::Ready(result) => {
                drop(work.future);
                blocking(|| (work.done)(result));
            }
            Poll::Pending => {
                *self.work.lock() = Some(work);
                let slept =
                    self.state
                        .compare_exchange(RUNNING, SLEEPING, Ordering::AcqRel, Ordering::Acquire);
                if slept.is_err() {
                    self.state.store(QUEUED, Ordering::Release);
                    EXECUTOR.load_full().push(self);
                }
            }
        }
    }
}

/// How many threads work on calls at a time.
fn width() -> usize {
    std::thread::available_parallelism().map_or(2, |count| count.get().max(2))
}

impl Executor {
    fn push(self: Arc<Self>, job: Arc<Job>) {
        let mut state = self.state.lock();
        state.ready.push_back(job);
        self.serve(&mut state);
    }

    /// Sees to it that somebody takes what is ready.
    fn serve(self: &Arc<Self>, state: &mut State) {
        if state.ready.is_empty() {
            return;
        }
        if state.idle > 0 {
            self.changed.notify_one();
        } else if state.threads - state.blocked < width() {
            let executor = self.clone();
            let spawned = std::thread::Builder::new()
                .name("callweir-calls".into())
                .spawn(move || executor.work());
            // Without a thread the job waits for one that comes back.
            state.threads += usize::from(spawned.is_ok());
        }
    }

    fn work(self: Arc<Self>) {
        WORKER.set(true);
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.ready.pop_front() {
                drop(state);
                crate::boundary::doing(|| job.poll());
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let late = self.changed.wait_for(&mut state, IDLE_TIME).timed_out();
            state.idle -= 1;
            if late && state.ready.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Runs what may block; another thread takes over the calls that wait, if this is one of the executor's.
pub(crate) fn blocking<T>(body: impl FnOnce() -> T) -> T {
    /// Counts down however the body ends.
    struct Back(Arc<Executor>);
    impl Drop for Back {
        fn drop(&mut self) {
            self.0.state.lock().blocked -= 1;
            WORKER.set(true);
        }
    }
    if !WORKER.replace(false) {
        return body();
    }
    let executor = EXECUTOR.load_full();
    {
        let mut state = executor.state.lock();
        state.blocked += 1;
        executor.serve(&mut state);
    }
    let _back = Back(executor);
    body()
}

/// Starts a call; `done` gets its result on one of the threads.
pub(crate) fn spawn(
    moment: Moment,
    future: BoxFuture<Result<Payload>>,
    done: Box<dyn FnOnce(Result<Payload>) + Send>,
) {
    let job = Arc::new(Job {
        state: AtomicU8::new(QUEUED),
        moment,
        work: Mutex::new(Some(Work { future, done })),
    });
    EXECUTOR.load_full().push(job);
}

/// Makes the executor anew in the child of a fork, where its threads are no more.
pub(crate) fn after_fork() {
    let old = EXECUTOR.swap(Arc::new(Executor::default()));
    // Leaked on purpose: a lock inside may be held by a thread that is no more.
    std::mem::forget(old);
    WORKER.set(false);
}
