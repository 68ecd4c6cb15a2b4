//! Times the crate `nemo-relay` on the rows of the table of figures, in the lines that `cargo bench-doors` reads.
//!
//! Options: `--rounds N`, `--budget SECONDS` (for each figure and round), `--only ROW`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use nemo_relay::api::registry::*;
use nemo_relay::api::runtime::ToolExecutionNextFn;
use nemo_relay::api::subscriber::{deregister_subscriber, flush_subscribers, register_subscriber};
use nemo_relay::api::tool::*;
use serde_json::{Value, json};

type Calls = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One figure: what is registered while it is taken, and what is timed.
struct Figure {
    row: &'static str,
    case: &'static str,
    entries: Option<usize>,
    kind: Kind,
    payload: Value,
    /// How many calls one timed step makes at once.
    at_once: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bare,
    Subscriber,
    Request,
    Execution,
    Guardrail,
    Sanitizers,
}

impl Kind {
    fn observed(self) -> bool {
        matches!(self, Self::Subscriber | Self::Sanitizers)
    }

    fn install(self, count: usize) {
        if self.observed() {
            register_subscriber("s", Arc::new(|_| {})).expect("a free name");
        }
        for index in 0..count {
            let name = format!("entry{index:02}");
            let priority = i32::try_from(index).expect("a small number");
            self.add(&name, priority);
        }
    }

    fn add(self, name: &str, priority: i32) {
        let added = match self {
            Self::Bare | Self::Subscriber => Ok(()),
            Self::Request => register_tool_request_intercept(
                name,
                priority,
                false,
                Arc::new(|_, arguments| Box::pin(async move { Ok(arguments) })),
            ),
            Self::Execution => register_tool_execution_intercept(
                name,
                priority,
                Arc::new(|call, next| Box::pin(async move { Ok(next(call.into_args()).await?.into()) })),
            ),
            Self::Guardrail => register_tool_conditional_execution_guardrail(
                name,
                priority,
                Arc::new(|_, _| Box::pin(async move { Ok(None) })),
            ),
            Self::Sanitizers => register_tool_sanitize_request_guardrail(
                name,
                priority,
                Arc::new(|_, copy| Box::pin(async move { Ok(copy) })),
            )
            .and_then(|()| {
                register_tool_sanitize_response_guardrail(
                    name,
                    priority,
                    Arc::new(|_, copy| Box::pin(async move { Ok(copy) })),
                )
            }),
        };
        added.expect("a free name");
    }

    fn remove(self, count: usize) {
        if self.observed() {
            deregister_subscriber("s").expect("registered");
        }
        for index in 0..count {
            let name = format!("entry{index:02}");
            let removed = match self {
                Self::Bare | Self::Subscriber => Ok(true),
                Self::Request => deregister_tool_request_intercept(&name),
                Self::Execution => deregister_tool_execution_intercept(&name),
                Self::Guardrail => deregister_tool_conditional_execution_guardrail(&name),
                Self::Sanitizers => deregister_tool_sanitize_request_guardrail(&name)
                    .and_then(|_| deregister_tool_sanitize_response_guardrail(&name)),
            };
            removed.expect("registered");
        }
    }
}

fn small() -> Value {
    json!({
        "query": "x".repeat(100),
        "n": [1, 2, 3, 4, 5],
        "opts": {"a": 1.5, "b": true, "c": null},
        "id": "call_0123456789abcdef",
    })
}

fn big() -> Value {
    let message =
        |index| json!({"role": "user", "content": "lorem ipsum dolor ".repeat(10), "i": index, "ok": true});
    json!({"messages": (0..85).map(message).collect::<Vec<_>>()})
}

fn figures() -> Vec<Figure> {
    let figure = |row, case, entries, kind| Figure {
        row,
        case,
        entries,
        kind,
        payload: small(),
        at_once: 1,
    };
    let mut all = vec![
        figure("a", "bare call", None, Kind::Bare),
        figure("b", "one subscriber", None, Kind::Subscriber),
    ];
    for count in [1, 4, 16] {
        all.push(figure("c", "request intercepts", Some(count), Kind::Request));
        all.push(figure("d", "execution intercepts", Some(count), Kind::Execution));
        all.push(figure("e", "guardrails", Some(count), Kind::Guardrail));
    }
    all.push(figure(
        "f",
        "sanitizers and a subscriber",
        Some(16),
        Kind::Sanitizers,
    ));
    let mut large = figure("d", "execution intercepts, 20 kB", Some(16), Kind::Execution);
    large.payload = big();
    let mut concurrent = figure(
        "i",
        "1000 concurrent, execution intercepts",
        Some(4),
        Kind::Execution,
    );
    concurrent.at_once = 1000;
    all.extend([large, concurrent]);
    all
}

fn calls(figure: &Figure) -> impl Fn() -> Calls + Send + Sync + use<> {
    let payload = Arc::new(figure.payload.clone());
    let function: ToolExecutionNextFn =
        Arc::new(|arguments| Box::pin(async move { Ok(ToolExecutionResult::new(arguments)) }));
    let at_once = figure.at_once;
    let one = move || {
        let (payload, function) = (payload.clone(), function.clone());
        async move {
            let parameters = ToolCallExecuteParams::builder()
                .name("t")
                .args((*payload).clone())
                .func(function)
                .build();
            std::hint::black_box(tool_call_execute(parameters).await.expect("a result"));
        }
    };
    move || match at_once {
        1 => Box::pin(one()),
        _ => {
            let all: Vec<_> = (0..at_once).map(|_| one()).collect();
            Box::pin(async move { drop(futures::future::join_all(all).await) })
        }
    }
}

async fn flush() {
    let flushed = tokio::task::spawn_blocking(flush_subscribers).await;
    flushed.expect("the flush ran").expect("flushed");
}

/// Times one round; returns microseconds for each call, without and with the closing flush.
async fn round(call: impl Fn() -> Calls, observed: bool, at_once: usize, budget: f64) -> (f64, f64) {
    for _ in 0..3 {
        call().await;
    }
    let (start, mut tried) = (Instant::now(), 0_u32);
    while tried < 3 || start.elapsed().as_secs_f64() < budget / 8.0 {
        call().await;
        tried += 1;
    }
    if observed {
        flush().await;
    }
    let steps = (budget / (start.elapsed().as_secs_f64() / f64::from(tried))).max(1.0) as usize;
    let start = Instant::now();
    for _ in 0..steps {
        call().await;
    }
    let wall = start.elapsed();
    if observed {
        flush().await;
    }
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / (steps * at_once) as f64;
    (each(wall), each(start.elapsed()))
}

fn print(figure: &Figure, suffix: &str, values: &mut [f64]) {
    values.sort_by(f64::total_cmp);
    let line = json!({
        "door": "rust", "side": "peer", "row": figure.row, "case": format!("{}{suffix}", figure.case),
        "entries": figure.entries, "unit": "us", "value": values[values.len() / 2], "min": values[0],
    });
    println!("{line}");
}

fn option(name: &str, default: &str) -> String {
    let given: Vec<String> = std::env::args().collect();
    let place = given.iter().position(|word| word == name);
    place
        .and_then(|at| given.get(at + 1))
        .map_or(default, String::as_str)
        .to_owned()
}

fn main() {
    let rounds: usize = option("--rounds", "7").parse().expect("a number");
    let budget: f64 = option("--budget", "0.03").parse().expect("seconds");
    let only = option("--only", "");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let wanted: Vec<Figure> = figures()
        .into_iter()
        .filter(|figure| only.is_empty() || figure.row == only)
        .collect();
    let mut taken: Vec<(Vec<f64>, Vec<f64>)> = wanted.iter().map(|_| Default::default()).collect();
    for _ in 0..rounds {
        for (figure, (walls, flushed)) in wanted.iter().zip(&mut taken) {
            let count = figure.entries.unwrap_or(0);
            figure.kind.install(count);
            let timed = round(calls(figure), figure.kind.observed(), figure.at_once, budget);
            // On a worker of the runtime, where a program's calls would be.
            let (wall, whole) = runtime.block_on(runtime.spawn(timed)).expect("timed");
            figure.kind.remove(count);
            walls.push(wall);
            flushed.push(whole);
        }
    }
    for (figure, (walls, flushed)) in wanted.iter().zip(&mut taken) {
        print(figure, "", walls);
        if figure.kind.observed() {
            print(figure, ", with flush", flushed);
        }
    }
}
