//! Asking guardrails: each evaluation is a scope of its own, and a rejection leaves a mark.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::ToolCall;
use crate::chain::{Entries, Entry, Verdict, gate};
use crate::dispatch::Draft;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CallEvent, Event, EventKind, Outcome, ScopeType, ToolCallCompleted};
use crate::registrations::Snapshot;
use crate::runtime::Runtime;
use crate::scope::{Role, Scope, ScopeOptions, own_metadata};

/// The guardrails of one call.
pub(super) struct Guards<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) snapshot: &'a Arc<Snapshot>,
    /// The scope that the call has, or would have had.
    pub(super) scope: &'a Scope,
    /// Whether typed records are wanted, as for registry calls.
    pub(super) typed: bool,
}

impl Guards<'_> {
    /// Asks one guardrail after another; the first rejection is the error.
    pub(super) async fn pass(&self, gates: &Entries, call: &ToolCall) -> Result<()> {
        match self.judge(gates, call).await? {
            None => Ok(()),
            Some((reason, by)) => {
                self.mark_rejection(&reason, call);
                Err(Error::rejected(call.name(), &reason, &by))
            }
        }
    }

    /// Asks the guardrails and returns the first rejection's reason and who gave it.
    pub(super) async fn judge(
        &self,
        gates: &Entries,
        call: &ToolCall,
    ) -> Result<Option<(Arc<str>, Arc<str>)>> {
        for entry in gates.iter() {
            call.context().check()?;
            let mut evaluation = Evaluation::start(self, entry, call.name());
            let asked = match evaluation.scope() {
                Some(scope) => scope.clone().within(gate::ask(entry, call)).await,
                None => gate::ask(entry, call).await,
            };
            evaluation.end(&asked);
            if let Verdict::Reject(reason) = asked? {
                return Ok(Some((reason, entry.name.clone())));
            }
        }
        Ok(None)
    }

    fn mark_rejection(&self, reason: &str, call: &ToolCall) {
        if self.snapshot.is_observed() {
            let parent = self.scope.parent_uuid();
            let mut event = Event::new(
                EventKind::Mark,
                crate::id::new(),
                parent,
                self.scope.name().clone(),
            );
            event.data = json!({ "rejected": true, "rejection_reason": reason }).into();
            let mut own = call_uuid(self.scope);
            own.insert("callweir.mark".to_owned(), Value::from("rejection"));
            self.runtime
                .dispatcher()
                .emit(self.snapshot.clone(), Draft::new(event).own(own));
        }
        if self.typed && !self.snapshot.call_subscribers.is_empty() {
            let caller_id = call.context().caller_id().cloned();
            let completed = ToolCallCompleted::refused(self.scope, caller_id, ErrorKind::CallRejected.code());
            self.runtime
                .dispatcher()
                .emit_call(self.snapshot, CallEvent::Completed(completed), false);
        }
    }
}

fn call_uuid(scope: &Scope) -> Map<String, Value> {
    Map::from_iter([(
        "callweir.call_uuid".to_owned(),
        Value::from(scope.uuid().to_string()),
    )])
}

/// The evaluation of one guardrail, seen from outside; dropping it unfinished ends it as cancelled.
struct Evaluation<'a> {
    guards: &'a Guards<'a>,
    scope: Option<Scope>,
}

impl<'a> Evaluation<'a> {
    fn start(guards: &'a Guards<'a>, entry: &Entry, target: &str) -> Self {
        if !guards.snapshot.is_observed() {
            return Self { guards, scope: None };
        }
        let parent = guards.scope.parent().cloned();
        let runtime = guards.runtime.clone();
        let (name, options) = (entry.name.clone(), ScopeOptions::default());
        let scope = Scope::build(runtime, name, ScopeType::Guardrail, Role::Call, parent, &options);
        let mut event = scope.event(EventKind::Start, None);
        event.data = json!({ "kind": entry.stage().replace('.', "_"), "target_name": target }).into();
        let draft = Draft::new(event).paired(&scope).own(call_uuid(guards.scope));
        guards.runtime.dispatcher().emit(guards.snapshot.clone(), draft);
        Self {
            guards,
            scope: Some(scope),
        }
    }

    fn scope(&self) -> Option<&Scope> {
        self.scope.as_ref()
    }

    fn end(&mut self, asked: &Result<Verdict>) {
        let Some(scope) = self.scope.take() else { return };
        let (outcome, error, data) = match asked {
            Ok(Verdict::Allow) => (
                Outcome::Succeeded,
                None,
                json!({ "allowed": true, "rejected": false }),
            ),
            Ok(Verdict::Reject(reason)) => {
                let data = json!({ "allowed": false, "rejected": true, "rejection_reason": &**reason });
                (Outcome::Succeeded, None, data)
            }
            Err(error) if error.is_control() => (Outcome::Cancelled, Some(error.type_value()), cancelled()),
            Err(error) => {
                let data = json!({ "allowed": false, "rejected": false, "error": error.type_name() });
                (Outcome::Failed, Some(error.type_value()), data)
            }
        };
        self.emit_end(&scope, outcome, error, data);
    }

    fn emit_end(&self, scope: &Scope, outcome: Outcome, error: Option<Value>, data: Value) {
        scope.abandon_inside();
        scope.end();
        let mut event = scope.event(EventKind::End, None);
        event.data = data.into();
        let own = own_metadata(outcome, error, call_uuid(self.guards.scope));
        let draft = Draft::new(event).paired(scope).own(own);
        self.guards
            .runtime
            .dispatcher()
            .emit(self.guards.snapshot.clone(), draft);
        self.guards.runtime.registrations().release(scope);
    }
}

fn cancelled() -> Value {
    json!({ "allowed": false, "rejected": false, "cancelled": true })
}

impl Drop for Evaluation<'_> {
    fn drop(&mut self) {
        if let Some(scope) = self.scope.take() {
            self.emit_end(&scope, Outcome::Cancelled, None, cancelled());
        }
    }
}
