//! Behaviours: the small programs that callbacks and tools run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use callweir::foreign::BoxFuture;
use callweir::{Error, Event, EventKind, Next, Payload, Result, ToolCall, ToolContext};
use serde_json::{Map, Value, json};

use super::format::{ContextSpec, Op, Run};
use super::world::{Broken, HostError, Unjson, World, error_form, shown};

/// What a callback was given, and the value that it works on.
pub(super) struct Frame {
    pub(super) world: Arc<World>,
    pub(super) by: String,
    /// Whether the callback runs on the publication path.
    pub(super) queued: bool,
    pub(super) value: Payload,
    pub(super) call: Option<ToolCall>,
    pub(super) next: Option<Next>,
    pub(super) event: Option<Arc<Event>>,
    /// What the first `next` passed on.
    pub(super) passed: Option<Payload>,
}

/// How a behaviour ended, if it did not fail.
pub(super) enum End {
    Value(Payload),
    Nothing,
    Reject(String),
    Wrong,
}

impl Frame {
    pub(super) fn new(world: &Arc<World>, by: &str, value: Payload) -> Self {
        Self {
            world: world.clone(),
            by: by.to_owned(),
            queued: false,
            value,
            call: None,
            next: None,
            event: None,
            passed: None,
        }
    }

    pub(super) fn of_call(world: &Arc<World>, by: &str, call: ToolCall, next: Option<Next>) -> Self {
        let value = call.arguments().clone();
        Self {
            call: Some(call),
            next,
            ..Self::new(world, by, value)
        }
    }

    pub(super) fn run(mut self, run: Run) -> BoxFuture<Result<End>> {
        Box::pin(async move {
            for op in run {
                if let Some(end) = self.one(op).await? {
                    return Ok(end);
                }
            }
            Ok(End::Value(self.value))
        })
    }

    async fn one(&mut self, op: Op) -> Result<Option<End>> {
        match op {
            Op::Record => self.note(json!({ "value": shown(&self.value) })),
            Op::RecordContext => self.note(context_form(self.call()?.context())),
            Op::Note => self.note_event()?,
            Op::Set(key, value) => self.edit(|map| drop(map.insert(key, value)))?,
            Op::Append(key, value) => self.edit(|map| append(map, key, value))?,
            Op::Remove(key) => self.edit(|map| drop(map.shift_remove(&key)))?,
            Op::Replace(value) => self.value = value.into(),
            Op::Unjson => self.value = Payload::Host(Arc::new(Unjson)),
            Op::Next => self.value = self.next().await?,
            Op::Swallow => {
                let result = self.next().await;
                self.value = result.unwrap_or_else(|error| json!({ "caught": error_form(&error) }).into());
            }
            Op::KeepNext(slot) => self.keep_next(slot)?,
            Op::Context(context) => {
                let call = self.call()?.clone();
                let context = self.context(call.context().clone(), &context);
                self.call = Some(call.with_context(context));
            }
            Op::Reject(reason) => return Ok(Some(End::Reject(reason))),
            Op::Nothing => return Ok(Some(End::Nothing)),
            Op::Wrong => return Ok(Some(End::Wrong)),
            Op::Fail(message) => return Err(HostError(message).into()),
            // In Rust raising and returning a denial are one thing.
            Op::Deny(reason) | Op::ReturnDenial(reason) => {
                return Err(Error::denied(&**self.call()?.name(), reason));
            }
            Op::Sleep(ms) => self.world.runtime.timer().after(Duration::from_millis(ms)).await,
            Op::Fire(token) => self.world.token(&token).cancel(),
            // The future of a call is not `Send`, so a callback drives it to its end in place.
            Op::Step(step) => self.world.clone().nested(step, self.queued).await?,
        }
        Ok(None)
    }

    fn call(&self) -> Result<&ToolCall> {
        self.call
            .as_ref()
            .ok_or_else(|| Broken(format!("'{}' has no call", self.by)).into())
    }

    fn context(&self, old: ToolContext, spec: &ContextSpec) -> ToolContext {
        context(&self.world, old, spec)
    }

    fn note(&self, what: Value) {
        let mut entry = Map::from_iter([("by".to_owned(), Value::from(self.by.as_str()))]);
        if let Value::Object(what) = what {
            entry.extend(what);
        }
        self.world.log(Value::Object(entry), self.queued);
    }

    fn note_event(&self) -> Result<()> {
        let event = self
            .event
            .as_ref()
            .ok_or_else(|| Broken(format!("'{}' has no event", self.by)))?;
        let kind = match event.kind {
            EventKind::Start => "start",
            EventKind::End => "end",
            EventKind::Mark => "mark",
        };
        self.note(json!({ "event": format!("{kind} {}", event.name) }));
        Ok(())
    }

    fn edit(&mut self, change: impl FnOnce(&mut Map<String, Value>)) -> Result<()> {
        let mut value = self.value.clone().into_json()?;
        match &mut value {
            Value::Object(map) => change(map),
            other => return Err(Broken(format!("'{}' cannot edit {other}", self.by)).into()),
        }
        self.value = value.into();
        Ok(())
    }

    async fn next(&mut self) -> Result<Payload> {
        let arguments = self.passed.get_or_insert_with(|| self.value.clone()).clone();
        let next = self
            .next
            .clone()
            .ok_or_else(|| Broken(format!("'{}' has no next", self.by)))?;
        next.run(self.call()?.clone().with_arguments(arguments)).await
    }

    fn keep_next(&self, slot: String) -> Result<()> {
        let next = self
            .next
            .clone()
            .ok_or_else(|| Broken(format!("'{}' has no next", self.by)))?;
        let call = self.call()?.clone();
        self.world.things().nexts.insert(slot, (next, call));
        Ok(())
    }
}

fn append(map: &mut Map<String, Value>, key: String, value: Value) {
    if let Value::Array(items) = map.entry(key).or_insert_with(|| Value::Array(Vec::new())) {
        items.push(value);
    }
}

/// Returns `old` with what `spec` says.
pub(super) fn context(world: &World, mut old: ToolContext, spec: &ContextSpec) -> ToolContext {
    if let Some(id) = &spec.caller_id {
        old = old.with_caller_id(id.as_str());
    }
    if let Some(metadata) = &spec.metadata {
        old = old.with_metadata(metadata.clone());
    }
    if let Some(ms) = spec.deadline_ms {
        old = old.with_deadline(Instant::now() + Duration::from_millis(ms));
    }
    if let Some(token) = &spec.token {
        old = old.with_cancellation(world.token(token));
    }
    old
}

/// Shows a context; what is left until the deadline is rounded to a minute, so that it is the same in every run.
fn context_form(context: &ToolContext) -> Value {
    let left = context
        .deadline()
        .map(|at| at.saturating_duration_since(Instant::now()));
    json!({
        "caller_id": context.caller_id().map(|id| &**id),
        "metadata": context.metadata().map(shown),
        "deadline_min": left.map(|left| (left.as_secs() + 30) / 60),
    })
}
