//! Timers on a thread of the runtime's own, so that calls need no particular executor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use parking_lot::{Condvar, Mutex};

use crate::chain::catch;

/// Wakes futures at points in time; its thread starts with the first of them and ends with the timer.
#[derive(Clone, Default)]
pub struct Timer(Arc<Handle>);

#[derive(Default)]
struct Handle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    sleeps: BinaryHeap<Reverse<Due>>,
    count: u64,
    running: bool,
    stopped: bool,
}

struct Due {
    at: Instant,
    order: u64,
    sleeper: Arc<Sleeper>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[derive(Default)]
struct Sleeper {
    done: AtomicBool,
    waker: AtomicWaker,
}

impl Sleeper {
    fn end(&self) {
        self.done.store(true, Ordering::Release);
        // Waking may drop what belongs to others; a panic there must not take the timer along.
        let _ = catch(|| {
            self.waker.wake();
            Ok(())
        });
    }
}

impl Timer {
    /// Returns a future that is ready at `at`.
    pub fn at(&self, at: Instant) -> Sleep {
        Sleep {
            timer: self.0.0.clone(),
            at,
            sleeper: None,
        }
    }

    /// Returns a future that is ready after `delay`.
    pub fn after(&self, delay: Duration) -> Sleep {
        self.at(self.deadline(delay))
    }

    /// Returns the point in time `delay` from now.
    #[allow(
        clippy::unused_self,
        reason = "one day a timer may have a clock of its own, for tests"
    )]
    pub(crate) fn deadline(&self, delay: Duration) -> Instant {
        // A delay beyond what the clock can say is as good as never.
        let far = Duration::from_secs(60 * 60 * 24 * 365);
        Instant::now() + delay.min(far)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let left = {
            let mut queue = self.0.queue.lock();
            queue.stopped = true;
            std::mem::take(&mut queue.sleeps)
        };
        self.0.changed.notify_all();
        // Who still waits is let go: nobody would wake it any more, and its waker may hold what holds the timer.
        for Reverse(due) in left {
            due.sleeper.end();
        }
    }
}

/// A point in time to wait for; dropping it forgets it, and it ends early with the runtime that it came from.
pub struct Sleep {
    timer: Arc<Shared>,
    at: Instant,
    sleeper: Option<Arc<Sleeper>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= Instant::now() {
            return Poll::Ready(());
        }
        if self.sleeper.is_none() {
            let sleeper = Arc::new(Sleeper::default());
            sleeper.waker.register(cx.waker());
            Shared::add(&self.timer, self.at, sleeper.clone());
            self.sleeper = Some(sleeper);
            return Poll::Pending;
        }
        let Some(sleeper) = &self.sleeper else {
            return Poll::Pending;
        };
        sleeper.waker.register(cx.waker());
        if sleeper.done.load(Ordering::Acquire) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(sleeper) = &self.sleeper {
            // The heap keeps the entry until its time; it must not keep what the waker holds.
            sleeper.done.store(true, Ordering::Release);
            sleeper.waker.take();
            self.timer.sweep();
        }
    }
}

impl Shared {
    fn add(self: &Arc<Self>, at: Instant, sleeper: Arc<Sleeper>) {
        let mut queue = self.queue.lock();
        queue.count += 1;
        let order = queue.count;
        let first = queue.sleeps.peek().is_none_or(|Reverse(due)| at < due.at);
        queue.sleeps.push(Reverse(Due { at, order, sleeper }));
        if !queue.running {
            let shared = self.clone();
            let started = std::thread::Builder::new()
                .name("callweir-timer".into())
                .spawn(move || shared.run());
            queue.running = started.is_ok();
        } else if first {
            self.changed.notify_one();
        }
    }

    /// Removes forgotten entries once they are the greater part of the heap.
    fn sweep(&self) {
        let mut queue = self.queue.lock();
        queue.count += 1;
        if queue.sleeps.len() > 64 && queue.count.is_multiple_of(queue.sleeps.len() as u64) {
            queue
                .sleeps
                .retain(|Reverse(due)| !due.sleeper.done.load(Ordering::Acquire));
        }
    }

    fn run(&self) {
        let mut queue = self.queue.lock();
        while !queue.stopped {
            let now = Instant::now();
            match queue.sleeps.peek() {
                Some(Reverse(due)) if due.at <= now => {
                    let Some(Reverse(due)) = queue.sleeps.pop() else {
                        continue;
                    };
                    parking_lot::MutexGuard::unlocked(&mut queue, || due.sleeper.end());
                }
                Some(Reverse(due)) => {
                    let at = due.at;
                    self.changed.wait_until(&mut queue, at);
                }
                None => self.changed.wait(&mut queue),
            }
        }
        queue.running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_end_in_order_and_can_be_forgotten() {
        let timer = Timer::default();
        let start = Instant::now();
        for _ in 0..1000 {
            let mut forgotten = Box::pin(timer.after(Duration::from_secs(3600)));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(forgotten.as_mut().poll(&mut cx).is_pending());
        }
        assert!(timer.0.0.queue.lock().sleeps.len() < 200);
        crate::block::block_on(timer.after(Duration::from_millis(20)));
        let took = start.elapsed();
        assert!(
            took >= Duration::from_millis(20) && took < Duration::from_secs(5),
            "{took:?}"
        );
    }
}
