//! Sanitizing one event, and waiting until everything before now is delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::Dispatcher;
use super::lane::{Lane, echo_depth};
use super::queue::{Absent, Delivery, Item, PayloadCopy, Queued, checked_fields};
use crate::chain::transform::{Subject, apply};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::value::Payload;

/// How far the sanitizing of an event has got, for whoever has to go on after it hung.
#[derive(Debug, Default)]
pub(super) struct Stage(AtomicU8);

const PAYLOAD: u8 = 0;
const FIELDS: u8 = 1;

impl Stage {
    fn set(&self, stage: u8) {
        self.0.store(stage, Ordering::Release);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }
}

/// Runs the payload chain, then the chain for the three fields, then delivers.
pub(super) async fn sanitize(lane: Arc<Lane>, epoch: u64, dispatcher: Arc<Dispatcher>, queued: Arc<Queued>) {
    queued.stage.set(PAYLOAD);
    let payload = match (&queued.draft.payload, queued.payload_chain()) {
        (Some(PayloadCopy::Json(value)), Some(_)) => {
            Some(sanitize_payload(&dispatcher, &queued, Payload::Json(value.clone())).await)
        }
        (payload, _) => payload.clone(),
    };
    if lane.has_moved_on(epoch) {
        return;
    }
    finish(lane, epoch, dispatcher, queued, payload).await;
}

/// Goes on with an event whose sanitizer hung: what it was to make is withheld.
pub(super) async fn give_up(lane: Arc<Lane>, epoch: u64, dispatcher: Arc<Dispatcher>, queued: Arc<Queued>) {
    let error = Error::new(ErrorKind::TimedOut, "a sanitizer took too long");
    dispatcher.failed("sanitizer", &queued.draft.event.name, &error);
    if queued.stage.get() == PAYLOAD {
        let withheld = PayloadCopy::Absent(Absent::Withheld, None);
        finish(lane, epoch, dispatcher, queued, Some(withheld)).await;
    } else {
        let (mut event, mut own) = prepared(&queued, None);
        clear(&mut event, &mut own, Absent::Withheld);
        deliver(&dispatcher, queued, event, own);
    }
}

/// Returns the event with its payload in place, and Callweir's own metadata apart.
fn prepared(queued: &Queued, payload: Option<PayloadCopy>) -> (Event, Map<String, Value>) {
    let (mut event, mut own) = (queued.draft.event.clone(), queued.draft.own.clone());
    if let Some(payload) = payload {
        payload.settle(&mut event, &mut own);
    }
    (event, own)
}

async fn finish(
    lane: Arc<Lane>,
    epoch: u64,
    dispatcher: Arc<Dispatcher>,
    queued: Arc<Queued>,
    payload: Option<PayloadCopy>,
) {
    queued.stage.set(FIELDS);
    let (mut event, mut own) = prepared(&queued, payload);
    if !queued.fields_chain().is_empty() {
        match sanitize_fields(&dispatcher, &queued, &event).await {
            Ok(fields) => event.set_fields(fields),
            Err(why) => clear(&mut event, &mut own, why),
        }
    }
    if !lane.has_moved_on(epoch) {
        deliver(&dispatcher, queued, event, own);
    }
}

fn clear(event: &mut Event, own: &mut Map<String, Value>, why: Absent) {
    event.set_fields(Value::Null);
    own.insert("callweir.payload".to_owned(), Value::from(why.name()));
}

fn deliver(dispatcher: &Arc<Dispatcher>, queued: Arc<Queued>, mut event: Event, own: Map<String, Value>) {
    event.set_own(own);
    let snapshot = queued.snapshot.clone();
    dispatcher.deliver(&snapshot, Delivery::sanitized(event, queued));
}

async fn sanitize_payload(dispatcher: &Dispatcher, queued: &Queued, mut payload: Payload) -> PayloadCopy {
    let name = &queued.draft.event.name;
    for entry in queued.payload_chain().into_iter().flat_map(|chain| chain.iter()) {
        match apply(entry, &Subject::Call(name), payload, &queued.origin.context).await {
            Ok(Some(next)) => payload = next,
            Ok(None) => return PayloadCopy::Absent(Absent::Omitted, None),
            Err(error) => {
                dispatcher.failed(entry.stage(), &entry.name, &error);
                return PayloadCopy::Absent(Absent::Withheld, None);
            }
        }
    }
    match payload.to_json() {
        Ok(value) => PayloadCopy::Json(value),
        Err(error) => {
            dispatcher.failed("sanitizer", name, &error);
            PayloadCopy::Absent(Absent::Withheld, None)
        }
    }
}

async fn sanitize_fields(dispatcher: &Dispatcher, queued: &Queued, event: &Event) -> Result<Value, Absent> {
    let shown = Arc::new(event.clone());
    let mut fields = Payload::from(event.fields());
    for entry in queued.fields_chain().iter() {
        let returned = apply(entry, &Subject::Event(&shown), fields, &queued.origin.context).await;
        let checked = match returned {
            Ok(None) => return Err(Absent::Omitted),
            Ok(Some(next)) => next.into_json().and_then(|next| checked_fields(next, entry)),
            Err(error) => Err(error),
        };
        match checked {
            Ok(next) => fields = Payload::from(next),
            Err(error) => {
                dispatcher.failed(entry.stage(), &entry.name, &error);
                return Err(Absent::Withheld);
            }
        }
    }
    fields.into_json().map_err(|_| Absent::Withheld)
}

/// Something that every lane lets go of once it has delivered what came before.
pub(super) struct Barrier(Mutex<Option<oneshot::Sender<()>>>);

impl Drop for Barrier {
    fn drop(&mut self) {
        if let Some(passed) = self.0.get_mut().take() {
            // Whoever waited may have given up.
            let _ = passed.send(());
        }
    }
}

impl Dispatcher {
    /// Gives a barrier that has passed the sanitizers to every lane that has work.
    pub(super) fn spread(&self, barrier: &Arc<Barrier>) {
        let lanes: Vec<_> = self.lanes.lock().iter().cloned().collect();
        // A subscriber that overran gets nothing more until it comes back; waiting for it would be in vain.
        let overran = |lane: &Lane| lane.subscriber().is_some_and(|one| one.is_overrun());
        for lane in lanes.iter().filter(|lane| !lane.is_idle() && !overran(lane)) {
            lane.push(Item::Barrier(barrier.clone()));
        }
    }

    /// Waits until everything emitted before now is delivered; returns how many events are still pending when
    /// the time is up, else 0.
    pub(crate) async fn flush(self: Arc<Self>, timeout: Option<Duration>) -> Result<usize> {
        self.clone().flush_start()?.wait(timeout).await
    }

    /// Refuses what would wait for itself: a flush from inside a sanitizer or subscriber.
    pub(crate) fn check_outside() -> Result<()> {
        if echo_depth() == 0 {
            return Ok(());
        }
        let text = "a sanitizer or subscriber cannot flush: it would wait for itself";
        Err(Error::new(ErrorKind::WouldDeadlock, text))
    }

    /// Sets the point that a flush waits for.
    pub(crate) fn flush_start(self: Arc<Self>) -> Result<Flush> {
        Self::check_outside()?;
        let hurry = Hurry::new(self.clone());
        let (sender, passed) = oneshot::channel();
        let barrier = Arc::new(Barrier(Mutex::new(Some(sender))));
        if self.sanitizing.is_idle() {
            self.spread(&barrier);
        } else {
            self.sanitizing.push(Item::Barrier(barrier));
        }
        Ok(Flush {
            dispatcher: self,
            passed,
            _hurry: hurry,
        })
    }
}

/// Keeps the runners from napping while a flush waits.
struct Hurry(Arc<Dispatcher>);

impl Hurry {
    fn new(dispatcher: Arc<Dispatcher>) -> Self {
        dispatcher.core.hurry();
        dispatcher.host_thread.hurry();
        Self(dispatcher)
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.core.calm();
        self.0.host_thread.calm();
    }
}

/// A flush under way.
pub(crate) struct Flush {
    dispatcher: Arc<Dispatcher>,
    passed: oneshot::Receiver<()>,
    _hurry: Hurry,
}

impl Flush {
    pub(crate) async fn wait(self, timeout: Option<Duration>) -> Result<usize> {
        if self.dispatcher.stopped.load(Ordering::Acquire) {
            return Ok(self.dispatcher.counts().pending);
        }
        let Some(timeout) = timeout else {
            // The sender is dropped only together with the dispatcher.
            let _ = self.passed.await;
            return Ok(0);
        };
        match select(self.passed, self.dispatcher.timer.after(timeout)).await {
            Either::Left(_) => Ok(0),
            Either::Right(_) => Ok(self.dispatcher.counts().pending.max(1)),
        }
    }
}
