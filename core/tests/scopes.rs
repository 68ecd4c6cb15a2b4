//! Scopes: nesting, closing, siblings, guards, propagation, local registrations.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::items_after_statements,
    clippy::too_many_lines,
    clippy::type_complexity,
    clippy::mutable_key_type,
    reason = "a test may fail, and says what it needs where it needs it"
)]

mod common;

use std::time::Duration;

use callweir::{
    CloseOptions, Error, Family, Handler, Outcome, Propagation, Scope, ScopeOptions, ScopeType, Verdict,
};
use common::*;
use serde_json::{Value, json};

fn open(runtime: &callweir::Runtime, name: &str, parent: Option<&Scope>) -> Scope {
    runtime
        .open_scope(
            name,
            ScopeType::Function,
            parent.cloned(),
            ScopeOptions::default(),
        )
        .unwrap()
}

fn ends(events: &[Value]) -> Vec<(&str, &str)> {
    let ends = events.iter().filter(|event| event["scope_category"] == "end");
    ends.map(|end| (end["name"].as_str().unwrap(), outcome(end)))
        .collect()
}

#[test]
fn c_13_odd_closes() {
    let runtime = runtime();
    let log = record(&runtime);
    let a = open(&runtime, "a", None);
    let b = open(&runtime, "b", Some(&a));
    let c = open(&runtime, "c", Some(&b));
    drop(open(&runtime, "lost", Some(&b)));
    assert!(a.clone() == a && a != b);
    let set: std::collections::HashSet<_> = [a.clone(), a.clone(), b.clone()].into_iter().collect();
    assert_eq!(set.len(), 2);
    let handle = a.clone();
    std::thread::spawn(move || handle.close(CloseOptions::default()))
        .join()
        .unwrap();
    for scope in [&a, &b, &c] {
        assert!(!scope.is_open());
        scope.close(CloseOptions::default());
    }
    let events = flushed(&runtime, &log);
    let expected = [
        ("lost", "abandoned"),
        ("c", "abandoned"),
        ("b", "abandoned"),
        ("a", "succeeded"),
    ];
    assert_eq!(ends(&events), expected);
    // What is opened inside a closed scope belongs to the nearest open one, or to nobody.
    let late = open(&runtime, "late", Some(&c));
    assert!(late.is_open());
    late.close(CloseOptions::default());
    let normal = open(&runtime, "normal", None);
    normal.close(CloseOptions {
        output: Some(json!(1)),
        ..CloseOptions::default()
    });
    assert_eq!(pairs(&flushed(&runtime, &log)), 6);
    assert_eq!(log.all().last().unwrap()["data"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_12_siblings_do_not_disturb_each_other() {
    let runtime = runtime();
    let log = record(&runtime);
    let p = open(&runtime, "p", None);
    let children: Vec<_> = (0..20_u64)
        .map(|n| {
            let runtime = runtime.clone();
            tokio::spawn(p.within(async move {
                let own = open(&runtime, &format!("child{n}"), Scope::current().as_ref());
                own.within(async {
                    tokio::time::sleep(Duration::from_millis(n * 7 % 13)).await;
                    assert_eq!(Scope::current().as_ref(), Some(&own));
                    echo("call", json!({}), &Count::default())
                        .execute(runtime.clone())
                        .await
                        .unwrap();
                    let inner = open(&runtime, &format!("inner{n}"), Scope::current().as_ref());
                    tokio::task::yield_now().await;
                    inner.close(CloseOptions::default());
                })
                .await;
                own.close(CloseOptions::default());
            }))
        })
        .collect();
    for child in children {
        child.await.unwrap();
    }
    p.close(CloseOptions::default());
    let events = flushed_async(&runtime, &log).await;
    assert_eq!(pairs(&events), 61);
    let id = |name: &str| events.iter().find(|event| event["name"] == name).unwrap()["uuid"].clone();
    for n in 0..20 {
        let parent =
            |name: &str| events.iter().find(|event| event["name"] == name).unwrap()["parent_uuid"].clone();
        assert_eq!(parent(&format!("child{n}")), id("p"));
        assert_eq!(parent(&format!("inner{n}")), id(&format!("child{n}")));
    }
    assert!(ends(&events).iter().all(|(_, outcome)| *outcome == "succeeded"));
}

#[test]
fn c_09_a_tool_sees_its_own_call_and_a_fresh_thread_sees_nothing() {
    let runtime = runtime();
    let tools = callweir::ToolRegistry::with_runtime(runtime.clone());
    let seen = Log::default();
    let sink = seen.clone();
    let tool = callweir::ToolSpec::new("t", "Looks.").json(json!({"type": "object"}), move |call| {
        let sink = sink.clone();
        async move {
            let current = Scope::current().unwrap();
            assert_eq!(call.scope(), Some(&current));
            sink.push(json!([
                current.name().to_string(),
                current.parent().unwrap().name().to_string()
            ]));
            sink.push(std::thread::spawn(|| Scope::current().is_none()).join().unwrap());
            Ok(json!(null).into())
        }
    });
    tools.register(tool).unwrap();
    let s = open(&runtime, "s", None);
    std::thread::spawn(move || {
        callweir::block_on(s.within(tools.dispatch("t", json!({}), callweir::ToolContext::new()))).unwrap();
    })
    .join()
    .unwrap();
    assert_eq!(seen.all(), [json!(["t", "s"]), json!(true)]);
}

#[test]
fn c_98_every_scope_type() {
    let runtime = runtime();
    let log = record(&runtime);
    assert_eq!(ScopeType::ALL.len(), 11);
    for category in ScopeType::ALL {
        let options = ScopeOptions {
            input: Some(json!({"in": 1})),
            metadata: Some(json!({"m": 1, "callweir.x": 1})),
            attributes: vec!["parallel".into(), "remote".into()],
            data_schema: Some(json!({"s": 1})),
            timestamp: Some(std::time::UNIX_EPOCH),
        };
        let scope = runtime
            .open_scope(category.name(), *category, None, options)
            .unwrap();
        scope.close(CloseOptions {
            output: Some(json!({"out": 1})),
            metadata: Some(json!({"n": 1})),
            timestamp: Some(std::time::UNIX_EPOCH + Duration::from_secs(1)),
            ..CloseOptions::default()
        });
    }
    let events = flushed(&runtime, &log);
    assert_eq!(pairs(&events), 11);
    for (pair, category) in events.chunks(2).zip(ScopeType::ALL) {
        for event in pair {
            assert_eq!(event["category"], category.name());
            assert_eq!(event["attributes"], json!(["parallel", "remote"]));
            assert_eq!(event["data_schema"], json!({"s": 1}));
        }
        assert_eq!(
            (&pair[0]["data"], &pair[0]["metadata"]),
            (&json!({"in": 1}), &json!({"m": 1}))
        );
        assert_eq!(
            (&pair[1]["data"], &pair[1]["metadata"]["n"]),
            (&json!({"out": 1}), &json!(1))
        );
        assert_eq!(pair[0]["timestamp"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(pair[1]["timestamp"], "1970-01-01T00:00:01.000000Z");
    }
}

#[test]
fn c_99_guards_end_once_however_they_are_left() {
    let runtime = runtime();
    let log = record(&runtime);
    let guard = |name: &str| {
        runtime
            .scope(name.to_owned(), ScopeType::Function, ScopeOptions::default())
            .unwrap()
    };
    drop(guard("plain"));
    let value = guard("sync").run_sync(|| {
        assert_eq!(&**Scope::current().unwrap().name(), "sync");
        Ok(5)
    });
    assert_eq!(value.unwrap(), 5);
    let raised = quota(6);
    let same = guard("fails")
        .run_sync(|| Err::<(), Error>(raised.clone()))
        .unwrap_err();
    assert!(same.same(&raised));
    let inner =
        callweir::block_on(guard("async").run(async { Ok(Scope::current().unwrap().name().to_string()) }));
    assert_eq!(inner.unwrap(), "async");
    let failed = callweir::block_on(guard("denied").run(async { Err::<(), _>(Error::denied("t", "no")) }));
    assert_eq!(failed.unwrap_err().code(), Some("denied"));
    drop(guard("never polled").run(async { Ok(()) }));
    let mut pending = Box::pin(guard("dropped").run(std::future::pending::<callweir::Result<()>>()));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(pending.as_mut().poll(&mut cx).is_pending());
    drop(pending);
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        guard("panics").run_sync(|| -> callweir::Result<()> { panic!("inside") })
    }));
    assert!(panics.is_err());
    guard("closed").close(CloseOptions {
        outcome: Some(Outcome::Failed),
        ..CloseOptions::default()
    });
    assert!(Scope::current().is_none());
    let events = flushed(&runtime, &log);
    let expected = [
        ("plain", "succeeded"),
        ("sync", "succeeded"),
        ("fails", "failed"),
        ("async", "succeeded"),
        ("denied", "refused"),
        ("never polled", "cancelled"),
        ("dropped", "cancelled"),
        ("panics", "failed"),
        ("closed", "failed"),
    ];
    assert_eq!(ends(&events), expected);
    let types: Vec<_> = events
        .iter()
        .filter_map(|event| event["metadata"]["error.type"].as_str())
        .collect();
    assert_eq!(types, ["Quota", "denied", "internal"]);
}

#[test]
fn c_100_a_scope_in_two_processes() {
    let (here, there) = (runtime(), runtime());
    let log = record(&there);
    let root = open(&here, "root", None);
    let s = open(&here, "s", Some(&root));
    let sent = s.propagation().to_json().to_string();
    assert!(sent.len() < 512);
    let value: Value = serde_json::from_str(&sent).unwrap();
    let parent = value["traceparent"].as_str().unwrap();
    let parts: Vec<_> = parent.split('-').collect();
    assert_eq!(
        parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
        [2, 32, 16, 2]
    );
    assert_eq!(parts[1], root.uuid().simple().to_string());
    assert!(s.uuid().simple().to_string().ends_with(parts[2]));
    let attached = there.attach(&Propagation::from_json(&value).unwrap());
    let mut invocation = echo("t", json!({}), &Count::default());
    invocation.parent = Some(attached.clone());
    call(&there, invocation).unwrap();
    attached.close(CloseOptions::default());
    // Carrying on from there keeps the trace.
    let next = attached.propagation();
    assert_eq!((next.root, next.uuid), (root.uuid(), s.uuid()));
    let events = flushed(&there, &log);
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["parent_uuid"], s.uuid().to_string());
    for key in ["version", "uuid", "root", "name", "category"] {
        for broken in [Value::Null, json!("x y"), json!({}), json!(-1)] {
            let mut bad = value.clone();
            bad[key] = broken.clone();
            if key == "name" && broken.is_string() {
                continue;
            }
            let error = Propagation::from_json(&bad).unwrap_err();
            assert_eq!(error.code(), Some("invalid_argument"), "{key} {broken}");
        }
    }
    assert!(Propagation::from_json(&json!([1])).is_err());
    assert!(Scope::current().is_none());
}

#[test]
fn fam_8_scope_local_entries_hold_inside_and_go_with_the_scope() {
    let runtime = runtime();
    let outer = open(&runtime, "outer", None);
    let inner = open(&runtime, "inner", Some(&outer));
    let sibling = open(&runtime, "sibling", None);
    let gate = || Handler::gate(|_| Ok(Verdict::reject("local")));
    runtime
        .register(Family::ToolConditionalExecution, "g", gate(), &in_scope(&outer))
        .unwrap();
    let log = record_as(&runtime, "local", Some(&outer));
    let allowed = |scope: Option<&Scope>| {
        let mut invocation = echo("t", json!({}), &Count::default());
        invocation.parent = scope.cloned();
        call(&runtime, invocation).is_ok()
    };
    for (scope, expected) in [
        (Some(&outer), false),
        (Some(&inner), false),
        (Some(&sibling), true),
        (None, true),
    ] {
        assert_eq!(allowed(scope), expected);
    }
    assert_eq!(marks(&flushed(&runtime, &log)).len(), 2);
    outer.close(CloseOptions::default());
    assert!(allowed(Some(&inner)) && allowed(Some(&outer)));
    let closed = runtime
        .register(Family::ToolConditionalExecution, "g", gate(), &in_scope(&outer))
        .unwrap_err();
    assert_eq!(closed.code(), Some("already_ended"));
    assert_eq!(runtime.registrations_list(), []);
    // The scope's own end is still seen by what it owned.
    assert_eq!(
        ends(&flushed(&runtime, &log)).last(),
        Some(&("outer", "succeeded"))
    );
}

#[test]
fn scp_3_calls_that_still_run_are_left_alone() {
    let runtime = runtime();
    let log = record(&runtime);
    let scope = open(&runtime, "s", None);
    let closes = scope.clone();
    let mut invocation = callweir::Invocation::new(
        "t",
        json!({}),
        callweir::work(move |_| {
            closes.close(CloseOptions::default());
            async { Ok(json!(1).into()) }
        }),
    );
    invocation.parent = Some(scope.clone());
    call(&runtime, invocation).unwrap();
    let events = flushed(&runtime, &log);
    assert_eq!(ends(&events), [("s", "succeeded"), ("t", "succeeded")]);
    assert_eq!(events[1]["parent_uuid"], scope.uuid().to_string());
}

#[test]
fn scp_1_ten_thousand_levels_are_no_trouble() {
    let runtime = runtime();
    let log = record(&runtime);
    let root = open(&runtime, "root", None);
    let mut deep = root.clone();
    for _ in 0..10_000 {
        deep = open(&runtime, "d", Some(&deep));
    }
    runtime
        .register(Family::ToolExecution, "p", pass(), &in_scope(&root))
        .unwrap();
    let mut invocation = echo("t", json!({}), &Count::default());
    invocation.parent = Some(deep.clone());
    call(&runtime, invocation).unwrap();
    root.close(CloseOptions::default());
    drop(deep);
    assert_eq!(pairs(&flushed(&runtime, &log)), 10_002);
}
