//! The dispatcher: a bounded queue of events, one serial sanitizing lane, and one lane for each subscriber.
//!
//! Emitting takes copies and queues them; it never waits for a sanitizer or a subscriber. Events that need
//! sanitizing pass one serial lane; then each subscriber gets them on a lane of its own, first in first out and
//! one at a time. A lane's work runs where its callbacks have to run: on a thread of the core, on the thread for
//! host callbacks, or on the event loop where the event was emitted.

pub(crate) mod bounds;
mod flush;
mod lane;
mod queue;
mod runner;
mod subscriber;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::chain::{Home, transform};
use crate::error::Error;
use crate::event::{CallEvent, EventKind};
use crate::registrations::Snapshot;
use crate::timer::Timer;

pub use bounds::Limits;
pub use lane::Runnable;
pub(crate) use lane::echo_depth;
pub(crate) use queue::Draft;
pub(crate) use queue::PayloadCopy;
pub use subscriber::ObserveCalls;
pub(crate) use subscriber::{Subscriber, Target};

use bounds::{Admission, Ticket};
use lane::{Lane, Work};
use queue::{Delivery, Item, Queued};
use runner::{Place, Runner};

/// How long a chain of events may be in which each was emitted by an observer of the one before.
const MAX_ECHO: u32 = 4;

/// What the host lends the dispatcher.
pub trait DispatchHost: Send + Sync + 'static {
    /// Captures the context of this moment for callbacks that run later; nothing where there is none.
    fn capture(&self) -> Origin {
        Origin::default()
    }

    /// Runs a batch of host callbacks on the thread for them.
    fn batch(&self, run: &mut dyn FnMut()) {
        run();
    }

    /// Writes a warning of Callweir's own to the host's log.
    fn log(&self, message: &str) {
        let _ = message;
    }
}

/// Where and in which context an event was emitted.
#[derive(Clone, Default)]
pub struct Origin {
    /// The host's context, given back to callbacks that run later.
    pub context: transform::Context,
    /// The event loop that was running.
    pub event_loop: Option<Arc<dyn HostLoop>>,
    /// How many callbacks of the dispatcher lie behind this moment, where only the host's context knows.
    pub echo: u32,
}

/// An event loop of the host that can drain lanes.
pub trait HostLoop: Send + Sync + 'static {
    /// Runs `lane` soon on the loop; false if the loop is closed.
    fn schedule(&self, lane: Runnable) -> bool;
    /// Says whether the loop is known to have closed; asked under locks, so it must not enter the host.
    fn is_closed(&self) -> bool;
    /// Finds out whether the loop has closed, and remembers it; may enter the host.
    fn check_closed(&self) -> bool;
    /// Returns the loop's identity.
    fn id(&self) -> usize;
    /// Returns the loop for downcasts.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A host without a context or loops of its own.
#[derive(Debug, Default)]
pub(crate) struct NoHost;

impl DispatchHost for NoHost {}

/// The counters of a dispatcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchCounts {
    /// Events emitted and not yet delivered.
    pub pending: usize,
    /// Bytes that these hold, estimated.
    pub pending_bytes: usize,
    /// Events dropped because the queue was full.
    pub dropped: u64,
    /// Events that an overrun subscriber did not get.
    pub skipped: u64,
    /// Failures of sanitizers and subscribers.
    pub failures: u64,
}

/// Queues events and delivers them.
pub(crate) struct Dispatcher {
    limits: ArcSwap<Limits>,
    host: Arc<dyn DispatchHost>,
    timer: Timer,
    /// Serves lanes whose work is the core's own.
    core: Arc<Runner>,
    /// Serves lanes whose callbacks are the host's.
    host_thread: Arc<Runner>,
    sanitizing: Arc<Lane>,
    lanes: Mutex<Vec<Arc<Lane>>>,
    pending: AtomicUsize,
    pending_bytes: AtomicUsize,
    dropped: AtomicU64,
    unreported: AtomicU64,
    skipped: AtomicU64,
    failures: AtomicU64,
    last_dropped: Mutex<Option<Arc<Snapshot>>>,
    watching: AtomicBool,
    /// Set once nobody works on the lanes any more.
    stopped: AtomicBool,
}

impl Dispatcher {
    pub(crate) fn new(limits: Limits, host: Arc<dyn DispatchHost>, timer: Timer) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            limits: ArcSwap::from_pointee(limits),
            core: Runner::new("callweir-events", Arc::new(NoHost)),
            host_thread: Runner::new("callweir-host", host.clone()),
            host,
            timer,
            sanitizing: Lane::new(me.clone(), Work::Sanitize),
            lanes: Mutex::new(Vec::new()),
            pending: AtomicUsize::new(0),
            pending_bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            unreported: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_dropped: Mutex::new(None),
            watching: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        })
    }

    pub(crate) fn set_limits(&self, limits: Limits) {
        self.limits.store(Arc::new(limits));
    }

    /// Makes the lane of a new subscriber.
    pub(crate) fn lane_for(self: &Arc<Self>, subscriber: &Arc<Subscriber>) -> Arc<Lane> {
        let lane = Lane::new(Arc::downgrade(self), Work::Deliver(Arc::downgrade(subscriber)));
        let mut lanes = self.lanes.lock();
        lanes.retain(|lane| lane.is_needed());
        lanes.push(lane.clone());
        lane
    }

    /// Queues an event for the subscribers of `snapshot`.
    pub(crate) fn emit(self: &Arc<Self>, snapshot: Arc<Snapshot>, mut draft: Draft) {
        if !snapshot.is_observed() || self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let origin = self.origin(&snapshot);
        draft.behind.echo = draft.behind.echo.max(origin.echo);
        if draft.behind.echo > MAX_ECHO {
            // Observers that answer every event with an event would feed themselves for ever.
            draft.mark_unheard();
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if draft.event.kind == EventKind::End && draft.pair_is_unheard() {
            self.count_dropped(&snapshot);
            return;
        }
        let Some(ticket) = self.admit(&mut draft) else {
            draft.mark_unheard();
            self.count_dropped(&snapshot);
            return;
        };
        self.watch();
        let queued = Queued::new(draft, snapshot, origin, ticket);
        if queued.needs_sanitizing() {
            self.sanitizing.push(Item::Sanitize(Arc::new(queued)));
        } else if self.sanitizing.is_idle() {
            self.deliver(&queued.snapshot.clone(), queued.into_delivery());
        } else {
            self.sanitizing.push(Item::Pass(Box::new(queued)));
        }
    }

    /// Queues a typed record for the subscribers that ask for such; says whether it was.
    ///
    /// A record that is `owed`, because its start was queued, always gets its place, so that pairs stay whole.
    pub(crate) fn emit_call(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        event: CallEvent,
        owed: bool,
    ) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return false;
        }
        let origin = self.origin(snapshot);
        let mut behind = lane::Behind::now();
        behind.echo = behind.echo.max(origin.echo);
        if behind.echo > MAX_ECHO && !owed {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if !owed && self.admission(bounds::OVERHEAD, 0) != Admission::Whole {
            self.count_dropped(snapshot);
            return false;
        }
        let ticket = Ticket::new(self, bounds::OVERHEAD);
        self.watch();
        let delivery = Arc::new(Delivery::call(event, origin, behind, ticket));
        for subscriber in snapshot.call_subscribers.iter() {
            self.hand_over(subscriber, &delivery);
        }
        true
    }

    /// Counts a typed record whose start was dropped.
    pub(crate) fn drop_call(&self, snapshot: &Arc<Snapshot>) {
        self.count_dropped(snapshot);
    }

    /// Captures where an event is emitted, if a host callback will ask.
    fn origin(&self, snapshot: &Snapshot) -> Origin {
        if snapshot.host_queued {
            self.host.capture()
        } else {
            Origin::default()
        }
    }

    /// Gives a finished event to the lanes of its subscribers.
    fn deliver(self: &Arc<Self>, snapshot: &Arc<Snapshot>, delivery: Delivery) {
        let delivery = Arc::new(delivery);
        for subscriber in snapshot.subscribers.iter() {
            self.hand_over(subscriber, &delivery);
        }
    }

    fn hand_over(&self, subscriber: &Arc<Subscriber>, delivery: &Arc<Delivery>) {
        if subscriber.is_overrun() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        } else if let Some(lane) = subscriber.lane() {
            lane.push(Item::Deliver(subscriber.clone(), delivery.clone()));
        }
    }

    /// Returns where the callbacks of `home` run for an event from `origin`.
    fn place(home: Home, origin: &Origin) -> Place {
        match (home, &origin.event_loop) {
            (Home::Core, _) => Place::Core,
            (Home::Loop, Some(event_loop)) if !event_loop.is_closed() => Place::Loop(event_loop.clone()),
            (Home::HostThread | Home::Loop, _) => Place::HostThread,
        }
    }

    fn runner(&self, place: &Place) -> &Arc<Runner> {
        match place {
            Place::Core | Place::Any => &self.core,
            Place::HostThread | Place::Loop(_) => &self.host_thread,
        }
    }

    /// Gives a lane to whoever works at `place`.
    fn schedule(&self, lane: &Arc<Lane>, place: &Place) {
        if let Place::Loop(event_loop) = place
            && event_loop.schedule(Runnable(lane.clone()))
        {
            return;
        }
        self.runner(place).push(lane.clone());
    }

    /// Counts a failed callback and says so, without the failure's text, which may hold secrets.
    fn failed(&self, stage: &str, name: &str, error: &Error) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let kind = error.type_name();
        let kind = kind.as_deref().unwrap_or("null");
        tracing::warn!(target: "callweir", stage, entry = name, error_type = kind, "a queued callback failed");
        // What fails for every event would fill the host's log, and a callback that ended with its loop did not fail;
        // all are counted.
        if failures.is_power_of_two() && !error.is_control() {
            self.host.log(&format!(
                "{stage} '{name}' failed: {kind} ({failures} failures so far)"
            ));
        }
    }

    /// Puts one mark on the queue that says how many events were dropped, when there is room again.
    fn report_drops(self: &Arc<Self>) {
        if self.unreported.load(Ordering::Relaxed) == 0
            || self.pending.load(Ordering::Relaxed) > self.limits.load().events / 2
            || self.pending_bytes.load(Ordering::Relaxed) > self.limits.load().bytes / 2
        {
            return;
        }
        let count = self.unreported.swap(0, Ordering::AcqRel);
        let Some(snapshot) = self.last_dropped.lock().take().filter(|_| count > 0) else {
            return;
        };
        let mut event =
            crate::event::Event::new(EventKind::Mark, crate::id::new(), None, "callweir.dropped".into());
        event.data = serde_json::json!({ "events": count }).into();
        let own = Map::from_iter([("callweir.mark".to_owned(), Value::from("dropped"))]);
        self.emit(snapshot, Draft::new(event).own(own));
    }

    fn count_dropped(&self, snapshot: &Arc<Snapshot>) {
        if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            self.host
                .log("the event queue is full: events are dropped and counted");
        }
        self.unreported.fetch_add(1, Ordering::Relaxed);
        *self.last_dropped.lock() = Some(snapshot.clone());
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn counts(&self) -> DispatchCounts {
        DispatchCounts {
            pending: self.pending.load(Ordering::Acquire),
            pending_bytes: self.pending_bytes.load(Ordering::Acquire),
            dropped: self.dropped.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// Lets the threads end with what they run now; called once nothing more is emitted.
    pub(crate) async fn stop(&self, deadline: Instant) {
        self.stopped.store(true, Ordering::Release);
        self.core.stop();
        self.host_thread.stop();
        while (self.core.is_running() || self.host_thread.is_running()) && Instant::now() < deadline {
            self.timer.after(Duration::from_millis(1)).await;
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.core.stop();
        self.host_thread.stop();
    }
}
