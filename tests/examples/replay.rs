//! Replays a hundred recorded runs of an airline support agent: every tool call of theirs goes through a registry,
//! under one scope for each run, and the events go to a file that must not hold private data.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use callweir::export::jsonl::JsonLines;
use callweir::{
    CloseOptions, DispatchRequest, Error, ErrorKind, Family, Handler, Middleware, Next, Payload,
    RegisterOptions, Registrable, Result, Runtime, ScopeOptions, ScopeType, ToolCall, ToolContext,
    ToolRegistry, ToolSpec, Verdict,
};
use callweir_tests::demo::{self, Checks};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

const EMAIL: &str = r"[\w.+-]+@[\w-]+\.[\w.]+";
const NO_EMAIL: &str = "<e-mail>";
const NO_DATE: &str = "<date of birth>";
/// Dollars that a certificate may be worth without a person who agrees.
const CERTIFICATE_LIMIT: f64 = 100.0;

#[derive(Deserialize)]
struct Recorded {
    task: u64,
    trial: u64,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<RecordedCall>,
}

#[derive(Deserialize)]
struct RecordedCall {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Manifest {
    name: String,
    description: String,
    read_only: bool,
    idempotent: bool,
    parameters: Value,
}

/// A recorded call and the result that the tool gave then.
struct Pair<'a> {
    call: &'a RecordedCall,
    result: &'a str,
}

impl Recorded {
    /// Pairs each call with the tool message that follows it: an id may occur twice in one run.
    fn pairs(&self) -> Vec<Pair<'_>> {
        let mut pairs = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            let mut answers = self
                .messages
                .iter()
                .skip(index + 1)
                .take_while(|message| message.role == "tool");
            for call in &message.tool_calls {
                let answer = answers.next().and_then(|message| message.content.as_deref());
                pairs.push(Pair {
                    call,
                    result: answer.unwrap_or_default(),
                });
            }
        }
        pairs
    }
}

fn read_data(name: &str) -> std::io::Result<String> {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name))
}

/// Makes the fourteen tools; each answers with the recorded result that the call's context carries.
fn tools(runtime: &Runtime, audit: Audit) -> Result<ToolRegistry> {
    let registry = ToolRegistry::with_runtime(runtime.clone());
    let manifests: Vec<Manifest> = serde_json::from_str(&read_data("airline_tools.json")?)?;
    let tools = manifests.into_iter().map(|tool| {
        let mut spec = ToolSpec::new(tool.name, tool.description);
        spec = if tool.read_only { spec.read_only() } else { spec };
        spec = if tool.idempotent { spec.idempotent() } else { spec };
        let tool = spec.json(tool.parameters, |call: ToolCall| async move {
            let recorded = call.context().metadata().cloned();
            recorded.ok_or_else(|| Error::new(ErrorKind::NotFound, "nothing was recorded for this call"))
        });
        Registrable::from(tool)
    });
    registry.register_all(tools)?.use_middleware(audit);
    Ok(registry)
}

/// Counts the calls that reached a tool, by tool and outcome.
#[derive(Clone, Default)]
struct Audit(Arc<Mutex<BTreeMap<(String, &'static str), usize>>>);

impl Audit {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<(String, &'static str), usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Middleware for Audit {
    async fn run(self: Arc<Self>, call: ToolCall, next: Next) -> Result<Payload> {
        let name = call.name().to_string();
        let result = next.run(call).await;
        let outcome = if result.is_ok() { "succeeded" } else { "failed" };
        *self.counts().entry((name, outcome)).or_default() += 1;
        result
    }
}

/// Rejects certificates that are worth too much.
fn certificate_limit(call: &ToolCall) -> Result<Verdict> {
    if &**call.name() != "send_certificate" {
        return Ok(Verdict::Allow);
    }
    let arguments = call.arguments().to_json()?;
    let amount = arguments.get("amount").and_then(Value::as_f64);
    Ok(match amount {
        Some(amount) if amount <= CERTIFICATE_LIMIT => Verdict::Allow,
        _ => Verdict::reject(format!(
            "a certificate over {CERTIFICATE_LIMIT} dollars needs a person"
        )),
    })
}

/// Masks e-mail addresses and dates of birth, also inside text that holds JSON.
fn mask(value: &mut Value, email: &Regex) {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(mut inner @ (Value::Object(_) | Value::Array(_))) => {
                mask(&mut inner, email);
                *text = inner.to_string();
            }
            _ => *text = email.replace_all(text, NO_EMAIL).into_owned(),
        },
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, email)),
        Value::Object(map) => {
            for (key, item) in map {
                if key == "dob" {
                    *item = Value::from(NO_DATE);
                } else {
                    mask(item, email);
                }
            }
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

fn register(runtime: &Runtime) -> Result<()> {
    let options = RegisterOptions::default();
    let guardrail = Handler::gate(certificate_limit);
    runtime.register(
        Family::ToolConditionalExecution,
        "certificate_limit",
        guardrail,
        &options,
    )?;
    let pattern = Regex::new(EMAIL)?;
    for family in [Family::ToolSanitizeRequest, Family::ToolSanitizeResponse] {
        let email = pattern.clone();
        let masked = Handler::transform(move |_, copy| {
            let mut value = copy.into_json()?;
            mask(&mut value, &email);
            Ok(Some(value.into()))
        });
        runtime.register(family, "privacy", masked, &options)?;
    }
    Ok(())
}

/// What became of the calls, as their callers saw it.
#[derive(Default)]
struct Tally {
    outcomes: BTreeMap<&'static str, usize>,
    unchanged: usize,
}

async fn replay(runs: &[Recorded], registry: &ToolRegistry) -> Result<Tally> {
    let mut tally = Tally::default();
    for run in runs {
        let about = json!({ "task": run.task, "trial": run.trial });
        let options = ScopeOptions {
            input: Some(about),
            ..ScopeOptions::default()
        };
        let scope = registry
            .runtime()
            .scope("airline support", ScopeType::Agent, options)?;
        let pairs = run.pairs();
        let all = async {
            for pair in &pairs {
                one(pair, registry, &mut tally).await?;
            }
            Ok::<(), Error>(())
        };
        scope.within(all).await?;
        scope.close(CloseOptions {
            output: Some(json!({ "calls": pairs.len() })),
            ..CloseOptions::default()
        });
    }
    Ok(tally)
}

async fn one(pair: &Pair<'_>, registry: &ToolRegistry, tally: &mut Tally) -> Result<()> {
    let Function { name, arguments } = &pair.call.function;
    let context = ToolContext::new()
        .with_caller_id("airline-agent")
        .with_metadata(Value::from(pair.result));
    let mut request = DispatchRequest::new(name.as_str(), arguments.as_str(), context);
    request.tool_call_id = Some(pair.call.id.as_str().into());
    let outcome = match registry.dispatch_request(request).await {
        Ok(result) => {
            tally.unchanged += usize::from(result.to_json()?.as_str() == Some(pair.result));
            "succeeded"
        }
        Err(error) if error.kind() == Some(ErrorKind::CallRejected) => "rejected",
        Err(_) => "failed",
    };
    *tally.outcomes.entry(outcome).or_default() += 1;
    Ok(())
}

/// The private values in what was recorded for the calls.
#[derive(Default)]
struct Private {
    emails: usize,
    dates: usize,
    values: BTreeSet<String>,
}

impl Private {
    fn of(runs: &[Recorded]) -> Result<Self> {
        let email = Regex::new(EMAIL)?;
        let mut private = Self::default();
        for pair in runs.iter().flat_map(Recorded::pairs) {
            for text in [pair.call.function.arguments.as_str(), pair.result] {
                private.emails += email.find_iter(text).count();
                private
                    .values
                    .extend(email.find_iter(text).map(|found| found.as_str().to_owned()));
                if let Ok(value) = serde_json::from_str(text) {
                    private.add_dates(&value);
                }
            }
        }
        Ok(private)
    }

    fn add_dates(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, item) in map {
                    if let (true, Some(date)) = (key == "dob", item.as_str()) {
                        self.dates += 1;
                        self.values.insert(date.to_owned());
                    }
                    self.add_dates(item);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_dates(item)),
            _ => {}
        }
    }
}

fn check_privacy(checks: &mut Checks, text: &str, private: &Private) -> Result<()> {
    let email = Regex::new(EMAIL)?;
    checks.equal(
        "the event file holds no e-mail address",
        &None,
        &email.find(text).map(|found| found.as_str()),
    );
    let leaked = private.values.iter().find(|value| text.contains(value.as_str()));
    checks.equal(
        "the event file holds no private value of the recording",
        &None,
        &leaked,
    );
    let masked = (text.matches(NO_EMAIL).count(), text.matches(NO_DATE).count());
    checks.equal(
        "all of them are masked",
        &(private.emails, private.dates),
        &masked,
    );
    checks.check(
        "there was something to mask",
        private.emails > 0 && private.dates > 0,
    );
    Ok(())
}

/// What the event file says.
#[derive(Default)]
struct Summary {
    /// Events by kind.
    counts: BTreeMap<String, usize>,
    /// Scopes whose start and end do not pair up.
    unpaired: usize,
    /// Events of calls, guardrails and rejections that lie in no run.
    astray: usize,
}

fn summarize(text: &str) -> Result<Summary> {
    let mut summary = Summary::default();
    let mut open: HashMap<String, i64> = HashMap::new();
    let mut runs = BTreeSet::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line)?;
        let part = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        let meta = |key: &str| {
            event
                .get("metadata")
                .and_then(|all| all.get(key)?.as_str())
                .unwrap_or_default()
        };
        let (phase, category, uuid) = (part("scope_category"), part("category"), part("uuid").to_owned());
        let kind = match phase {
            "start" => format!("{category} start"),
            "end" => format!("{category} {}", meta("callweir.outcome")),
            _ => format!("mark {}", meta("callweir.mark")),
        };
        *summary.counts.entry(kind).or_default() += 1;
        if category == "agent" {
            runs.insert(uuid.clone());
        } else {
            summary.astray += usize::from(!runs.contains(part("parent_uuid")));
        }
        match phase {
            "start" => *open.entry(uuid).or_default() += 1,
            // An end before its start never becomes right again.
            "end" if open.get(&uuid) != Some(&1) => summary.unpaired += 1,
            "end" => drop(open.insert(uuid, 0)),
            _ => {}
        }
    }
    summary.unpaired += open.values().filter(|count| **count != 0).count();
    Ok(summary)
}

fn check_counts(
    checks: &mut Checks,
    text: &str,
    runs: &[Recorded],
    tally: &Tally,
    audit: &Audit,
) -> Result<()> {
    let summary = summarize(text)?;
    let of = |kind: &str| summary.counts.get(kind).copied().unwrap_or_default();
    let asked = runs.iter().map(|run| run.pairs().len()).sum::<usize>();
    let outcome = |name: &str| tally.outcomes.get(name).copied().unwrap_or_default();
    let (succeeded, rejected) = (outcome("succeeded"), outcome("rejected"));
    checks.equal("starts and ends pair up", &0, &summary.unpaired);
    checks.equal("everything lies in the scope of its run", &0, &summary.astray);
    checks.equal(
        "every call was dispatched",
        &asked,
        &tally.outcomes.values().sum(),
    );
    checks.equal(
        "every call succeeded or was rejected",
        &asked,
        &(succeeded + rejected),
    );
    checks.equal(
        "callers got the recorded results unchanged",
        &succeeded,
        &tally.unchanged,
    );
    checks.equal(
        "the file has the calls that started",
        &succeeded,
        &of("tool start"),
    );
    checks.equal(
        "the file has the calls that succeeded",
        &succeeded,
        &of("tool succeeded"),
    );
    checks.equal("the file has the rejections", &rejected, &of("mark rejection"));
    checks.equal(
        "the audit log has the calls that ran",
        &succeeded,
        &audit.counts().values().sum(),
    );
    check_rejections(checks, runs, rejected);
    let judged = of("guardrail start");
    checks.equal("the guardrail was asked about every call", &asked, &judged);
    checks.equal("every run has its scope", &runs.len(), &of("agent succeeded"));
    let lines = 2 * (asked + succeeded + runs.len()) + rejected;
    checks.equal("nothing else is in the file", &lines, &text.lines().count());
    Ok(())
}

fn check_rejections(checks: &mut Checks, runs: &[Recorded], rejected: usize) {
    let calls = runs.iter().flat_map(Recorded::pairs);
    let big = calls.filter(is_big_certificate).count();
    checks.equal("the guardrail rejected the big certificates", &big, &rejected);
    checks.check("there was something to reject", big > 0);
}

fn is_big_certificate(pair: &Pair<'_>) -> bool {
    let arguments: Value = serde_json::from_str(&pair.call.function.arguments).unwrap_or_default();
    let amount = arguments
        .get("amount")
        .and_then(Value::as_f64)
        .unwrap_or_default();
    pair.call.function.name == "send_certificate" && amount > CERTIFICATE_LIMIT
}

async fn run() -> Result<ExitCode> {
    let text = read_data("airline.jsonl")?;
    let runs = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<Vec<Recorded>, _>>()?;
    let path = demo::output("airline-rust.jsonl")?;
    let (runtime, audit) = (Runtime::new(callweir::Options::default()), Audit::default());
    runtime.subscribe("file", JsonLines::open(&path)?, None)?;
    register(&runtime)?;
    let registry = tools(&runtime, audit.clone())?;

    let started = Instant::now();
    let tally = replay(&runs, &registry).await?;
    let took = started.elapsed();
    let pending = runtime.shutdown(Duration::from_secs(10)).await?;

    for ((tool, outcome), count) in audit.counts().iter() {
        println!("[audit] {count:4} {outcome}: {tool}");
    }
    let calls: usize = tally.outcomes.values().sum();
    println!("{calls} calls of {} runs: {:?}", runs.len(), tally.outcomes);
    let milliseconds = u32::try_from(took.as_millis().max(1))?;
    println!(
        "{:.0} calls per second",
        f64::from(u32::try_from(calls)?) * 1000.0 / f64::from(milliseconds)
    );
    println!("events: target/demo/airline-rust.jsonl");

    let mut checks = Checks::default();
    checks.equal("every event was delivered", &0, &pending);
    let file = std::fs::read_to_string(&path)?;
    check_privacy(&mut checks, &file, &Private::of(&runs)?)?;
    check_counts(&mut checks, &file, &runs, &tally, &audit)?;
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
