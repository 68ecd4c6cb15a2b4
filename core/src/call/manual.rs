//! The manual lifecycle: the program runs the work and reports its start and end.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};

use super::open::tool_profile;
use crate::dispatch::{Draft, PayloadCopy};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EventKind, Outcome, ScopeType, free_metadata};
use crate::family::Family;
use crate::registrations::Snapshot;
use crate::runtime::Runtime;
use crate::scope::{Role, Scope, ScopeOptions, own_metadata};
use crate::value::Payload;

/// How a manual call is started.
#[derive(Clone, Debug, Default)]
pub struct ManualOptions {
    /// The scope around the call.
    pub parent: Option<Scope>,
    /// Free metadata of start and end event.
    pub metadata: Option<Value>,
    /// The id that the model gave the call.
    pub tool_call_id: Option<Arc<str>>,
    /// Flags such as `parallel`, `remote` and `stateful`.
    pub attributes: Vec<Arc<str>>,
    /// When it started; now if absent.
    pub timestamp: Option<SystemTime>,
}

/// How a manual call is ended.
#[derive(Clone, Debug, Default)]
pub struct EndOptions {
    /// The result; nothing where the call failed.
    pub result: Option<Payload>,
    /// The failure.
    pub error: Option<Error>,
    /// How it ended; by default what the error says, or succeeded.
    pub outcome: Option<Outcome>,
    /// When it ended; now if absent.
    pub timestamp: Option<SystemTime>,
}

/// A call that the program runs itself.
#[derive(Clone)]
pub struct ManualCall(Arc<Manual>);

struct Manual {
    scope: Scope,
    /// The chains of the start: the end is sanitized by the same.
    snapshot: Arc<Snapshot>,
    metadata: Value,
    profile: Value,
}

impl ManualCall {
    /// Starts a tool call and queues its start event; never waits.
    pub fn start(
        runtime: &Runtime,
        name: Arc<str>,
        arguments: &Payload,
        options: ManualOptions,
    ) -> Result<Self> {
        runtime.check_open()?;
        let shape = ScopeOptions {
            attributes: options.attributes,
            ..ScopeOptions::default()
        };
        let scope = Scope::build(
            runtime.clone(),
            name,
            ScopeType::Tool,
            Role::Call,
            options.parent,
            &shape,
        );
        let snapshot = runtime.registrations().snapshot(scope.parent());
        let metadata = free_metadata(options.metadata);
        let profile = tool_profile(options.tool_call_id.as_deref());
        let call = Self(Arc::new(Manual {
            scope,
            snapshot,
            metadata,
            profile,
        }));
        runtime
            .manual_calls()
            .lock()
            .insert(call.0.scope.order(), call.clone());
        if call.0.snapshot.is_observed() {
            let copy = PayloadCopy::of(arguments);
            call.emit(
                EventKind::Start,
                options.timestamp,
                Some((Family::ToolSanitizeRequest, copy)),
                Map::new(),
            );
        }
        Ok(call)
    }

    /// Returns the scope of the call, for what happens inside it.
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// Ends the call and queues its end event; a second end is [`AlreadyEnded`](ErrorKind::AlreadyEnded).
    ///
    /// After shutdown it does nothing: the call has ended as abandoned.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "options are given away, as in every other call"
    )]
    pub fn end(&self, options: EndOptions) -> Result<()> {
        let runtime = self.0.scope.runtime().clone();
        if runtime.is_shut() {
            return Ok(());
        }
        if !self.0.scope.is_open() {
            let text = format!("the call of '{}' has ended already", self.0.scope.name());
            return Err(Error::new(ErrorKind::AlreadyEnded, text));
        }
        self.0.scope.abandon_inside();
        if !self.0.scope.end() {
            let text = format!("the call of '{}' has ended already", self.0.scope.name());
            return Err(Error::new(ErrorKind::AlreadyEnded, text));
        }
        runtime.manual_calls().lock().remove(&self.0.scope.order());
        if self.0.snapshot.is_observed() {
            let by_error = options.error.as_ref().map_or(Outcome::Succeeded, Outcome::of);
            let outcome = options.outcome.unwrap_or(by_error);
            let error_type = options.error.as_ref().map(Error::type_value);
            let copy = options
                .result
                .as_ref()
                .map(|value| (Family::ToolSanitizeResponse, PayloadCopy::of(value)));
            self.emit(
                EventKind::End,
                options.timestamp,
                copy,
                own_metadata(outcome, error_type, Map::new()),
            );
        }
        runtime.registrations().release(&self.0.scope);
        Ok(())
    }

    fn emit(
        &self,
        kind: EventKind,
        timestamp: Option<SystemTime>,
        copy: Option<(Family, PayloadCopy)>,
        own: Map<String, Value>,
    ) {
        let mut event = self.0.scope.event(kind, timestamp);
        event.metadata = self.0.metadata.clone();
        event.category_profile = self.0.profile.clone();
        let mut draft = Draft::new(event).paired(&self.0.scope).own(own);
        if let Some((family, copy)) = copy {
            draft = draft.payload(family, copy);
        }
        self.0
            .scope
            .runtime()
            .dispatcher()
            .emit(self.0.snapshot.clone(), draft);
    }
}

impl PartialEq for ManualCall {
    fn eq(&self, other: &Self) -> bool {
        self.0.scope == other.0.scope
    }
}

impl Eq for ManualCall {}

impl std::fmt::Debug for ManualCall {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ManualCall({})", self.0.scope.name())
    }
}
