//! Callweir decides which tool and model calls may run, changes them, wraps them, and records them.
//!
//! A *managed call* goes through chains: guardrails allow or reject it, request intercepts change its arguments,
//! execution intercepts and a registry's middleware wrap the work. Observers see sanitized copies, delivered by a
//! dispatcher that no call waits for.
//!
//! ```
//! use callweir::{Error, Next, Result, ToolCall, ToolContext, ToolRegistry, ToolSpec, middleware_fn};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Lookup { sku: String }
//!
//! # fn main() -> Result<()> {
//! let tools = ToolRegistry::new();
//! tools
//!     .register(ToolSpec::new("lookup", "Looks up the stock of a SKU.").read_only().function(
//!         |args: Lookup, _context| async move { Ok(format!("7 of {}", args.sku)) },
//!     ))?
//!     .use_middleware(middleware_fn("callers", |call: ToolCall, next: Next| async move {
//!         match call.context().caller_id().map(|id| &**id) {
//!             Some("support") => next.run(call).await,
//!             _ => Err(Error::denied(&**call.name(), "unknown caller")),
//!         }
//!     }));
//! let support = ToolContext::new().with_caller_id("support");
//! let text = callweir::block_on(tools.dispatch_json("lookup", r#"{"sku":"AB-12"}"#, support))?;
//! assert_eq!(text, r#"{"result":"7 of AB-12"}"#);
//! let denied = callweir::block_on(tools.dispatch("lookup", r#"{"sku":"AB-12"}"#, ToolContext::new()));
//! assert_eq!(denied.unwrap_err().for_model(), r#"{"error":"denied: unknown caller"}"#);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod block;
mod call;
mod chain;
mod closures;
mod dispatch;
mod error;
mod event;
pub mod export;
mod family;
pub mod foreign;
mod id;
mod registrations;
mod registry;
mod runtime;
mod scope;
mod timer;
mod value;

pub use block::{block_on, block_until};
pub use call::{
    EndOptions, Invocation, ManualCall, ManualOptions, ToolCall, ToolContext, conditional_execution,
    request_intercepts,
};
pub use chain::{Handler, Next, NextFuture, Step, Verdict};
pub use closures::{observe, observe_async, observe_calls, work};
pub use dispatch::{DispatchCounts, Limits};
pub use error::{Error, ErrorKind, HostFailure, Result};
pub use event::{
    ATOF_VERSION, CallEvent, Event, EventKind, Outcome, ScopeType, ToolCallCompleted, ToolCallStarted,
};
pub use family::{Family, Module, Shape, Subject};
pub use registrations::Registration;
pub use registry::{
    Arguments, Descriptor, DispatchRequest, FunctionTool, Middleware, Provider, Registrable, Tool,
    ToolRegistry, ToolSpec, manifest, middleware_fn,
};
pub use runtime::{Mark, Options, RegisterOptions, Runtime};
pub use scope::{CloseOptions, Propagation, Scope, ScopeGuard, ScopeOptions};
pub use timer::{Sleep, Timer};
pub use tokio_util::sync::CancellationToken;
pub use value::{Json, MAX_DEPTH, Payload, parse_json};
