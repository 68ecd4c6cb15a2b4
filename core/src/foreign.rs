//! What language doors build on: the traits that their callbacks implement, and what the host lends the core.
//!
//! Programs written in Rust do not need this module.

pub use crate::call::Current;
pub use crate::chain::transform::{Context, Subject, Transform};
pub use crate::chain::{Around, BoxFuture, Gate, Home, Observe, Transformed, Work};
pub use crate::dispatch::{DispatchHost, HostLoop, ObserveCalls, Origin, Runnable};
pub use crate::registry::AnyMiddleware;
pub use crate::value::{HostValue, path_index, path_key};

use crate::error::Result;
use crate::registry::DispatchRequest;
use crate::registry::ToolRegistry;

/// Calls a tool as `request` describes and returns the text `{"result": ...}`.
pub async fn dispatch_text(registry: ToolRegistry, request: DispatchRequest) -> Result<String> {
    crate::registry::result_text(&registry.dispatch_request(request).await?)
}
