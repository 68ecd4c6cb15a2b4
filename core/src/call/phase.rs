//! Standalone helpers: one phase of a call without the rest.

use std::sync::Arc;

use super::guard::Guards;
use super::{ToolCall, ToolContext};
use crate::chain::transform;
use crate::error::{Error, Result};
use crate::event::ScopeType;
use crate::family::Family;
use crate::runtime::Runtime;
use crate::scope::{Role, Scope, ScopeOptions};
use crate::value::Payload;

/// Runs the guardrails of a tool call, with their scope pairs and nothing else.
///
/// The first rejection is [`CallRejected`](crate::ErrorKind::CallRejected), as in a managed call.
pub async fn conditional_execution(
    runtime: Runtime,
    parent: Option<Scope>,
    name: Arc<str>,
    arguments: Payload,
) -> Result<()> {
    runtime.check_open()?;
    let snapshot = runtime.registrations().snapshot(parent.as_ref());
    let options = ScopeOptions::default();
    let scope = Scope::build(
        runtime.clone(),
        name.clone(),
        ScopeType::Tool,
        Role::Call,
        parent,
        &options,
    );
    let arguments = if snapshot.host_inline {
        arguments.isolate()?
    } else {
        arguments
    };
    let call = ToolCall::build(name, arguments, ToolContext::default(), None, Some(scope.clone()));
    let guards = Guards {
        runtime: &runtime,
        snapshot: &snapshot,
        scope: &scope,
        typed: false,
    };
    let verdict = guards
        .judge(snapshot.chain(Family::ToolConditionalExecution), &call)
        .await;
    scope.discard();
    match verdict? {
        None => Ok(()),
        Some((reason, by)) => Err(Error::rejected(call.name(), &reason, &by)),
    }
}

/// Runs the request intercepts of a tool call and returns the arguments; emits nothing.
pub async fn request_intercepts(
    runtime: Runtime,
    parent: Option<Scope>,
    name: Arc<str>,
    arguments: Payload,
) -> Result<Payload> {
    runtime.check_open()?;
    let snapshot = runtime.registrations().snapshot(parent.as_ref());
    let arguments = if snapshot.host_inline {
        arguments.isolate()?
    } else {
        arguments
    };
    transform::fold(snapshot.chain(Family::ToolRequest), &name, arguments, || Ok(())).await
}
