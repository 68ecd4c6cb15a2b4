//! What waits in the queue: drafts of events, and events on their way to subscribers.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::bounds::Ticket;
use super::lane::Behind;
use super::{Dispatcher, Origin, Place, Subscriber};
use crate::chain::{Entries, Home};
use crate::error::{Error, ErrorKind};
use crate::event::{CallEvent, Event, EventKind};
use crate::family::Family;
use crate::registrations::Snapshot;
use crate::scope::Scope;
use crate::value::{Json, Payload, too_deep, weight};

/// Why an event has no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// A sanitizer failed or hung.
    Withheld,
    /// A sanitizer returned nothing.
    Omitted,
    /// The value is not JSON.
    NotJson,
    /// The queue was full.
    Dropped,
}

impl Absent {
    /// Returns the word that `callweir.payload` shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Withheld => "withheld",
            Self::Omitted => "omitted",
            Self::NotJson => "not_json",
            Self::Dropped => "dropped",
        }
    }
}

/// The copy of a payload that observers see.
#[derive(Clone, Debug)]
pub(crate) enum PayloadCopy {
    /// The copy.
    Json(Json),
    /// Nothing, why, and the path of an offending value.
    Absent(Absent, Option<String>),
}

impl PayloadCopy {
    /// Copies a payload as it is now.
    pub(crate) fn of(payload: &Payload) -> Self {
        match payload.to_json() {
            // Whoever wrote it as text has looked how deep it is.
            Ok(value) if value.text().is_some() => Self::Json(value),
            Ok(value) => match too_deep(&value) {
                None => Self::Json(value),
                path => Self::Absent(Absent::NotJson, path),
            },
            Err(error) if error.kind() == Some(ErrorKind::NotJson) => {
                Self::Absent(Absent::NotJson, error.field("path").map(str::to_owned))
            }
            Err(_) => Self::Absent(Absent::NotJson, None),
        }
    }

    /// Puts the copy into an event and notes in `own` why there is none.
    pub(super) fn settle(self, event: &mut Event, own: &mut Map<String, Value>) {
        match self {
            Self::Json(value) => event.data = value,
            Self::Absent(why, path) => {
                event.data = crate::event::null();
                own.insert("callweir.payload".to_owned(), Value::from(why.name()));
                if let Some(path) = path {
                    own.insert("callweir.not_json_path".to_owned(), Value::from(path));
                }
            }
        }
    }
}

/// An event as it is emitted: not sanitized, its payload apart, Callweir's own metadata apart.
pub(crate) struct Draft {
    pub(super) event: Event,
    pub(super) payload: Option<PayloadCopy>,
    pub(super) payload_family: Option<Family>,
    pub(super) own: Map<String, Value>,
    pair: Option<Scope>,
    pub(super) behind: Behind,
}

impl Draft {
    pub(crate) fn new(event: Event) -> Self {
        let behind = Behind::now();
        Self {
            event,
            payload: None,
            payload_family: None,
            own: Map::new(),
            pair: None,
            behind,
        }
    }

    /// Sets the payload, and the family that sanitizes it.
    pub(crate) fn payload(mut self, family: Family, copy: PayloadCopy) -> Self {
        self.payload = Some(copy);
        self.payload_family = Some(family);
        self
    }

    /// Sets metadata of Callweir's own, which no sanitizer can change.
    pub(crate) fn own(mut self, own: Map<String, Value>) -> Self {
        self.own = own;
        self
    }

    /// Says which scope the event starts or ends: the two are queued or dropped together.
    pub(crate) fn paired(mut self, scope: &Scope) -> Self {
        self.pair = Some(scope.clone());
        self
    }

    pub(super) fn pair_is_unheard(&self) -> bool {
        self.pair.as_ref().is_some_and(Scope::is_unheard)
    }

    pub(super) fn mark_unheard(&self) {
        if let Some(scope) = self.pair.as_ref().filter(|_| self.event.kind == EventKind::Start) {
            scope.set_unheard();
        }
    }

    pub(super) fn payload_weight(&self) -> usize {
        let payload = match &self.payload {
            Some(PayloadCopy::Json(value)) => value.weight(),
            Some(PayloadCopy::Absent(..)) | None => 0,
        };
        let fields: [&Value; 3] = [
            &self.event.data,
            &self.event.metadata,
            &self.event.category_profile,
        ];
        payload
            + fields
                .into_iter()
                .filter(|field| !field.is_null())
                .map(weight)
                .sum::<usize>()
    }

    pub(super) fn drop_payload(&mut self) {
        if self.payload.is_some() || !self.event.data.is_null() {
            self.payload = Some(PayloadCopy::Absent(Absent::Dropped, None));
        }
        self.event.data = crate::event::null();
        self.event.metadata = Value::Null;
        self.event.category_profile = Value::Null;
    }
}

/// An event in the queue, with everything that was in force when it was emitted.
pub(super) struct Queued {
    pub(super) draft: Draft,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) origin: Origin,
    pub(super) ticket: Ticket,
    pub(super) stage: super::flush::Stage,
}

impl Queued {
    pub(super) fn new(draft: Draft, snapshot: Arc<Snapshot>, origin: Origin, ticket: Ticket) -> Self {
        Self {
            draft,
            snapshot,
            origin,
            ticket,
            stage: super::flush::Stage::default(),
        }
    }

    /// Returns the chain for the payload; nothing where there is no payload to sanitize.
    pub(super) fn payload_chain(&self) -> Option<&Entries> {
        let family = self.draft.payload_family?;
        match &self.draft.payload {
            Some(PayloadCopy::Json(_)) => Some(self.snapshot.chain(family)).filter(|chain| !chain.is_empty()),
            Some(PayloadCopy::Absent(..)) | None => None,
        }
    }

    /// Returns the chain for the three free fields.
    pub(super) fn fields_chain(&self) -> &Entries {
        self.snapshot.chain(match self.draft.event.kind {
            EventKind::Mark => Family::MarkSanitize,
            EventKind::Start => Family::ScopeSanitizeStart,
            EventKind::End => Family::ScopeSanitizeEnd,
        })
    }

    pub(super) fn needs_sanitizing(&self) -> bool {
        self.payload_chain().is_some() || !self.fields_chain().is_empty()
    }

    /// Returns where the sanitizers have to run.
    pub(super) fn place(&self) -> Place {
        let entries = self
            .payload_chain()
            .into_iter()
            .flat_map(|chain| chain.iter())
            .chain(self.fields_chain().iter());
        let home = entries
            .map(|entry| entry.handler.home())
            .max()
            .unwrap_or(Home::Core);
        Dispatcher::place(home, &self.origin)
    }

    /// Finishes an event that needs no sanitizing.
    pub(super) fn into_delivery(self) -> Delivery {
        let Draft {
            mut event,
            payload,
            mut own,
            behind,
            ..
        } = self.draft;
        if let Some(payload) = payload {
            payload.settle(&mut event, &mut own);
        }
        event.set_own(own);
        Delivery {
            what: Delivered::Event(Arc::new(event)),
            origin: self.origin,
            behind,
            _ticket: Held::Own(self.ticket),
        }
    }
}

/// A finished event on its way to subscribers.
pub(super) struct Delivery {
    pub(super) what: Delivered,
    pub(super) origin: Origin,
    pub(super) behind: Behind,
    _ticket: Held,
}

pub(super) enum Delivered {
    Event(Arc<Event>),
    Call(CallEvent),
}

/// Keeps the event's place in the queue until the last lane lets go.
#[allow(dead_code, reason = "held for its drop")]
enum Held {
    Own(Ticket),
    Through(Arc<Queued>),
}

impl Delivery {
    pub(super) fn sanitized(event: Event, queued: Arc<Queued>) -> Self {
        let (origin, behind) = (queued.origin.clone(), queued.draft.behind.clone());
        Self {
            what: Delivered::Event(Arc::new(event)),
            origin,
            behind,
            _ticket: Held::Through(queued),
        }
    }

    pub(super) fn call(event: CallEvent, origin: Origin, behind: Behind, ticket: Ticket) -> Self {
        Self {
            what: Delivered::Call(event),
            origin,
            behind,
            _ticket: Held::Own(ticket),
        }
    }
}

/// One thing for a lane to do.
pub(super) enum Item {
    /// Sanitize an event, then deliver it.
    Sanitize(Arc<Queued>),
    /// Deliver an event that had to wait its turn behind others.
    Pass(Box<Queued>),
    /// Give an event to the lane's subscriber.
    Deliver(Arc<Subscriber>, Arc<Delivery>),
    /// Let go of this: a flush waits for the last holder.
    Barrier(Arc<super::flush::Barrier>),
}

impl Item {
    pub(super) fn place(&self) -> Place {
        match self {
            Self::Sanitize(queued) => queued.place(),
            Self::Deliver(subscriber, delivery) => Dispatcher::place(subscriber.home(), &delivery.origin),
            // These need no particular place, and so do not move the lane.
            Self::Pass(_) | Self::Barrier(_) => Place::Any,
        }
    }
}

/// Turns what an event sanitizer returned into the three fields.
pub(super) fn checked_fields(returned: Value, entry: &crate::chain::Entry) -> Result<Value, Error> {
    if returned.is_object() {
        Ok(returned)
    } else {
        Err(Error::invalid_return(
            entry.stage(),
            &entry.name,
            "expected an object of fields",
        ))
    }
}
