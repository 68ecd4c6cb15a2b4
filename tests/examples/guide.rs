//! Tool middleware in one page: an audit log, a caller policy, a time limit and a concurrency limit around tools
//! that work on a `SQLite` file, and five calls by two callers.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use callweir::{
    Error, ErrorKind, FunctionTool, Middleware, Next, Payload, Registrable, Result, ToolCall, ToolContext,
    ToolRegistry, ToolSpec,
};
use callweir_tests::demo::{self, Checks};
use rusqlite::Connection;
use serde_json::Value;
use tokio::sync::Semaphore;

/// What the five calls print, apart from how long they took.
const EXPECTED: [&str; 10] = [
    "[audit] support-agent called inventory.lookup: succeeded in N ms",
    "7",
    "[audit] support-agent called billing.refund: denied (caller 'support-agent' may not call billing.refund) in N ms",
    "denied: caller 'support-agent' may not call billing.refund",
    "[audit] billing-agent called billing.refund: succeeded in N ms",
    "refunded 40.00 on A-1001",
    "[audit] support-agent called inventory.recount: failed (TimedOut) in N ms",
    "failed: inventory.recount took longer than 1 s",
    "[audit] support-agent called inventory.restock: not found in N ms",
    "Tool 'inventory.restock' was not found.",
];

/// Prints lines and keeps them, to compare them at the end.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<String>>>);

impl Output {
    fn line(&self, text: String) {
        println!("{text}");
        self.lines().push(text);
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records who called which tool, the outcome and the time it took.
struct Audit(Output);

impl Audit {
    fn write(&self, call: &ToolCall, outcome: &str, elapsed: Duration) {
        let caller = call.context().caller_id().map_or("nobody", |id| &**id);
        let (name, ms) = (call.name(), elapsed.as_millis());
        self.0
            .line(format!("[audit] {caller} called {name}: {outcome} in {ms} ms"));
    }
}

impl Middleware for Audit {
    async fn run(self: Arc<Self>, call: ToolCall, next: Next) -> Result<Payload> {
        let started = Instant::now();
        let result = next.run(call.clone()).await;
        let outcome = match &result {
            Ok(_) => "succeeded".to_owned(),
            Err(error) if error.is_denial() => {
                format!("denied ({})", error.field("reason").unwrap_or_default())
            }
            Err(error) => format!("failed ({})", failure_name(error)),
        };
        self.write(&call, &outcome, started.elapsed());
        result
    }

    async fn on_refused(self: Arc<Self>, call: ToolCall, refusal: Error) -> Result<()> {
        let permitted = refusal.kind() != Some(ErrorKind::ToolNotPermitted);
        self.write(
            &call,
            if permitted { "not found" } else { "not permitted" },
            Duration::ZERO,
        );
        Ok(())
    }
}

fn failure_name(error: &Error) -> String {
    match error.kind() {
        Some(kind) => kind.name().to_owned(),
        None => error.type_name().unwrap_or_default(),
    }
}

/// Lets only named callers use certain tools.
struct CallerPolicy(HashMap<&'static str, Vec<&'static str>>);

impl Middleware for CallerPolicy {
    async fn run(self: Arc<Self>, call: ToolCall, next: Next) -> Result<Payload> {
        let caller = call.context().caller_id().map_or("", |id| &**id).to_owned();
        let name = call.name().clone();
        match self.0.get(&*name) {
            Some(allowed) if !allowed.contains(&caller.as_str()) => Err(Error::denied(
                &*name,
                format!("caller '{caller}' may not call {name}"),
            )),
            _ => next.run(call).await,
        }
    }
}

/// Gives every call a time limit; a tool that is still running then is dropped.
struct TimeLimit(Duration);

impl Middleware for TimeLimit {
    async fn run(self: Arc<Self>, call: ToolCall, next: Next) -> Result<Payload> {
        let name = call.name().clone();
        let timed = tokio::time::timeout(self.0, next.run(call)).await;
        timed.unwrap_or_else(|_| {
            let text = format!("{name} took longer than {} s", self.0.as_secs());
            Err(Error::new(ErrorKind::TimedOut, text))
        })
    }
}

/// Lets at most so many calls through at once; the others wait for a slot.
#[derive(Clone)]
struct ConcurrencyLimit(Arc<Semaphore>);

impl ConcurrencyLimit {
    fn new(calls: usize) -> Self {
        Self(Arc::new(Semaphore::new(calls)))
    }
}

impl Middleware for ConcurrencyLimit {
    async fn run(self: Arc<Self>, call: ToolCall, next: Next) -> Result<Payload> {
        let _slot = self.0.acquire().await?;
        next.run(call).await
    }
}

/// The shop's database, and what the tools tell about how they ran.
struct Shop {
    database: Mutex<Connection>,
    running: AtomicUsize,
    most_at_once: AtomicUsize,
    recount_started: AtomicBool,
    recount_dropped: AtomicBool,
    recount_finished: AtomicBool,
}

impl Shop {
    fn open(path: &std::path::Path) -> Result<Arc<Self>> {
        let database = Connection::open(path)?;
        database.execute_batch(
            "CREATE TABLE stock (sku TEXT PRIMARY KEY, units INTEGER NOT NULL);
             CREATE TABLE refunds (order_id TEXT NOT NULL, amount REAL NOT NULL);
             INSERT INTO stock VALUES ('AB-12', 7), ('CD-34', 0);",
        )?;
        Ok(Arc::new(Self {
            database: Mutex::new(database),
            running: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            recount_started: AtomicBool::new(false),
            recount_dropped: AtomicBool::new(false),
            recount_finished: AtomicBool::new(false),
        }))
    }

    /// Runs `work` on the database, on a thread where it may block.
    async fn query<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let shop = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            work(&shop.database.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let result = done.await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(result??)
    }

    async fn units(self: &Arc<Self>, sku: String) -> Result<i64> {
        let sql = "SELECT coalesce(sum(units), 0) FROM stock WHERE sku = ?1";
        self.query(move |database| database.query_row(sql, [sku], |row| row.get(0)))
            .await
    }

    async fn refund(self: &Arc<Self>, order_id: String, amount: f64) -> Result<String> {
        let text = format!("refunded {amount:.2} on {order_id}");
        let sql = "INSERT INTO refunds VALUES (?1, ?2)";
        self.query(move |database| database.execute(sql, (order_id, amount)))
            .await?;
        Ok(text)
    }

    /// Stands in for a slow call to the warehouse.
    async fn recount(self: &Arc<Self>, sku: String) -> Result<i64> {
        self.recount_started.store(true, Ordering::SeqCst);
        let _dropped = SetOnDrop(&self.recount_dropped);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let units = self.units(sku).await?;
        self.recount_finished.store(true, Ordering::SeqCst);
        Ok(units)
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sku {
    /// The article, such as AB-12.
    sku: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Refund {
    /// The order, such as A-1001.
    order_id: String,
    /// How much, in dollars.
    amount: f64,
}

fn inventory(shop: &Arc<Shop>) -> [FunctionTool; 2] {
    let (lookup, recount) = (shop.clone(), shop.clone());
    [
        ToolSpec::new("inventory.lookup", "Looks up the units of a SKU in stock.")
            .read_only()
            .function(move |asked: Sku, _| {
                let shop = lookup.clone();
                async move { shop.units(asked.sku).await }
            }),
        ToolSpec::new("inventory.recount", "Counts the units of a SKU on the shelf.").function(
            move |asked: Sku, _| {
                let shop = recount.clone();
                async move { shop.recount(asked.sku).await }
            },
        ),
    ]
}

fn billing(shop: &Arc<Shop>) -> FunctionTool {
    let shop = shop.clone();
    ToolSpec::new("billing.refund", "Refunds an amount on an order.").function(move |asked: Refund, _| {
        let shop = shop.clone();
        async move { shop.refund(asked.order_id, asked.amount).await }
    })
}

/// Makes a call and puts what came of it into words.
async fn ask(tools: &ToolRegistry, name: &str, arguments: &str, context: &ToolContext) -> Result<String> {
    let text = match tools.dispatch_json(name, arguments, context.clone()).await {
        Ok(text) => text,
        Err(error) => {
            return match error.kind() {
                Some(ErrorKind::ToolCallDenied) => {
                    Ok(format!("denied: {}", error.field("reason").unwrap_or_default()))
                }
                Some(ErrorKind::ToolNotFound | ErrorKind::ToolNotPermitted) => Ok(error.to_string()),
                Some(ErrorKind::TimedOut) => Ok(format!("failed: {error}")),
                _ => Err(error),
            };
        }
    };
    let answer: Value = serde_json::from_str(&text)?;
    Ok(match answer.get("result") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => text,
    })
}

async fn five_calls(tools: &ToolRegistry, output: &Output) -> Result<()> {
    let support = ToolContext::new().with_caller_id("support-agent");
    let billing = ToolContext::new().with_caller_id("billing-agent");
    let calls = [
        ("inventory.lookup", r#"{"sku":"AB-12"}"#, &support),
        ("billing.refund", r#"{"orderId":"A-1001","amount":40}"#, &support),
        ("billing.refund", r#"{"orderId":"A-1001","amount":40}"#, &billing),
        ("inventory.recount", r#"{"sku":"AB-12"}"#, &support),
        ("inventory.restock", r#"{"sku":"AB-12"}"#, &support),
    ];
    for (name, arguments, context) in calls {
        output.line(ask(tools, name, arguments, context).await?);
    }
    Ok(())
}

/// Makes many calls at once through the same limit, and returns how many of them ran at once.
async fn crowd(shop: &Arc<Shop>, limit: &ConcurrencyLimit) -> Result<usize> {
    let tools = ToolRegistry::new();
    tools
        .register_all(inventory(shop).map(Registrable::from))?
        .use_middleware(limit.clone());
    let together = tokio::task::LocalSet::new();
    let calls = (0..40).map(|_| {
        let tools = tools.clone();
        together.spawn_local(async move {
            ask(
                &tools,
                "inventory.lookup",
                r#"{"sku":"AB-12"}"#,
                &ToolContext::new(),
            )
            .await
        })
    });
    let calls: Vec<_> = calls.collect();
    together.await;
    for call in calls {
        call.await??;
    }
    Ok(shop.most_at_once.load(Ordering::SeqCst))
}

fn without_times(line: &str) -> String {
    match line.rsplit_once(" in ") {
        Some((start, time)) if line.starts_with("[audit]") && time.ends_with(" ms") => {
            format!("{start} in N ms")
        }
        _ => line.to_owned(),
    }
}

async fn run() -> Result<ExitCode> {
    let shop = Shop::open(&demo::output("guide-rust.sqlite")?)?;
    let output = Output::default();
    let limit = ConcurrencyLimit::new(4);
    let tools = ToolRegistry::new();
    tools
        .register_all(inventory(&shop).map(Registrable::from))?
        .register(billing(&shop))?
        .use_middleware(Audit(output.clone()))
        .use_middleware(CallerPolicy(HashMap::from([(
            "billing.refund",
            vec!["billing-agent"],
        )])))
        .use_middleware(TimeLimit(Duration::from_secs(1)))
        .use_middleware(limit.clone());

    let started = Instant::now();
    five_calls(&tools, &output).await?;
    let took = started.elapsed();

    let mut checks = Checks::default();
    let lines: Vec<_> = output.lines().iter().map(|line| without_times(line)).collect();
    checks.equal(
        "the five calls print what the guide says",
        &EXPECTED.map(str::to_owned).to_vec(),
        &lines,
    );
    let recount = [
        &shop.recount_started,
        &shop.recount_dropped,
        &shop.recount_finished,
    ];
    let recount = recount.map(|flag| flag.load(Ordering::SeqCst));
    checks.equal(
        "the recount started, was stopped, and did not finish",
        &[true, true, false],
        &recount,
    );
    checks.check("the recount was not waited for", (1..5).contains(&took.as_secs()));
    let slots = limit.0.available_permits();
    checks.equal("the stopped call gave its slot back", &4, &slots);
    checks.equal("of many calls at once four run", &4, &crowd(&shop, &limit).await?);
    let refunds = shop.query(|database| {
        database.query_row("SELECT count(*), sum(amount) FROM refunds", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
    });
    checks.equal(
        "the database holds the one refund",
        &(1_i64, 40.0_f64),
        &refunds.await?,
    );
    Ok(checks.finish())
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}
