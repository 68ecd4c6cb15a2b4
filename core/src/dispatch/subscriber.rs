//! Subscribers: who receives events, and the lane on which they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;

use super::lane::Lane;
use super::queue::{Delivered, Delivery};
use super::{Dispatcher, Origin};
use crate::chain::{Home, Level, Observe, Step, catch};
use crate::error::Result;
use crate::event::CallEvent;

/// Receives typed records of registry calls.
pub trait ObserveCalls: Send + Sync + 'static {
    /// Takes one record; the failure is counted and logged, and reaches nobody else.
    fn observe(&self, event: &CallEvent, origin: &Origin) -> Step<()>;

    /// Says where the callback has to run.
    fn home(&self) -> Home {
        Home::Core
    }
}

/// One registered subscriber.
pub(crate) struct Subscriber {
    name: Arc<str>,
    level: Level,
    target: Target,
    /// Replaced after a fork, when the lane belongs to the parent's dispatcher.
    lane: ArcSwapOption<Lane>,
    overrun: AtomicBool,
}

/// What a subscriber receives.
pub(crate) enum Target {
    Events(Arc<dyn Observe>),
    Calls(Arc<dyn ObserveCalls>),
}

impl Subscriber {
    pub(crate) fn new(
        dispatcher: &Arc<Dispatcher>,
        name: Arc<str>,
        level: Level,
        target: Target,
    ) -> Arc<Self> {
        let made = Self {
            name,
            level,
            target,
            lane: ArcSwapOption::empty(),
            overrun: AtomicBool::new(false),
        };
        let subscriber = Arc::new(made);
        subscriber.attach(dispatcher);
        subscriber
    }

    /// Gives the subscriber a lane of `dispatcher`.
    pub(crate) fn attach(self: &Arc<Self>, dispatcher: &Arc<Dispatcher>) {
        self.set_overrun(false);
        self.lane.store(Some(dispatcher.lane_for(self)));
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn level(&self) -> &Level {
        &self.level
    }

    pub(crate) fn home(&self) -> Home {
        match &self.target {
            Target::Events(target) => target.home(),
            Target::Calls(target) => target.home(),
        }
    }

    pub(super) fn lane(&self) -> Option<Arc<Lane>> {
        self.lane.load_full()
    }

    pub(super) fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Acquire)
    }

    pub(super) fn set_overrun(&self, overrun: bool) {
        self.overrun.store(overrun, Ordering::Release);
    }

    /// Ends the overrun of a subscriber whose callback has come back.
    pub(super) fn come_back(&self) {
        if self.is_overrun() {
            self.set_overrun(false);
        }
    }

    pub(super) fn receive(&self, delivery: &Delivery) -> Step<()> {
        match (&self.target, &delivery.what) {
            (Target::Events(target), Delivered::Event(event)) => target.observe(event, &delivery.origin),
            (Target::Calls(target), Delivered::Call(event)) => target.observe(event, &delivery.origin),
            // A snapshot keeps the two kinds apart.
            (Target::Events(_), Delivered::Call(_)) | (Target::Calls(_), Delivered::Event(_)) => {
                Step::Ready(Ok(()))
            }
        }
    }

    pub(super) fn flush(&self) -> Result<()> {
        match &self.target {
            Target::Events(target) => catch(|| target.flush()),
            Target::Calls(_) => Ok(()),
        }
    }
}
