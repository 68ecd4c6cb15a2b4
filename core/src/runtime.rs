//! The runtime: owns registrations, dispatcher and timers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::Value;

use crate::block;
use crate::call::{EndOptions, ManualCall};
use crate::chain::{Entry, Handler, Level, Observe};
use crate::dispatch::{
    DispatchCounts, DispatchHost, Dispatcher, Draft, Limits, NoHost, ObserveCalls, Subscriber, Target,
};
use crate::error::{Error, Result};
use crate::event::{Event, EventKind, Outcome, ScopeType, free_metadata};
use crate::family::Family;
use crate::registrations::{Registration, Registrations, lines};
use crate::scope::{CloseOptions, Propagation, Scope, ScopeGuard, ScopeOptions};
use crate::timer::Timer;

/// The settings of a runtime.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The bounds of the event queue, and how long a sanitizer or subscriber may take.
    pub limits: Limits,
    /// Header names that are removed from observed requests, beside the built-in ones.
    pub credential_headers: Vec<String>,
    /// Whether end events carry the text of errors, which may hold secrets.
    pub error_text: bool,
}

/// Everything that belongs together: registrations, scopes, the dispatcher and timers.
///
/// Handles are cheap to clone. Two runtimes share nothing.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    registrations: Registrations,
    dispatcher: ArcSwap<Dispatcher>,
    timer: ArcSwap<Timer>,
    options: ArcSwap<Options>,
    host: Arc<dyn DispatchHost>,
    state: AtomicU8,
    roots: Mutex<BTreeMap<u64, Scope>>,
    manual: Mutex<BTreeMap<u64, ManualCall>>,
}

const RUNNING: u8 = 0;
const SHUTTING: u8 = 1;
const SHUT: u8 = 2;

static DEFAULT: OnceLock<Runtime> = OnceLock::new();
static ALL: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

impl Runtime {
    /// Makes a runtime with these settings.
    pub fn new(options: Options) -> Self {
        Self::with_host(options, Arc::new(NoHost))
    }

    /// Makes a runtime for a host language.
    pub fn with_host(options: Options, host: Arc<dyn DispatchHost>) -> Self {
        let timer = Timer::default();
        let dispatcher = Dispatcher::new(options.limits, host.clone(), timer.clone());
        let inner = Arc::new(Inner {
            registrations: Registrations::default(),
            dispatcher: ArcSwap::new(dispatcher),
            timer: ArcSwap::from_pointee(timer),
            options: ArcSwap::from_pointee(options),
            host,
            state: AtomicU8::new(RUNNING),
            roots: Mutex::new(BTreeMap::new()),
            manual: Mutex::new(BTreeMap::new()),
        });
        let mut all = ALL.lock();
        all.retain(|runtime| runtime.strong_count() > 0);
        all.push(Arc::downgrade(&inner));
        Self(inner)
    }

    /// Returns the runtime that the module-level functions use, one per process.
    #[allow(
        clippy::should_implement_trait,
        reason = "it is the default runtime, not a default value"
    )]
    pub fn default() -> &'static Self {
        DEFAULT.get_or_init(|| Self::new(Options::default()))
    }

    /// Makes `runtime` the default one; false if the default is in use already.
    pub fn set_default(runtime: Self) -> bool {
        DEFAULT.set(runtime).is_ok()
    }

    /// Changes the settings from now on.
    pub fn configure(&self, options: Options) {
        self.dispatcher().set_limits(options.limits);
        self.0.options.store(Arc::new(options));
    }

    /// Returns the settings.
    pub fn options(&self) -> Arc<Options> {
        self.0.options.load_full()
    }

    /// Registers a callback of a family, globally or for one scope.
    ///
    /// A taken name is [`AlreadyExists`](crate::ErrorKind::AlreadyExists), and the first entry stays.
    pub fn register(
        &self,
        family: Family,
        name: &str,
        handler: Handler,
        registration: &RegisterOptions,
    ) -> Result<()> {
        self.check_open()?;
        let (name, level) = match &registration.component {
            Some(component) => (
                format!("{component}/{name}").into(),
                Level::Plugin(component.clone()),
            ),
            None => (Arc::from(name), level_of(registration.scope.as_ref())),
        };
        let RegisterOptions {
            priority,
            break_chain,
            ..
        } = *registration;
        let entry = Entry {
            name,
            priority,
            level,
            break_chain,
            family: Some(family),
            handler,
        };
        self.0
            .registrations
            .add(family, registration.scope.as_ref(), entry)
    }

    /// Removes a callback; returns whether it was there.
    pub fn deregister(&self, family: Family, name: &str, scope: Option<&Scope>) -> bool {
        self.0.registrations.remove(family, scope, name)
    }

    /// Removes everything that a plugin component owns.
    pub fn remove_component(&self, component: &str) -> bool {
        self.0.registrations.remove_component(component)
    }

    /// Registers a subscriber of events.
    pub fn subscribe(&self, name: &str, target: Arc<dyn Observe>, scope: Option<&Scope>) -> Result<()> {
        self.add_subscriber(name, Target::Events(target), scope)
    }

    /// Registers a subscriber of typed registry-call records.
    pub fn subscribe_calls(
        &self,
        name: &str,
        target: Arc<dyn ObserveCalls>,
        scope: Option<&Scope>,
    ) -> Result<()> {
        self.add_subscriber(name, Target::Calls(target), scope)
    }

    fn add_subscriber(&self, name: &str, target: Target, scope: Option<&Scope>) -> Result<()> {
        self.check_open()?;
        let calls = matches!(target, Target::Calls(_));
        let subscriber = Subscriber::new(&self.dispatcher(), name.into(), level_of(scope), target);
        self.0.registrations.subscribe(scope, calls, &subscriber)
    }

    /// Removes a subscriber; what was emitted before is still delivered to it.
    pub fn unsubscribe(&self, name: &str, scope: Option<&Scope>) -> bool {
        self.0.registrations.unsubscribe(scope, name).is_some()
    }

    /// Opens a scope under `parent`.
    pub fn open_scope(
        &self,
        name: impl Into<Arc<str>>,
        category: ScopeType,
        parent: Option<Scope>,
        options: ScopeOptions,
    ) -> Result<Scope> {
        Scope::open(self, name.into(), category, parent, options)
    }

    /// Opens a scope under the current one and returns a guard that closes it.
    pub fn scope(
        &self,
        name: impl Into<Arc<str>>,
        category: ScopeType,
        options: ScopeOptions,
    ) -> Result<ScopeGuard> {
        self.open_scope(name, category, Scope::current(), options)
            .map(ScopeGuard::new)
    }

    /// Returns a scope that stands for one of another process.
    pub fn attach(&self, from: &Propagation) -> Scope {
        Scope::attached(self, from)
    }

    /// Emits a mark under `parent`; after shutdown it does nothing.
    pub fn mark(&self, name: impl Into<Arc<str>>, parent: Option<&Scope>, mark: Mark) {
        if self.is_shut() {
            return;
        }
        let snapshot = self.0.registrations.snapshot(parent);
        if snapshot.is_observed() {
            let mut event = Event::new(
                EventKind::Mark,
                crate::id::new(),
                parent.map(Scope::uuid),
                name.into(),
            );
            event.data = mark.data.unwrap_or(Value::Null).into();
            event.metadata = free_metadata(mark.metadata);
            event.data_schema = mark.data_schema.unwrap_or(Value::Null);
            event.timestamp = mark.timestamp.unwrap_or(event.timestamp);
            self.dispatcher().emit(snapshot, Draft::new(event));
        }
    }

    /// Lists what is installed, with its owners.
    pub fn registrations_list(&self) -> Vec<Registration> {
        self.0.registrations.list()
    }

    /// Lists what applies to a call of `kind` (`tool` or `llm`) made inside `scope`, in the order in which it runs.
    pub fn explain(&self, kind: &str, scope: Option<&Scope>) -> Result<Vec<Registration>> {
        if !["tool", "llm"].contains(&kind) {
            return Err(Error::invalid_argument(
                "$.kind",
                format!("no kind '{kind}'; there are tool, llm"),
            ));
        }
        let applies = |stage: &str| match stage.split_once('.') {
            Some((subject, _)) => subject == kind || subject == "scope",
            None => true,
        };
        let all = lines(&self.0.registrations.snapshot(scope));
        Ok(all.into_iter().filter(|line| applies(line.stage)).collect())
    }

    /// Returns the dispatcher's counters.
    pub fn counts(&self) -> DispatchCounts {
        self.dispatcher().counts()
    }

    /// Waits until everything emitted before now is delivered, at most `timeout`.
    ///
    /// Returns the number of events still pending, 0 if none. Inside a sanitizer or subscriber it is
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock).
    pub async fn flush(&self, timeout: Option<Duration>) -> Result<usize> {
        self.dispatcher().flush(timeout).await
    }

    /// Blocks this thread until everything emitted before now is delivered; see [`Runtime::flush`].
    ///
    /// Inside a tokio runtime it is [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock): asynchronous subscribers may
    /// need the thread.
    pub fn flush_blocking(&self, timeout: Option<Duration>) -> Result<usize> {
        block::check_may_block("flush().await")?;
        block::block_on(self.dispatcher().flush(timeout))
    }

    /// Ends what is open, delivers what is queued, and stops; at most `timeout`.
    ///
    /// Returns the number of events that were not delivered. Calls and registrations fail with
    /// [`ShutDown`](crate::ErrorKind::ShutDown) from now on. A second shutdown does nothing. Inside a sanitizer
    /// or subscriber it is [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock), and nothing is shut down.
    pub async fn shutdown(&self, timeout: Duration) -> Result<usize> {
        Dispatcher::check_outside()?;
        let deadline = self.0.timer.load().deadline(timeout);
        if self
            .0
            .state
            .compare_exchange(RUNNING, SHUTTING, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Ok(0);
        }
        self.end_everything();
        self.0.state.store(SHUT, Ordering::Release);
        let dispatcher = self.dispatcher();
        let left = dispatcher
            .clone()
            .flush(Some(deadline.saturating_duration_since(Instant::now())))
            .await?;
        dispatcher.stop(deadline).await;
        // Callbacks may refer to the runtime itself; from here on nobody calls them.
        self.0.registrations.clear();
        Ok(left)
    }

    /// Shuts down, blocking this thread; see [`Runtime::shutdown`] and [`Runtime::flush_blocking`].
    pub fn shutdown_blocking(&self, timeout: Duration) -> Result<usize> {
        block::check_may_block("shutdown().await")?;
        block::block_on(self.shutdown(timeout))
    }

    /// Shuts down every runtime of the process, together within `timeout`; for a host's exit.
    pub fn shutdown_all(timeout: Duration) {
        let deadline = Instant::now() + timeout.min(Duration::from_secs(60 * 60 * 24));
        let all: Vec<_> = ALL.lock().iter().filter_map(Weak::upgrade).map(Self).collect();
        for runtime in all {
            // Nobody is left to hear of what was not delivered.
            let _ = runtime.shutdown_blocking(deadline.saturating_duration_since(Instant::now()));
        }
    }

    fn end_everything(&self) {
        let abandoned = || Some(Outcome::Abandoned);
        let manual: Vec<_> = std::mem::take(&mut *self.0.manual.lock()).into_values().collect();
        for call in manual.iter().rev() {
            // A call that ended meanwhile needs no second end.
            let _ = call.end(EndOptions {
                outcome: abandoned(),
                ..EndOptions::default()
            });
        }
        let roots: Vec<_> = std::mem::take(&mut *self.0.roots.lock()).into_values().collect();
        for scope in roots.iter().rev() {
            scope.close(CloseOptions {
                outcome: abandoned(),
                ..CloseOptions::default()
            });
        }
    }

    /// Says whether the runtime has been shut down.
    pub fn is_shut(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == SHUT
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.0.state.load(Ordering::Acquire) == RUNNING {
            Ok(())
        } else {
            Err(Error::shut_down())
        }
    }

    /// Returns the runtime's timer.
    pub fn timer(&self) -> Arc<Timer> {
        self.0.timer.load_full()
    }

    pub(crate) fn registrations(&self) -> &Registrations {
        &self.0.registrations
    }

    pub(crate) fn dispatcher(&self) -> Arc<Dispatcher> {
        self.0.dispatcher.load_full()
    }

    pub(crate) fn roots(&self) -> &Mutex<BTreeMap<u64, Scope>> {
        &self.0.roots
    }

    pub(crate) fn manual_calls(&self) -> &Mutex<BTreeMap<u64, ManualCall>> {
        &self.0.manual
    }

    /// Makes every runtime of this process usable in the child of a fork.
    ///
    /// Threads do not survive a fork: dispatcher and timer are made anew, and what the parent had queued stays
    /// the parent's.
    pub fn after_fork() {
        crate::id::after_fork();
        let all: Vec<_> = ALL.lock().iter().filter_map(Weak::upgrade).collect();
        for inner in all {
            let runtime = Self(inner);
            let timer = Timer::default();
            let limits = runtime.options().limits;
            let dispatcher = Dispatcher::new(limits, runtime.0.host.clone(), timer.clone());
            // The old ones are leaked on purpose: a lock inside may be held by a thread that is no more.
            std::mem::forget(runtime.0.timer.swap(Arc::new(timer)));
            std::mem::forget(runtime.0.dispatcher.swap(dispatcher.clone()));
            runtime.0.registrations.after_fork(&dispatcher);
        }
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Runtime({:p})", Arc::as_ptr(&self.0))
    }
}

impl PartialEq for Runtime {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn level_of(scope: Option<&Scope>) -> Level {
    match scope {
        None => Level::Global,
        Some(scope) => Level::Scope {
            name: scope.name().clone(),
            depth: scope.depth(),
        },
    }
}

/// Where and how an entry is registered.
#[derive(Clone, Debug, Default)]
pub struct RegisterOptions {
    /// Lower runs first.
    pub priority: i32,
    /// The scope that owns the entry; nothing for a global one.
    pub scope: Option<Scope>,
    /// Whether later request intercepts are skipped once this one has run.
    pub break_chain: bool,
    /// The plugin component that owns the entry.
    pub component: Option<Arc<str>>,
}

/// What a mark says.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// The data.
    pub data: Option<Value>,
    /// Free metadata.
    pub metadata: Option<Value>,
    /// The schema of the data.
    pub data_schema: Option<Value>,
    /// When it happened; now if absent.
    pub timestamp: Option<SystemTime>,
}
