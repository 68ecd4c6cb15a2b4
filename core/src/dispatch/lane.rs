//! Lanes: serial queues whose work moves to where the next callback has to run.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use parking_lot::Mutex;

use super::queue::{Delivery, Item, Queued};
use super::runner::Place;
use super::{Dispatcher, HostLoop, Subscriber};
use crate::chain::{BoxFuture, Step, catch};
use crate::scope::Scope;

/// How many items a lane does in one go before others get their turn.
const BUDGET: usize = 64;

thread_local! {
    /// How deep in callbacks of the dispatcher this thread is: 0 outside, else one more than the event at hand.
    static ECHO: Cell<u32> = const { Cell::new(0) };
}

/// Returns how many callbacks of the dispatcher lie behind what is emitted now.
pub(crate) fn echo_depth() -> u32 {
    ECHO.get()
}

/// What lies behind an event: how many of the dispatcher's callbacks, and the scope that was current in Rust.
///
/// What an observer emits belongs to that scope, as it does where the host's own context says so.
#[derive(Clone, Default)]
pub(super) struct Behind {
    pub(super) echo: u32,
    scope: Option<Scope>,
}

impl Behind {
    /// Returns what lies behind what is emitted now.
    pub(super) fn now() -> Self {
        Self {
            echo: echo_depth(),
            scope: Scope::current(),
        }
    }
}

/// What a lane does with its items.
pub(super) enum Work {
    Sanitize,
    Deliver(Weak<Subscriber>),
}

/// A serial queue.
pub(crate) struct Lane {
    me: Weak<Lane>,
    dispatcher: Weak<Dispatcher>,
    work: Work,
    state: Mutex<State>,
}

struct State {
    queue: VecDeque<Item>,
    phase: Phase,
    /// What is under way; taken out while it is polled.
    op: Option<Op>,
    busy: Option<Busy>,
    /// Grows when what is under way has been given up, so that its late end is ignored.
    epoch: u64,
    /// Whether the subscriber got events since it was last told to write out.
    unwritten: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Scheduled,
    Running,
    /// Woken while running.
    Notified,
    Waiting,
}

/// What a lane has found to do.
enum Turn {
    /// Poll this.
    Poll(Op),
    /// One item is done.
    Done,
    /// The lane is idle, or belongs elsewhere now.
    Leave,
}

/// One item under way.
pub(super) struct Op {
    future: BoxFuture<()>,
    place: Place,
    behind: Behind,
}

/// What the watch needs to know of the item under way.
#[derive(Clone)]
pub(super) struct Busy {
    pub(super) since: Instant,
    pub(super) place: Place,
    pub(super) what: Option<Arc<Queued>>,
    pub(super) epoch: u64,
    /// Whether it waits for a future, and does not hold a thread.
    pub(super) waiting: bool,
    pub(super) scheduled: bool,
}

/// A lane that an event loop of the host has been asked to run.
pub struct Runnable(pub(super) Arc<Lane>);

impl Runnable {
    /// Runs the lane on the loop, for a bounded number of events.
    pub fn run(self, event_loop: &Arc<dyn HostLoop>) {
        self.0.run(&Place::Loop(event_loop.clone()));
    }
}

impl State {
    /// Returns where what comes next has to run; nothing if there is nothing.
    fn next_place(&self) -> Option<Place> {
        let under_way = self.op.as_ref().map(|op| op.place.clone());
        under_way.or_else(|| self.queue.front().map(Item::place))
    }

    /// Notes what is under way, for the watch.
    fn note(&mut self, item: &Item, here: &Place) {
        let what = match item {
            Item::Sanitize(queued) => Some(queued.clone()),
            Item::Deliver(..) => None,
            Item::Pass(_) | Item::Barrier(_) => return,
        };
        self.unwritten |= what.is_none();
        self.busy = Some(Busy {
            since: Instant::now(),
            place: here.clone(),
            what,
            epoch: self.epoch,
            waiting: false,
            scheduled: false,
        });
    }
}

impl Lane {
    pub(super) fn new(dispatcher: Weak<Dispatcher>, work: Work) -> Arc<Self> {
        let state = State {
            queue: VecDeque::new(),
            phase: Phase::Idle,
            op: None,
            busy: None,
            epoch: 0,
            unwritten: false,
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            dispatcher,
            work,
            state: Mutex::new(state),
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.phase == Phase::Idle && state.queue.is_empty()
    }

    /// Says whether anybody may still need the lane.
    pub(super) fn is_needed(&self) -> bool {
        match &self.work {
            Work::Sanitize => true,
            Work::Deliver(subscriber) => subscriber.strong_count() > 0 || !self.is_idle(),
        }
    }

    pub(super) fn subscriber(&self) -> Option<Arc<Subscriber>> {
        match &self.work {
            Work::Sanitize => None,
            Work::Deliver(subscriber) => subscriber.upgrade(),
        }
    }

    pub(super) fn push(&self, item: Item) {
        let place = {
            let mut state = self.state.lock();
            let place = (state.phase == Phase::Idle).then(|| item.place());
            state.queue.push_back(item);
            if place.is_some() {
                state.phase = Phase::Scheduled;
            }
            place
        };
        self.schedule_at(place);
    }

    fn schedule_at(&self, place: Option<Place>) {
        if let (Some(place), Some(me), Some(dispatcher)) =
            (place, self.me.upgrade(), self.dispatcher.upgrade())
        {
            dispatcher.schedule(&me, &place);
        }
    }

    /// Does what is due here, until the queue is empty, its next item belongs elsewhere, or the budget is used.
    pub(super) fn run(self: &Arc<Self>, here: &Place) {
        let Some(dispatcher) = self.dispatcher.upgrade() else {
            return;
        };
        let epoch = {
            let mut state = self.state.lock();
            if state.phase != Phase::Scheduled {
                return;
            }
            state.phase = Phase::Running;
            state.epoch
        };
        let mut left = BUDGET;
        loop {
            let goes_on = match self.turn(here, &dispatcher) {
                Turn::Poll(op) => self.poll_op(op, epoch),
                Turn::Done => true,
                Turn::Leave => false,
            };
            // After shutdown nothing more is delivered; the host may be about to end.
            if !goes_on || dispatcher.is_stopped() {
                return;
            }
            dispatcher.report_drops();
            left = left.saturating_sub(1);
            // An empty lane is left idle by the next turn: elsewhere it would only wait for that.
            if left == 0
                && let Some(place) = self.pause()
            {
                self.schedule_at(Some(place));
                return;
            }
        }
    }

    /// Returns where the lane goes on after others had their turn; nothing if it has nothing to do.
    fn pause(&self) -> Option<Place> {
        let mut state = self.state.lock();
        let place = state.next_place();
        if place.is_some() {
            state.phase = Phase::Scheduled;
        }
        place
    }

    /// Does one item, or finds what is to be polled.
    fn turn(self: &Arc<Self>, here: &Place, dispatcher: &Arc<Dispatcher>) -> Turn {
        let item = {
            let mut state = self.state.lock();
            let Some(place) = state.next_place() else {
                if std::mem::take(&mut state.unwritten) {
                    // Not idle before it is written out: a flush would not wait for an idle lane.
                    drop(state);
                    self.write_out();
                    return Turn::Done;
                }
                state.phase = Phase::Idle;
                return Turn::Leave;
            };
            if !here.serves(&place) {
                state.phase = Phase::Scheduled;
                drop(state);
                self.schedule_at(Some(place));
                return Turn::Leave;
            }
            if let Some(op) = state.op.take() {
                return Turn::Poll(op);
            }
            let Some(item) = state.queue.pop_front() else {
                return Turn::Done;
            };
            state.note(&item, here);
            item
        };
        // Dropping what was delivered may run code of the program's, so that it can panic outside its callback.
        let begun = catch(|| Ok(self.begin(item, here, dispatcher)));
        if let Ok(Some(op)) = begun {
            return Turn::Poll(op);
        }
        self.state.lock().busy = None;
        Turn::Done
    }

    fn write_out(&self) {
        if let (Some(subscriber), Some(dispatcher)) = (self.subscriber(), self.dispatcher.upgrade())
            && let Err(error) = subscriber.flush()
        {
            dispatcher.failed("subscriber", subscriber.name(), &error);
        }
    }

    /// Starts one item; what it did at once needs no operation.
    fn begin(self: &Arc<Self>, item: Item, here: &Place, dispatcher: &Arc<Dispatcher>) -> Option<Op> {
        match item {
            Item::Barrier(barrier) => {
                match &self.work {
                    Work::Sanitize => dispatcher.spread(&barrier),
                    Work::Deliver(_) => self.write_out(),
                }
                None
            }
            Item::Pass(queued) => {
                dispatcher.deliver(&queued.snapshot.clone(), queued.into_delivery());
                None
            }
            Item::Sanitize(queued) => {
                let (lane, epoch) = (self.clone(), self.state.lock().epoch);
                let behind = queued.draft.behind.clone();
                let future: BoxFuture<()> =
                    Box::pin(super::flush::sanitize(lane, epoch, dispatcher.clone(), queued));
                Some(Op {
                    future,
                    place: here.clone(),
                    behind,
                })
            }
            Item::Deliver(subscriber, delivery) => {
                let behind = delivery.behind.clone();
                let step = within(&behind, || catch(|| Ok(subscriber.receive(&delivery))));
                match step {
                    Ok(Step::Ready(result)) => settle(dispatcher, &subscriber, result),
                    Err(error) => settle(dispatcher, &subscriber, Err(error)),
                    Ok(later @ Step::Later(_)) => {
                        let future: BoxFuture<()> =
                            Box::pin(finish(dispatcher.clone(), subscriber, delivery, later));
                        return Some(Op {
                            future,
                            place: here.clone(),
                            behind,
                        });
                    }
                }
                subscriber.come_back();
                None
            }
        }
    }

    /// Polls what is under way; false if the lane must be left alone now.
    fn poll_op(self: &Arc<Self>, mut op: Op, epoch: u64) -> bool {
        let waker = Waker::from(self.clone());
        loop {
            let mut cx = Context::from_waker(&waker);
            let polled = within(&op.behind, || catch(|| Ok(op.future.as_mut().poll(&mut cx))));
            // What panics outside a callback is a drop; there is nothing left to wait for.
            let polled = polled.unwrap_or(Poll::Ready(()));
            let mut state = self.state.lock();
            if state.epoch != epoch {
                // Given up meanwhile: somebody else has gone on from here.
                drop(state);
                drop(op);
                return false;
            }
            match polled {
                Poll::Ready(()) => {
                    state.busy = None;
                    state.phase = Phase::Running;
                    drop(state);
                    if let Some(subscriber) = self.subscriber() {
                        subscriber.come_back();
                    }
                    return true;
                }
                Poll::Pending if state.phase == Phase::Notified => state.phase = Phase::Running,
                Poll::Pending => {
                    state.op = Some(op);
                    state.phase = Phase::Waiting;
                    return false;
                }
            }
        }
    }

    /// Puts `op` in the place of what is under way, which is given up.
    pub(super) fn replace(&self, busy: &Busy, make: impl FnOnce(u64) -> BoxFuture<()>) -> bool {
        let (place, old) = {
            let mut state = self.state.lock();
            if state.epoch != busy.epoch || state.busy.is_none() {
                return false;
            }
            state.epoch += 1;
            let epoch = state.epoch;
            let place = busy.place.clone();
            let behind = busy
                .what
                .as_ref()
                .map(|queued| queued.draft.behind.clone())
                .unwrap_or_default();
            let op = Op {
                future: make(epoch),
                place: place.clone(),
                behind,
            };
            if let Some(busy) = &mut state.busy {
                (busy.since, busy.epoch) = (Instant::now(), epoch);
            }
            state.phase = Phase::Scheduled;
            (place, state.op.replace(op))
        };
        // A host callback that is dropped may run code; not under the lock.
        drop(old);
        self.schedule_at(Some(place));
        true
    }

    /// Says whether what was under way in `epoch` has been given up.
    pub(super) fn has_moved_on(&self, epoch: u64) -> bool {
        self.state.lock().epoch != epoch
    }

    /// Drops what waits, after `count` has been told how many events that are: a flush ends with the drop.
    pub(super) fn drop_waiting(&self, count: impl FnOnce(u64)) {
        let waiting: Vec<_> = self.state.lock().queue.drain(..).collect();
        let events = waiting.iter().filter(|item| matches!(item, Item::Deliver(..)));
        count(events.count() as u64);
    }

    /// Returns what is under way or waits for its turn elsewhere, for the watch.
    pub(super) fn busy(&self) -> Option<Busy> {
        let state = self.state.lock();
        let waiting = state.phase == Phase::Waiting;
        if state.phase == Phase::Scheduled {
            let place = state.next_place()?;
            let (since, epoch) = (Instant::now(), state.epoch);
            return Some(Busy {
                since,
                place,
                what: None,
                epoch,
                waiting: false,
                scheduled: true,
            });
        }
        state.busy.clone().map(|busy| Busy {
            waiting,
            epoch: state.epoch,
            ..busy
        })
    }

    /// Moves a lane away from an event loop that has closed.
    pub(super) fn rescue(&self) {
        let place = {
            let mut state = self.state.lock();
            if !matches!(state.phase, Phase::Scheduled | Phase::Waiting) {
                return;
            }
            if let Some(op) = &mut state.op {
                op.place = Place::HostThread;
            }
            state.phase = Phase::Scheduled;
            Place::HostThread
        };
        self.schedule_at(Some(place));
    }
}

impl Wake for Lane {
    fn wake(self: Arc<Self>) {
        let place = {
            let mut state = self.state.lock();
            match state.phase {
                Phase::Waiting => {
                    state.phase = Phase::Scheduled;
                    state.op.as_ref().map(|op| op.place.clone())
                }
                Phase::Running => {
                    state.phase = Phase::Notified;
                    None
                }
                Phase::Idle | Phase::Scheduled | Phase::Notified => None,
            }
        };
        self.schedule_at(place);
    }
}

/// Runs a callback of the dispatcher, so that what it emits is known to come from there.
fn within<T>(behind: &Behind, body: impl FnOnce() -> T) -> T {
    let outer = ECHO.replace(behind.echo + 1);
    let result = match &behind.scope {
        Some(scope) => scope.within_sync(body),
        None => body(),
    };
    ECHO.set(outer);
    result
}

async fn finish(
    dispatcher: Arc<Dispatcher>,
    subscriber: Arc<Subscriber>,
    delivery: Arc<Delivery>,
    step: Step<()>,
) {
    let result = step.settle().await;
    drop(delivery);
    settle(&dispatcher, &subscriber, result);
}

fn settle(dispatcher: &Arc<Dispatcher>, subscriber: &Arc<Subscriber>, result: crate::error::Result<()>) {
    if let Err(error) = result {
        dispatcher.failed("subscriber", subscriber.name(), &error);
    }
}
