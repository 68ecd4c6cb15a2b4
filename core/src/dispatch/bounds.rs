//! The bounds of the queue: how many events and bytes may wait, and what happens beyond.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Dispatcher, Draft};
use crate::event::EventKind;

/// What a queued event holds beside its payload, estimated in bytes.
pub(crate) const OVERHEAD: usize = 1024;

/// The bounds of the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many events may wait; beyond it events are dropped in pairs and counted.
    pub events: usize,
    /// How many bytes may wait; beyond three quarters of it events are queued without their payload, and a full
    /// queue drops them like the bound of events.
    pub bytes: usize,
    /// How long one sanitizer or subscriber may take for one event.
    pub callback_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            events: 32_768,
            bytes: 64 << 20,
            callback_time: Duration::from_secs(10),
        }
    }
}

/// What the bounds say to one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Whole,
    WithoutPayload,
    Refused,
}

/// A place in the queue; given back when the last lane has let go of the event.
pub(super) struct Ticket {
    dispatcher: Weak<Dispatcher>,
    weight: usize,
}

impl Ticket {
    pub(super) fn new(dispatcher: &Arc<Dispatcher>, weight: usize) -> Self {
        dispatcher.pending.fetch_add(1, Ordering::AcqRel);
        dispatcher.pending_bytes.fetch_add(weight, Ordering::AcqRel);
        Self {
            dispatcher: Arc::downgrade(dispatcher),
            weight,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(dispatcher) = self.dispatcher.upgrade() {
            dispatcher.pending.fetch_sub(1, Ordering::AcqRel);
            dispatcher.pending_bytes.fetch_sub(self.weight, Ordering::AcqRel);
        }
    }
}

impl Dispatcher {
    pub(super) fn admission(&self, overhead: usize, payload: usize) -> Admission {
        let events = self.pending.load(Ordering::Acquire);
        let limits = self.limits.load();
        let bytes = self.pending_bytes.load(Ordering::Acquire);
        // Payloads leave room for events without one, so that both together stay near the bound.
        let room = limits.bytes - limits.bytes / 4;
        if events >= limits.events {
            Admission::Refused
        } else if payload == 0 || bytes + overhead + payload <= room {
            Admission::Whole
        } else {
            Admission::WithoutPayload
        }
    }

    /// Gives the event its place; an end whose start was queued always gets one, so that pairs stay whole.
    pub(super) fn admit(self: &Arc<Self>, draft: &mut Draft) -> Option<Ticket> {
        let payload = draft.payload_weight();
        let owed = draft.event.kind == EventKind::End;
        match self.admission(OVERHEAD, payload) {
            Admission::Whole => Some(Ticket::new(self, OVERHEAD + payload)),
            Admission::Refused if !owed => None,
            Admission::WithoutPayload | Admission::Refused => {
                draft.drop_payload();
                Some(Ticket::new(self, OVERHEAD))
            }
        }
    }
}
