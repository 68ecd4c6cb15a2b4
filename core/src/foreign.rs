//! What language doors build on: the traits that their callbacks implement, and what the host lends the core.
//!
//! Programs written in Rust do not need this module.

pub use crate::call::{Current, HostToken};
pub use crate::chain::transform::{Context, Subject, Transform};
pub use crate::chain::{Around, BoxFuture, Gate, Home, Observe, Transformed, Work};
pub use crate::dispatch::{DispatchHost, HostLoop, ObserveCalls, Origin, Runnable};
pub use crate::registry::AnyMiddleware;
pub use crate::value::{HostValue, path_index, path_key};

use crate::error::Result;
use crate::registry::DispatchRequest;
use crate::registry::ToolRegistry;
use crate::runtime::Runtime;
use crate::scope::Scope;

/// Calls a tool as `request` describes and returns the text `{"result": ...}`.
pub async fn dispatch_text(registry: ToolRegistry, request: DispatchRequest) -> Result<String> {
    crate::registry::result_text(&registry.dispatch_request(request).await?)
}

/// Returns the text `{"result": ...}` of a result.
pub fn result_text(result: &crate::value::Payload) -> Result<String> {
    crate::registry::result_text(result)
}

/// Returns how many callbacks of the dispatcher lie behind this moment on this thread.
pub fn echo_depth() -> u32 {
    crate::dispatch::echo_depth()
}

/// Returns the id of a call's scope, if anybody can have seen it.
pub fn seen_id(scope: &Scope) -> Option<[u8; 16]> {
    scope.drawn_uuid().map(uuid::Uuid::into_bytes)
}

/// Returns a scope that stands for a call that has ended, for what is still started in its context.
///
/// Without an id nobody has seen the call, and the scope draws one.
pub fn ended_call(runtime: &Runtime, id: Option<[u8; 16]>, name: String, parent: Option<Scope>) -> Scope {
    Scope::ended(runtime, id.map(uuid::Uuid::from_bytes), name.into(), parent)
}
