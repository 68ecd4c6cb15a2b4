//! Around: each entry wraps the rest of the chain, and the work is innermost.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};

use super::{BoxFuture, Entries, Guarded, Handler, Step, catch, wrong_shape};
use crate::call::ToolCall;
use crate::call::limit::Limits;
use crate::error::{Error, Result};
use crate::value::Payload;

/// Wraps or replaces the rest of a chain.
pub trait Around: Send + Sync + 'static {
    /// Runs around `next`; what it returns is the result of the call.
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload>;

    /// Says whether the callback belongs to the host language.
    fn is_host(&self) -> bool {
        false
    }
}

/// The innermost part of a chain: the tool, or the function that the program gave.
pub trait Work: Send + Sync + 'static {
    /// Does the work; called once for each use of the last `next`.
    fn run(&self, call: ToolCall) -> Step<Payload>;
}

/// One call's around chain: intercepts, then a registry's middleware, then the work.
pub(crate) struct AroundChain {
    /// Nothing where there are none: an empty list is shared by every call, and so is its count.
    intercepts: Option<Entries>,
    middleware: Option<Entries>,
    work: Arc<dyn Work>,
    attempts: AtomicU32,
}

impl AroundChain {
    pub(crate) fn new(
        intercepts: Option<Entries>,
        middleware: Option<Entries>,
        work: Arc<dyn Work>,
    ) -> Arc<Self> {
        Arc::new(Self {
            intercepts,
            middleware,
            work,
            attempts: AtomicU32::new(0),
        })
    }

    /// Returns how often the work has been started.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    fn entry(&self, index: usize) -> Option<&Arc<super::Entry>> {
        let intercepts = self.intercepts.as_deref().unwrap_or_default();
        match intercepts.get(index) {
            Some(entry) => Some(entry),
            None => self.middleware.as_deref()?.get(index - intercepts.len()),
        }
    }

    /// Starts the chain at `index`.
    pub(crate) fn start(self: &Arc<Self>, index: usize, call: ToolCall) -> NextFuture {
        let Some(entry) = self.entry(index) else {
            self.attempts.fetch_add(1, Ordering::Relaxed);
            return NextFuture::new(catch(|| Ok(self.work.run(call))), None);
        };
        let Handler::Around(around) = &entry.handler else {
            return NextFuture::failed(wrong_shape(entry));
        };
        let place = Arc::new(Place {
            chain: self.clone(),
            index: index + 1,
            limits: call.context().limits(),
            open: AtomicBool::new(true),
        });
        let next = Next {
            rest: Rest::Chain(place.clone()),
        };
        NextFuture::new(catch(|| Ok(around.run(call, next))), Some(place))
    }
}

/// A place in a chain, open while the callback that it was given to runs.
struct Place {
    chain: Arc<AroundChain>,
    index: usize,
    limits: Limits,
    open: AtomicBool,
}

/// The rest of a chain, as an around callback gets it.
///
/// It may be run not at all, once, several times or concurrently, while its callback runs; afterwards it fails
/// with [`Expired`](crate::ErrorKind::Expired). Each run runs the rest of the chain and the work again.
#[derive(Clone)]
pub struct Next {
    rest: Rest,
}

#[derive(Clone)]
enum Rest {
    Chain(Arc<Place>),
    Function(Arc<dyn Fn(ToolCall) -> BoxFuture<Result<Payload>> + Send + Sync>),
}

impl Next {
    /// Makes a `next` from a function, to test a middleware alone.
    pub fn from_fn<F, R>(function: F) -> Self
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Payload>> + Send + 'static,
    {
        Self {
            rest: Rest::Function(Arc::new(move |call| Box::pin(function(call)))),
        }
    }

    /// Runs the rest of the chain with `call`.
    ///
    /// A context that was narrowed (another token, an earlier deadline) applies to the rest of the chain from
    /// here on: its token gives [`Cancelled`](crate::ErrorKind::Cancelled), its deadline
    /// [`TimedOut`](crate::ErrorKind::TimedOut).
    pub fn run(&self, call: ToolCall) -> NextFuture {
        match &self.rest {
            Rest::Chain(place) if place.open.load(Ordering::Acquire) => {
                if let Err(reached) = place.limits.check().and_then(|()| call.context().check()) {
                    return NextFuture::failed(reached);
                }
                let narrowed = call.context().narrowed_from(&place.limits);
                let Some(limits) = narrowed else {
                    return place.chain.start(place.index, call).out_of(place);
                };
                let runtime = call.runtime();
                let future = place.chain.start(place.index, call);
                NextFuture::later(async move { limits.apply(runtime.as_ref(), future).await }).out_of(place)
            }
            Rest::Chain(_) => NextFuture::failed(Error::expired()),
            Rest::Function(function) => NextFuture::new(catch(|| Ok(Step::Later(function(call)))), None),
        }
    }
}

/// The result of [`Next::run`], once awaited.
#[must_use = "the rest of the chain comes to its end only when this is awaited"]
pub struct NextFuture {
    state: State,
    place: Option<Arc<Place>>,
    /// The place whose `next` this came from, until the first poll.
    from: Option<Arc<Place>>,
}

enum State {
    Ready(Option<Result<Payload>>),
    Later(Guarded<Payload>),
}

impl NextFuture {
    fn new(step: Result<Step<Payload>>, place: Option<Arc<Place>>) -> Self {
        let state = match step {
            Ok(Step::Ready(result)) => State::Ready(Some(result)),
            Ok(Step::Later(future)) => State::Later(Guarded(Some(future))),
            Err(error) => State::Ready(Some(Err(error))),
        };
        let future = Self {
            state,
            place,
            from: None,
        };
        if let State::Ready(_) = future.state {
            future.close();
        }
        future
    }

    fn failed(error: Error) -> Self {
        Self {
            state: State::Ready(Some(Err(error))),
            place: None,
            from: None,
        }
    }

    fn later(future: impl Future<Output = Result<Payload>> + Send + 'static) -> Self {
        Self {
            state: State::Later(Guarded(Some(Box::pin(future)))),
            place: None,
            from: None,
        }
    }

    /// Says from which place's `next` this is.
    fn out_of(mut self, place: &Arc<Place>) -> Self {
        self.from = Some(place.clone());
        self
    }

    /// Returns the result, or the rest that is still to be awaited.
    pub fn into_step(mut self) -> Step<Payload> {
        if let State::Ready(result) = &mut self.state
            && let Some(result) = result.take()
        {
            return Step::Ready(result);
        }
        Step::Later(Box::pin(self))
    }

    fn close(&self) {
        if let Some(place) = &self.place {
            place.open.store(false, Ordering::Release);
        }
    }
}

impl Future for NextFuture {
    type Output = Result<Payload>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // What was not awaited while its callback ran has expired with it.
        if let Some(from) = self.from.take()
            && !from.open.load(Ordering::Acquire)
        {
            return Poll::Ready(Err(Error::expired()));
        }
        let polled = match &mut self.state {
            State::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            State::Later(future) => Pin::new(future).poll(cx),
        };
        if polled.is_ready() {
            self.close();
        }
        polled
    }
}

impl Drop for NextFuture {
    fn drop(&mut self) {
        self.close();
    }
}
