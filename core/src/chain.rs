//! Chains: ordered entries of one family, and the one fold that each shape has.

pub(crate) mod around;
pub(crate) mod gate;
pub(crate) mod transform;

use std::pin::Pin;
use std::sync::Arc;

use crate::dispatch::Origin;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::family::Family;
use crate::value::Payload;

pub use around::{Around, Next, NextFuture, Work};
pub use gate::{Gate, Verdict};
pub(crate) use transform::Transform;

/// A boxed future that any executor may poll.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// What a callback gives: its result at once, or a future for it.
///
/// A synchronous callback thus costs neither a box nor a poll.
pub enum Step<T> {
    /// The result is here.
    Ready(Result<T>),
    /// The result comes later.
    Later(BoxFuture<Result<T>>),
}

impl<T> Step<T> {
    /// Makes a step from a future.
    pub fn later(future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self::Later(Box::pin(future))
    }

    /// Waits for the result.
    pub async fn settle(self) -> Result<T> {
        match self {
            Self::Ready(result) => result,
            Self::Later(future) => Guarded(Some(future)).await,
        }
    }
}

/// A future whose panics, in polls and in drops, become errors.
struct Guarded<T>(Option<BoxFuture<Result<T>>>);

impl<T> Future for Guarded<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<T>> {
        use std::task::Poll;
        let Some(mut future) = self.0.take() else {
            return Poll::Pending;
        };
        // The future is out of its slot while it runs: a panic leaves nothing half-polled behind.
        let polled = catch(|| match future.as_mut().poll(cx) {
            Poll::Ready(result) => {
                drop(future);
                Ok(Poll::Ready(result))
            }
            Poll::Pending => {
                self.0 = Some(future);
                Ok(Poll::Pending)
            }
        });
        polled.unwrap_or_else(|error| Poll::Ready(Err(error)))
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        if let Some(future) = self.0.take() {
            // A callback that is dropped half-way may panic in its own clean-up; the call goes on.
            let _ = catch(|| {
                drop(future);
                Ok(())
            });
        }
    }
}

/// Runs `body`, turning a panic into [`Internal`](crate::ErrorKind::Internal).
pub(crate) fn catch<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that a panic leaves behind is used again, so there is no broken state to see.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => Err(Error::from_panic(&*panic)),
    }
}

/// Receives finished events.
pub trait Observe: Send + Sync + 'static {
    /// Takes one event; the failure is counted and logged, and reaches nobody else.
    fn observe(&self, event: &Arc<Event>, origin: &Origin) -> Step<()>;

    /// Writes out what is buffered; called when a flush passes and when the queue runs empty. A failure is counted.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Says where the callback has to run.
    fn home(&self) -> Home {
        Home::Core
    }
}

/// Where a queued callback has to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Home {
    /// On a thread of the core, which never enters the host language.
    #[default]
    Core,
    /// On the dispatcher's thread for host callbacks.
    HostThread,
    /// On the event loop where the event was emitted.
    Loop,
}

/// The callback of an entry, by shape.
#[derive(Clone)]
pub enum Handler {
    /// A gate's callback.
    Gate(Arc<dyn Gate>),
    /// A transform's callback.
    Transform(Arc<dyn Transform>),
    /// An around callback.
    Around(Arc<dyn Around>),
}

impl Handler {
    /// Says whether the callback belongs to the host language, so that payloads must be the host's values.
    pub(crate) fn is_host(&self) -> bool {
        match self {
            Self::Gate(gate) => gate.is_host(),
            Self::Transform(transform) => transform.is_host(),
            Self::Around(around) => around.is_host(),
        }
    }

    pub(crate) fn home(&self) -> Home {
        match self {
            Self::Transform(transform) => transform.home(),
            Self::Gate(_) | Self::Around(_) => Home::Core,
        }
    }
}

/// Who owns a registration, and so for how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Until it is removed.
    Global,
    /// Until its scope closes; the depth orders outer scopes before inner ones.
    Scope {
        /// The scope's name.
        name: Arc<str>,
        /// The number of ancestors that the scope has.
        depth: u32,
    },
    /// Until its component is removed.
    Plugin(Arc<str>),
}

impl Level {
    /// Returns the level's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Scope { .. } => "scope",
            Self::Plugin(_) => "plugin",
        }
    }

    /// Returns the scope's or component's name.
    pub(crate) fn owner(&self) -> Option<&str> {
        match self {
            Self::Global => None,
            Self::Scope { name, .. } | Self::Plugin(name) => Some(name),
        }
    }

    fn rank(&self) -> u32 {
        match self {
            Self::Global | Self::Plugin(_) => 0,
            Self::Scope { depth, .. } => depth + 1,
        }
    }
}

/// One registered callback.
pub(crate) struct Entry {
    /// The name, unique in its family and level.
    pub name: Arc<str>,
    /// Lower runs first.
    pub priority: i32,
    /// The owner.
    pub level: Level,
    /// Whether later request intercepts are skipped once this one has run.
    pub break_chain: bool,
    /// The family; nothing for a registry's middleware.
    pub family: Option<Family>,
    /// The callback.
    pub handler: Handler,
}

impl Entry {
    /// Orders entries by priority, then name byte by byte, then outer before inner level.
    pub(crate) fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.priority
            .cmp(&other.priority)
            .then_with(|| self.name.as_bytes().cmp(other.name.as_bytes()))
            .then_with(|| self.level.rank().cmp(&other.level.rank()))
    }

    /// Returns the stage's name for messages.
    pub(crate) fn stage(&self) -> &'static str {
        self.family.map_or("middleware", Family::wire_name)
    }
}

/// Entries in the order in which they run.
pub(crate) type Entries = Arc<[Arc<Entry>]>;

/// Says that an entry's callback returned what its family does not allow.
pub(crate) fn wrong_shape(entry: &Entry) -> Error {
    Error::invalid_return(
        entry.stage(),
        &entry.name,
        "the callback does not fit the family's shape",
    )
}

/// The payload of a stage, or nothing where an entry gave nothing.
pub type Transformed = Option<Payload>;
