//! A call between its start and its end: exactly one of each, whatever happens in between.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use serde_json::{Map, Value, json};

use super::{Invocation, ToolCall};
use crate::chain::around::AroundChain;
use crate::dispatch::{Draft, PayloadCopy};
use crate::error::{Error, Result};
use crate::event::{CallEvent, Event, EventKind, Outcome, ToolCallCompleted, ToolCallStarted, free_metadata};
use crate::family::Family;
use crate::registrations::Snapshot;
use crate::scope::{Scope, own_metadata};
use crate::value::Payload;

/// A call that has started; dropping it unfinished ends it as cancelled.
pub(super) struct OpenCall {
    scope: Scope,
    /// What was in force when the call entered; nothing if nobody observes it.
    heard: Option<Heard>,
    ended: bool,
}

struct Heard {
    snapshot: Arc<Snapshot>,
    metadata: Value,
    profile: Value,
    typed: Option<Typed>,
}

struct Typed {
    caller_id: Option<Arc<str>>,
    /// Whether the record of the start was queued; if not, that of the end is dropped too.
    queued: bool,
    started: Instant,
}

impl OpenCall {
    /// Queues the start event.
    pub(super) fn start(
        asked: &Invocation,
        snapshot: &Arc<Snapshot>,
        scope: &Scope,
        call: &ToolCall,
    ) -> Self {
        let typed = asked.registry.is_some() && !snapshot.call_subscribers.is_empty();
        let heard = (typed || snapshot.is_observed()).then(|| Heard {
            snapshot: snapshot.clone(),
            metadata: free_metadata(asked.metadata.clone()),
            profile: tool_profile(asked.tool_call_id.as_deref()),
            typed: typed.then(|| Typed {
                caller_id: call.context().caller_id().cloned(),
                queued: false,
                started: Instant::now(),
            }),
        });
        let mut open = Self {
            scope: scope.clone(),
            heard,
            ended: false,
        };
        if let Some(mut heard) = open.heard.take() {
            open.emit_start(&mut heard, call);
            open.heard = Some(heard);
        }
        open
    }

    fn emit_start(&self, heard: &mut Heard, call: &ToolCall) {
        let dispatcher = self.scope.runtime().dispatcher();
        if heard.snapshot.is_observed() {
            let mut event = self.scope.event(EventKind::Start, None);
            event.metadata = heard.metadata.clone();
            event.category_profile = heard.profile.clone();
            let draft = Draft::new(event).paired(&self.scope);
            let draft = draft.payload(Family::ToolSanitizeRequest, PayloadCopy::of(call.arguments()));
            dispatcher.emit(heard.snapshot.clone(), draft);
        }
        if let Some(typed) = &mut heard.typed {
            let started = ToolCallStarted {
                tool: self.scope.name().clone(),
                caller_id: typed.caller_id.clone(),
                uuid: self.scope.uuid(),
                timestamp: SystemTime::now(),
            };
            typed.queued = dispatcher.emit_call(&heard.snapshot, CallEvent::Started(started), false);
        }
    }

    /// Queues the end event for what the chain gave.
    pub(super) fn end(mut self, chain: &AroundChain, result: &Result<Payload>) {
        let attempts = chain.attempts();
        let short = attempts == 0 && result.is_ok();
        let mut own = Map::new();
        if attempts > 1 {
            own.insert("callweir.attempt".to_owned(), Value::from(attempts));
        }
        if short {
            own.insert("callweir.short_circuited".to_owned(), Value::from(true));
        }
        match result {
            Ok(value) => self.finish(Outcome::Succeeded, None, Some(value), own),
            Err(error) => self.finish(Outcome::of(error), Some(error), None, own),
        }
    }

    fn finish(
        &mut self,
        outcome: Outcome,
        error: Option<&Error>,
        value: Option<&Payload>,
        mut own: Map<String, Value>,
    ) {
        self.ended = true;
        self.scope.abandon_inside();
        self.scope.end();
        if let Some(heard) = self.heard.take() {
            let short = own.contains_key("callweir.short_circuited");
            let error_type = error.and_then(Error::type_name);
            if heard.snapshot.is_observed() {
                own = own_metadata(outcome, error.map(Error::type_value), own);
                self.emit_end(&heard, error, value, own);
            }
            self.emit_completed(&heard, outcome, error_type, short);
        }
        self.scope.runtime().registrations().release(&self.scope);
    }

    fn emit_end(
        &self,
        heard: &Heard,
        error: Option<&Error>,
        value: Option<&Payload>,
        own: Map<String, Value>,
    ) {
        let mut event: Event = self.scope.event(EventKind::End, None);
        event.metadata = heard.metadata.clone();
        event.category_profile = heard.profile.clone();
        if let Some(error) = error.filter(|_| self.scope.runtime().options().error_text) {
            let mut free = event.metadata.as_object().cloned().unwrap_or_default();
            free.insert("error.message".to_owned(), Value::from(error.to_string()));
            event.metadata = Value::Object(free);
        }
        let mut draft = Draft::new(event).paired(&self.scope).own(own);
        if let Some(value) = value {
            draft = draft.payload(Family::ToolSanitizeResponse, PayloadCopy::of(value));
        }
        self.scope
            .runtime()
            .dispatcher()
            .emit(heard.snapshot.clone(), draft);
    }

    fn emit_completed(
        &self,
        heard: &Heard,
        outcome: Outcome,
        error_type: Option<String>,
        short_circuited: bool,
    ) {
        let Some(typed) = &heard.typed else { return };
        let dispatcher = self.scope.runtime().dispatcher();
        if !typed.queued {
            dispatcher.drop_call(&heard.snapshot);
            return;
        }
        let completed = ToolCallCompleted {
            tool: self.scope.name().clone(),
            caller_id: typed.caller_id.clone(),
            uuid: self.scope.uuid(),
            timestamp: SystemTime::now(),
            outcome,
            error_type,
            duration: typed.started.elapsed(),
            short_circuited,
        };
        dispatcher.emit_call(&heard.snapshot, CallEvent::Completed(completed), true);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if !self.ended {
            self.finish(Outcome::Cancelled, None, None, Map::new());
        }
    }
}

/// Returns the facts that belong to a tool call.
pub(super) fn tool_profile(tool_call_id: Option<&str>) -> Value {
    json!({ "tool_call_id": tool_call_id })
}

impl ToolCallCompleted {
    /// Makes the record of a call that was refused before it started.
    pub(crate) fn refused(scope: &Scope, caller_id: Option<Arc<str>>, error_type: &str) -> Self {
        Self {
            tool: scope.name().clone(),
            caller_id,
            uuid: scope.uuid(),
            timestamp: SystemTime::now(),
            outcome: Outcome::Refused,
            error_type: Some(error_type.to_owned()),
            duration: std::time::Duration::ZERO,
            short_circuited: false,
        }
    }
}
