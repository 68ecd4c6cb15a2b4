//! What is registered, at which level, and the merged view that a call takes when it enters.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::chain::{Entries, Entry, Handler, Home, Level};
use crate::dispatch::{Dispatcher, Subscriber};
use crate::error::{Error, ErrorKind, Result};
use crate::family::{Family, Shape};
use crate::scope::{Scope, ScopeInner};

/// The chains and subscribers that apply at one place; never changed once made.
pub(crate) struct Snapshot {
    chains: [Entries; Family::COUNT],
    pub(crate) subscribers: Arc<[Arc<Subscriber>]>,
    pub(crate) call_subscribers: Arc<[Arc<Subscriber>]>,
    /// Whether any guardrail or intercept is a host callback (PAY-4).
    pub(crate) host_inline: bool,
    /// Whether anything on the publication path is a host callback.
    pub(crate) host_queued: bool,
}

impl Snapshot {
    fn empty() -> Self {
        Self {
            chains: std::array::from_fn(|_| Arc::from([])),
            subscribers: Arc::from([]),
            call_subscribers: Arc::from([]),
            host_inline: false,
            host_queued: false,
        }
    }

    pub(crate) fn chain(&self, family: Family) -> &Entries {
        // The array has one place for each family.
        #[allow(
            clippy::indexing_slicing,
            reason = "the index is the family's place in an array of all families"
        )]
        &self.chains[family.index()]
    }

    pub(crate) fn is_observed(&self) -> bool {
        !self.subscribers.is_empty()
    }

    fn is_empty(&self) -> bool {
        let silent = self.subscribers.is_empty() && self.call_subscribers.is_empty();
        silent && self.chains.iter().all(|chain| chain.is_empty())
    }

    fn each_entry(&self) -> impl Iterator<Item = (Family, &Arc<Entry>)> {
        Family::ALL
            .iter()
            .flat_map(|family| self.chain(*family).iter().map(|entry| (*family, entry)))
    }

    fn refresh(mut self) -> Self {
        let inline = self
            .each_entry()
            .any(|(family, entry)| family.is_inline() && entry.handler.is_host());
        let sanitizers = self
            .each_entry()
            .any(|(family, entry)| family.is_sanitizer() && entry.handler.is_host());
        let mut observers = self.subscribers.iter().chain(self.call_subscribers.iter());
        let observing = observers.any(|subscriber| subscriber.home() != Home::Core);
        self.host_inline = inline;
        self.host_queued = sanitizers || observing;
        self
    }

    /// Returns a copy with `change` applied to one family's entries, which stay in order.
    fn with_entries(&self, family: Family, change: impl FnOnce(&mut Vec<Arc<Entry>>)) -> Self {
        let mut entries = self.chain(family).to_vec();
        change(&mut entries);
        entries.sort_by(|a, b| a.order(b));
        let mut copy = self.shallow();
        if let Some(place) = copy.chains.get_mut(family.index()) {
            *place = entries.into();
        }
        copy.refresh()
    }

    fn shallow(&self) -> Self {
        Self {
            chains: self.chains.clone(),
            subscribers: self.subscribers.clone(),
            call_subscribers: self.call_subscribers.clone(),
            host_inline: self.host_inline,
            host_queued: self.host_queued,
        }
    }

    /// Returns this view with the entries of an inner level added.
    fn with_level(&self, inner: &Snapshot) -> Self {
        let join = |outer: &Entries, inner: &Entries| -> Entries {
            if inner.is_empty() {
                return outer.clone();
            }
            let mut entries: Vec<_> = outer.iter().chain(inner.iter()).cloned().collect();
            entries.sort_by(|a, b| a.order(b));
            entries.into()
        };
        let add = |outer: &Arc<[Arc<Subscriber>]>,
                   inner: &Arc<[Arc<Subscriber>]>|
         -> Arc<[Arc<Subscriber>]> { outer.iter().chain(inner.iter()).cloned().collect() };
        let chains = std::array::from_fn(|index| {
            let family = Family::ALL.get(index).copied().unwrap_or(Family::MarkSanitize);
            join(self.chain(family), inner.chain(family))
        });
        Self {
            chains,
            subscribers: add(&self.subscribers, &inner.subscribers),
            call_subscribers: add(&self.call_subscribers, &inner.call_subscribers),
            host_inline: false,
            host_queued: false,
        }
        .refresh()
    }
}

/// What one scope owns, and its cached view.
#[derive(Default)]
pub(crate) struct Local {
    own: Slot<Snapshot>,
    view: Slot<View>,
}

/// A shared value that may be absent.
///
/// Every call has two of them, so one must cost nothing to drop: an `ArcSwapOption` looks at every thread then.
struct Slot<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Slot<T> {
    fn load_full(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }

    fn swap(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        std::mem::replace(&mut *self.0.lock(), value)
    }

    /// What was there is dropped after the lock is free: it may hold callbacks of the host.
    fn store(&self, value: Option<Arc<T>>) {
        drop(self.swap(value));
    }

    fn is_none(&self) -> bool {
        self.0.lock().is_none()
    }
}

struct View {
    generation: u64,
    snapshot: Arc<Snapshot>,
}

/// The registrations of one runtime.
pub(crate) struct Registrations {
    global: ArcSwap<Snapshot>,
    /// Serialises writers; replaced after a fork, where another thread may have held it.
    writing: ArcSwap<Mutex<()>>,
    generation: AtomicU64,
    /// How many scopes own registrations; while there are none, a call reads the global view alone.
    locals: AtomicUsize,
    owners: Mutex<BTreeMap<u64, Weak<ScopeInner>>>,
}

/// One line of what is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The family's wire name, `subscriber`, or `middleware`.
    pub stage: &'static str,
    /// The entry's name.
    pub name: Arc<str>,
    /// `global`, `scope` or `plugin`; `registry` for middleware.
    pub level: &'static str,
    /// The scope's or component's name.
    pub owner: Option<Arc<str>>,
    /// The priority; subscribers and middleware have none and show 0.
    pub priority: i32,
}

impl Registration {
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        Self {
            stage: entry.stage(),
            name: entry.name.clone(),
            level: if entry.family.is_some() {
                entry.level.name()
            } else {
                "registry"
            },
            owner: entry.level.owner().map(Arc::from),
            priority: entry.priority,
        }
    }

    fn of_subscriber(subscriber: &Subscriber) -> Self {
        Self {
            stage: "subscriber",
            name: subscriber.name().clone(),
            level: subscriber.level().name(),
            owner: subscriber.level().owner().map(Arc::from),
            priority: 0,
        }
    }
}

impl Default for Registrations {
    fn default() -> Self {
        Self {
            global: ArcSwap::from_pointee(Snapshot::empty()),
            writing: ArcSwap::from_pointee(Mutex::new(())),
            generation: AtomicU64::new(0),
            locals: AtomicUsize::new(0),
            owners: Mutex::new(BTreeMap::new()),
        }
    }
}

impl Registrations {
    /// Returns what applies at `scope`.
    pub(crate) fn snapshot(&self, scope: Option<&Scope>) -> Arc<Snapshot> {
        match scope {
            Some(scope) if self.locals.load(Ordering::Acquire) > 0 => self.resolve(scope),
            _ => self.global.load_full(),
        }
    }

    /// Finds the nearest ancestor with a fresh view and brings the scopes below it up to date.
    fn resolve(&self, scope: &Scope) -> Arc<Snapshot> {
        let generation = self.generation.load(Ordering::Acquire);
        let fresh = |scope: &Scope| {
            let view = scope.local().view.load_full()?;
            (view.generation == generation).then(|| view.snapshot.clone())
        };
        let mut stale = Vec::new();
        let mut place = Some(scope.clone());
        let mut snapshot = loop {
            let Some(here) = place else {
                break self.global.load_full();
            };
            if let Some(view) = fresh(&here) {
                break view;
            }
            place = here.parent().cloned();
            stale.push(here);
        };
        for scope in stale.iter().rev() {
            if let Some(own) = scope.local().own.load_full() {
                snapshot = Arc::new(snapshot.with_level(&own));
            }
            scope.local().view.store(Some(Arc::new(View {
                generation,
                snapshot: snapshot.clone(),
            })));
        }
        snapshot
    }

    /// Applies one change to a level, under the writers' lock.
    ///
    /// What the change removes is dropped after the lock is released: a host may run code of its own then.
    fn write<T>(
        &self,
        scope: Option<&Scope>,
        change: impl FnOnce(&Snapshot) -> Result<(Snapshot, T)>,
    ) -> Result<T> {
        let (_before, result) = {
            let writing = self.writing.load_full();
            let _alone = writing.lock();
            match scope {
                None => {
                    let before = self.global.load_full();
                    let (next, value) = change(&before)?;
                    self.global.store(Arc::new(next));
                    self.generation.fetch_add(1, Ordering::AcqRel);
                    (before, value)
                }
                Some(scope) => self.write_local(scope, change)?,
            }
        };
        Ok(result)
    }

    fn write_local<T>(
        &self,
        scope: &Scope,
        change: impl FnOnce(&Snapshot) -> Result<(Snapshot, T)>,
    ) -> Result<(Arc<Snapshot>, T)> {
        if !scope.is_open() {
            let text = format!("scope '{}' is closed", scope.name());
            return Err(Error::new(ErrorKind::AlreadyEnded, text));
        }
        let own = scope.local().own.load_full();
        let first = own.is_none();
        let before = own.unwrap_or_else(|| Arc::new(Snapshot::empty()));
        let (next, value) = change(&before)?;
        if first && next.is_empty() {
            return Ok((before, value));
        }
        scope.local().own.store(Some(Arc::new(next)));
        if first {
            self.owners.lock().insert(scope.order(), scope.downgrade());
            self.locals.fetch_add(1, Ordering::AcqRel);
        }
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok((before, value))
    }

    pub(crate) fn add(&self, family: Family, scope: Option<&Scope>, entry: Entry) -> Result<()> {
        fits(family, &entry)?;
        // Owned here, so that a refused entry is dropped after the lock is released.
        let entry = Arc::new(entry);
        self.write(scope, |level| {
            if level.chain(family).iter().any(|other| same_slot(other, &entry)) {
                return Err(Error::already_exists(family.wire_name(), &entry.name));
            }
            Ok((
                level.with_entries(family, |entries| entries.push(entry.clone())),
                (),
            ))
        })
    }

    pub(crate) fn remove(&self, family: Family, scope: Option<&Scope>, name: &str) -> bool {
        let removed = self.write(scope, |level| {
            let mut found = false;
            let next = level.with_entries(family, |entries| {
                entries.retain(|entry| {
                    let hit = *entry.name == *name && !matches!(entry.level, Level::Plugin(_));
                    found |= hit;
                    !hit
                });
            });
            Ok((next, found))
        });
        removed.unwrap_or(false)
    }

    pub(crate) fn subscribe(
        &self,
        scope: Option<&Scope>,
        calls: bool,
        subscriber: &Arc<Subscriber>,
    ) -> Result<()> {
        self.write(scope, |level| {
            let taken = level.subscribers.iter().chain(level.call_subscribers.iter());
            if taken.into_iter().any(|other| other.name() == subscriber.name()) {
                return Err(Error::already_exists("subscriber", subscriber.name()));
            }
            let mut next = level.shallow();
            let list = if calls {
                &mut next.call_subscribers
            } else {
                &mut next.subscribers
            };
            *list = list.iter().cloned().chain([subscriber.clone()]).collect();
            Ok((next.refresh(), ()))
        })
    }

    /// Removes a subscriber of either kind; what is queued for it is still delivered.
    pub(crate) fn unsubscribe(&self, scope: Option<&Scope>, name: &str) -> Option<Arc<Subscriber>> {
        let removed = self.write(scope, |level| {
            let mut next = level.shallow();
            let mut found = None;
            for list in [&mut next.subscribers, &mut next.call_subscribers] {
                let (gone, kept): (Vec<_>, Vec<_>) =
                    list.iter().cloned().partition(|one| **one.name() == *name);
                found = found.or_else(|| gone.into_iter().next());
                *list = kept.into();
            }
            Ok((next.refresh(), found))
        });
        removed.ok().flatten()
    }

    /// Forgets a scope that is dropped without having been closed, as one of another process is.
    pub(crate) fn forget(&self, local: &Local, order: u64) {
        if self.locals.load(Ordering::Acquire) > 0 && !local.own.is_none() {
            self.owners.lock().remove(&order);
            self.locals.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Drops what a closing scope owns.
    pub(crate) fn release(&self, scope: &Scope) {
        if self.locals.load(Ordering::Acquire) == 0 || scope.local().own.is_none() {
            return;
        }
        let writing = self.writing.load_full();
        let alone = writing.lock();
        let own = scope.local().own.swap(None);
        if own.is_some() {
            self.owners.lock().remove(&scope.order());
            self.locals.fetch_sub(1, Ordering::AcqRel);
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        drop(alone);
        // Callbacks are dropped outside the lock: a host may run code of its own then.
        scope.local().view.store(None);
        drop(own);
    }

    /// Lists what is installed, global entries first, then scope by scope.
    pub(crate) fn list(&self) -> Vec<Registration> {
        let scopes: Vec<_> = self.owners.lock().values().filter_map(Weak::upgrade).collect();
        let own = scopes.into_iter().filter_map(|scope| scope.local.own.load_full());
        let levels = std::iter::once(self.global.load_full()).chain(own);
        levels.flat_map(|level| lines(&level)).collect()
    }

    /// Removes everything that a plugin component owns; returns whether there was any.
    pub(crate) fn remove_component(&self, component: &str) -> bool {
        let removed = self.write(None, |level| {
            let mut next = level.shallow();
            let mut found = false;
            for chain in &mut next.chains {
                let own = |entry: &Arc<Entry>| matches!(&entry.level, Level::Plugin(owner) if **owner == *component);
                found |= chain.iter().any(own);
                *chain = chain.iter().filter(|entry| !own(entry)).cloned().collect();
            }
            Ok((next.refresh(), found))
        });
        removed.unwrap_or(false)
    }

    /// Lets go of all global entries and subscribers, once nothing uses them any more.
    pub(crate) fn clear(&self) {
        let writing = self.writing.load_full();
        let alone = writing.lock();
        let old = self.global.swap(Arc::new(Snapshot::empty()));
        self.generation.fetch_add(1, Ordering::AcqRel);
        drop(alone);
        // Callbacks are dropped outside the lock: a host may run code of its own then.
        drop(old);
    }

    /// Makes the locks of this process's own, and gives every subscriber a lane of the new dispatcher.
    pub(crate) fn after_fork(&self, dispatcher: &Arc<Dispatcher>) {
        std::mem::forget(self.writing.swap(Arc::new(Mutex::new(()))));
        let scopes: Vec<_> = self.owners.lock().values().filter_map(Weak::upgrade).collect();
        let own = scopes.into_iter().filter_map(|scope| scope.local.own.load_full());
        for level in std::iter::once(self.global.load_full()).chain(own) {
            for subscriber in level.subscribers.iter().chain(level.call_subscribers.iter()) {
                subscriber.attach(dispatcher);
            }
        }
    }
}

/// Lists a view's entries in the order in which they run, family by family, and its subscribers.
pub(crate) fn lines(level: &Snapshot) -> Vec<Registration> {
    let entries = level.each_entry().map(|(_, entry)| Registration::of_entry(entry));
    let subscribers = level.subscribers.iter().chain(level.call_subscribers.iter());
    entries
        .chain(subscribers.map(|subscriber| Registration::of_subscriber(subscriber)))
        .collect()
}

fn same_slot(a: &Entry, b: &Entry) -> bool {
    a.name == b.name && a.level == b.level
}

fn fits(family: Family, entry: &Entry) -> Result<()> {
    let fits = matches!(
        (family.shape(), &entry.handler),
        (Shape::Gate, Handler::Gate(_))
            | (Shape::Transform, Handler::Transform(_))
            | (Shape::Around | Shape::Stream, Handler::Around(_))
    );
    if !fits {
        let text = format!(
            "the callback given for '{}' does not fit the shape of {family}",
            entry.name
        );
        return Err(Error::invalid_argument("$.fn", text));
    }
    if entry.break_chain && !family.can_break() {
        let text = format!("break_chain has no meaning for {family}; it is for request intercepts");
        return Err(Error::invalid_argument("$.break_chain", text));
    }
    Ok(())
}
