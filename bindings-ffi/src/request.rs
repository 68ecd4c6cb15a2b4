//! Requests: what a callback is asked, and the one answer that it gives.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use callweir_core::{CallEvent, Error, Event, Family, Json, Next, Payload, Result, ToolCall};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::boundary::{check, fallible, reading};
use crate::call::{NextHandle, callweir_next};
use crate::context::callweir_context;
use crate::error::callweir_error;
use crate::handles::{self, handle};
use crate::scope::{Moment, callweir_scope};
use crate::text::{callweir_string, callweir_text};
use crate::value::callweir_value;

/// One question to a callback, which owns it until it answers or frees it.
pub enum callweir_request {}
handle!(callweir_request, 8, "request", Arc<Request>);

/// A guardrail is asked whether the call may go on: allow, reject or fail.
pub const CALLWEIR_STAGE_GATE: u32 = 1;
/// A request intercept or sanitizer is asked for the next payload: answer, nothing or fail.
pub const CALLWEIR_STAGE_TRANSFORM: u32 = 2;
/// An execution intercept or middleware is asked for the result, with `next`: answer, nothing or fail.
pub const CALLWEIR_STAGE_AROUND: u32 = 3;
/// The work of a call, or a tool, is asked for the result: answer, nothing or fail.
pub const CALLWEIR_STAGE_WORK: u32 = 4;
/// A middleware is told of a refused call: nothing or fail.
pub const CALLWEIR_STAGE_REFUSED: u32 = 5;
/// A subscriber gets an event: nothing or fail.
pub const CALLWEIR_STAGE_EVENT: u32 = 6;
/// A subscriber gets a typed record of a registry call: nothing or fail.
pub const CALLWEIR_STAGE_RECORD: u32 = 7;

/// What a callback is asked.
#[derive(Default)]
pub(crate) struct Request {
    pub(crate) stage: u32,
    pub(crate) family: Option<Family>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) value: Option<Payload>,
    pub(crate) call: Option<ToolCall>,
    pub(crate) next: Option<Next>,
    pub(crate) event: Option<Arc<Event>>,
    pub(crate) record: Option<CallEvent>,
    pub(crate) refusal: Option<Error>,
    pub(crate) moment: Moment,
    /// The call whose step gave it out, 0 for none: that the host steps again by itself.
    pub(crate) stepped: usize,
    pub(crate) cell: Arc<Cell>,
}

/// The answer of a callback.
pub(crate) enum Reply {
    Allow,
    Reject(Arc<str>),
    Value(Payload),
    Nothing,
    Fail(Error),
    /// The request was freed.
    Unanswered,
}

/// The place of a request's answer.
#[derive(Default)]
pub(crate) struct Cell(Mutex<CellState>);

#[derive(Default)]
enum CellState {
    #[default]
    Open,
    Waited(Waker),
    Answered(Reply),
    /// Nobody waits any more.
    Closed,
}

impl Cell {
    fn put(&self, reply: Reply) -> Result<()> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, CellState::Closed) {
            CellState::Open => *state = CellState::Answered(reply),
            CellState::Waited(waker) => {
                *state = CellState::Answered(reply);
                drop(state);
                waker.wake();
            }
            CellState::Answered(first) => {
                *state = CellState::Answered(first);
                return Err(Error::expired());
            }
            CellState::Closed => return Err(Error::expired()),
        }
        Ok(())
    }

    /// Takes the answer if it is there.
    pub(crate) fn take(&self) -> Option<Reply> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, CellState::Closed) {
            CellState::Answered(reply) => Some(reply),
            other => {
                *state = other;
                None
            }
        }
    }
}

/// Waits for an answer, and makes the stage's result of it.
pub(crate) struct Answer<F> {
    pub(crate) cell: Arc<Cell>,
    pub(crate) read: Option<F>,
}

impl<F, T> Future for Answer<F>
where
    F: FnOnce(Reply) -> Result<T> + Unpin,
{
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        {
            let mut state = self.cell.0.lock();
            if !matches!(*state, CellState::Answered(_)) {
                *state = CellState::Waited(cx.waker().clone());
                return Poll::Pending;
            }
        }
        match (self.cell.take(), self.read.take()) {
            (Some(reply), Some(read)) => Poll::Ready(read(reply)),
            _ => Poll::Pending,
        }
    }
}

impl<F> Drop for Answer<F> {
    fn drop(&mut self) {
        let old = std::mem::replace(&mut *self.cell.0.lock(), CellState::Closed);
        // Outside the lock: a value may be the last reference to something of the program's.
        drop(old);
    }
}

impl Request {
    /// Returns the value that the callback works on.
    fn payload(&self) -> Payload {
        if let Some(value) = &self.value {
            return value.clone();
        }
        if let Some(event) = &self.event {
            return Json::from_text(event.to_text()).into();
        }
        let record = self.record.as_ref().map_or(Value::Null, record);
        Payload::from(record)
    }
}

/// Returns a typed record as JSON; times are RFC 3339, durations in seconds.
fn record(event: &CallEvent) -> Value {
    let time = |at| humantime::format_rfc3339_micros(at).to_string();
    match event {
        CallEvent::Started(started) => json!({
            "event": "started", "uuid": started.uuid.to_string(), "tool": &*started.tool,
            "caller_id": started.caller_id.as_deref(), "timestamp": time(started.timestamp),
        }),
        CallEvent::Completed(completed) => json!({
            "event": "completed", "uuid": completed.uuid.to_string(), "tool": &*completed.tool,
            "caller_id": completed.caller_id.as_deref(), "timestamp": time(completed.timestamp),
            "outcome": completed.outcome.name(), "error_type": completed.error_type,
            "duration": completed.duration.as_secs_f64(), "short_circuited": completed.short_circuited,
        }),
    }
}

unsafe fn tell(
    request: *const callweir_request,
    out: *mut callweir_string,
    read: impl FnOnce(&Request) -> Option<String>,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let request = handles::get(request)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(callweir_string::maybe(read(&request))) };
        Ok(())
    })
}

/// Returns the stage, one of `CALLWEIR_STAGE_*`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_stage(request: *const callweir_request) -> u32 {
    reading(|| handles::look(request, |request| request.stage).unwrap_or(0))
}

/// Returns the number of the family; 0 for work, tools, middleware and subscribers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_family(request: *const callweir_request) -> u32 {
    reading(|| {
        let family = handles::look(request, |request| request.family).ok().flatten();
        crate::registration::number(family)
    })
}

/// Tells the name of the call, or of the event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_name(
    request: *const callweir_request,
    out: *mut callweir_string,
) -> *mut callweir_error {
    let read = |request: &Request| {
        let name = request
            .name
            .as_deref()
            .or(request.event.as_ref().map(|event| &*event.name));
        Some(name.unwrap_or_default().to_owned())
    };
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(request, out, read) }
}

/// Gives the value that the callback works on: arguments, a copy, the three fields of an event, an event, a record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_value(
    request: *const callweir_request,
    out: *mut *mut callweir_value,
) -> *mut callweir_error {
    fallible(|| {
        check(out)?;
        let request = handles::get(request)?;
        // SAFETY: the pointer was checked, and the program promises that it may be written.
        unsafe { out.write(handles::give(request.payload())) };
        Ok(())
    })
}

/// Returns the context of the call; an empty one where there is no call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_context(request: *const callweir_request) -> *mut callweir_context {
    reading(|| {
        let request = handles::get(request).ok();
        handles::give_some(request.map(|request| {
            request
                .call
                .as_ref()
                .map(|call| call.context().clone())
                .unwrap_or_default()
        }))
    })
}

/// Returns where the callback runs: the parent for what it starts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_scope(request: *const callweir_request) -> *mut callweir_scope {
    reading(|| handles::give_some(handles::get(request).ok().map(|request| request.moment.clone())))
}

/// Tells the event as JSON text, for subscribers and event sanitizers; no text for others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_event(
    request: *const callweir_request,
    out: *mut callweir_string,
) -> *mut callweir_error {
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe {
        tell(request, out, |request| {
            request.event.as_ref().map(|event| event.to_text())
        })
    }
}

/// Tells the tool's manifest entry as JSON: `name`, `description`, `parameters`, `read_only`, `idempotent`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_descriptor(
    request: *const callweir_request,
    out: *mut callweir_string,
) -> *mut callweir_error {
    let read = |request: &Request| {
        let descriptor = request.call.as_ref()?.descriptor()?;
        Some(
            json!({
                "name": &*descriptor.name, "description": descriptor.description,
                "parameters": descriptor.parameters, "read_only": descriptor.read_only,
                "idempotent": descriptor.idempotent,
            })
            .to_string(),
        )
    };
    // SAFETY: as for `tell`, which is the panic boundary.
    unsafe { tell(request, out, read) }
}

/// Returns the refusal that a middleware is told of; NULL at other stages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_refusal(request: *const callweir_request) -> *mut callweir_error {
    reading(|| {
        handles::give_some(
            handles::get(request)
                .ok()
                .and_then(|request| request.refusal.clone()),
        )
    })
}

/// Returns the rest of the chain, usable while the callback runs; NULL where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_next(request: *const callweir_request) -> *mut callweir_next {
    reading(|| {
        let request = handles::get(request).ok();
        handles::give_some(request.and_then(|request| {
            Some(NextHandle {
                next: request.next.clone()?,
                call: request.call.clone(),
                moment: request.moment.clone(),
            })
        }))
    })
}

/// Ends a request with its answer.
fn answer(request: *const callweir_request, reply: impl FnOnce() -> Result<Reply>) -> *mut callweir_error {
    fallible(|| {
        let request = handles::take(request)?;
        let made = reply();
        // What cannot be read fails the entry, so that no call hangs by a mistake here, and is told to the callback.
        let (reply, mistake) = match made {
            Ok(reply) => (reply, None),
            Err(error) => (Reply::Fail(error.clone()), Some(error)),
        };
        let _quiet = crate::step::Quiet::enter(request.stepped);
        request.cell.put(reply)?;
        mistake.map_or(Ok(()), Err)
    })
}

/// Answers that the call may go on; ends the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_allow(request: *mut callweir_request) -> *mut callweir_error {
    answer(request, || Ok(Reply::Allow))
}

/// Answers that the call is rejected, for a reason that may be empty; ends the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_reject(
    request: *mut callweir_request,
    reason: callweir_text,
) -> *mut callweir_error {
    // SAFETY: the program's promises about texts.
    answer(request, || unsafe {
        Ok(Reply::Reject(reason.read("reason")?.unwrap_or_default().into()))
    })
}

/// Answers with a value; ends the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_answer(
    request: *mut callweir_request,
    value: *const callweir_value,
) -> *mut callweir_error {
    answer(request, || Ok(Reply::Value(handles::get(value)?)))
}

/// Answers with nothing: null as a result, an omitted payload, or that a subscriber is done; ends the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_nothing(request: *mut callweir_request) -> *mut callweir_error {
    answer(request, || Ok(Reply::Nothing))
}

/// Answers with a failure; ends the request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_fail(
    request: *mut callweir_request,
    error: *const callweir_error,
) -> *mut callweir_error {
    answer(request, || Ok(Reply::Fail(handles::get(error)?)))
}

/// Frees a request without an answer, which fails its entry; NULL is left alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn callweir_request_free(request: *mut callweir_request) {
    crate::boundary::doing(|| {
        if let Ok(request) = handles::take(request) {
            let _quiet = crate::step::Quiet::enter(request.stepped);
            // An answer that came before it stays.
            let _ = request.cell.put(Reply::Unanswered);
        }
    });
}
