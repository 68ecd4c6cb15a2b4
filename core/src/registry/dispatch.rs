//! Dispatching: looking a tool up, refusing what is not there, and making the managed call.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::ToolRegistry;
use super::tool::ToolWork;
use crate::call::{Current, Invocation, RegistryPart, ToolCall, ToolContext};
use crate::chain::catch;
use crate::dispatch::Draft;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CallEvent, Event, EventKind, ScopeType, ToolCallCompleted};
use crate::scope::{Role, Scope, ScopeOptions};
use crate::value::{Payload, parse_json};

/// What makes a payload of parsed JSON text.
pub(crate) type Wrap = Box<dyn FnOnce(Value) -> Result<Payload> + Send>;

/// The arguments of a dispatched call.
pub enum Arguments {
    /// A value.
    Value(Payload),
    /// JSON text, and what makes a payload of the parsed value.
    Text(String, Wrap),
}

impl From<Value> for Arguments {
    fn from(value: Value) -> Self {
        Self::Value(value.into())
    }
}

impl From<Payload> for Arguments {
    fn from(payload: Payload) -> Self {
        Self::Value(payload)
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned(), Box::new(|value| Ok(Payload::from(value))))
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Self {
        Self::Text(text, Box::new(|value| Ok(Payload::from(value))))
    }
}

impl Arguments {
    fn into_payload(self) -> Result<Payload> {
        match self {
            Self::Value(payload) => Ok(payload),
            Self::Text(text, wrap) => parse_json(&text).and_then(wrap),
        }
    }
}

/// A call that a registry is to dispatch.
pub struct DispatchRequest {
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments.
    pub arguments: Arguments,
    /// Who calls and under which limits.
    pub context: ToolContext,
    /// The scope around the call.
    pub parent: Option<Scope>,
    /// Free metadata for start and end event.
    pub metadata: Option<Value>,
    /// The id that the model gave the call.
    pub tool_call_id: Option<Arc<str>>,
    /// How the host keeps its current scope.
    pub current: Option<Box<dyn Current>>,
}

impl DispatchRequest {
    /// Describes a call inside the current scope of the Rust door.
    pub fn new(name: impl Into<Arc<str>>, arguments: impl Into<Arguments>, context: ToolContext) -> Self {
        Self {
            name: name.into(),
            arguments: arguments.into(),
            context,
            parent: Scope::current(),
            metadata: None,
            tool_call_id: None,
            current: None,
        }
    }
}

impl ToolRegistry {
    /// Calls a tool, with everything that a managed call has, and returns its result.
    ///
    /// Arguments are a value or JSON text. A tool that is not there is
    /// [`ToolNotFound`](ErrorKind::ToolNotFound), one that a subset left out
    /// [`ToolNotPermitted`](ErrorKind::ToolNotPermitted).
    pub async fn dispatch(
        &self,
        name: &str,
        arguments: impl Into<Arguments>,
        context: ToolContext,
    ) -> Result<Payload> {
        self.dispatch_request(DispatchRequest::new(name, arguments, context))
            .await
    }

    /// Calls a tool like [`ToolRegistry::dispatch`] and returns the text `{"result": ...}`.
    pub async fn dispatch_json(
        &self,
        name: &str,
        arguments: impl Into<Arguments>,
        context: ToolContext,
    ) -> Result<String> {
        let result = self.dispatch(name, arguments, context).await?;
        result_text(&result)
    }

    /// Calls a tool as `request` describes.
    pub async fn dispatch_request(&self, request: DispatchRequest) -> Result<Payload> {
        let runtime = self.runtime().clone();
        runtime.check_open()?;
        let limits = request.context.limits();
        limits.check()?;
        let entry = match self.lookup(&request.name) {
            Ok(entry) => entry,
            Err(refusal) => {
                return Err(limits
                    .apply(Some(&runtime), self.refuse(request, refusal))
                    .await?);
            }
        };
        let (middleware, host) = self.middleware_for(&entry);
        let call = Invocation {
            name: entry.descriptor.name.clone(),
            arguments: request.arguments.into_payload()?,
            context: request.context,
            parent: request.parent,
            metadata: request.metadata,
            tool_call_id: request.tool_call_id,
            current: request.current,
            registry: Some(RegistryPart {
                descriptor: entry.descriptor.clone(),
                middleware,
                host,
            }),
            work: Arc::new(ToolWork(entry)),
        };
        call.execute(runtime).await
    }

    /// Records a refusal and tells each middleware; returns what the caller gets.
    async fn refuse(&self, request: DispatchRequest, refusal: Error) -> Result<Error> {
        let runtime = self.runtime();
        let options = ScopeOptions::default();
        let (name, parent) = (request.name.clone(), request.parent.clone());
        let scope = Scope::build(
            runtime.clone(),
            name,
            ScopeType::Tool,
            Role::Call,
            parent,
            &options,
        );
        self.mark_refusal(&scope, &request.context, &refusal);
        // The arguments are for the hooks to look at: the caller's own are not changed, and what cannot be read or
        // copied changes nothing about the refusal.
        let given = request.arguments.into_payload().and_then(|given| given.isolate());
        let arguments = given.unwrap_or_else(|_| Payload::from(Value::Null));
        let call = ToolCall::build(request.name, arguments, request.context, None, Some(scope));
        for middleware in self.middleware() {
            catch(|| Ok(middleware.on_refused(&call, &refusal)))?
                .settle()
                .await?;
        }
        Ok(refusal)
    }

    fn mark_refusal(&self, scope: &Scope, context: &ToolContext, refusal: &Error) {
        let snapshot = self.runtime().registrations().snapshot(scope.parent());
        let permitted = refusal.kind() != Some(ErrorKind::ToolNotPermitted);
        if snapshot.is_observed() {
            let mut event = Event::new(
                EventKind::Mark,
                crate::id::new(),
                scope.parent_uuid(),
                scope.name().clone(),
            );
            event.data =
                json!({ "refused": true, "reason": if permitted { "not_found" } else { "not_permitted" } })
                    .into();
            let own = Map::from_iter([("callweir.mark".to_owned(), Value::from("refused"))]);
            self.runtime()
                .dispatcher()
                .emit(snapshot.clone(), Draft::new(event).own(own));
        }
        if !snapshot.call_subscribers.is_empty() {
            let kind = refusal.code().unwrap_or_default();
            let record = ToolCallCompleted::refused(scope, context.caller_id().cloned(), kind);
            self.runtime()
                .dispatcher()
                .emit_call(&snapshot, CallEvent::Completed(record), false);
        }
    }
}

/// Returns the text `{"result": ...}`.
pub(crate) fn result_text(result: &Payload) -> Result<String> {
    let json = result.to_json().map_err(|error| {
        let path = error.field("path").unwrap_or("$").replacen('$', "$.result", 1);
        Error::not_json(path, "the result is not JSON")
    })?;
    Ok(format!("{{\"result\":{json}}}"))
}
