//! What an environment lends the dispatcher: captured contexts, and an event loop that drains lanes.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use callweir::Result;
use callweir::foreign::{Context, DispatchHost, HostLoop, Origin, Runnable};

use crate::instance::{Instance, Lent, Shared};
use crate::js::Raw;
use crate::native::Arguments;
use crate::value::{NO_PLACE, Slot};

/// An environment as a host.
pub(crate) struct Environment {
    instance: Arc<Instance>,
    event_loop: Arc<dyn HostLoop>,
}

impl Environment {
    pub(crate) fn new(instance: &Arc<Instance>) -> Self {
        Self {
            instance: instance.clone(),
            event_loop: Arc::new(EventLoop(instance.clone())),
        }
    }
}

impl DispatchHost for Environment {
    fn capture(&self) -> Origin {
        let captured = self.instance.local().and_then(|local| {
            let place = local.call_with(Lent::Capture, &[])?;
            let slot = Slot::take(&self.instance, place)?;
            Some((
                Arc::new(slot) as Arc<dyn Any + Send + Sync>,
                local.get(Shared::Echo),
            ))
        });
        // A thread of the core may emit too (a call that it drops); it has no context.
        let (context, echo) = captured.unzip();
        Origin {
            context,
            event_loop: Some(self.event_loop.clone()),
            echo: echo.and_then(|echo| u32::try_from(echo).ok()).unwrap_or(0),
        }
    }

    fn log(&self, message: &str) {
        match self.instance.local() {
            Some(local) => {
                local.call(Lent::Log, &[local.js.text(message)]);
            }
            None => {
                self.instance.warnings.lock().push(message.to_owned());
                self.instance.signal();
            }
        }
    }
}

/// Returns the place of a captured context, for the JavaScript that enters it.
pub(crate) fn captured(context: &Context) -> f64 {
    let slot = context
        .as_ref()
        .and_then(|context| context.downcast_ref::<Slot>());
    slot.map_or(NO_PLACE, Slot::place)
}

/// The event loop of an environment.
struct EventLoop(Arc<Instance>);

impl HostLoop for EventLoop {
    fn schedule(&self, lane: Runnable) -> bool {
        if self.0.is_closed() {
            return false;
        }
        self.0.lanes.lock().push_back(lane);
        if !self.0.asked.swap(true, Ordering::AcqRel) {
            self.0.ask_for_drain();
        }
        true
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn check_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Runs the lanes that wait; answers how many there were.
pub(crate) fn drain(instance: &Arc<Instance>, _: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    instance.asked.store(false, Ordering::Release);
    let lanes = std::mem::take(&mut *instance.lanes.lock());
    let count = lanes.len();
    // What the lanes call belongs to no task.
    let outside = (local.current.replace(0), local.polled.replace(std::ptr::null()));
    let event_loop: Arc<dyn HostLoop> = Arc::new(EventLoop(instance.clone()));
    for lane in lanes {
        local.js.scoped(|| lane.run(&event_loop));
    }
    local.current.set(outside.0);
    local.polled.set(outside.1);
    #[allow(clippy::cast_precision_loss, reason = "a count of lanes is small")]
    Ok(local.js.number(count as f64))
}
