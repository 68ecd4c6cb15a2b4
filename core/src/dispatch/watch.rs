//! The watch: gives up on callbacks that do not come back, so that the others go on.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::lane::{Busy, Lane};
use super::{Dispatcher, Place};
use crate::timer::Sleep;

/// Looks at the lanes from time to time while events wait.
struct Watch {
    dispatcher: Weak<Dispatcher>,
    sleep: Mutex<Option<Pin<Box<Sleep>>>>,
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        let Some(dispatcher) = self.dispatcher.upgrade() else {
            return;
        };
        dispatcher.look();
        if dispatcher.pending.load(Ordering::Acquire) > 0 {
            self.rest(&dispatcher);
            return;
        }
        dispatcher.watching.store(false, Ordering::Release);
        if dispatcher.pending.load(Ordering::Acquire) > 0 {
            dispatcher.watch();
        }
    }
}

impl Watch {
    fn rest(self: Arc<Self>, dispatcher: &Dispatcher) {
        let pause = (dispatcher.limits.load().callback_time / 4)
            .clamp(Duration::from_millis(5), Duration::from_millis(250));
        let mut sleep = Box::pin(dispatcher.timer.after(pause));
        let waker = Waker::from(self.clone());
        let _ = sleep.as_mut().poll(&mut Context::from_waker(&waker));
        *self.sleep.lock() = Some(sleep);
    }
}

impl Dispatcher {
    /// Starts looking, unless somebody does already.
    pub(super) fn watch(self: &Arc<Self>) {
        if !self.watching.load(Ordering::Relaxed) && !self.watching.swap(true, Ordering::AcqRel) {
            let looker = Watch {
                dispatcher: Arc::downgrade(self),
                sleep: Mutex::new(None),
            };
            Arc::new(looker).rest(self);
        }
    }

    /// Looks at every lane once.
    pub(super) fn look(self: &Arc<Self>) {
        let lanes: Vec<_> = std::iter::once(self.sanitizing.clone())
            .chain(self.lanes.lock().iter().cloned())
            .collect();
        for lane in lanes {
            if let Some(busy) = lane.busy() {
                self.judge(&lane, &busy);
            }
        }
    }

    fn judge(self: &Arc<Self>, lane: &Arc<Lane>, busy: &Busy) {
        if let Place::Loop(event_loop) = &busy.place
            && (busy.waiting || busy.scheduled)
            && event_loop.check_closed()
        {
            lane.rescue();
            return;
        }
        let overdue =
            Instant::now().saturating_duration_since(busy.since) >= self.limits.load().callback_time;
        if !overdue || busy.scheduled {
            return;
        }
        // Code that runs on an event loop of the host cannot be left behind: the loop itself is stuck.
        let stuck = !busy.waiting && !matches!(busy.place, Place::Loop(_));
        if !stuck && !busy.waiting {
            return;
        }
        match (&busy.what, lane.subscriber()) {
            (Some(queued), _) => {
                let (queued, dispatcher, target) = (queued.clone(), self.clone(), lane.clone());
                let replaced = lane.replace(busy, |epoch| {
                    Box::pin(super::flush::give_up(target, epoch, dispatcher, queued))
                });
                if replaced && stuck {
                    self.runner(&busy.place).replace();
                }
            }
            (None, Some(subscriber)) => {
                let first = !subscriber.is_overrun();
                subscriber.set_overrun(true);
                lane.drop_waiting(|events| {
                    self.skipped.fetch_add(events, Ordering::Relaxed);
                });
                if first && stuck {
                    self.runner(&busy.place).replace();
                }
            }
            (None, None) => {}
        }
    }
}
