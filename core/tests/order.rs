//! Order of entries over priorities, names and levels; explain; `break_chain`.
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

use callweir::{
    CloseOptions, Family, Handler, Invocation, Next, RegisterOptions, Runtime, Scope, ScopeOptions,
    ScopeType, ToolCall,
};
use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// An entry that appends `label` to the arguments.
fn appends(label: &str, family: Family) -> Handler {
    let label = label.to_owned();
    let add = move |payload: callweir::Payload| {
        let mut list = payload.into_json()?;
        list.as_array_mut().unwrap().push(json!(label));
        callweir::Result::Ok(callweir::Payload::from(list))
    };
    match family {
        Family::ToolRequest => Handler::transform(move |_, payload| add(payload).map(Some)),
        _ => Handler::around(move |call: ToolCall, next: Next| {
            let changed = add(call.arguments().clone());
            async move { next.run(call.with_arguments(changed?)).await }
        }),
    }
}

fn open(runtime: &Runtime, name: &str, parent: Option<&Scope>) -> Scope {
    runtime
        .open_scope(
            name,
            ScopeType::Function,
            parent.cloned(),
            ScopeOptions::default(),
        )
        .unwrap()
}

fn seen(runtime: &Runtime, parent: Option<&Scope>) -> Vec<String> {
    let mut invocation = echo("t", json!([]), &Count::default());
    invocation.parent = parent.cloned();
    let list = call(runtime, invocation).unwrap().into_json().unwrap();
    list.as_array()
        .unwrap()
        .iter()
        .map(|label| label.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn c_85_ties_over_levels() {
    for family in [Family::ToolRequest, Family::ToolExecution] {
        for round in 0..12 {
            let runtime = runtime();
            let outer = open(&runtime, "o", None);
            let inner = open(&runtime, "i", Some(&outer));
            let plugin = RegisterOptions {
                component: Some("k".into()),
                ..RegisterOptions::default()
            };
            let mut entries = vec![
                ("b", "b", RegisterOptions::default()),
                ("B", "B", RegisterOptions::default()),
                ("a", "global a", RegisterOptions::default()),
                ("a", "outer a", in_scope(&outer)),
                ("a", "inner a", in_scope(&inner)),
                ("a", "k/a", plugin),
                ("z", "z", at(-5)),
            ];
            fastrand::Rng::with_seed(round).shuffle(&mut entries);
            for (name, label, options) in &entries {
                runtime
                    .register(family, name, appends(label, family), options)
                    .unwrap();
            }
            assert_eq!(
                seen(&runtime, Some(&inner)),
                ["z", "B", "global a", "outer a", "inner a", "b", "k/a"]
            );
            assert_eq!(
                seen(&runtime, Some(&outer)),
                ["z", "B", "global a", "outer a", "b", "k/a"]
            );
            assert_eq!(seen(&runtime, None), ["z", "B", "global a", "b", "k/a"]);
            assert!(runtime.remove_component("k") && !runtime.remove_component("k"));
            outer.close(CloseOptions::default());
            assert_eq!(seen(&runtime, Some(&inner)), ["z", "B", "global a", "b"]);
        }
    }
}

#[test]
fn c_87_explain_is_what_runs() {
    let runtime = runtime();
    let outer = open(&runtime, "o", None);
    let inner = open(&runtime, "i", Some(&outer));
    let family = Family::ToolRequest;
    runtime
        .register(family, "g", appends("g", family), &at(3))
        .unwrap();
    runtime
        .register(
            family,
            "o",
            appends("o", family),
            &RegisterOptions {
                priority: 2,
                ..in_scope(&outer)
            },
        )
        .unwrap();
    runtime
        .register(
            family,
            "i",
            appends("i", family),
            &RegisterOptions {
                priority: 1,
                ..in_scope(&inner)
            },
        )
        .unwrap();
    let plugin = RegisterOptions {
        component: Some("k".into()),
        ..at(4)
    };
    runtime
        .register(family, "p", appends("k/p", family), &plugin)
        .unwrap();
    let explained = |scope: Option<&Scope>| -> Vec<(String, &'static str, Option<String>, i32)> {
        let lines = runtime.explain("tool", scope).unwrap();
        let lines = lines
            .into_iter()
            .inspect(|line| assert_eq!(line.stage, "tool.request"));
        lines
            .map(|line| {
                (
                    line.name.to_string(),
                    line.level,
                    line.owner.map(|one| one.to_string()),
                    line.priority,
                )
            })
            .collect()
    };
    let whole = [
        ("i".to_owned(), "scope", Some("i".to_owned()), 1),
        ("o".to_owned(), "scope", Some("o".to_owned()), 2),
        ("g".to_owned(), "global", None, 3),
        ("k/p".to_owned(), "plugin", Some("k".to_owned()), 4),
    ];
    for (scope, skipped) in [(Some(&inner), 0), (Some(&outer), 1), (None, 2)] {
        assert_eq!(explained(scope), whole[skipped..]);
        let names: Vec<_> = explained(scope).into_iter().map(|line| line.0).collect();
        assert_eq!(seen(&runtime, scope), names);
    }
    assert_eq!(runtime.registrations_list().len(), 4);
    outer.close(CloseOptions::default());
    for scope in [Some(&inner), Some(&outer), None] {
        assert_eq!(explained(scope), whole[2..]);
        assert_eq!(seen(&runtime, scope), ["g", "k/p"]);
    }
    assert_eq!(runtime.registrations_list().len(), 2);
    assert_eq!(
        runtime.explain("nope", None).unwrap_err().code(),
        Some("invalid_argument")
    );
}

#[test]
fn c_86_break_chain_skips_later_request_intercepts_alone() {
    let runtime = runtime();
    let others = Count::default();
    let counts = others.clone();
    let gate = Handler::gate(move |_| {
        counts.up();
        Ok(callweir::Verdict::Allow)
    });
    add(&runtime, Family::ToolConditionalExecution, "g", gate);
    let counts = others.clone();
    let around = Handler::around(move |call, next: Next| {
        counts.up();
        async move { next.run(call).await }
    });
    add(&runtime, Family::ToolExecution, "e", around);
    let family = Family::ToolRequest;
    let breaking = RegisterOptions {
        break_chain: true,
        ..at(2)
    };
    runtime
        .register(family, "1", appends("1", family), &at(1))
        .unwrap();
    runtime
        .register(family, "2", appends("2", family), &breaking)
        .unwrap();
    runtime
        .register(family, "3", appends("3", family), &at(3))
        .unwrap();
    assert_eq!(seen(&runtime, None), ["1", "2"]);
    assert_eq!(others.get(), 2);
    assert!(runtime.deregister(family, "2", None));
    runtime
        .register(family, "2", Handler::transform(|_, _| Err(quota(2))), &breaking)
        .unwrap();
    let error = call(&runtime, echo("t", json!([]), &Count::default())).unwrap_err();
    assert_eq!(error.downcast_ref::<Quota>().unwrap().0, 2);
    let refused = runtime
        .register(Family::ToolExecution, "b", pass(), &breaking)
        .unwrap_err();
    assert_eq!(refused.field("path"), Some("$.break_chain"));
}

#[test]
fn fam_6_a_call_keeps_its_snapshot() {
    let runtime = runtime();
    let log = record(&runtime);
    let scope = open(&runtime, "s", None);
    for (family, name) in [
        (Family::ToolSanitizeRequest, "rq"),
        (Family::ToolSanitizeResponse, "rs"),
    ] {
        let mask = Handler::transform(|_, _| Ok(Some(json!("masked").into())));
        runtime.register(family, name, mask, &in_scope(&scope)).unwrap();
    }
    let late = Count::default();
    let (inner, closes, counts) = (runtime.clone(), scope.clone(), late.clone());
    let changes = Handler::around(move |call: ToolCall, next: Next| {
        let counts = counts.clone();
        let late = Handler::around(move |call, next: Next| {
            counts.up();
            async move { next.run(call).await }
        });
        inner
            .register(Family::ToolExecution, "late", late, &at(5))
            .unwrap();
        inner.deregister(Family::ToolExecution, "victim", None);
        closes.close(CloseOptions::default());
        async move { next.run(call).await }
    });
    runtime
        .register(Family::ToolExecution, "changes", changes, &at(-1))
        .unwrap();
    runtime
        .register(
            Family::ToolExecution,
            "victim",
            appends("victim", Family::ToolExecution),
            &at(1),
        )
        .unwrap();
    assert_eq!(seen(&runtime, Some(&scope)), ["victim"]);
    assert_eq!(late.get(), 0);
    let events = flushed(&runtime, &log);
    let tool: Vec<_> = events
        .iter()
        .filter(|event| event["category"] == "tool")
        .collect();
    assert!(tool.iter().all(|event| event["data"] == "masked"), "{tool:#?}");
    assert_eq!((tool.len(), pairs(&events)), (2, 2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Around and request chains run by priority, then name byte by byte, then from the outer level to the inner.
    #[test]
    fn fam_2_order_is_priority_then_name_then_level(
        entries in prop::collection::vec((-2_i32..3, "[aAbBz\u{e9}]{1,2}", 0_usize..4), 0..14),
    ) {
        let runtime = runtime();
        let mut scopes: Vec<Scope> = Vec::new();
        for depth in 0..3 {
            scopes.push(open(&runtime, &format!("s{depth}"), scopes.last()));
        }
        let mut expected = Vec::new();
        for (priority, name, level) in entries {
            let scope = level.checked_sub(1).map(|index| scopes[index].clone());
            let label = format!("{priority}/{name}/{level}");
            let options = RegisterOptions { priority, scope, ..RegisterOptions::default() };
            let taken = expected.iter().any(|(_, other, at, _)| *other == name.as_bytes() && *at == level);
            for family in [Family::ToolRequest, Family::ToolExecution] {
                let registered = runtime.register(family, &name, appends(&label, family), &options);
                prop_assert_eq!(registered.is_err_and(|error| error.code() == Some("already_exists")), taken);
            }
            if !taken {
                expected.push((priority, name.into_bytes(), level, label));
            }
        }
        expected.sort();
        for depth in 0..=3_usize {
            let labels: Vec<_> = expected.iter().filter(|entry| entry.2 <= depth).map(|entry| entry.3.clone()).collect();
            let place = depth.checked_sub(1).map(|index| &scopes[index]);
            prop_assert_eq!(seen(&runtime, place), [labels.clone(), labels].concat());
        }
    }
}

#[test]
fn fam_2_sanitizers_and_guardrails_keep_the_same_order() {
    let runtime = runtime();
    let log = record(&runtime);
    let order = Log::default();
    for (name, priority) in [("b", 0), ("a", 0), ("c", -1), ("d", i32::MAX), ("e", i32::MIN)] {
        for family in [Family::ToolSanitizeRequest, Family::ScopeSanitizeEnd] {
            let (sink, text) = (order.clone(), format!("{family} {name}"));
            let handler = Handler::transform(move |_, payload| {
                sink.push(text.clone());
                Ok(Some(payload))
            });
            runtime.register(family, name, handler, &at(priority)).unwrap();
        }
        let (sink, text) = (order.clone(), format!("gate {name}"));
        let gate = Handler::gate(move |_| {
            sink.push(text.clone());
            Ok(callweir::Verdict::Allow)
        });
        runtime
            .register(Family::ToolConditionalExecution, name, gate, &at(priority))
            .unwrap();
    }
    call(
        &runtime,
        Invocation::new(
            "t",
            json!({}),
            callweir::work(|_| async { Ok(Value::Null.into()) }),
        ),
    )
    .unwrap();
    flushed(&runtime, &log);
    for stage in ["gate", "tool.sanitize_request"] {
        let texts = order.texts();
        let names: Vec<_> = texts
            .iter()
            .filter_map(|text| text.strip_prefix(stage)?.strip_prefix(' '))
            .collect();
        assert_eq!(names, ["e", "c", "a", "b", "d"], "{stage}");
    }
}
