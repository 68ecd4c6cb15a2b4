//! Callbacks from Rust closures.

use std::marker::PhantomData;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::call::ToolCall;
use crate::chain::transform::{Context, Subject, Transform};
use crate::chain::{Around, Gate, Handler, Next, Observe, Step, Transformed, Verdict, Work};
use crate::dispatch::{ObserveCalls, Origin};
use crate::error::Result;
use crate::event::{CallEvent, Event};
use crate::value::Payload;

struct Closure<F, K>(F, PhantomData<fn() -> K>);

impl<F, K> Closure<F, K> {
    fn new(function: F) -> Arc<Self> {
        Arc::new(Self(function, PhantomData))
    }
}

/// Marks closures that answer at once.
struct Direct;
/// Marks closures that return a future.
struct Deferred<R>(PhantomData<R>);

/// Runs `body` inside the tokio runtime where a callback was made, if the thread is in none.
fn inside<T>(home: Option<&Handle>, body: impl FnOnce() -> T) -> T {
    // In another runtime the callback runs inline in a call, and sees what its caller sees.
    let _entered = home.filter(|_| Handle::try_current().is_err()).map(Handle::enter);
    body()
}

/// Polls `future` inside the tokio runtime where its callback was made.
async fn at_home<R: Future>(home: Option<Handle>, future: R) -> R::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| inside(home.as_ref(), || future.as_mut().poll(cx))).await
}

fn deferred_transform<F, R>(function: F) -> Arc<dyn Transform>
where
    F: Fn(Payload) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Option<Payload>>> + Send + 'static,
{
    Closure::<_, Deferred<R>>::new(function)
}

fn deferred_observer<F, R>(function: F) -> Arc<dyn Observe>
where
    F: Fn(Arc<Event>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<()>> + Send + 'static,
{
    Closure::<_, Deferred<R>>::new(function)
}

impl Handler {
    /// Makes a guardrail that decides at once.
    pub fn gate(function: impl Fn(&ToolCall) -> Result<Verdict> + Send + Sync + 'static) -> Self {
        Self::Gate(Closure::<_, Direct>::new(function))
    }

    /// Makes a guardrail that returns a future.
    pub fn gate_async<F, R>(function: F) -> Self
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Verdict>> + Send + 'static,
    {
        Self::Gate(Closure::<_, Deferred<R>>::new(function))
    }

    /// Makes a request intercept or sanitizer over the subject and the payload; `None` omits a sanitized payload.
    pub fn transform(
        function: impl Fn(&Subject<'_>, Payload) -> Result<Option<Payload>> + Send + Sync + 'static,
    ) -> Self {
        Self::Transform(Closure::<_, Direct>::new(function))
    }

    /// Makes a request intercept or sanitizer that returns a future.
    ///
    /// Made inside a tokio runtime it can use that runtime's timers and sockets, wherever it is polled.
    pub fn transform_async<F, R>(function: F) -> Self
    where
        F: Fn(Payload) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Payload>>> + Send + 'static,
    {
        let home = Handle::try_current().ok();
        let function = move |payload| at_home(home.clone(), inside(home.as_ref(), || function(payload)));
        Self::Transform(deferred_transform(function))
    }

    /// Makes an execution intercept.
    pub fn around<F, R>(function: F) -> Self
    where
        F: Fn(ToolCall, Next) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Payload>> + Send + 'static,
    {
        Self::Around(Closure::<_, Deferred<R>>::new(function))
    }
}

impl<F> Gate for Closure<F, Direct>
where
    F: Fn(&ToolCall) -> Result<Verdict> + Send + Sync + 'static,
{
    fn check(&self, call: &ToolCall) -> Step<Verdict> {
        Step::Ready((self.0)(call))
    }
}

impl<F, R> Gate for Closure<F, Deferred<R>>
where
    F: Fn(ToolCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Verdict>> + Send + 'static,
{
    fn check(&self, call: &ToolCall) -> Step<Verdict> {
        Step::later((self.0)(call.clone()))
    }
}

impl<F> Transform for Closure<F, Direct>
where
    F: Fn(&Subject<'_>, Payload) -> Result<Option<Payload>> + Send + Sync + 'static,
{
    fn apply(&self, subject: &Subject<'_>, payload: Payload, _: &Context) -> Step<Transformed> {
        Step::Ready((self.0)(subject, payload))
    }
}

impl<F, R> Transform for Closure<F, Deferred<R>>
where
    F: Fn(Payload) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Option<Payload>>> + Send + 'static,
{
    fn apply(&self, _: &Subject<'_>, payload: Payload, _: &Context) -> Step<Transformed> {
        Step::later((self.0)(payload))
    }
}

impl<F, R> Around for Closure<F, Deferred<R>>
where
    F: Fn(ToolCall, Next) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Payload>> + Send + 'static,
{
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        Step::later((self.0)(call, next))
    }
}

impl<F, R> Work for Closure<F, Deferred<R>>
where
    F: Fn(ToolCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Payload>> + Send + 'static,
{
    fn run(&self, call: ToolCall) -> Step<Payload> {
        Step::later((self.0)(call))
    }
}

impl<F: Fn(&Arc<Event>) + Send + Sync + 'static> Observe for Closure<F, Direct> {
    fn observe(&self, event: &Arc<Event>, _: &Origin) -> Step<()> {
        (self.0)(event);
        Step::Ready(Ok(()))
    }
}

impl<F, R> Observe for Closure<F, Deferred<R>>
where
    F: Fn(Arc<Event>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<()>> + Send + 'static,
{
    fn observe(&self, event: &Arc<Event>, _: &Origin) -> Step<()> {
        Step::later((self.0)(event.clone()))
    }
}

impl<F: Fn(&CallEvent) + Send + Sync + 'static> ObserveCalls for Closure<F, Direct> {
    fn observe(&self, event: &CallEvent, _: &Origin) -> Step<()> {
        (self.0)(event);
        Step::Ready(Ok(()))
    }
}

/// Makes a subscriber from a function.
pub fn observe(function: impl Fn(&Arc<Event>) + Send + Sync + 'static) -> Arc<dyn Observe> {
    Closure::<_, Direct>::new(function)
}

/// Makes a subscriber from a function that returns a future.
///
/// Made inside a tokio runtime it can use that runtime's timers and sockets, wherever it is polled.
pub fn observe_async<F, R>(function: F) -> Arc<dyn Observe>
where
    F: Fn(Arc<Event>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<()>> + Send + 'static,
{
    let home = Handle::try_current().ok();
    deferred_observer(move |event| at_home(home.clone(), inside(home.as_ref(), || function(event))))
}

/// Makes a subscriber of typed registry-call records from a function.
pub fn observe_calls(function: impl Fn(&CallEvent) + Send + Sync + 'static) -> Arc<dyn ObserveCalls> {
    Closure::<_, Direct>::new(function)
}

/// Makes the work of a managed call from a function.
pub fn work<F, R>(function: F) -> Arc<dyn Work>
where
    F: Fn(ToolCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Payload>> + Send + 'static,
{
    Closure::<_, Deferred<R>>::new(function)
}
