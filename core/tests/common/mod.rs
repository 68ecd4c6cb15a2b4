//! What the tests of the core share.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each test file uses a part"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use callweir::{
    Error, Family, Handler, Invocation, Limits, Options, Payload, RegisterOptions, Result, Runtime, Scope,
    ToolCall, ToolRegistry, ToolSpec, block_on, observe, work,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A list that callbacks write to.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Value>>>);

impl Log {
    pub fn push(&self, value: impl Into<Value>) {
        self.0.lock().push(value.into());
    }
    pub fn all(&self) -> Vec<Value> {
        self.0.lock().clone()
    }
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
    pub fn texts(&self) -> Vec<String> {
        self.all()
            .iter()
            .map(|value| value.as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

/// A counter that callbacks share.
#[derive(Clone, Default)]
pub struct Count(Arc<AtomicUsize>);

impl Count {
    pub fn up(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub fn runtime() -> Runtime {
    Runtime::new(Options::default())
}

pub fn runtime_with(limits: Limits) -> Runtime {
    Runtime::new(Options {
        limits,
        ..Options::default()
    })
}

/// Subscribes a recorder and returns what it records.
pub fn record(runtime: &Runtime) -> Log {
    record_as(runtime, "recorder", None)
}

pub fn record_as(runtime: &Runtime, name: &str, scope: Option<&Scope>) -> Log {
    let log = Log::default();
    let sink = log.clone();
    runtime
        .subscribe(name, observe(move |event| sink.push(event.to_json())), scope)
        .unwrap();
    log
}

/// Delivers everything and returns what `log` holds.
pub fn flushed(runtime: &Runtime, log: &Log) -> Vec<Value> {
    assert_eq!(runtime.flush_blocking(Some(Duration::from_secs(10))).unwrap(), 0);
    log.all()
}

pub async fn flushed_async(runtime: &Runtime, log: &Log) -> Vec<Value> {
    assert_eq!(runtime.flush(Some(Duration::from_secs(10))).await.unwrap(), 0);
    log.all()
}

/// A call of `name` whose work returns its arguments and counts.
pub fn echo(name: &str, arguments: Value, count: &Count) -> Invocation {
    let count = count.clone();
    Invocation::new(
        name,
        arguments,
        work(move |call: ToolCall| {
            count.up();
            async move { Ok(call.into_arguments()) }
        }),
    )
}

pub fn call(runtime: &Runtime, invocation: Invocation) -> Result<Payload> {
    block_on(invocation.execute(runtime.clone()))
}

/// Makes one call named `t` and returns its result.
pub fn simple(runtime: &Runtime) -> Result<Value> {
    call(runtime, echo("t", json!({}), &Count::default()))?.into_json()
}

pub fn add(runtime: &Runtime, family: Family, name: &str, handler: Handler) {
    runtime
        .register(family, name, handler, &RegisterOptions::default())
        .unwrap();
}

pub fn at(priority: i32) -> RegisterOptions {
    RegisterOptions {
        priority,
        ..RegisterOptions::default()
    }
}

pub fn in_scope(scope: &Scope) -> RegisterOptions {
    RegisterOptions {
        scope: Some(scope.clone()),
        ..RegisterOptions::default()
    }
}

/// An around entry that passes on.
pub fn pass() -> Handler {
    Handler::around(|call, next| async move { next.run(call).await })
}

/// A registry on `runtime` with one echo tool for each name.
pub fn registry(runtime: &Runtime, names: &[&str], count: &Count) -> ToolRegistry {
    let registry = ToolRegistry::with_runtime(runtime.clone());
    for name in names {
        registry.register(echo_tool(name, count)).unwrap();
    }
    registry
}

pub fn echo_tool(name: &str, count: &Count) -> callweir::FunctionTool {
    let count = count.clone();
    ToolSpec::new(name, "Echoes.").json(json!({"type": "object"}), move |call| {
        count.up();
        async move { Ok(call.into_arguments()) }
    })
}

#[derive(Debug)]
pub struct Quota(pub u32);

impl std::fmt::Display for Quota {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "quota card 5500-{}", self.0)
    }
}

impl std::error::Error for Quota {}

pub fn quota(code: u32) -> Error {
    Quota(code).into()
}

/// The events of one category, or marks.
pub fn of_kind<'a>(events: &'a [Value], category: &str, phase: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["category"] == category && event["scope_category"] == phase)
        .collect()
}

pub fn marks(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["kind"] == "mark").collect()
}

pub fn outcome(event: &Value) -> &str {
    event["metadata"]["callweir.outcome"].as_str().unwrap_or("none")
}

/// Asserts that every start has one end with its id, later in the list, and returns the number of pairs.
pub fn pairs(events: &[Value]) -> usize {
    let mut open = std::collections::HashSet::new();
    let mut closed = std::collections::HashSet::new();
    for event in events {
        let id = event["uuid"].as_str().unwrap();
        match event["scope_category"].as_str() {
            Some("start") => assert!(open.insert(id), "started twice: {event}"),
            Some("end") => {
                assert!(open.contains(id), "ended without a start: {event}");
                assert!(closed.insert(id), "ended twice: {event}");
            }
            _ => {}
        }
    }
    assert_eq!(open.len(), closed.len(), "{events:#?}");
    open.len()
}
