//! Runtimes by their ids: registrations, managed and manual calls, marks, flush and shutdown.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use callweir::{
    EndOptions, Error, Family, Invocation, Limits, ManualCall, ManualOptions, Mark, Options, Outcome,
    RegisterOptions, Registration, Result, Runtime,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{TaskScope, Token, context_of, duration};
use crate::drive::{Driven, Output, Task, launch};
use crate::foreign::{Callback, NodeCallObserver, NodeObserver, handler};
use crate::host::{Environment, drain};
use crate::instance::{Instance, Local};
use crate::js::{NOTHING, Raw};
use crate::native::{Arguments, wrong};
use crate::scope::{flags, given_scope, keep, scope_at, timestamp};
use crate::value::{Default, Object};

pub(crate) fn runtime_of(local: &Local, given: &Arguments<'_>, index: usize) -> Result<(Runtime, Default)> {
    let known = local.runtimes.borrow().get(&given.id(index)?).cloned();
    known.ok_or_else(|| Error::internal("no runtime of this id"))
}

/// The settings that were given; what was not given stays as it is. Times are in milliseconds.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Settings {
    queue_events: Option<usize>,
    queue_bytes: Option<usize>,
    sanitizer_timeout: Option<f64>,
    credential_headers: Option<Vec<String>>,
    error_text: Option<bool>,
}

impl Settings {
    fn read(given: &Arguments<'_>, index: usize) -> Result<Self> {
        let text = given.text_or_none(index).unwrap_or_else(|| "{}".to_owned());
        serde_json::from_str(&text).map_err(|error| Error::invalid_argument("$", error.to_string()))
    }

    fn over(self, old: &Options) -> Options {
        let limits = Limits {
            events: self.queue_events.unwrap_or(old.limits.events),
            bytes: self.queue_bytes.unwrap_or(old.limits.bytes),
            callback_time: self.sanitizer_timeout.map_or(old.limits.callback_time, duration),
        };
        Options {
            limits,
            credential_headers: self
                .credential_headers
                .unwrap_or_else(|| old.credential_headers.clone()),
            error_text: self.error_text.unwrap_or(old.error_text),
        }
    }
}

/// Makes a runtime: `(settings, default)`.
pub(crate) fn make(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let default = Default::default();
    default.set(given.slot_or_none(1));
    let options = Settings::read(given, 0)?.over(&Options::default());
    let runtime = Runtime::with_host(options, Arc::new(Environment::new(instance)));
    let id = local.new_id();
    local.runtimes.borrow_mut().insert(id, (runtime, default));
    #[allow(clippy::cast_precision_loss, reason = "ids stay far below 2^53")]
    Ok(local.js.number(id as f64))
}

/// Lets go of a runtime that JavaScript no longer refers to.
pub(crate) fn forget(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let gone = local.runtimes.borrow_mut().remove(&given.id(0)?);
    drop(gone);
    Ok(NOTHING)
}

/// Changes the settings that are given: `(runtime, settings, default)`.
pub(crate) fn configure(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let converter = given.slot_or_none(2);
    let (runtime, default) = runtime_of(local, given, 0)?;
    runtime.configure(Settings::read(given, 1)?.over(&runtime.options()));
    if converter.is_some() {
        default.set(converter);
    }
    Ok(NOTHING)
}

/// Registers a callback: `(runtime, family, name, function, priority, scope, break chain)`.
pub(crate) fn register(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let function = given.slot(3)?;
    let (runtime, default) = runtime_of(local, given, 0)?;
    let family: Family = given.text(1)?.parse()?;
    let name = given.text(2)?;
    let callback = Callback::new(
        instance,
        Some(function),
        family.wire_name(),
        name.as_str().into(),
        &default,
    );
    #[allow(
        clippy::cast_possible_truncation,
        reason = "JavaScript checked that it is an i32"
    )]
    let options = RegisterOptions {
        priority: given.number(4)? as i32,
        scope: given_scope(local, given, 5),
        break_chain: given.flag(6),
        component: None,
    };
    runtime.register(family, &name, handler(family, callback), &options)?;
    Ok(NOTHING)
}

fn truth(local: &Local, flag: bool) -> Raw {
    local.js.number(f64::from(u8::from(flag)))
}

/// Removes a callback, and answers 1 if it was there, else 0: `(runtime, family, name, scope)`.
pub(crate) fn deregister(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let family: Family = given.text(1)?.parse()?;
    let scope = given_scope(local, given, 3);
    Ok(truth(
        local,
        runtime.deregister(family, &given.text(2)?, scope.as_ref()),
    ))
}

/// Registers a subscriber: `(runtime, name, function, scope, of typed records)`.
pub(crate) fn subscribe(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let function = given.slot(2)?;
    let (runtime, default) = runtime_of(local, given, 0)?;
    let name = given.text(1)?;
    let callback = Callback::new(
        instance,
        Some(function),
        "subscriber",
        name.as_str().into(),
        &default,
    );
    let scope = given_scope(local, given, 3);
    if given.flag(4) {
        runtime.subscribe_calls(&name, Arc::new(NodeCallObserver(callback)), scope.as_ref())?;
    } else {
        runtime.subscribe(&name, Arc::new(NodeObserver(callback)), scope.as_ref())?;
    }
    Ok(NOTHING)
}

/// Removes a subscriber, and answers 1 if it was there, else 0: `(runtime, name, scope)`.
pub(crate) fn unsubscribe(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let scope = given_scope(local, given, 2);
    Ok(truth(local, runtime.unsubscribe(&given.text(1)?, scope.as_ref())))
}

/// Writes events to a file as JSON lines: `(runtime, path, name)`.
pub(crate) fn export_jsonl(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let target = callweir::export::jsonl::JsonLines::open(given.text(1)?)?;
    runtime.subscribe(&given.text(2)?, target, None)?;
    Ok(NOTHING)
}

/// Makes a managed call of a name; the shared numbers are object, runtime, arguments, parent.
pub(crate) fn execute(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    begin(instance, given, |_, _| Ok(None))
}

/// Like [`execute`], with more: `(name, caller id, metadata, signal, deadline, event metadata, tool call id)`.
pub(crate) fn execute_with(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    begin(instance, given, |given, call| {
        let (context, token) = context_of(given, 1)?;
        call.context = context;
        call.metadata = given.json_or_none(5)?;
        call.tool_call_id = given.text_or_none(6).map(Into::into);
        Ok(token)
    })
}

fn begin(
    instance: &Arc<Instance>,
    given: &Arguments<'_>,
    more: impl FnOnce(&Arguments<'_>, &mut Invocation) -> Result<Option<Token>>,
) -> Result<Raw> {
    let local = instance.here()?;
    let object = given.given_slot(local, 0).ok_or_else(|| wrong(0, "a place"))?;
    let arguments = given.given_slot(local, 2).ok_or_else(|| wrong(2, "a place"))?;
    let mut task = Task::new(object, None);
    let (runtime, default) = {
        let runtimes = local.runtimes.borrow();
        let known = runtimes.get(&Arguments::given_id(local, 1)).cloned();
        known.ok_or_else(|| Error::internal("no runtime of this id"))?
    };
    let parent = scope_at(local, local.given(3));
    let name: Arc<str> = given.text(0)?.into();
    let work = Callback::new(instance, None, "func", name.clone(), &default);
    let mut call = Invocation::new(name, Object::payload(arguments, &default), work);
    call.parent = parent;
    call.current = Some(Box::new(TaskScope {
        instance: instance.clone(),
        task: task.id(),
    }));
    task.token = more(given, &mut call)?;
    launch(instance, task, || {
        Ok(Driven::Call(Box::pin(call.execute(runtime))))
    })
}

/// Runs the guardrails of a tool call, or its request intercepts: `(object, runtime, name, arguments, parent, only
/// guardrails)`.
pub(crate) fn helper(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (object, arguments) = (given.slot(0)?, given.slot(3)?);
    let (runtime, default) = runtime_of(local, given, 1)?;
    let (name, parent) = (Arc::from(given.text(2)?), given_scope(local, given, 4));
    let arguments = Object::payload(arguments, &default);
    let guards = given.flag(5);
    launch(instance, Task::new(object, None), || {
        Ok(if guards {
            let checked = callweir::conditional_execution(runtime, parent, name, arguments);
            Driven::other(async move { checked.await.map(|()| Output::Nothing) })
        } else {
            let folded = callweir::request_intercepts(runtime, parent, name, arguments);
            Driven::Call(Box::pin(folded))
        })
    })
}

/// Starts a manual call and answers its id: `(runtime, name, arguments, parent, metadata, tool call id, attributes,
/// timestamp)`.
pub(crate) fn start_call(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let arguments = given.slot(2)?;
    let (runtime, default) = runtime_of(local, given, 0)?;
    let options = ManualOptions {
        parent: given_scope(local, given, 3),
        metadata: given.json_or_none(4)?,
        tool_call_id: given.text_or_none(5).map(Into::into),
        attributes: flags(given, 6)?,
        timestamp: timestamp(given, 7)?,
    };
    let arguments = Object::payload(arguments, &default);
    let call = ManualCall::start(&runtime, given.text(1)?.into(), &arguments, options)?;
    let id = local.new_id();
    local.calls.borrow_mut().insert(id, (call, default));
    #[allow(clippy::cast_precision_loss, reason = "ids stay far below 2^53")]
    Ok(local.js.number(id as f64))
}

fn manual(local: &Local, given: &Arguments<'_>) -> Result<(ManualCall, Default)> {
    let known = local.calls.borrow().get(&given.id(0)?).cloned();
    known.ok_or_else(|| Error::internal("no manual call of this id"))
}

/// Keeps the scope of a manual call and answers its id.
pub(crate) fn call_scope(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (call, _) = manual(local, given)?;
    Ok(keep(local, call.scope().clone()))
}

/// Ends a manual call: `(call, result, error, outcome, timestamp)`.
pub(crate) fn end_call(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (result, error) = (given.slot_or_none(1), given.slot_or_none(2));
    let (call, default) = manual(local, given)?;
    let outcome = given
        .text_or_none(3)
        .map(|outcome| outcome.parse::<Outcome>())
        .transpose()?;
    let error = error.map(|slot| crate::error::from_thrown(local, slot));
    call.end(EndOptions {
        result: result
            .filter(|_| error.is_none())
            .map(|slot| Object::payload(slot, &default)),
        error,
        outcome,
        timestamp: timestamp(given, 4)?,
    })?;
    Ok(NOTHING)
}

/// Lets go of a manual call that JavaScript no longer refers to; it stays open until shutdown.
pub(crate) fn forget_call(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let gone = local.calls.borrow_mut().remove(&given.id(0)?);
    drop(gone);
    Ok(NOTHING)
}

/// Emits a mark: `(runtime, name, data, metadata, parent, data schema, timestamp)`.
pub(crate) fn mark(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let mark = Mark {
        data: given.json_or_none(2)?,
        metadata: given.json_or_none(3)?,
        data_schema: given.json_or_none(5)?,
        timestamp: timestamp(given, 6)?,
    };
    runtime.mark(given.text(1)?, given_scope(local, given, 4).as_ref(), mark);
    Ok(NOTHING)
}

/// Waits for delivery, or stops: `(object, runtime, timeout, stop, inside a queued callback)`.
pub(crate) fn flush(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let object = given.slot(0)?;
    let (runtime, _) = runtime_of(local, given, 1)?;
    let timeout = given.number_or_none(2).map(duration);
    let stops = given.flag(3);
    if given.flag(4) {
        let text = "a sanitizer or subscriber cannot flush: it would wait for itself";
        return Err(Error::would_deadlock(text));
    }
    launch(instance, Task::new(object, None), || {
        Ok(Driven::other(async move {
            let left = if stops {
                runtime.shutdown(timeout.unwrap_or(EXIT_TIME)).await
            } else {
                runtime.flush(timeout).await
            };
            left.map(Output::Count)
        }))
    })
}

/// How long the end of a process may wait for what is queued.
const EXIT_TIME: Duration = Duration::from_secs(5);
/// How long it waits for JavaScript that only a running event loop would end.
const STUCK_TIME: Duration = Duration::from_millis(100);

/// Shuts every runtime of the instance down while the process ends: no event loop runs any more.
pub(crate) fn exit(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let runtimes: Vec<_> = local
        .runtimes
        .borrow()
        .values()
        .map(|(runtime, _)| runtime.clone())
        .collect();
    let until = Instant::now() + EXIT_TIME;
    for runtime in runtimes {
        let mut stopping = Box::pin(runtime.shutdown(EXIT_TIME));
        let (mut pending, mut since) = (usize::MAX, Instant::now());
        let mut cx = Context::from_waker(Waker::noop());
        while stopping.as_mut().poll(&mut cx).is_pending() {
            drain(instance, given)?;
            let now = (runtime.counts().pending, Instant::now());
            if now.0 != pending {
                (pending, since) = now;
            }
            let is_stuck = now.1.duration_since(since) > STUCK_TIME;
            if now.1 > until || is_stuck {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(NOTHING)
}

/// Renders registrations as JSON.
pub(crate) fn lines(all: &[Registration]) -> String {
    let render = |line: &Registration| {
        json!({
            "stage": line.stage,
            "name": &*line.name,
            "level": line.level,
            "owner": line.owner.as_deref(),
            "priority": line.priority,
        })
    };
    all.iter().map(render).collect::<Value>().to_string()
}

/// Lists what is installed, as JSON.
pub(crate) fn registrations(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    Ok(local.js.text(&lines(&runtime.registrations_list())))
}

/// Lists what applies to a call, as JSON: `(runtime, kind, scope)`.
pub(crate) fn explain(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let explained = runtime.explain(&given.text(1)?, given_scope(local, given, 2).as_ref())?;
    Ok(local.js.text(&lines(&explained)))
}

/// Returns the dispatcher's counters, as JSON.
pub(crate) fn counts(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    let counts = runtime.counts();
    let shown = json!({
        "pending": counts.pending,
        "pendingBytes": counts.pending_bytes,
        "dropped": counts.dropped,
        "skipped": counts.skipped,
        "failures": counts.failures,
    });
    Ok(local.js.text(&shown.to_string()))
}

/// Says whether a runtime has been shut down, as 1 or 0.
pub(crate) fn is_shut(instance: &Arc<Instance>, given: &Arguments<'_>) -> Result<Raw> {
    let local = instance.here()?;
    let (runtime, _) = runtime_of(local, given, 0)?;
    Ok(truth(local, runtime.is_shut()))
}
