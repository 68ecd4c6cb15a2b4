//! What one replay holds: the runtime, everything that steps have named, and the trace so far.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callweir::{
    CallEvent, CancellationToken, Error, ErrorKind, FunctionTool, ManualCall, Next, Options, Payload,
    Propagation, Result, Runtime, Scope, ToolCall, ToolCallCompleted, ToolRegistry, foreign,
};
use serde_json::{Map, Value, json};

use super::format::{Named, Scenario};

/// The lists that become the trace.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) steps: Vec<Value>,
    pub(super) log: Vec<Value>,
    pub(super) queued: Vec<Value>,
    pub(super) events: Vec<Value>,
    pub(super) calls: Vec<Value>,
}

#[derive(Default)]
pub(super) struct Things {
    pub(super) registries: Named<ToolRegistry>,
    pub(super) tools: Named<FunctionTool>,
    pub(super) scopes: Named<Scope>,
    pub(super) calls: Named<ManualCall>,
    pub(super) nexts: Named<(Next, ToolCall)>,
    pub(super) tokens: Named<CancellationToken>,
    pub(super) propagations: Named<Propagation>,
}

pub(super) struct World {
    pub(super) runtime: Runtime,
    things: Mutex<Things>,
    lists: Arc<Mutex<Lists>>,
}

/// Whatever a poisoned lock holds is still what was written: the trace shows what went wrong.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(super) fn new(scenario: &Scenario) -> Result<Arc<Self>> {
        let options = Options {
            error_text: scenario.options.error_text,
            ..Options::default()
        };
        let runtime = Runtime::new(options);
        let lists = Arc::new(Mutex::new(Lists::default()));
        let world = Arc::new(Self {
            runtime,
            things: Mutex::default(),
            lists,
        });
        if scenario.trace {
            let lists = world.lists.clone();
            let observer = callweir::observe(move |event| locked(&lists).events.push(event.to_json()));
            world.runtime.subscribe("trace", observer, None)?;
        }
        if scenario.calls {
            let lists = world.lists.clone();
            let observer =
                callweir::observe_calls(move |event| locked(&lists).calls.push(call_record(event)));
            world.runtime.subscribe_calls("calls", observer, None)?;
        }
        Ok(world)
    }

    pub(super) fn things(&self) -> MutexGuard<'_, Things> {
        locked(&self.things)
    }

    pub(super) fn take_trace(&self) -> Lists {
        std::mem::take(&mut *locked(&self.lists))
    }

    /// Notes a labelled step's end; what queued callbacks do is kept apart, since it runs beside the steps.
    pub(super) fn note_step(&self, label: &str, result: &Result<Value>, queued: bool) {
        let mut entry = Map::from_iter([("label".to_owned(), Value::from(label))]);
        match result {
            Ok(value) => entry.insert("result".to_owned(), value.clone()),
            Err(error) => entry.insert("error".to_owned(), error_form(error)),
        };
        let mut lists = locked(&self.lists);
        let list = if queued {
            &mut lists.queued
        } else {
            &mut lists.steps
        };
        list.push(Value::Object(entry));
    }

    pub(super) fn log(&self, entry: Value, queued: bool) {
        let mut lists = locked(&self.lists);
        if queued {
            lists.queued.push(entry);
        } else {
            lists.log.push(entry);
        }
    }

    pub(super) fn token(&self, name: &str) -> CancellationToken {
        self.things().tokens.entry(name.to_owned()).or_default().clone()
    }

    pub(super) fn scope(&self, name: &str) -> Result<Scope> {
        known("scope", name, self.things().scopes.get(name))
    }

    pub(super) fn registry(&self, name: &str) -> Result<ToolRegistry> {
        known("registry", name, self.things().registries.get(name))
    }
}

/// Finds what a step names; a scenario that names nothing is broken.
pub(super) fn known<T: Clone>(kind: &str, name: &str, found: Option<&T>) -> Result<T> {
    found
        .cloned()
        .ok_or_else(|| Broken(format!("no {kind} '{name}' in this scenario")).into())
}

/// The failure that behaviours raise.
#[derive(Debug)]
pub(super) struct HostError(pub(super) String);

impl fmt::Display for HostError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for HostError {}

/// A cancellation in the language's own way; in Rust a dropped future.
#[derive(Debug)]
pub(super) struct HostCancelled;

impl fmt::Display for HostCancelled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the future was dropped")
    }
}

impl std::error::Error for HostCancelled {}

/// A mistake in the scenario itself.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// A value of the host that JSON cannot hold: `{"a": [1, 2, 3, infinity]}`.
pub(super) struct Unjson;

impl foreign::HostValue for Unjson {
    fn to_json(&self) -> Result<callweir::Json> {
        Err(Error::not_json("$.a[3]", "not a finite number"))
    }
    fn isolate(&self) -> Result<Payload> {
        Ok(Payload::Host(Arc::new(Self)))
    }
    fn keys(&self, visit: &mut dyn FnMut(&str)) -> bool {
        visit("a");
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Shows a result; the value that JSON cannot hold is shown by its path.
pub(super) fn shown(payload: &Payload) -> Value {
    match payload.to_json() {
        Ok(value) => (*value).clone(),
        Err(error) => json!({ "not_json": error.field("path") }),
    }
}

/// Shows an error the same way in every language: no message of Callweir's own, no type of the host's.
pub(super) fn error_form(error: &Error) -> Value {
    if error.downcast_ref::<HostCancelled>().is_some() {
        return json!({ "kind": "HostCancelled" });
    }
    let model: Value = serde_json::from_str(&error.for_model()).unwrap_or(Value::Null);
    let Some(kind) = error.kind() else {
        let raised = error.downcast_ref::<HostError>();
        let name = if raised.is_some() {
            "HostError"
        } else {
            "unexpected"
        };
        return json!({ "kind": name, "message": error.to_string(), "for_model": model });
    };
    let fields = kind
        .fields()
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), Value::from(error.field(name)?))));
    let fields: Map<_, _> = fields.collect();
    let mut form = json!({ "kind": kind.name(), "code": error.code(), "fields": fields, "for_model": model });
    if kind == ErrorKind::Cancelled
        && let (Some(cause), Value::Object(form)) = (error.cause(), &mut form)
    {
        form.insert("cause".to_owned(), error_form(cause));
    }
    form
}

fn call_record(event: &CallEvent) -> Value {
    match event {
        CallEvent::Started(started) => json!({
            "event": "started", "uuid": started.uuid.to_string(),
            "tool": &*started.tool, "caller_id": started.caller_id.as_deref(),
        }),
        CallEvent::Completed(done) => completed(done),
    }
}

fn completed(done: &ToolCallCompleted) -> Value {
    json!({
        "event": "completed", "uuid": done.uuid.to_string(), "tool": &*done.tool, "caller_id": done.caller_id.as_deref(),
        "outcome": done.outcome.name(), "error_type": done.error_type, "short_circuited": done.short_circuited,
    })
}
