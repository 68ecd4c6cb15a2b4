//! Callbacks: one form for all families, for work, tools, middleware and subscribers.

use std::ffi::c_void;
use std::sync::Arc;

use callweir_core::foreign::{
    AnyMiddleware, Around, Context, Gate, Home, Observe, ObserveCalls, Origin, Subject, Transform,
    Transformed, Work,
};
use callweir_core::{
    CallEvent, Descriptor, Error, Event, Family, Handler, Next, Payload, Result, Shape, Step, Tool, ToolCall,
    Verdict,
};
use serde_json::Value;

use crate::handles;
use crate::host::{Host, callweir_host, no_host};
use crate::request::{
    Answer, CALLWEIR_STAGE_AROUND, CALLWEIR_STAGE_EVENT, CALLWEIR_STAGE_GATE, CALLWEIR_STAGE_RECORD,
    CALLWEIR_STAGE_REFUSED, CALLWEIR_STAGE_TRANSFORM, CALLWEIR_STAGE_WORK, Cell, Reply, Request,
    callweir_request,
};
use crate::scope::Moment;
use crate::step::{Action, Stepping};

/// The callback may block its thread; other calls go on.
pub const CALLWEIR_BLOCKING: u32 = 0;
/// The callback returns soon, and answers at any time, from any thread.
pub const CALLWEIR_COMPLETING: u32 = 1;
/// The callback is never called: the host runs it when a step, or its `callweir_host`, says so.
pub const CALLWEIR_STEPPED: u32 = 2;

/// A callback of the program. A struct that is given away is copied; `free` is then owed once.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct callweir_callback {
    /// `CALLWEIR_BLOCKING`, `CALLWEIR_COMPLETING` or `CALLWEIR_STEPPED`.
    pub mode: u32,
    /// Gets each request, to own; NULL for a stepped one.
    pub function: Option<extern "C" fn(userdata: *mut c_void, request: *mut callweir_request)>,
    /// What the functions get.
    pub userdata: *mut c_void,
    /// Called once when nothing can call the callback any more, also if it could not be registered; may be NULL.
    pub free: Option<extern "C" fn(userdata: *mut c_void)>,
    /// Who runs a stepped callback where no step does, as for sanitizers and subscribers; NULL for others.
    pub host: *const callweir_host,
}

/// A callback that the library holds.
pub(crate) struct Callback {
    raw: callweir_callback,
    host: Option<Arc<Host>>,
    /// The family, or what stands in its place in messages.
    label: &'static str,
    family: Option<Family>,
    name: Arc<str>,
}

// SAFETY: the program promises that its functions may be called with the userdata from any thread.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(free) = self.raw.free {
            free(self.raw.userdata);
        }
    }
}

impl Callback {
    /// Takes a callback; from here on `free` is owed.
    pub(crate) unsafe fn take(
        raw: *const callweir_callback,
        label: &'static str,
        family: Option<Family>,
        name: &str,
    ) -> Result<Arc<Self>> {
        // SAFETY: the program's promises about pointers.
        let raw = *unsafe { raw.as_ref() }
            .ok_or_else(|| Error::invalid_argument("$.callback", "the pointer is NULL"))?;
        let mut callback = Self {
            raw,
            host: None,
            label,
            family,
            name: name.into(),
        };
        callback.host = handles::get_some(raw.host)?;
        if raw.mode > CALLWEIR_STEPPED {
            return Err(Error::invalid_argument(
                "$.callback.mode",
                format!("no mode {}", raw.mode),
            ));
        }
        if [CALLWEIR_BLOCKING, CALLWEIR_COMPLETING].contains(&raw.mode) && raw.function.is_none() {
            return Err(Error::invalid_argument(
                "$.callback.function",
                "the function is NULL",
            ));
        }
        Ok(Arc::new(callback))
    }

    /// Asks the program; `read` makes the stage's result of its answer.
    fn ask<T: Send + 'static>(
        &self,
        mut request: Request,
        read: impl FnOnce(Reply) -> Result<T> + Send + Unpin + 'static,
    ) -> Step<T> {
        let cell = Arc::new(Cell::default());
        request.cell = cell.clone();
        request.family = self.family;
        match self.raw.function {
            Some(function) if self.raw.mode != CALLWEIR_STEPPED => {
                let handle = handles::give(Arc::new(request));
                if self.raw.mode == CALLWEIR_COMPLETING {
                    function(self.raw.userdata, handle);
                } else {
                    crate::executor::blocking(|| function(self.raw.userdata, handle));
                }
                if let Some(reply) = cell.take() {
                    return Step::Ready(read(reply));
                }
            }
            _ => {
                let run = |request| Action::Run {
                    userdata: self.raw.userdata,
                    request: Arc::new(request),
                };
                let stepped = Stepping::call();
                if stepped != 0 {
                    request.stepped = stepped;
                    Stepping::push(run(request));
                } else if let Some(host) = &self.host {
                    host.push(run(request));
                } else {
                    return Step::Ready(Err(no_host(&self.name)));
                }
            }
        }
        Step::later(Answer {
            cell,
            read: Some(read),
        })
    }

    /// The failure of an answer that the stage does not have.
    fn wrong(label: &'static str, name: &str, reply: &Reply) -> Error {
        let what = match reply {
            Reply::Unanswered => "the request was freed without an answer",
            _ => "the answer does not fit the stage",
        };
        Error::invalid_return(label, name, what)
    }

    fn read<T>(
        &self,
        fits: fn(Reply) -> Result<T, Reply>,
    ) -> impl FnOnce(Reply) -> Result<T> + Send + Unpin + use<T> {
        let (label, name) = (self.label, self.name.clone());
        move |reply| match reply {
            Reply::Fail(error) => Err(error),
            other => fits(other).map_err(|reply| Self::wrong(label, &name, &reply)),
        }
    }

    fn of_call(stage: u32, call: &ToolCall) -> Request {
        Request {
            stage,
            name: Some(call.name().clone()),
            value: Some(call.arguments().clone()),
            call: Some(call.clone()),
            moment: Moment::now(call.scope().cloned()),
            ..Request::default()
        }
    }

    fn result(&self, request: Request) -> Step<Payload> {
        self.ask(
            request,
            self.read(|reply| match reply {
                Reply::Value(value) => Ok(value),
                Reply::Nothing => Ok(Value::Null.into()),
                other => Err(other),
            }),
        )
    }

    fn done(&self, request: Request) -> Step<()> {
        self.ask(
            request,
            self.read(|reply| match reply {
                Reply::Nothing => Ok(()),
                other => Err(other),
            }),
        )
    }

    /// Runs the callback as an execution intercept or middleware.
    pub(crate) fn around(&self, call: &ToolCall, next: Next) -> Step<Payload> {
        let request = Request {
            next: Some(next),
            ..Self::of_call(CALLWEIR_STAGE_AROUND, call)
        };
        self.result(request)
    }

    /// Runs the callback as work.
    pub(crate) fn work(&self, call: &ToolCall) -> Step<Payload> {
        self.result(Self::of_call(CALLWEIR_STAGE_WORK, call))
    }
}

/// Returns the handler of a family's entry.
pub(crate) fn handler(family: Family, callback: Arc<Callback>) -> Handler {
    match family.shape() {
        Shape::Gate => Handler::Gate(Arc::new(Entry(callback))),
        Shape::Transform => Handler::Transform(Arc::new(Entry(callback))),
        Shape::Around | Shape::Stream => Handler::Around(Arc::new(Entry(callback))),
    }
}

/// A callback as the core asks it.
pub(crate) struct Entry(pub(crate) Arc<Callback>);

impl Gate for Entry {
    fn check(&self, call: &ToolCall) -> Step<Verdict> {
        self.0.ask(
            Callback::of_call(CALLWEIR_STAGE_GATE, call),
            self.0.read(|reply| match reply {
                Reply::Allow => Ok(Verdict::Allow),
                Reply::Reject(reason) => Ok(Verdict::Reject(reason)),
                other => Err(other),
            }),
        )
    }
    fn is_host(&self) -> bool {
        true
    }
}

impl Transform for Entry {
    fn apply(&self, subject: &Subject<'_>, payload: Payload, _: &Context) -> Step<Transformed> {
        let (name, event) = match subject {
            Subject::Call(name) => (Some((*name).clone()), None),
            Subject::Event(event) => (None, Some((*event).clone())),
        };
        let request = Request {
            stage: CALLWEIR_STAGE_TRANSFORM,
            name,
            value: Some(payload),
            event,
            moment: Moment::now(None),
            ..Request::default()
        };
        self.0.ask(
            request,
            self.0.read(|reply| match reply {
                Reply::Value(value) => Ok(Some(value)),
                Reply::Nothing => Ok(None),
                other => Err(other),
            }),
        )
    }
    fn is_host(&self) -> bool {
        true
    }
    fn home(&self) -> Home {
        Home::HostThread
    }
}

impl Around for Entry {
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        self.0.around(&call, next)
    }
    fn is_host(&self) -> bool {
        true
    }
}

impl Work for Entry {
    fn run(&self, call: ToolCall) -> Step<Payload> {
        self.0.work(&call)
    }
}

impl Observe for Entry {
    fn observe(&self, event: &Arc<Event>, _: &Origin) -> Step<()> {
        self.0.done(Request {
            stage: CALLWEIR_STAGE_EVENT,
            event: Some(event.clone()),
            moment: Moment::now(None),
            ..Request::default()
        })
    }
    fn home(&self) -> Home {
        Home::HostThread
    }
}

impl ObserveCalls for Entry {
    fn observe(&self, event: &CallEvent, _: &Origin) -> Step<()> {
        self.0.done(Request {
            stage: CALLWEIR_STAGE_RECORD,
            record: Some(event.clone()),
            moment: Moment::now(None),
            ..Request::default()
        })
    }
    fn home(&self) -> Home {
        Home::HostThread
    }
}

/// A registry's middleware.
pub(crate) struct Middleware {
    pub(crate) run: Arc<Callback>,
    pub(crate) refused: Option<Arc<Callback>>,
}

impl AnyMiddleware for Middleware {
    fn name(&self) -> Arc<str> {
        self.run.name.clone()
    }
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        self.run.around(&call, next)
    }
    fn on_refused(&self, call: &ToolCall, refusal: &Error) -> Step<()> {
        let Some(callback) = &self.refused else {
            return Step::Ready(Ok(()));
        };
        callback.done(Request {
            refusal: Some(refusal.clone()),
            ..Callback::of_call(CALLWEIR_STAGE_REFUSED, call)
        })
    }
    fn is_host(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// A tool of the program.
pub(crate) struct CTool {
    pub(crate) descriptor: Arc<Descriptor>,
    pub(crate) run: Arc<Callback>,
}

impl Tool for CTool {
    fn descriptor(&self) -> &Arc<Descriptor> {
        &self.descriptor
    }
    fn run(&self, call: ToolCall) -> Step<Payload> {
        self.run.work(&call)
    }
}
