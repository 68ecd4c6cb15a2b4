//! Runners: the threads that work on lanes, and the places where a lane's work may run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::lane::Lane;
use super::{DispatchHost, HostLoop};

/// Where a lane's next step runs.
#[derive(Clone)]
pub(crate) enum Place {
    /// Wherever the lane happens to be.
    Any,
    /// On the core's thread.
    Core,
    /// On the thread for host callbacks.
    HostThread,
    /// On an event loop of the host.
    Loop(Arc<dyn HostLoop>),
}

impl Place {
    /// Says whether a step for `wanted` may run here.
    pub(super) fn serves(&self, wanted: &Place) -> bool {
        match (self, wanted) {
            (_, Self::Any) | (Self::Core | Self::Any, Self::Core) | (Self::HostThread, Self::HostThread) => {
                true
            }
            // A loop that has closed is served by the thread that can still run its callbacks.
            (Self::HostThread, Self::Loop(wanted)) => wanted.is_closed(),
            (Self::Loop(here), Self::Loop(wanted)) => here.id() == wanted.id(),
            _ => false,
        }
    }
}

/// One thread, replaced when a callback on it does not come back.
pub(super) struct Runner {
    name: &'static str,
    host: Arc<dyn DispatchHost>,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    /// How many flushes wait: then nothing is left for the next nap to find.
    hurried: AtomicUsize,
}

/// How long a thread that has just worked waits before it looks again by itself.
///
/// Waking a sleeping thread costs an emitter more than the event; so while there is traffic nobody wakes it, and what
/// has gathered in a nap is done in one go.
const NAP: Duration = Duration::from_millis(1);
/// After so many naps without work the thread sleeps until it is woken.
const NAPS: u32 = 32;

struct Inbox {
    lanes: VecDeque<Arc<Lane>>,
    /// The thread of this generation serves; an older one ends when it comes back.
    generation: u64,
    running: bool,
    /// Whether somebody has to wake the thread.
    asleep: bool,
    stopped: bool,
}

impl Runner {
    pub(super) fn new(name: &'static str, host: Arc<dyn DispatchHost>) -> Arc<Self> {
        let inbox = Inbox {
            lanes: VecDeque::new(),
            generation: 0,
            running: false,
            asleep: false,
            stopped: false,
        };
        Arc::new(Self {
            name,
            host,
            inbox: Mutex::new(inbox),
            changed: Condvar::new(),
            hurried: AtomicUsize::new(0),
        })
    }

    pub(super) fn push(self: &Arc<Self>, lane: Arc<Lane>) {
        let mut inbox = self.inbox.lock();
        if inbox.stopped {
            return;
        }
        inbox.lanes.push_back(lane);
        if inbox.running {
            if inbox.asleep || self.hurried.load(Ordering::Acquire) > 0 {
                self.changed.notify_one();
            }
        } else {
            self.start(&mut inbox);
        }
    }

    fn start(self: &Arc<Self>, inbox: &mut Inbox) {
        let (runner, generation) = (self.clone(), inbox.generation);
        let spawned = std::thread::Builder::new()
            .name(self.name.into())
            .spawn(move || runner.serve(generation));
        // Without a thread the lanes stay queued; the next push tries again.
        inbox.running = spawned.is_ok();
    }

    /// Gives the lanes to a new thread; the present one is stuck in a callback.
    pub(super) fn replace(self: &Arc<Self>) {
        let mut inbox = self.inbox.lock();
        inbox.generation += 1;
        inbox.asleep = false;
        self.start(&mut inbox);
    }

    fn serve(&self, generation: u64) {
        let here = if self.name == "callweir-host" {
            Place::HostThread
        } else {
            Place::Core
        };
        loop {
            {
                let mut inbox = self.inbox.lock();
                let mut naps = 0;
                while inbox.generation == generation && inbox.lanes.is_empty() && !inbox.stopped {
                    if naps < NAPS {
                        naps += 1;
                        self.changed.wait_for(&mut inbox, NAP);
                    } else {
                        inbox.asleep = true;
                        self.changed.wait(&mut inbox);
                        inbox.asleep = false;
                    }
                }
                if inbox.generation != generation {
                    return;
                }
                if inbox.lanes.is_empty() {
                    inbox.running = false;
                    self.changed.notify_all();
                    return;
                }
            }
            self.host.batch(&mut || {
                for _ in 0..16 {
                    let Some(lane) = self.take(generation) else { return };
                    lane.run(&here);
                }
            });
        }
    }

    /// Makes the thread work on what comes as it comes, for a flush; undone by [`Runner::calm`].
    pub(super) fn hurry(&self) {
        self.hurried.fetch_add(1, Ordering::AcqRel);
        drop(self.inbox.lock());
        self.changed.notify_all();
    }

    pub(super) fn calm(&self) {
        self.hurried.fetch_sub(1, Ordering::AcqRel);
    }

    fn take(&self, generation: u64) -> Option<Arc<Lane>> {
        let mut inbox = self.inbox.lock();
        if inbox.generation == generation {
            inbox.lanes.pop_front()
        } else {
            None
        }
    }

    /// Lets the thread end.
    pub(super) fn stop(&self) {
        let mut inbox = self.inbox.lock();
        inbox.stopped = true;
        let waiting = std::mem::take(&mut inbox.lanes);
        self.changed.notify_all();
        drop(inbox);
        // Lanes hold callbacks, whose drop may come back here.
        drop(waiting);
    }

    pub(super) fn is_running(&self) -> bool {
        self.inbox.lock().running
    }
}
