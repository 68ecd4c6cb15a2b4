//! Waiting for a future on a plain thread.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind, Result};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Says whether this thread may wait for others; `instead` names what to use where it may not.
pub(crate) fn check_may_block(instead: &str) -> Result<()> {
    if Handle::try_current().is_err() {
        return Ok(());
    }
    let text = format!("blocking here would stop the event loop; use `{instead}`");
    Err(Error::new(ErrorKind::WouldDeadlock, text))
}

/// Runs a future to its end on this thread.
///
/// On the thread of an event loop nothing else of that loop runs meanwhile: a future that needs the loop's own
/// timers or sockets belongs into its `await` instead.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Runs a future on this thread until `deadline`; returns nothing if it has not ended by then.
pub fn block_until<T>(future: impl Future<Output = T>, deadline: Option<Instant>) -> Option<T> {
    let Some(deadline) = deadline else {
        return Some(block_on(future));
    };
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return Some(value);
        }
        let left = deadline
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())?;
        std::thread::park_timeout(left);
    }
}
