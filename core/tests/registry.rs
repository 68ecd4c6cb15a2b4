//! The tool registry: registering, dispatching, middleware, refusals, subsets.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::items_after_statements,
    clippy::too_many_lines,
    clippy::type_complexity,
    reason = "a test may fail, and says what it needs where it needs it"
)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use callweir::{
    Error, ErrorKind, Family, Handler, Middleware, Next, Payload, Provider, Registrable, Result, Tool,
    ToolCall, ToolContext, ToolRegistry, ToolSpec, Verdict, block_on, middleware_fn,
};
use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn dispatch(tools: &ToolRegistry, name: &str) -> Result<Value> {
    block_on(tools.dispatch(name, json!({}), ToolContext::new()))?.into_json()
}

/// Writes its name when it runs, and with a `!` when it is told of a refusal.
struct Named(&'static str, Log, Option<Error>);

impl Middleware for Named {
    async fn run(self: Arc<Self>, call: ToolCall, next: Next) -> Result<Payload> {
        self.1.push(self.0);
        next.run(call).await
    }
    async fn on_refused(self: Arc<Self>, call: ToolCall, refusal: Error) -> Result<()> {
        self.1.push(format!(
            "{}! {} {}",
            self.0,
            call.name(),
            refusal.code().unwrap_or_default()
        ));
        self.2.clone().map_or(Ok(()), Err)
    }
    fn name(&self) -> String {
        self.0.to_owned()
    }
}

#[test]
fn c_28_holes_in_a_subset() {
    let runtime = runtime();
    let log = record(&runtime);
    let order = Log::default();
    let asked = Count::default();
    let counts = asked.clone();
    add(
        &runtime,
        Family::ToolConditionalExecution,
        "g",
        Handler::gate(move |_| {
            counts.up();
            Ok(Verdict::Allow)
        }),
    );
    let ran = Count::default();
    let parent = registry(&runtime, &["a", "b", "c"], &ran);
    parent
        .use_middleware(Named("1", order.clone(), None))
        .use_middleware(Named("2", order.clone(), None));
    let part = parent.subset(["a", "b"]).unwrap();
    parent.register(echo_tool("d", &ran)).unwrap();
    parent.use_middleware(Named("3", order.clone(), None));
    let names = |tools: &ToolRegistry| {
        tools
            .descriptors()
            .iter()
            .map(|one| one.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&part), ["a", "b"]);
    dispatch(&part, "a").unwrap();
    let refusals: Vec<_> = ["c", "d", "A", ""]
        .iter()
        .map(|name| dispatch(&part, name).unwrap_err())
        .collect();
    let codes: Vec<_> = refusals.iter().map(|error| error.code().unwrap()).collect();
    assert_eq!(
        codes,
        [
            "tool_not_permitted",
            "tool_not_found",
            "tool_not_found",
            "tool_not_found"
        ]
    );
    assert_eq!(ErrorKind::ToolNotPermitted.parent(), "ToolNotFound");
    let expected = [
        "1",
        "2",
        "1! c tool_not_permitted",
        "2! c tool_not_permitted",
        "1! d tool_not_found",
        "2! d tool_not_found",
        "1! A tool_not_found",
        "2! A tool_not_found",
        "1!  tool_not_found",
        "2!  tool_not_found",
    ];
    assert_eq!(
        (order.texts(), ran.get(), asked.get()),
        (expected.map(str::to_owned).to_vec(), 1, 1)
    );
    let events = flushed(&runtime, &log);
    assert_eq!(pairs(&events), 2);
    let marks = marks(&events);
    assert!(
        marks
            .iter()
            .all(|mark| mark["metadata"]["callweir.mark"] == "refused")
    );
    let reasons: Vec<_> = marks
        .iter()
        .map(|mark| (mark["name"].as_str().unwrap(), &mark["data"]["reason"]))
        .collect();
    assert_eq!(
        reasons[..2],
        [("c", &json!("not_permitted")), ("d", &json!("not_found"))]
    );
    // What is added to the subset runs inside the parent's, and only there.
    part.use_middleware(Named("own", order.clone(), None));
    dispatch(&part, "b").unwrap();
    dispatch(&parent, "b").unwrap();
    assert_eq!(order.texts()[10..], ["1", "2", "own", "1", "2", "3"]);
}

#[test]
fn reg_6_a_failing_hook_replaces_the_refusal() {
    let runtime = runtime();
    let order = Log::default();
    let tools = registry(&runtime, &[], &Count::default());
    tools
        .use_middleware(Named("1", order.clone(), None))
        .use_middleware(Named("2", order.clone(), Some(quota(2))))
        .use_middleware(Named("3", order.clone(), None));
    let error = dispatch(&tools, "x").unwrap_err();
    assert_eq!((error.downcast_ref::<Quota>().unwrap().0, order.len()), (2, 2));
    // Broken arguments change nothing about a refusal.
    let error = block_on(tools.dispatch("x", "{cut", ToolContext::new())).unwrap_err();
    assert_eq!((error.downcast_ref::<Quota>().unwrap().0, order.len()), (2, 4));
}

#[test]
fn reg_7_a_subset_of_a_subset_regains_nothing() {
    let runtime = runtime();
    let all = registry(&runtime, &["a", "b", "c"], &Count::default());
    let part = all.subset(["a", "b"]).unwrap();
    let less = part.subset(["a"]).unwrap();
    let code = |error: Error| error.code().map(str::to_owned).unwrap_or_default();
    assert_eq!(code(part.subset(["c"]).unwrap_err()), "tool_not_permitted");
    assert_eq!(code(less.subset(["b"]).unwrap_err()), "tool_not_permitted");
    assert_eq!(code(all.subset(["nope"]).unwrap_err()), "tool_not_found");
    assert_eq!(code(dispatch(&less, "c").unwrap_err()), "tool_not_permitted");
    let none = less.subset([]).unwrap();
    assert_eq!(none.manifest(None).unwrap(), json!([]));
    assert_eq!(code(dispatch(&none, "a").unwrap_err()), "tool_not_permitted");
    // A name that was left out can be given to another tool.
    none.register(echo_tool("a", &Count::default())).unwrap();
    assert!(dispatch(&none, "a").is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A chain of subsets permits the intersection, in the order asked for, and tells what was left out.
    #[test]
    fn reg_7_subset_algebra(steps in prop::collection::vec(prop::collection::vec(0_usize..6, 0..6), 0..5)) {
        let names = ["a", "b", "c", "d", "e", "f"];
        let runtime = runtime();
        let mut tools = registry(&runtime, &names, &Count::default());
        let mut present: Vec<usize> = (0..6).collect();
        for step in steps {
            let made = tools.subset(step.iter().map(|index| names[*index]));
            if step.iter().any(|index| !present.contains(index)) {
                prop_assert_eq!(made.unwrap_err().kind(), Some(ErrorKind::ToolNotPermitted));
                continue;
            }
            tools = made.unwrap();
            let mut order: Vec<usize> = Vec::new();
            for index in step {
                if !order.contains(&index) {
                    order.push(index);
                }
            }
            present = order;
        }
        let listed: Vec<_> = tools.descriptors().iter().map(|one| one.name.to_string()).collect();
        prop_assert_eq!(listed, present.iter().map(|index| names[*index].to_owned()).collect::<Vec<_>>());
        for (index, name) in names.iter().enumerate() {
            let kind = dispatch(&tools, name).err().and_then(|error| error.kind());
            prop_assert_eq!(kind, (!present.contains(&index)).then_some(ErrorKind::ToolNotPermitted));
        }
        prop_assert_eq!(dispatch(&tools, "g").unwrap_err().kind(), Some(ErrorKind::ToolNotFound));
    }
}

#[test]
fn c_29_two_tools_one_name() {
    let runtime = runtime();
    let (first, second) = (Count::default(), Count::default());
    let tools = registry(&runtime, &["files.read", "a"], &first);
    let taken = tools.register(echo_tool("files.read", &second)).err().unwrap();
    assert_eq!(
        (taken.code(), taken.field("name")),
        (Some("already_exists"), Some("files.read"))
    );
    dispatch(&tools, "files.read").unwrap();
    assert_eq!((first.get(), second.get()), (1, 0));
    let inner = registry(&runtime, &["x", "a"], &second);
    assert_eq!(
        tools.register(inner).err().unwrap().code(),
        Some("already_exists")
    );
    let bad: [Vec<Registrable>; 3] = [
        vec![echo_tool("n1", &first).into(), echo_tool("", &first).into()],
        vec![echo_tool("n1", &first).into(), echo_tool("n1", &first).into()],
        vec![
            echo_tool("n1", &first).into(),
            ToolSpec::new("n2", "")
                .json(json!([]), |_| async { Ok(json!(1).into()) })
                .into(),
        ],
    ];
    for batch in bad {
        assert!(tools.register_all(batch).is_err());
    }
    assert_eq!(tools.descriptors().len(), 2);
    let clashing = registry(&runtime, &["read-file", "read_file", "read.file"], &first);
    for provider in [
        Provider::OpenAiChat,
        Provider::OpenAiResponses,
        Provider::Anthropic,
        Provider::Gemini,
    ] {
        let text = clashing.manifest(Some(provider)).unwrap_err().to_string();
        assert!(
            ["read-file", "read_file", "read.file"]
                .iter()
                .all(|name| text.contains(name)),
            "{text}"
        );
    }
    assert!(clashing.manifest(Some(Provider::Mcp)).is_ok() && clashing.manifest(None).is_ok());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Lookup {
    sku: String,
    #[serde(default = "five")]
    limit: i64,
    tags: Option<Vec<String>>,
}

fn five() -> i64 {
    5
}

#[test]
fn c_93_a_tool_from_a_function() {
    let runtime = runtime();
    let tools = ToolRegistry::with_runtime(runtime);
    let tool = ToolSpec::new("lookup", "Looks up.")
        .read_only()
        .function(|args: Lookup, _| async move { Ok(json!([args.sku, args.limit, args.tags])) });
    tools.register(tool).unwrap();
    let result = block_on(tools.dispatch_json("lookup", r#"{"sku":"AB-12"}"#, ToolContext::new())).unwrap();
    assert_eq!(result, r#"{"result":["AB-12",5,null]}"#);
    let list = tools.manifest(None).unwrap();
    assert_eq!(
        (&list[0]["description"], &list[0]["read_only"]),
        (&json!("Looks up."), &json!(true))
    );
    let parameters = &list[0]["parameters"];
    assert_eq!(
        (&parameters["type"], &parameters["required"]),
        (&json!("object"), &json!(["sku"]))
    );
    let names: Vec<_> = parameters["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(names, ["sku", "limit", "tags"]);
    assert_eq!(parameters["properties"]["sku"]["type"], "string");
    assert_eq!(parameters["properties"]["limit"]["type"], "integer");
    assert!(parameters["properties"]["tags"].to_string().contains("array"));
}

#[test]
fn reg_3_arguments_have_to_fit() {
    let runtime = runtime();
    let log = record(&runtime);
    let tools = ToolRegistry::with_runtime(runtime.clone());
    let ran = Count::default();
    let counts = ran.clone();
    let tool = ToolSpec::new("lookup", "Looks up.").function(move |args: Lookup, _| {
        counts.up();
        async move { Ok(args.sku) }
    });
    tools.register(tool).unwrap();
    let cases = [
        (json!({}), "$.sku"),
        (json!({"limit": 1}), "$.sku"),
        (json!({"sku": "a", "extra": 1}), "$.extra"),
        (json!({"sku": "a", "two words": 1}), "$[\"two words\"]"),
        (json!([1]), "$"),
        (json!("text"), "$"),
        (json!(null), "$"),
        (json!({"sku": 1}), "$"),
    ];
    for (arguments, path) in &cases {
        let error = block_on(tools.dispatch("lookup", arguments.clone(), ToolContext::new())).unwrap_err();
        assert_eq!(
            (error.code(), error.field("path")),
            (Some("invalid_argument"), Some(*path)),
            "{arguments}"
        );
    }
    assert_eq!(ran.get(), 0);
    let events = flushed(&runtime, &log);
    assert_eq!(pairs(&events), cases.len());
    assert!(
        of_kind(&events, "tool", "end")
            .iter()
            .all(|end| outcome(end) == "failed")
    );
}

#[test]
fn c_94_what_dispatch_takes_and_gives() {
    let tools = ToolRegistry::with_runtime(runtime());
    let seen = Log::default();
    let deadline = Instant::now() + Duration::from_secs(1);
    let sink = seen.clone();
    let tool = ToolSpec::new("t", "").json(json!({"type": "object"}), move |call: ToolCall| {
        let context = call.context();
        sink.push(json!([
            *call.arguments().to_json().unwrap(),
            context.caller_id().map(ToString::to_string),
            *context.metadata().unwrap().to_json().unwrap(),
            context.deadline() == Some(deadline),
            call.descriptor().map(|one| one.name.to_string()),
        ]));
        async move { Ok(call.into_arguments()) }
    });
    tools.register(tool).unwrap();
    tools.use_middleware(middleware_fn("later", |call: ToolCall, next: Next| async move {
        let later = Instant::now() + Duration::from_secs(10);
        let old = call.context().clone();
        let fresh = ToolContext::new().with_deadline(later);
        let fresh = fresh
            .with_caller_id(old.caller_id().cloned().unwrap())
            .with_metadata(old.metadata().cloned().unwrap());
        next.run(call.with_context(fresh)).await
    }));
    let context = ToolContext::new()
        .with_caller_id("me")
        .with_metadata(json!({"run": 1}))
        .with_deadline(deadline);
    let value = callweir::Json::from(json!({"b": 1.50, "a": [1]}));
    let given: Payload = Payload::Json(value.clone());
    let result = block_on(tools.dispatch("t", given, context.clone())).unwrap();
    assert!(matches!(&result, Payload::Json(back) if back.is_same(&value)));
    let text = block_on(tools.dispatch_json("t", r#"{"b":1.50,"a":[1]}"#, context.clone())).unwrap();
    assert_eq!(text, r#"{"result":{"b":1.50,"a":[1]}}"#);
    for cut in ["{\"b\":1", "", "{} {}"] {
        let error = block_on(tools.dispatch("t", cut, context.clone())).unwrap_err();
        assert_eq!(error.code(), Some("invalid_argument"));
    }
    let expected = |b: Value| json!([{"b": b, "a": [1]}, "me", {"run": 1}, true, "t"]);
    let parsed: Value = serde_json::from_str("1.50").unwrap();
    assert_eq!(seen.all(), [expected(json!(1.50)), expected(parsed)]);
}

#[test]
fn c_95_a_middleware_refuses() {
    for rescued in [false, true] {
        let runtime = runtime();
        let log = record(&runtime);
        let order = Log::default();
        let ran = Count::default();
        let tools = registry(&runtime, &["pay"], &ran);
        let sink = order.clone();
        tools
            .use_middleware(middleware_fn("O", move |call, next: Next| {
                let sink = sink.clone();
                async move {
                    let result = next.run(call).await;
                    let error = result.as_ref().unwrap_err();
                    sink.push(error.field("reason").unwrap());
                    if rescued {
                        Ok(json!("rescued").into())
                    } else {
                        result
                    }
                }
            }))
            .use_middleware(middleware_fn("P", |_, _| async {
                Err(Error::denied("pay", "over limit"))
            }))
            .use_middleware(Named("I", order.clone(), None));
        let result = dispatch(&tools, "pay");
        assert_eq!((order.texts(), ran.get()), (vec!["over limit".to_owned()], 0));
        let events = flushed(&runtime, &log);
        assert_eq!(pairs(&events), 1);
        let own = &events[1]["metadata"];
        if rescued {
            assert_eq!(result.unwrap(), "rescued");
            assert_eq!(
                (outcome(&events[1]), &own["callweir.short_circuited"]),
                ("succeeded", &json!(true))
            );
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), Some(ErrorKind::ToolCallDenied));
            assert_eq!(
                (error.field("tool"), error.field("reason")),
                (Some("pay"), Some("over limit"))
            );
            assert_eq!(
                (outcome(&events[1]), &own["error.type"]),
                ("refused", &json!("denied"))
            );
        }
    }
}

#[test]
fn c_96_a_tool_called_directly() {
    let runtime = runtime();
    let log = record(&runtime);
    let tool = echo_tool("t", &Count::default());
    let tools = ToolRegistry::with_runtime(runtime.clone());
    tools.register(tool.clone()).unwrap();
    let asked = Count::default();
    let counts = asked.clone();
    tools.use_middleware(middleware_fn("deny", move |_, _| {
        counts.up();
        async { Err(Error::denied("t", "no")) }
    }));
    let direct = block_on(tool.execute_with(json!({"a": 1}), ToolContext::new())).unwrap();
    assert_eq!((direct.into_json().unwrap(), asked.get()), (json!({"a": 1}), 0));
    assert_eq!(flushed(&runtime, &log).len(), 0);
    assert!(block_on(tool.execute_with(json!(1), ToolContext::new())).is_err());
    assert_eq!(
        dispatch(&tools, "t").unwrap_err().kind(),
        Some(ErrorKind::ToolCallDenied)
    );
    assert_eq!(asked.get(), 1);
}

#[test]
fn c_97_a_middleware_tested_alone() {
    let changes = Arc::new(middleware_fn(
        "changes",
        |call: ToolCall, next: Next| async move { next.run(call.with_arguments(json!("changed"))).await },
    ));
    let twice = Arc::new(middleware_fn("twice", |call: ToolCall, next: Next| async move {
        next.run(call.clone()).await?;
        next.run(call).await
    }));
    let denies = Arc::new(middleware_fn("denies", |call: ToolCall, _| async move {
        Err(Error::denied(&**call.name(), "no"))
    }));
    let seen = Log::default();
    let sink = seen.clone();
    let next = Next::from_fn(move |call: ToolCall| {
        sink.push(call.arguments().to_json().unwrap().to_string());
        async move { Ok(call.into_arguments()) }
    });
    let descriptor = echo_tool("t", &Count::default()).descriptor().clone();
    let make = || {
        ToolCall::new("t", json!(1), ToolContext::new().with_caller_id("me"))
            .with_descriptor(descriptor.clone())
    };
    block_on(changes.run(make(), next.clone())).unwrap();
    block_on(twice.run(make(), next.clone())).unwrap();
    let refusal = block_on(denies.run(make(), next)).unwrap_err();
    assert_eq!(
        (seen.texts(), refusal.code()),
        (
            vec!["\"changed\"".to_owned(), "1".into(), "1".into()],
            Some("denied")
        )
    );
    let raised = quota(1);
    let fails = raised.clone();
    let next = Next::from_fn(move |_| std::future::ready(Err(fails.clone())));
    let passes = Arc::new(middleware_fn("pass", |call: ToolCall, next: Next| async move {
        next.run(call).await
    }));
    assert!(block_on(passes.run(make(), next)).unwrap_err().same(&raised));
}

#[tokio::test]
async fn c_27_per_call_state_on_a_shared_middleware() {
    struct Counts(Count);
    impl Middleware for Counts {
        async fn run(self: Arc<Self>, call: ToolCall, next: Next) -> Result<Payload> {
            self.0.up();
            let mine = call.arguments().to_json()?["n"].clone();
            let own = call.with_context(ToolContext::new().with_metadata(mine.clone()));
            tokio::task::yield_now().await;
            let result = next.run(own.clone()).await?;
            assert_eq!(*own.context().metadata().unwrap().to_json()?, mine);
            Ok(result)
        }
    }
    let runtime = runtime();
    let tools = ToolRegistry::with_runtime(runtime);
    let tool = ToolSpec::new("t", "").json(json!({"type": "object"}), |call: ToolCall| async move {
        tokio::task::yield_now().await;
        Ok(call.context().metadata().unwrap().clone())
    });
    tools.register(tool).unwrap();
    let count = Count::default();
    tools.use_middleware(Counts(count.clone()));
    let part = tools.subset(["t"]).unwrap();
    let run = |tools: ToolRegistry, n: u64| async move {
        tools.dispatch("t", json!({"n": n}), ToolContext::new()).await
    };
    let (a, b) = tokio::join!(run(tools.clone(), 1), run(part.clone(), 2));
    assert_eq!(
        (a.unwrap().into_json().unwrap(), b.unwrap().into_json().unwrap()),
        (json!(1), json!(2))
    );
    assert_eq!(count.get(), 2);
    let same = tools
        .middleware()
        .iter()
        .zip(part.middleware())
        .all(|(a, b)| Arc::ptr_eq(a, &b));
    assert!(same && tools.middleware()[0].as_any().is::<Counts>());
}

#[test]
fn reg_8_reg_4_nested_registries_keep_their_middleware() {
    let runtime = runtime();
    let log = record(&runtime);
    let order = Log::default();
    let inner = registry(&runtime, &["x"], &Count::default());
    inner.use_middleware(Named("inner", order.clone(), None));
    let middle = ToolRegistry::with_runtime(runtime.clone());
    middle
        .register(inner)
        .unwrap()
        .use_middleware(Named("middle", order.clone(), None));
    let outer = registry(&runtime, &["y"], &Count::default());
    outer
        .use_middleware(Named("outer", order.clone(), None))
        .register(middle)
        .unwrap();
    dispatch(&outer, "x").unwrap();
    dispatch(&outer, "y").unwrap();
    assert_eq!(order.texts(), ["outer", "middle", "inner", "outer"]);
    let explained: Vec<_> = outer
        .explain("x", None)
        .unwrap()
        .iter()
        .filter(|line| line.level == "registry")
        .map(|line| line.name.to_string())
        .collect();
    assert_eq!(explained, ["outer", "middle", "inner"]);
    let names: Vec<_> = outer
        .middleware()
        .iter()
        .map(|one| one.name().to_string())
        .collect();
    assert_eq!(names, ["outer"]);
    assert_eq!(pairs(&flushed(&runtime, &log)), 2);
}

#[test]
fn pay_3_a_result_that_is_not_json_is_never_a_silent_null() {
    let tools = ToolRegistry::new();
    let ratio = ToolSpec::new("ratio", "").function(|_: NoArguments, _| async { Ok(vec![1.0, f64::NAN]) });
    tools.register(ratio).unwrap();
    let error = block_on(tools.dispatch("ratio", json!({}), ToolContext::new())).unwrap_err();
    assert_eq!(
        (error.code(), error.field("path")),
        (Some("not_json"), Some("$[1]"))
    );
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArguments {}

#[test]
fn pay_3_a_number_beyond_rust_is_an_argument_error() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Pay {
        amounts: Vec<f64>,
    }
    let tools = ToolRegistry::new();
    let pay = ToolSpec::new("pay", "").function(|pay: Pay, _| async move { Ok(pay.amounts.len()) });
    tools.register(pay).unwrap();
    let error = block_on(tools.dispatch("pay", r#"{"amounts":[1,1e999]}"#, ToolContext::new())).unwrap_err();
    assert_eq!(
        (error.code(), error.field("path")),
        (Some("invalid_argument"), Some("$.amounts[1]"))
    );
}
