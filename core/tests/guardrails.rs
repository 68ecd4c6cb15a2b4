//! Guardrails: verdicts, scope pairs, rejection marks, order.
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

use std::time::Duration;

use callweir::{ErrorKind, Family, Handler, Scope, Verdict};
use common::*;
use serde_json::{Value, json};

fn gate(verdict: impl Fn() -> callweir::Result<Verdict> + Send + Sync + 'static, asked: &Count) -> Handler {
    let asked = asked.clone();
    Handler::gate(move |_| {
        asked.up();
        verdict()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_21_nothing_starts_before_the_guardrail_has_decided() {
    let runtime = runtime();
    let log = record(&runtime);
    let slow = Handler::gate_async(|call| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let third = call.arguments().to_json()?["n"].as_u64().unwrap() % 3 == 0;
        Ok(if third {
            Verdict::reject("third")
        } else {
            Verdict::Allow
        })
    });
    add(&runtime, Family::ToolConditionalExecution, "slow", slow);
    let intercepted = Count::default();
    let counts = intercepted.clone();
    add(
        &runtime,
        Family::ToolRequest,
        "r",
        Handler::transform(move |_, payload| {
            counts.up();
            Ok(Some(payload))
        }),
    );
    let ran = Count::default();
    let calls: Vec<_> = (0..100)
        .map(|n| tokio::spawn(echo("t", json!({"n": n}), &ran).execute(runtime.clone())))
        .collect();
    let mut rejected = 0;
    for call in calls {
        rejected += usize::from(
            call.await
                .unwrap()
                .is_err_and(|error| error.code() == Some("rejected")),
        );
    }
    assert_eq!((rejected, ran.get(), intercepted.get()), (34, 66, 66));
    let events = flushed_async(&runtime, &log).await;
    assert_eq!(pairs(&events), 166);
    assert_eq!(marks(&events).len(), 34);
    for mark in marks(&events) {
        let id = &mark["metadata"]["callweir.call_uuid"];
        let scopes: Vec<_> = of_kind(&events, "guardrail", "end")
            .into_iter()
            .filter(|end| &end["metadata"]["callweir.call_uuid"] == id)
            .collect();
        assert_eq!(scopes.len(), 1);
        assert_eq!(
            scopes[0]["data"],
            json!({"allowed": false, "rejected": true, "rejection_reason": "third"})
        );
        assert!(
            of_kind(&events, "tool", "start")
                .iter()
                .all(|start| &start["uuid"] != id)
        );
    }
}

#[test]
fn fam_3_the_first_rejection_ends_the_gate() {
    let runtime = runtime();
    let log = record(&runtime);
    let asked = [Count::default(), Count::default(), Count::default()];
    add(
        &runtime,
        Family::ToolConditionalExecution,
        "a",
        gate(|| Ok(Verdict::Allow), &asked[0]),
    );
    add(
        &runtime,
        Family::ToolConditionalExecution,
        "b",
        gate(|| Ok(Verdict::reject("")), &asked[1]),
    );
    add(
        &runtime,
        Family::ToolConditionalExecution,
        "c",
        gate(|| Ok(Verdict::Allow), &asked[2]),
    );
    let ran = Count::default();
    let error = call(&runtime, echo("pay", json!({"secret": 1}), &ran)).unwrap_err();
    // An empty reason rejects too.
    assert_eq!(error.kind(), Some(ErrorKind::CallRejected));
    let fields: Vec<_> = ["name", "reason", "by"]
        .iter()
        .map(|name| error.field(name))
        .collect();
    assert_eq!(fields, [Some("pay"), Some(""), Some("b")]);
    assert_eq!(asked.each_ref().map(Count::get), [1, 1, 0]);
    let events = flushed(&runtime, &log);
    assert_eq!((pairs(&events), ran.get()), (2, 0));
    let starts = of_kind(&events, "guardrail", "start");
    let expected = json!({"kind": "tool_conditional_execution", "target_name": "pay"});
    assert!(starts.iter().all(|start| start["data"] == expected));
    assert_eq!(starts[0]["name"], "a");
    let ends = of_kind(&events, "guardrail", "end");
    assert_eq!(ends[0]["data"], json!({"allowed": true, "rejected": false}));
    assert!(!Value::from(events.clone()).to_string().contains("secret"));
}

#[test]
fn err_1_a_failing_guardrail_is_a_failure_not_a_rejection() {
    let panics = Handler::gate(|_| panic!("gate"));
    let fails = Handler::gate(|_| Err(quota(3)));
    let later = Handler::gate_async(|_| async { Err(quota(3)) });
    for (handler, kind) in [(panics, Some(ErrorKind::Internal)), (fails, None), (later, None)] {
        let runtime = runtime();
        let log = record(&runtime);
        let asked = Count::default();
        add(&runtime, Family::ToolConditionalExecution, "a", handler);
        add(
            &runtime,
            Family::ToolConditionalExecution,
            "b",
            gate(|| Ok(Verdict::Allow), &asked),
        );
        let ran = Count::default();
        let error = call(&runtime, echo("t", json!({}), &ran)).unwrap_err();
        assert_eq!(error.kind(), kind);
        let events = flushed(&runtime, &log);
        assert_eq!(
            (pairs(&events), ran.get(), asked.get(), marks(&events).len()),
            (1, 0, 0, 0)
        );
        let end = of_kind(&events, "guardrail", "end")[0];
        let name = if kind.is_some() { "internal" } else { "Quota" };
        assert_eq!(
            end["data"],
            json!({"allowed": false, "rejected": false, "error": name})
        );
        assert_eq!(
            (outcome(end), &end["metadata"]["error.type"]),
            ("failed", &json!(name))
        );
    }
}

#[test]
fn section_4_the_guardrail_scope_is_current_and_ends_what_is_left_open() {
    let runtime = runtime();
    let log = record(&runtime);
    let inside = runtime.clone();
    let opens = Handler::gate(move |_| {
        let parent = Scope::current();
        inside.open_scope(
            "left",
            callweir::ScopeType::Function,
            parent,
            callweir::ScopeOptions::default(),
        )?;
        Ok(Verdict::Allow)
    });
    add(&runtime, Family::ToolConditionalExecution, "g", opens);
    simple(&runtime).unwrap();
    let events = flushed(&runtime, &log);
    assert_eq!(pairs(&events), 3);
    let left = of_kind(&events, "function", "end")[0];
    assert_eq!(outcome(left), "abandoned");
    assert_eq!(
        left["parent_uuid"],
        of_kind(&events, "guardrail", "start")[0]["uuid"]
    );
    let order: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event["name"].as_str().unwrap(),
                event["scope_category"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("g", "start"),
        ("left", "start"),
        ("left", "end"),
        ("g", "end"),
        ("t", "start"),
        ("t", "end"),
    ];
    assert_eq!(order, expected);
}

#[test]
fn call_5_guardrails_of_nested_calls_all_run() {
    let runtime = runtime();
    let log = record(&runtime);
    let asked = Count::default();
    let (counts, inner) = (asked.clone(), runtime.clone());
    let nested = Handler::gate_async(move |call| {
        let (runtime, depth) = (inner.clone(), counts.up());
        async move {
            if depth < 4 {
                echo(&format!("{}x", call.name()), json!({}), &Count::default())
                    .execute(runtime)
                    .await?;
            }
            Ok(Verdict::Allow)
        }
    });
    add(&runtime, Family::ToolConditionalExecution, "g", nested);
    simple(&runtime).unwrap();
    assert_eq!(asked.get(), 4);
    assert_eq!(pairs(&flushed(&runtime, &log)), 8);
}
