//! Behaviours as the callbacks that the Rust door takes.

use std::sync::Arc;

use callweir::{
    Error, Family, FunctionTool, Handler, Middleware, Next, Payload, Result, Shape, ToolCall, Verdict,
    foreign, observe_async, work,
};
use serde_json::Value;

use super::behaviour::{End, Frame};
use super::format::{MiddlewareSpec, Run, ToolSpec};
use super::world::{Broken, World};

/// Makes the callback of an entry.
pub(super) fn handler(world: &Arc<World>, family: Family, name: &str, run: &Run) -> Handler {
    let (world, name, run) = (world.clone(), name.to_owned(), run.clone());
    match family.shape() {
        Shape::Gate => Handler::gate_async(move |call| {
            let (frame, name) = (Frame::of_call(&world, &name, call, None), name.clone());
            let running = frame.run(run.clone());
            async move { verdict(running.await?, family, &name) }
        }),
        Shape::Transform => Handler::transform_async(move |payload| {
            let frame = Frame {
                queued: family.is_sanitizer(),
                ..Frame::new(&world, &name, payload)
            };
            let running = frame.run(run.clone());
            async move { transformed(running.await?) }
        }),
        Shape::Around | Shape::Stream => {
            Handler::around(move |call, next| around(&world, &name, &run, call, Some(next)))
        }
    }
}

/// A Rust guardrail cannot return a wrong type, so the driver fails as the other doors do then.
fn verdict(end: End, family: Family, name: &str) -> Result<Verdict> {
    match end {
        End::Value(_) | End::Nothing => Ok(Verdict::Allow),
        End::Reject(reason) => Ok(Verdict::reject(reason)),
        End::Wrong => Err(Error::invalid_return(
            family.wire_name(),
            name,
            "expected a verdict",
        )),
    }
}

fn transformed(end: End) -> Result<Option<Payload>> {
    match end {
        End::Value(value) => Ok(Some(value)),
        End::Nothing => Ok(None),
        End::Wrong => Ok(Some(Payload::from(Value::from("wrong")))),
        End::Reject(_) => Err(Broken("only a guardrail rejects".to_owned()).into()),
    }
}

fn around(
    world: &Arc<World>,
    name: &str,
    run: &Run,
    call: ToolCall,
    next: Option<Next>,
) -> foreign::BoxFuture<Result<Payload>> {
    let running = Frame::of_call(world, name, call, next).run(run.clone());
    Box::pin(async move {
        match running.await? {
            End::Value(value) => Ok(value),
            End::Nothing => Ok(Value::Null.into()),
            End::Reject(_) | End::Wrong => Err(Broken("not a guardrail or sanitizer".to_owned()).into()),
        }
    })
}

/// Makes the work of a call that is given as a function.
pub(super) fn function(world: &Arc<World>, run: &Run) -> Arc<dyn foreign::Work> {
    let (world, run) = (world.clone(), run.clone());
    work(move |call| {
        let name = call.name().clone();
        around(&world, &name, &run, call, None)
    })
}

/// Makes the `next` of a middleware that is tested alone.
pub(super) fn next_alone(world: &Arc<World>, run: &Run) -> Next {
    let (world, run) = (world.clone(), run.clone());
    Next::from_fn(move |call| around(&world, "next", &run, call, None))
}

/// Makes a tool.
pub(super) fn tool(world: &Arc<World>, spec: &ToolSpec) -> FunctionTool {
    let mut made = callweir::ToolSpec::new(&spec.name, &spec.description);
    if spec.read_only {
        made = made.read_only();
    }
    if spec.idempotent {
        made = made.idempotent();
    }
    let (world, name, run) = (world.clone(), spec.name.clone(), spec.run.clone());
    made.json(spec.parameters.clone(), move |call| {
        around(&world, &name, &run, call, None)
    })
}

/// Makes a subscriber.
pub(super) fn subscriber(world: &Arc<World>, name: &str, run: &Run) -> Arc<dyn foreign::Observe> {
    let (world, name, run) = (world.clone(), name.to_owned(), run.clone());
    observe_async(move |event| {
        let value = event.to_json().into();
        let frame = Frame {
            queued: true,
            event: Some(event),
            ..Frame::new(&world, &name, value)
        };
        let running = frame.run(run.clone());
        async move { running.await.map(drop) }
    })
}

/// A registry's middleware with a behaviour for each of its two callbacks.
pub(super) struct Scripted {
    pub(super) world: Arc<World>,
    pub(super) spec: MiddlewareSpec,
}

impl Middleware for Scripted {
    fn run(self: Arc<Self>, call: ToolCall, next: Next) -> impl Future<Output = Result<Payload>> + Send {
        around(&self.world, &self.spec.name, &self.spec.run, call, Some(next))
    }

    async fn on_refused(self: Arc<Self>, call: ToolCall, refusal: Error) -> Result<()> {
        let name = format!("{}.on_refused", self.spec.name);
        let mut frame = Frame::of_call(&self.world, &name, call, None);
        frame.value = super::world::error_form(&refusal).into();
        frame.run(self.spec.on_refused.clone()).await.map(drop)
    }

    fn name(&self) -> String {
        self.spec.name.clone()
    }
}
