//! Host values: copied once at entry where callbacks of the host may change them, else passed by reference.
#![allow(
    clippy::unwrap_used,
    clippy::items_after_statements,
    reason = "a test may fail"
)]

mod common;

use std::any::Any;
use std::sync::Arc;

use callweir::foreign::{AnyMiddleware, Gate, HostValue};
use callweir::{
    Error, Family, Handler, Invocation, Next, Payload, Result, Step, ToolCall, ToolContext, ToolRegistry,
    ToolSpec, Verdict, block_on, work,
};
use common::*;
use serde_json::json;

/// A list of the host, which counts its copies.
struct HostList {
    copies: Count,
    isolated: bool,
}

impl HostValue for HostList {
    fn to_json(&self) -> Result<callweir::Json> {
        Ok(json!({}).into())
    }
    fn isolate(&self) -> Result<Payload> {
        self.copies.up();
        Ok(Payload::Host(Arc::new(Self {
            copies: self.copies.clone(),
            isolated: true,
        })))
    }
    fn keys(&self, _: &mut dyn FnMut(&str)) -> bool {
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn list(copies: &Count) -> Payload {
    Payload::Host(Arc::new(HostList {
        copies: copies.clone(),
        isolated: false,
    }))
}

fn is_copy(payload: &Payload) -> bool {
    matches!(payload, Payload::Host(value) if value.as_any().downcast_ref::<HostList>().unwrap().isolated)
}

struct HostGate;

impl Gate for HostGate {
    fn check(&self, call: &ToolCall) -> Step<Verdict> {
        assert!(is_copy(call.arguments()));
        Step::Ready(Ok(Verdict::Allow))
    }
    fn is_host(&self) -> bool {
        true
    }
}

struct HostMiddleware(Log);

impl AnyMiddleware for HostMiddleware {
    fn name(&self) -> Arc<str> {
        "host".into()
    }
    fn run(&self, call: ToolCall, next: Next) -> Step<Payload> {
        next.run(call).into_step()
    }
    fn on_refused(&self, call: &ToolCall, _: &Error) -> Step<()> {
        self.0.push(is_copy(call.arguments()));
        Step::Ready(Ok(()))
    }
    fn is_host(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn c_59_pay_4_one_copy_where_host_callbacks_run() {
    let runtime = runtime();
    let _log = record(&runtime);
    let copies = Count::default();
    let invocation = || {
        Invocation::new(
            "t",
            list(&copies),
            work(|call: ToolCall| async move { Ok(call.into_arguments()) }),
        )
    };
    assert!(!is_copy(&call(&runtime, invocation()).unwrap()));
    add(&runtime, Family::ToolExecution, "rust", pass());
    assert!(!is_copy(&call(&runtime, invocation()).unwrap()));
    assert_eq!(copies.get(), 0);
    for name in ["a", "b", "c"] {
        add(
            &runtime,
            Family::ToolConditionalExecution,
            name,
            Handler::Gate(Arc::new(HostGate)),
        );
    }
    assert!(is_copy(&call(&runtime, invocation()).unwrap()));
    assert_eq!(copies.get(), 1);
}

#[test]
fn c_59_pay_4_a_registry_middleware_alone_is_enough() {
    let runtime = runtime();
    let tools = ToolRegistry::with_runtime(runtime.clone());
    let tool = ToolSpec::new("t", "").json(json!({"type": "object"}), |call: ToolCall| async move {
        Ok(call.into_arguments())
    });
    tools.register(tool).unwrap();
    let outer = ToolRegistry::with_runtime(runtime);
    let seen = Log::default();
    tools.use_any(Arc::new(HostMiddleware(seen.clone())));
    outer.register(tools.clone()).unwrap();
    for registry in [&tools, &outer, &tools.subset(["t"]).unwrap()] {
        let copies = Count::default();
        let result = block_on(registry.dispatch("t", list(&copies), ToolContext::new())).unwrap();
        assert!(is_copy(&result));
        assert_eq!(copies.get(), 1);
    }
    // A hook that is told of a refusal cannot reach the caller's own arguments either.
    let copies = Count::default();
    block_on(tools.dispatch("nope", list(&copies), ToolContext::new())).unwrap_err();
    assert_eq!((seen.all(), copies.get()), (vec![json!(true)], 1));
}
