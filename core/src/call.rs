//! The order of a managed call, as code that reads from top to bottom.

mod guard;
pub(crate) mod limit;
mod manual;
mod open;
mod phase;
mod tool;

use std::sync::Arc;

use serde_json::Value;

use crate::chain::around::AroundChain;
use crate::chain::{Entries, Work, transform};
use crate::error::Result;
use crate::event::ScopeType;
use crate::family::Family;
use crate::registrations::Snapshot;
use crate::runtime::Runtime;
use crate::scope::{Role, Scope, ScopeOptions};
use crate::value::Payload;

pub use limit::HostToken;
pub use manual::{EndOptions, ManualCall, ManualOptions};
pub use phase::{conditional_execution, request_intercepts};
pub use tool::{Descriptor, ToolCall, ToolContext};

/// Makes a call's scope current in the host's own task context, while the call's work runs.
pub trait Current: Send + 'static {
    /// Makes `scope` current.
    fn enter(&mut self, scope: &Scope);
    /// Makes the scope from before current again; not called if the call is dropped.
    fn leave(&mut self);
}

/// A managed tool call that is about to be made.
pub struct Invocation {
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments, as the caller gave them.
    pub arguments: Payload,
    /// Who calls and under which limits.
    pub context: ToolContext,
    /// The work.
    pub work: Arc<dyn Work>,
    /// The scope around the call.
    pub parent: Option<Scope>,
    /// Free metadata for start and end event.
    pub metadata: Option<Value>,
    /// The id that the model gave the call.
    pub tool_call_id: Option<Arc<str>>,
    /// How the host keeps its current scope; the Rust door's own is kept in any case.
    pub current: Option<Box<dyn Current>>,
    pub(crate) registry: Option<RegistryPart>,
}

/// What a registry adds to a call.
pub(crate) struct RegistryPart {
    pub(crate) descriptor: Arc<Descriptor>,
    pub(crate) middleware: Entries,
    /// Whether any of the middleware is a host callback.
    pub(crate) host: bool,
}

impl Invocation {
    /// Describes a call by its name, arguments and work, inside the current scope of the Rust door.
    pub fn new(name: impl Into<Arc<str>>, arguments: impl Into<Payload>, work: Arc<dyn Work>) -> Self {
        Self {
            name: name.into(),
            arguments: arguments.into(),
            context: ToolContext::default(),
            work,
            parent: Scope::current(),
            metadata: None,
            tool_call_id: None,
            current: None,
            registry: None,
        }
    }

    /// Makes the call.
    ///
    /// The returned future runs wherever it is polled; dropping it cancels the call.
    pub async fn execute(mut self, runtime: Runtime) -> Result<Payload> {
        runtime.check_open()?;
        let limits = self.context.limits();
        limits.check()?;
        let snapshot = runtime.registrations().snapshot(self.parent.as_ref());
        let scope = self.scope(&runtime);
        let call = self.enter(&snapshot, &scope)?;

        let asked = ask(&runtime, &snapshot, &scope, self.registry.is_some(), call);
        let asked = limits.clone().apply(Some(&runtime), asked).await;
        let call = match asked.and_then(|call| limits.check().map(|()| call)) {
            Ok(call) => call,
            Err(refusal) => {
                scope.discard();
                return Err(refusal);
            }
        };

        let open = open::OpenCall::start(&self, &snapshot, &scope, &call);
        let intercepts = Some(snapshot.chain(Family::ToolExecution)).filter(|chain| !chain.is_empty());
        let middleware = self.registry.as_ref().map(|part| part.middleware.clone());
        let chain = AroundChain::new(intercepts.cloned(), middleware, self.work.clone());
        let mut current = CurrentGuard::enter(self.current.take(), &scope);
        let result = limits
            .apply(Some(&runtime), scope.within(run(&chain, call)))
            .await;
        current.leave();
        open.end(&chain, &result);
        result
    }

    fn scope(&self, runtime: &Runtime) -> Scope {
        let options = ScopeOptions::default();
        Scope::build(
            runtime.clone(),
            self.name.clone(),
            ScopeType::Tool,
            Role::Call,
            self.parent.clone(),
            &options,
        )
    }

    /// Returns the call as the first stage sees it, on a copy if callbacks of the host may change it.
    fn enter(&self, snapshot: &Snapshot, scope: &Scope) -> Result<ToolCall> {
        let host = snapshot.host_inline || self.registry.as_ref().is_some_and(|part| part.host);
        let arguments = if host {
            self.arguments.isolate()?
        } else {
            self.arguments.clone()
        };
        let descriptor = self.registry.as_ref().map(|part| part.descriptor.clone());
        Ok(ToolCall::build(
            self.name.clone(),
            arguments,
            self.context.clone(),
            descriptor,
            Some(scope.clone()),
        ))
    }
}

/// Asks the guardrails, then lets the request intercepts change the arguments.
async fn ask(
    runtime: &Runtime,
    snapshot: &Arc<Snapshot>,
    scope: &Scope,
    typed: bool,
    call: ToolCall,
) -> Result<ToolCall> {
    let gates = snapshot.chain(Family::ToolConditionalExecution);
    if !gates.is_empty() {
        let guards = guard::Guards {
            runtime,
            snapshot,
            scope,
            typed,
        };
        guards.pass(gates, &call).await?;
    }
    let requests = snapshot.chain(Family::ToolRequest);
    if requests.is_empty() {
        return Ok(call);
    }
    let may_go_on = || call.context().check();
    let arguments = transform::fold(requests, call.name(), call.arguments().clone(), may_go_on).await?;
    Ok(call.with_arguments(arguments))
}

async fn run(chain: &Arc<AroundChain>, call: ToolCall) -> Result<Payload> {
    chain.start(0, call).await
}

/// Leaves the host's current scope once, and only if the call was not dropped.
struct CurrentGuard(Option<Box<dyn Current>>);

impl CurrentGuard {
    fn enter(mut current: Option<Box<dyn Current>>, scope: &Scope) -> Self {
        if let Some(current) = &mut current {
            current.enter(scope);
        }
        Self(current)
    }

    fn leave(&mut self) {
        if let Some(mut current) = self.0.take() {
            current.leave();
        }
    }
}
