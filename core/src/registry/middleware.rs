//! Middleware of a registry: around every call that is dispatched through it.

use std::sync::Arc;

use crate::call::ToolCall;
use crate::chain::{Around, Entry, Handler, Level, Next, Step};
use crate::error::{Error, Result};
use crate::value::Payload;

/// Runs around every call that a registry dispatches.
///
/// Methods may be written as `async fn`; they take `Arc<Self>` because the future outlives the borrow.
pub trait Middleware: Send + Sync + 'static {
    /// Runs around `next`; an `Err` made by [`Error::denied`] refuses the call.
    fn run(self: Arc<Self>, call: ToolCall, next: Next) -> impl Future<Output = Result<Payload>> + Send;

    /// Is told of a call that the registry refused before any middleware ran.
    ///
    /// A failure replaces the refusal, and later hooks are not called.
    fn on_refused(
        self: Arc<Self>,
        call: ToolCall,
        refusal: Error,
    ) -> impl Future<Output = Result<()>> + Send {
        let _ = (call, refusal);
        std::future::ready(Ok(()))
    }

    /// Returns the name that listings show; the type's name by default.
    fn name(&self) -> String {
        let full = std::any::type_name::<Self>();
        full.split('<')
            .next()
            .and_then(|plain| plain.rsplit("::").next())
            .unwrap_or(full)
            .to_owned()
    }
}

/// A middleware as an object, as registries keep it and as doors make it.
pub trait AnyMiddleware: Send + Sync + 'static {
    /// Returns the name that listings show.
    fn name(&self) -> Arc<str>;

    /// Runs around `next`.
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload>;

    /// Is told of a call that the registry refused before any middleware ran.
    fn on_refused(&self, call: &ToolCall, refusal: &Error) -> Step<()> {
        let _ = (call, refusal);
        Step::Ready(Ok(()))
    }

    /// Says whether the callback belongs to the host language.
    fn is_host(&self) -> bool {
        false
    }

    /// Returns the object for downcasts.
    fn as_any(&self) -> &dyn std::any::Any;
}

struct Erased<M>(Arc<M>);

impl<M: Middleware> AnyMiddleware for Erased<M> {
    fn name(&self) -> Arc<str> {
        self.0.name().into()
    }
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        let middleware = self.0.clone();
        Step::later(async move { middleware.run(call, next).await })
    }
    fn on_refused(&self, call: &ToolCall, refusal: &Error) -> Step<()> {
        let (middleware, call, refusal) = (self.0.clone(), call.clone(), refusal.clone());
        Step::later(async move { middleware.on_refused(call, refusal).await })
    }
    fn as_any(&self) -> &dyn std::any::Any {
        &*self.0
    }
}

pub(super) fn erase<M: Middleware>(middleware: M) -> Arc<dyn AnyMiddleware> {
    Arc::new(Erased(Arc::new(middleware)))
}

/// Makes a middleware from a function over the call and `next`.
pub fn middleware_fn<F, R>(name: impl Into<String>, function: F) -> impl Middleware
where
    F: Fn(ToolCall, Next) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Payload>> + Send + 'static,
{
    struct Function<F>(String, F);
    impl<F, R> Middleware for Function<F>
    where
        F: Fn(ToolCall, Next) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Payload>> + Send + 'static,
    {
        fn run(self: Arc<Self>, call: ToolCall, next: Next) -> impl Future<Output = Result<Payload>> + Send {
            (self.1)(call, next)
        }
        fn name(&self) -> String {
            self.0.clone()
        }
    }
    Function(name.into(), function)
}

/// A middleware as an entry of an around chain.
struct AsAround(Arc<dyn AnyMiddleware>);

impl Around for AsAround {
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        self.0.run(call, next)
    }
    fn is_host(&self) -> bool {
        self.0.is_host()
    }
}

pub(super) fn entry(middleware: &Arc<dyn AnyMiddleware>) -> Arc<Entry> {
    Arc::new(Entry {
        name: middleware.name(),
        priority: 0,
        level: Level::Global,
        break_chain: false,
        family: None,
        handler: Handler::Around(Arc::new(AsAround(middleware.clone()))),
    })
}
