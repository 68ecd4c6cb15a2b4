//! Cancellation tokens and deadlines, and how they release a caller.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};
use crate::runtime::Runtime;

/// The host's own object behind a token.
///
/// It fires before the token: from then on no later stage starts. The token is fired once the host's turn is over,
/// and releases the caller; what has ended by then has ended by itself.
pub struct HostToken {
    fired: AtomicBool,
    object: Box<dyn Any + Send + Sync>,
}

impl HostToken {
    /// Wraps an object of the host.
    pub fn new(object: impl Any + Send + Sync) -> Self {
        Self {
            fired: AtomicBool::new(false),
            object: Box::new(object),
        }
    }

    /// Says that the object has fired.
    pub fn fire(&self) {
        self.fired.store(true, Ordering::Release);
    }

    /// Returns the object.
    pub fn object(&self) -> &(dyn Any + Send + Sync) {
        &*self.object
    }
}

impl std::fmt::Debug for HostToken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "HostToken(fired: {:?})", self.fired)
    }
}

/// What may end a call from outside: a token that somebody fires, and a point in time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) token: Option<CancellationToken>,
    /// The host's object for which the token stands.
    pub(crate) source: Option<Arc<HostToken>>,
    pub(crate) deadline: Option<Instant>,
}

impl Limits {
    pub(crate) fn is_empty(&self) -> bool {
        self.token.is_none() && self.deadline.is_none()
    }

    /// Fails where a limit is reached already, so that no later stage starts.
    pub(crate) fn check(&self) -> Result<()> {
        self.reached().map_or(Ok(()), Err)
    }

    fn has_fired(&self) -> bool {
        self.token.as_ref().is_some_and(CancellationToken::is_cancelled)
            || self
                .source
                .as_ref()
                .is_some_and(|source| source.fired.load(Ordering::Acquire))
    }

    /// Returns the failure of limits that are reached already.
    pub(crate) fn reached(&self) -> Option<Error> {
        if self.has_fired() {
            return Some(Error::cancelled());
        }
        self.deadline
            .is_some_and(|deadline| deadline <= Instant::now())
            .then(timed_out)
    }

    /// Runs `work` until it ends or a limit is reached; then the caller is released at once.
    ///
    /// Work that ends in the same turn wins. After the token has fired any error counts as cancelled, except a
    /// denial.
    pub(crate) async fn apply<T>(
        self,
        runtime: Option<&Runtime>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if self.is_empty() {
            return work.await;
        }
        let runtime = runtime.unwrap_or_else(|| Runtime::default());
        let token = self.token.clone().unwrap_or_default();
        let fired = async {
            let Some(deadline) = self.deadline else {
                token.cancelled().await;
                return Error::cancelled();
            };
            match select(std::pin::pin!(token.cancelled()), runtime.timer().at(deadline)).await {
                Either::Left(_) => Error::cancelled(),
                Either::Right(_) => timed_out(),
            }
        };
        match select(std::pin::pin!(work), std::pin::pin!(fired)).await {
            Either::Left((result, _)) => self.judge(result),
            Either::Right((error, _)) => Err(error),
        }
    }

    /// Decides what the caller sees of a result that came after a limit may have been reached.
    fn judge<T>(&self, result: Result<T>) -> Result<T> {
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let fired = self.has_fired();
        if fired && error.is_release() {
            return Err(Error::cancelled().with_cause(error));
        }
        if error.is_release() && self.deadline.is_some_and(|at| at <= Instant::now() + EARLY) {
            return Err(timed_out().with_cause(error));
        }
        if !fired || error.is_denial() || error.is_control() {
            return Err(error);
        }
        Err(Error::cancelled().with_cause(error))
    }
}

/// How early a host's own timer may fire: some count from the start of the present turn of their loop.
const EARLY: Duration = Duration::from_millis(50);

fn timed_out() -> Error {
    Error::new(ErrorKind::TimedOut, "the deadline of the call has passed")
}
