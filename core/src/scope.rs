//! Scopes: units of work with a start and an end, as an immutable chain of parents.

mod close;
mod propagation;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::SystemTime;

use parking_lot::Mutex;
use serde_json::Value;
use uuid::Uuid;

use crate::error::Result;
use crate::event::{Event, EventKind, Outcome, ScopeType, free_metadata};
use crate::id;
use crate::registrations::Local;
use crate::runtime::Runtime;

pub use close::ScopeGuard;
pub(crate) use close::own_metadata;
pub use propagation::Propagation;

tokio::task_local! {
    static CURRENT: Scope;
}

/// Counts the scopes that programs open, in the order of opening.
static OPENED: AtomicU64 = AtomicU64::new(0);
/// The next block of numbers that a thread may give to its calls.
static BLOCKS: AtomicU64 = AtomicU64::new(0);
/// How many numbers a block has.
const BLOCK: u64 = 1 << 16;

thread_local! {
    static NUMBERS: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number that no other scope has; those of opened scopes grow in the order of opening.
///
/// Calls have no order among themselves, and one counter for all threads would be a place where independent calls
/// meet.
fn next_order(role: Role) -> u64 {
    if role == Role::Opened {
        return OPENED.fetch_add(1, Ordering::Relaxed) * 2;
    }
    let mut number = NUMBERS.get();
    if number.is_multiple_of(BLOCK) {
        number = BLOCKS.fetch_add(1, Ordering::Relaxed) * BLOCK + 1;
    }
    NUMBERS.set(number + 1);
    number * 2 + 1
}

/// A unit of work: the parent of the calls, marks and scopes inside it.
///
/// Handles are cheap to clone; all handles of one scope are equal.
#[derive(Clone)]
pub struct Scope(Arc<ScopeInner>);

/// What a handle points to.
pub(crate) struct ScopeInner {
    runtime: Runtime,
    /// Drawn when first needed: a call that nobody observes never pays for it.
    uuid: OnceLock<Uuid>,
    name: Arc<str>,
    category: ScopeType,
    role: Role,
    parent: Option<Scope>,
    /// The parent's id where the parent lives in another process.
    remote_parent: Option<Uuid>,
    depth: u32,
    order: u64,
    state: AtomicU8,
    attributes: Option<Arc<[Arc<str>]>>,
    data_schema: Value,
    pub(crate) local: Local,
    children: Mutex<Children>,
}

/// Who ends a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Whoever opened it, or the scope around it.
    Opened,
    /// The call that it stands for.
    Call,
    /// Another process: it is never ended here.
    Attached,
}

const CLOSED: u8 = 1;
/// The start event was dropped, so the end is too.
const UNHEARD: u8 = 2;

/// The scopes that are open inside a scope, oldest first.
pub(crate) enum Children {
    Open(BTreeMap<u64, Scope>),
    Closed,
}

/// How a scope is opened.
#[derive(Clone, Debug, Default)]
pub struct ScopeOptions {
    /// The input, shown as the start event's `data`.
    pub input: Option<Value>,
    /// Free metadata of the start event.
    pub metadata: Option<Value>,
    /// Flags such as `parallel`, `remote` and `stateful`.
    pub attributes: Vec<Arc<str>>,
    /// The schema of input and output.
    pub data_schema: Option<Value>,
    /// When it started; now if absent.
    pub timestamp: Option<SystemTime>,
}

/// How a scope is closed.
#[derive(Clone, Debug, Default)]
pub struct CloseOptions {
    /// The output, shown as the end event's `data`.
    pub output: Option<Value>,
    /// Free metadata of the end event.
    pub metadata: Option<Value>,
    /// How it ended; succeeded if absent.
    pub outcome: Option<Outcome>,
    /// The type of the failure, a text; null for one without a type, such as a thrown `null` in JavaScript.
    pub error_type: Option<Value>,
    /// When it ended; now if absent.
    pub timestamp: Option<SystemTime>,
}

impl Scope {
    pub(crate) fn build(
        runtime: Runtime,
        name: Arc<str>,
        category: ScopeType,
        role: Role,
        parent: Option<Scope>,
        options: &ScopeOptions,
    ) -> Self {
        let depth = parent.as_ref().map_or(0, |parent| parent.0.depth + 1);
        let flags = Some(&options.attributes).filter(|flags| !flags.is_empty());
        let attributes = flags.map(|flags| flags.as_slice().into());
        Self(Arc::new(ScopeInner {
            runtime,
            uuid: OnceLock::new(),
            name,
            category,
            role,
            parent,
            remote_parent: None,
            depth,
            order: next_order(role),
            state: AtomicU8::new(0),
            attributes,
            data_schema: options.data_schema.clone().unwrap_or(Value::Null),
            local: Local::default(),
            children: Mutex::new(Children::Open(BTreeMap::new())),
        }))
    }

    /// Returns the current scope of this task, as the Rust door keeps it.
    pub fn current() -> Option<Scope> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs a future with this scope as the current one.
    pub fn within<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), future)
    }

    /// Runs a function with this scope as the current one.
    pub fn within_sync<T>(&self, body: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), body)
    }

    /// Returns the id.
    pub fn uuid(&self) -> Uuid {
        *self.0.uuid.get_or_init(id::new)
    }

    /// Returns the id if it has been drawn.
    pub(crate) fn drawn_uuid(&self) -> Option<Uuid> {
        self.0.uuid.get().copied()
    }

    /// Makes a scope that stands for a call that has ended.
    pub(crate) fn ended(
        runtime: &Runtime,
        uuid: Option<Uuid>,
        name: Arc<str>,
        parent: Option<Scope>,
    ) -> Self {
        let (category, options) = (ScopeType::Tool, ScopeOptions::default());
        let scope = Self::build(runtime.clone(), name, category, Role::Call, parent, &options);
        if let Some(uuid) = uuid {
            // A scope that was just made has drawn none.
            let _ = scope.0.uuid.set(uuid);
        }
        scope.abandon_inside();
        scope.end();
        scope
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Returns the type.
    pub fn category(&self) -> ScopeType {
        self.0.category
    }

    /// Returns the scope around this one.
    pub fn parent(&self) -> Option<&Scope> {
        self.0.parent.as_ref()
    }

    /// Returns the id of the scope around this one, in this process or another.
    pub fn parent_uuid(&self) -> Option<Uuid> {
        self.parent().map(Scope::uuid).or(self.0.remote_parent)
    }

    /// Returns the runtime that the scope belongs to.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// Says whether the scope has not ended yet.
    pub fn is_open(&self) -> bool {
        self.0.state.load(Ordering::Acquire) & CLOSED == 0
    }

    /// Says whether the scope stands for a call.
    pub fn is_call(&self) -> bool {
        self.0.role == Role::Call
    }

    /// Returns the number of scopes around this one.
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    pub(crate) fn order(&self) -> u64 {
        self.0.order
    }

    pub(crate) fn local(&self) -> &Local {
        &self.0.local
    }

    pub(crate) fn downgrade(&self) -> Weak<ScopeInner> {
        Arc::downgrade(&self.0)
    }

    /// Marks the scope as ended; false if it was already.
    pub(crate) fn end(&self) -> bool {
        self.0.state.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED == 0
    }

    pub(crate) fn is_unheard(&self) -> bool {
        self.0.state.load(Ordering::Acquire) & UNHEARD != 0
    }

    pub(crate) fn set_unheard(&self) {
        self.0.state.fetch_or(UNHEARD, Ordering::AcqRel);
    }

    /// Returns an event of this scope with everything but payload and metadata.
    pub(crate) fn event(&self, kind: EventKind, timestamp: Option<SystemTime>) -> Event {
        let mut event = Event::new(kind, self.uuid(), self.parent_uuid(), self.0.name.clone());
        event.category = Some(self.0.category);
        if let Some(attributes) = &self.0.attributes {
            event.attributes = attributes.clone();
        }
        event.data_schema = self.0.data_schema.clone();
        if let Some(timestamp) = timestamp {
            event.timestamp = timestamp;
        }
        event
    }

    /// Opens a scope and queues its start event.
    pub(crate) fn open(
        runtime: &Runtime,
        name: Arc<str>,
        category: ScopeType,
        parent: Option<Scope>,
        options: ScopeOptions,
    ) -> Result<Self> {
        runtime.check_open()?;
        let scope = Self::build(runtime.clone(), name, category, Role::Opened, parent, &options);
        scope.track();
        let snapshot = runtime.registrations().snapshot(scope.parent());
        if snapshot.is_observed() {
            let mut event = scope.event(EventKind::Start, options.timestamp);
            event.data = options.input.unwrap_or(Value::Null).into();
            event.metadata = free_metadata(options.metadata);
            runtime
                .dispatcher()
                .emit(snapshot, crate::dispatch::Draft::new(event).paired(&scope));
        }
        Ok(scope)
    }
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Scope {}

impl Hash for Scope {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.order.hash(state);
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Scope({} {}, {})", self.0.category, self.0.name, self.uuid())
    }
}

impl Drop for ScopeInner {
    fn drop(&mut self) {
        self.runtime.registrations().forget(&self.local, self.order);
        // A long chain of parents is taken apart in a loop: dropping it by recursion would overflow the stack.
        let mut next = self.parent.take();
        while let Some(scope) = next {
            next = Arc::into_inner(scope.0).and_then(|mut inner| inner.parent.take());
        }
    }
}
