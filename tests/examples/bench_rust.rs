//! Times the Rust door beside plain boxed closures.
//!
//! Prints one JSON object a line; `cargo bench-doors` makes the table. All timed figures are taken round robin, so
//! that a slow spell of the machine falls on every side alike. Memory is measured in children of this program.
//!
//! Options: `--quick`, `--only ROW` (a to f, i, growth, memory, scaling), `--rounds N`, `--budget SECONDS`.

use std::hint::black_box;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use callweir::foreign::Work;
use callweir::{
    Family, Handler, Invocation, Options, Payload, RegisterOptions, Result, Runtime, Scope, ScopeOptions,
    ScopeType, ToolContext, ToolRegistry, ToolSpec, Verdict, block_on, observe, work,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Step = Box<dyn Fn() -> Boxed<Result<()>> + Send + Sync>;

const SIZES: [usize; 3] = [1, 100, 10_000];
const CALLS_AT_ONCE: usize = 1000;
const CALLS_IN_STEP: usize = 16;

// ---------------------------------------------------------------------------------------------- timed figures

/// One cell of the table.
struct Figure {
    side: &'static str,
    row: &'static str,
    case: &'static str,
    entries: Option<usize>,
    step: Step,
    /// How many calls one step makes.
    calls: usize,
    /// The runtime to flush after the calls.
    flush: Option<Runtime>,
    walls: Vec<f64>,
    flushed: Vec<f64>,
}

impl Figure {
    fn new(side: &'static str, row: &'static str, case: &'static str, step: Step) -> Self {
        Self {
            side,
            row,
            case,
            entries: None,
            step,
            calls: CALLS_IN_STEP,
            flush: None,
            walls: Vec::new(),
            flushed: Vec::new(),
        }
    }

    fn entries(mut self, entries: usize) -> Self {
        self.entries = Some(entries);
        self
    }

    fn calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    fn flush(mut self, runtime: &Runtime) -> Self {
        self.flush = Some(runtime.clone());
        self
    }

    /// Takes one round: as many steps as the budget allows, then the flush.
    async fn round(&mut self, budget: f64) -> Result<()> {
        let (start, mut tried) = (Instant::now(), 0_u32);
        while tried < 3 || start.elapsed().as_secs_f64() < budget / 8.0 {
            (self.step)().await?;
            tried += 1;
        }
        let each = start.elapsed().as_secs_f64() / f64::from(tried);
        if let Some(runtime) = &self.flush {
            runtime.flush(None).await?;
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive count"
        )]
        let steps = (budget / each).max(1.0) as usize;
        let start = Instant::now();
        for _ in 0..steps {
            (self.step)().await?;
        }
        self.walls.push(microseconds(start.elapsed(), steps * self.calls));
        if let Some(runtime) = &self.flush {
            runtime.flush(None).await?;
            self.flushed
                .push(microseconds(start.elapsed(), steps * self.calls));
        }
        Ok(())
    }

    fn report(&self) {
        for (suffix, values) in [("", &self.walls), (", with flush", &self.flushed)] {
            if let Some((median, low)) = middle(values) {
                let case = format!("{}{suffix}", self.case);
                let more = json!({ "entries": self.entries, "min": low });
                emit(self.side, self.row, &case, "us", median, more);
            }
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn microseconds(time: Duration, calls: usize) -> f64 {
    time.as_secs_f64() * 1e6 / calls as f64
}

/// Returns the median and the lowest of what was measured.
fn middle(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some((*sorted.get(sorted.len() / 2)?, *sorted.first()?))
}

fn emit(side: &str, row: &str, case: &str, unit: &str, value: f64, more: Value) {
    let mut line =
        json!({ "door": "rust", "side": side, "row": row, "case": case, "unit": unit, "value": value });
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
    }
    println!("{line}");
}

async fn round_robin(mut figures: Vec<Figure>, rounds: usize, budget: f64) -> Result<()> {
    for _ in 0..rounds {
        for figure in &mut figures {
            figure.round(budget).await?;
        }
    }
    figures.iter().for_each(Figure::report);
    Ok(())
}

// ---------------------------------------------------------------------------------------------- payloads and calls

fn small() -> Payload {
    Payload::from(json!({
        "query": "x".repeat(100),
        "n": [1, 2, 3, 4, 5],
        "opts": {"a": 1.5, "b": true, "c": null},
        "id": "call_0123456789abcdef",
    }))
}

fn big() -> Payload {
    let message =
        |index| json!({"role": "user", "content": "lorem ipsum dolor ".repeat(10), "i": index, "ok": true});
    Payload::from(json!({"messages": (0..85).map(message).collect::<Vec<_>>()}))
}

fn tool() -> Arc<dyn Work> {
    work(|call| async move { Ok(call.into_arguments()) })
}

fn runtime() -> Runtime {
    Runtime::new(Options::default())
}

/// Registers `count` entries of a family, in order.
fn add(runtime: &Runtime, family: Family, count: usize, handler: &Handler) -> Result<()> {
    for index in 0..count {
        let options = RegisterOptions {
            priority: i32::try_from(index)?,
            ..RegisterOptions::default()
        };
        runtime.register(family, &format!("entry{index:02}"), handler.clone(), &options)?;
    }
    Ok(())
}

fn around() -> Handler {
    Handler::around(|call, next| async move { next.run(call).await })
}

fn unchanged() -> Handler {
    Handler::transform(|_, payload| Ok(Some(payload)))
}

fn calling(runtime: &Runtime, payload: Payload) -> Step {
    calling_inside(runtime, payload, None)
}

fn calling_inside(runtime: &Runtime, payload: Payload, parent: Option<Scope>) -> Step {
    let (runtime, function, name) = (runtime.clone(), tool(), Arc::<str>::from("t"));
    Box::new(move || {
        let (runtime, function, name) = (runtime.clone(), function.clone(), name.clone());
        let (payload, parent) = (payload.clone(), parent.clone());
        // Several in one future, as in a program's own loop: its box would count otherwise.
        Box::pin(async move {
            for _ in 0..CALLS_IN_STEP {
                let mut call = Invocation::new(name.clone(), payload.clone(), function.clone());
                call.parent.clone_from(&parent);
                drop(black_box(call.execute(runtime.clone()).await?));
            }
            Ok(())
        })
    })
}

/// Makes many calls at once.
fn calling_at_once(runtime: &Runtime) -> Step {
    let (runtime, function, name, payload) = (runtime.clone(), tool(), Arc::<str>::from("t"), small());
    Box::new(move || {
        let one =
            |_| Invocation::new(name.clone(), payload.clone(), function.clone()).execute(runtime.clone());
        let all: Vec<_> = (0..CALLS_AT_ONCE).map(one).collect();
        Box::pin(async move { join_all(all).await.into_iter().try_for_each(|one| one.map(drop)) })
    })
}

// ---------------------------------------------------------------------------------------------- the rows

fn ours() -> Result<Vec<Figure>> {
    let figure = |row, case, runtime: &Runtime| Figure::new("ours", row, case, calling(runtime, small()));
    let made = |family, count, handler: &Handler| -> Result<Runtime> {
        let runtime = runtime();
        add(&runtime, family, count, handler)?;
        Ok(runtime)
    };
    let observed = runtime();
    observed.subscribe("s", observe(|_| {}), None)?;
    let mut all = vec![
        figure("a", "bare call", &runtime()),
        figure("b", "one subscriber", &observed).flush(&observed),
    ];
    let allow = Handler::gate(|_| Ok(Verdict::Allow));
    for count in [1, 4, 16] {
        let requests = made(Family::ToolRequest, count, &unchanged())?;
        let executions = made(Family::ToolExecution, count, &around())?;
        let guards = made(Family::ToolConditionalExecution, count, &allow)?;
        all.push(figure("c", "request intercepts", &requests).entries(count));
        all.push(figure("d", "execution intercepts", &executions).entries(count));
        all.push(figure("e", "guardrails", &guards).entries(count));
    }
    let sanitized = made(Family::ToolSanitizeRequest, 16, &unchanged())?;
    add(&sanitized, Family::ToolSanitizeResponse, 16, &unchanged())?;
    sanitized.subscribe("s", observe(|_| {}), None)?;
    let row = figure("f", "sanitizers and a subscriber", &sanitized);
    all.push(row.entries(16).flush(&sanitized));
    let sixteen = made(Family::ToolExecution, 16, &around())?;
    let step = calling(&sixteen, big());
    all.push(Figure::new("ours", "d", "execution intercepts, 20 kB", step).entries(16));
    let step = calling_at_once(&made(Family::ToolExecution, 4, &around())?);
    let row = Figure::new("ours", "i", "1000 concurrent, execution intercepts", step);
    all.push(row.entries(4).calls(CALLS_AT_ONCE));
    Ok(all)
}

type Function = Arc<dyn Fn(Payload) -> Boxed<Payload> + Send + Sync>;

/// Nests `count` boxed closures around one that gives its argument back.
fn nested(count: usize) -> Function {
    let tool: Function = Arc::new(|payload| Box::pin(async move { payload }));
    (0..count).fold(tool, |inner, _| {
        Arc::new(move |payload| {
            let inner = inner.clone();
            Box::pin(async move { inner(payload).await })
        })
    })
}

fn nested_step(count: usize, payload: Payload) -> Step {
    let function = nested(count);
    Box::new(move || {
        let (function, payload) = (function.clone(), payload.clone());
        Box::pin(async move {
            for _ in 0..CALLS_IN_STEP {
                drop(black_box(function(payload.clone()).await));
            }
            Ok(())
        })
    })
}

fn nested_at_once(count: usize) -> Step {
    let (function, payload) = (nested(count), small());
    Box::new(move || {
        let all: Vec<_> = (0..CALLS_AT_ONCE).map(|_| function(payload.clone())).collect();
        Box::pin(async move {
            drop(black_box(join_all(all).await));
            Ok(())
        })
    })
}

/// Asks `count` boxed closures one after another, then calls the tool.
fn asked_step(count: usize) -> Step {
    type Check = Arc<dyn Fn(Payload) -> Payload + Send + Sync>;
    let checks: Vec<Check> = (0..count).map(|_| Arc::new(|payload| payload) as Check).collect();
    let (checks, function, payload) = (Arc::new(checks), nested(0), small());
    Box::new(move || {
        let (checks, function, payload) = (checks.clone(), function.clone(), payload.clone());
        Box::pin(async move {
            for _ in 0..CALLS_IN_STEP {
                let arguments = checks
                    .iter()
                    .fold(payload.clone(), |payload, check| check(payload));
                drop(black_box(function(arguments).await));
            }
            Ok(())
        })
    })
}

fn plain() -> Vec<Figure> {
    let figure = |row, case, step| Figure::new("plain", row, case, step);
    let mut all = vec![figure("a", "bare call", nested_step(0, small()))];
    for count in [1, 4, 16] {
        let nested = nested_step(count, small());
        all.push(figure("c", "request intercepts", asked_step(count)).entries(count));
        all.push(figure("d", "execution intercepts", nested).entries(count));
        all.push(figure("e", "guardrails", asked_step(count)).entries(count));
    }
    let large = nested_step(16, big());
    all.push(figure("d", "execution intercepts, 20 kB", large).entries(16));
    let row = figure("i", "1000 concurrent, execution intercepts", nested_at_once(4));
    all.push(row.entries(4).calls(CALLS_AT_ONCE));
    all
}

// ---------------------------------------------------------------------------------------------- growth

fn open(runtime: &Runtime, parent: Option<Scope>) -> Result<Scope> {
    runtime.open_scope("scope", ScopeType::Function, parent, ScopeOptions::default())
}

fn own_intercept(runtime: &Runtime, scope: &Scope) -> Result<()> {
    let options = RegisterOptions {
        scope: Some(scope.clone()),
        ..RegisterOptions::default()
    };
    runtime.register(Family::ToolExecution, "local", around(), &options)
}

/// What makes the step that is timed beside `size` of something that must not matter.
type Growing = fn(usize) -> Result<Step>;

fn beside_tools(size: usize) -> Result<Step> {
    let registry = ToolRegistry::with_runtime(runtime());
    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    for index in 0..size {
        let spec = ToolSpec::new(format!("tool{index}"), "Gives its arguments back.");
        registry.register(spec.json(schema.clone(), |call| async move { Ok(call.into_arguments()) }))?;
    }
    let (name, arguments) = (
        format!("tool{}", size / 2),
        Payload::from(json!({ "query": "q" })),
    );
    Ok(Box::new(move || {
        let (registry, name, arguments) = (registry.clone(), name.clone(), arguments.clone());
        Box::pin(async move {
            for _ in 0..CALLS_IN_STEP {
                let running = registry.dispatch(name.as_str(), arguments.clone(), ToolContext::new());
                drop(black_box(running.await?));
            }
            Ok(())
        })
    }))
}

/// A step that keeps `held` alive.
fn holding<T: Send + Sync + 'static>(step: Step, held: T) -> Step {
    Box::new(move || {
        let _ = &held;
        step()
    })
}

fn beside_scopes(size: usize) -> Result<Step> {
    let runtime = runtime();
    let held: Vec<Scope> = (0..size).map(|_| open(&runtime, None)).collect::<Result<_>>()?;
    Ok(holding(calling(&runtime, small()), held))
}

fn deep_inside(size: usize) -> Result<Step> {
    let runtime = runtime();
    let mut scope = open(&runtime, None)?;
    own_intercept(&runtime, &scope)?;
    for _ in 1..size {
        scope = open(&runtime, Some(scope))?;
    }
    Ok(calling_inside(&runtime, small(), Some(scope)))
}

fn beside_registrations(size: usize) -> Result<Step> {
    let runtime = runtime();
    let here = open(&runtime, None)?;
    let mut held = Vec::new();
    for _ in 0..size {
        let other = open(&runtime, None)?;
        own_intercept(&runtime, &other)?;
        held.push(other);
    }
    Ok(holding(calling_inside(&runtime, small(), Some(here)), held))
}

/// Leaves `size` calls waiting in their tools for ever.
#[allow(clippy::unnecessary_wraps, reason = "the shape of what grows")]
fn beside_calls(size: usize) -> Result<Step> {
    let runtime = runtime();
    let stuck = work(|_| std::future::pending::<Result<Payload>>());
    let mut waiting: Vec<Boxed<Result<Payload>>> = Vec::new();
    for _ in 0..size {
        let call = Invocation::new("t", small(), stuck.clone());
        let mut running: Boxed<Result<Payload>> = Box::pin(call.execute(runtime.clone()));
        // Started by one poll, and never polled again.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = running.as_mut().poll(&mut context);
        waiting.push(running);
    }
    let waiting = std::sync::Mutex::new(waiting);
    Ok(holding(calling(&runtime, small()), waiting))
}

async fn growth(rounds: usize, budget: f64) -> Result<()> {
    let cases: [(&str, Growing); 5] = [
        ("registered tools", beside_tools),
        ("open scopes", beside_scopes),
        ("scope depth", deep_inside),
        ("registrations that do not apply", beside_registrations),
        ("concurrent calls", beside_calls),
    ];
    for (case, make) in cases {
        let figure = |size| Ok(Figure::new("ours", "growth", case, make(size)?).entries(size));
        let figures = SIZES.into_iter().map(figure).collect::<Result<_>>()?;
        round_robin(figures, rounds, budget).await?;
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------- scaling

/// Returns how many calls a second `threads` threads make together, each with calls of its own.
fn throughput(source: &(dyn Fn() -> Step + Sync), threads: usize, budget: f64) -> f64 {
    let (done, barrier) = (AtomicUsize::new(0), Barrier::new(threads));
    let started = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let step = source();
                barrier.wait();
                let (start, mut made) = (Instant::now(), 0);
                while start.elapsed().as_secs_f64() < budget {
                    // Nothing registered here fails.
                    let _ = block_on(step());
                    made += CALLS_IN_STEP;
                }
                done.fetch_add(made, Ordering::Relaxed);
            });
        }
        Instant::now()
    });
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let made = done.load(Ordering::Relaxed) as f64;
    made / started.elapsed().as_secs_f64()
}

fn scaling(rounds: usize, budget: f64) -> Result<()> {
    let bare = runtime();
    let chained = runtime();
    add(&chained, Family::ToolExecution, 4, &around())?;
    let (one, four) = ("2 threads, bare call", "2 threads, 4 execution intercepts");
    // Plain code shares nothing: its ratio is what the machine has to give.
    let cases: [(&str, &str, &(dyn Fn() -> Step + Sync)); 3] = [
        ("ours", one, &|| calling(&bare, small())),
        ("ours", four, &|| calling(&chained, small())),
        ("plain", four, &|| nested_step(4, small())),
    ];
    let mut ratios = cases.map(|_| Vec::new());
    for _ in 0..rounds {
        for ((_, _, source), ratios) in cases.iter().zip(&mut ratios) {
            let alone = throughput(source, 1, budget);
            ratios.push(throughput(source, 2, budget) / alone);
        }
    }
    for ((side, case, _), ratios) in cases.iter().zip(&ratios) {
        let best = ratios.iter().copied().fold(0.0, f64::max);
        if let Some((median, _)) = middle(ratios) {
            let more = json!({ "threads": 2, "max": best });
            emit(side, "scaling", case, "times", median, more);
        }
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------- memory

/// Returns a line of `/proc/self/status` in MB, 0 where there is none.
fn status_mb(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    number.unwrap_or(0.0) / 1e3
}

async fn memory(slow: bool, count: usize) -> Result<()> {
    let runtime = runtime();
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let subscriber = observe(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        if slow {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    runtime.subscribe("s", subscriber, None)?;
    let step = calling(&runtime, small());
    step().await?;
    runtime.flush(None).await?;
    let (before, start) = (status_mb("VmRSS"), Instant::now());
    for _ in 0..count / CALLS_IN_STEP {
        step().await?;
    }
    let seconds = start.elapsed().as_secs_f64();
    if !slow {
        runtime.flush(None).await?;
    }
    let after = status_mb("VmRSS") - before;
    let peak = (status_mb("VmHWM") - before).max(after).max(0.0);
    let more = json!({
        "calls": count, "seconds": seconds, "events": seen.load(Ordering::Relaxed), "after": after,
    });
    let case = if slow { "slow subscriber" } else { "subscriber" };
    emit("ours", "memory", case, "MB", peak, more);
    Ok(())
}

fn memory_rows(quick: bool) -> Result<()> {
    let scale = if quick { 10 } else { 1 };
    for (kind, count) in [("quick", 200_000), ("slow", 100_000)] {
        let mut child = Command::new(std::env::current_exe()?);
        child.args(["--memory", kind, "--calls", &(count / scale).to_string()]);
        if !child.status()?.success() {
            println!("# memory, {kind}: failed");
        }
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------- the program

/// Returns the word after `name`.
fn option(name: &str) -> Option<String> {
    let given: Vec<String> = std::env::args().collect();
    let place = given.iter().position(|word| word == name)?;
    given.get(place + 1).cloned()
}

async fn run(tokio: &tokio::runtime::Handle) -> Result<()> {
    let quick = std::env::args().any(|word| word == "--quick");
    let (rounds, budget) = if quick { (5, 0.01) } else { (11, 0.03) };
    let rounds = option("--rounds").map_or(Ok(rounds), |given| given.parse())?;
    let budget = option("--budget").map_or(Ok(budget), |given| given.parse())?;
    let only = option("--only");
    let wanted = |row: &str| only.as_deref().is_none_or(|only| only == row);
    let mut figures = ours()?;
    figures.extend(plain());
    figures.retain(|figure| wanted(figure.row));
    figures.sort_by_key(|figure| (figure.row, figure.case, figure.entries));
    if !figures.is_empty() {
        // On a worker of the runtime, where a program's calls would be.
        tokio.spawn(round_robin(figures, rounds, budget)).await??;
    }
    if wanted("growth") {
        tokio.spawn(growth(rounds, budget)).await??;
    }
    if wanted("memory") {
        memory_rows(quick)?;
    }
    if only.as_deref() == Some("scaling") {
        scaling(rounds, budget * 3.0)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let result = tokio.map_err(callweir::Error::from).and_then(|tokio| {
        if let Some(kind) = option("--memory") {
            let count = option("--calls").map_or(Ok(1000), |given| given.parse())?;
            let done = tokio.block_on(async { tokio.spawn(memory(kind == "slow", count)).await? });
            // What a slow subscriber has not taken yet would hold up a normal exit.
            std::process::exit(i32::from(done.is_err()));
        }
        tokio.block_on(run(tokio.handle()))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
