//! Registration: names, levels, what a failed or removed registration lets go of.
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

use callweir::{Family, Handler, Module, Next, RegisterOptions, Shape, Verdict, observe};
use common::*;
use serde_json::json;

fn fits(family: Family, held: &Arc<()>) -> Handler {
    let held = held.clone();
    match family.shape() {
        Shape::Gate => Handler::gate(move |_| {
            let _ = &held;
            Ok(Verdict::Allow)
        }),
        Shape::Transform => Handler::transform(move |_, payload| {
            let _ = &held;
            Ok(Some(payload))
        }),
        Shape::Around | Shape::Stream => Handler::around(move |call, next: Next| {
            let _ = &held;
            async move { next.run(call).await }
        }),
    }
}

#[test]
fn c_26_a_name_is_taken_once_and_the_first_stays() {
    for family in Family::ALL {
        let runtime = runtime();
        let (first, others) = (Arc::new(()), Arc::new(()));
        let options = RegisterOptions::default();
        runtime
            .register(*family, "n", fits(*family, &first), &options)
            .unwrap();
        for _ in 0..4 {
            let error = runtime
                .register(*family, "n", fits(*family, &others), &options)
                .unwrap_err();
            assert_eq!(
                (error.code(), error.field("name")),
                (Some("already_exists"), Some("n"))
            );
        }
        // A failed registration lets go of what it was given.
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&others)), (2, 1));
        assert_eq!(runtime.registrations_list().len(), 1);
        assert!(runtime.deregister(*family, "n", None));
        assert!(!runtime.deregister(*family, "n", None));
        assert_eq!(
            (Arc::strong_count(&first), runtime.registrations_list().len()),
            (1, 0)
        );
    }
}

#[test]
fn fam_7_the_same_name_at_other_families_and_levels_is_free() {
    let runtime = runtime();
    let scope = runtime
        .open_scope(
            "s",
            callweir::ScopeType::Agent,
            None,
            callweir::ScopeOptions::default(),
        )
        .unwrap();
    let held = Arc::new(());
    let plugin = RegisterOptions {
        component: Some("k".into()),
        ..RegisterOptions::default()
    };
    for family in Family::ALL {
        for options in [RegisterOptions::default(), in_scope(&scope), plugin.clone()] {
            runtime
                .register(*family, "n", fits(*family, &held), &options)
                .unwrap();
        }
    }
    let list = runtime.registrations_list();
    assert_eq!(list.len(), 3 * Family::COUNT);
    let owners: Vec<_> = list.iter().filter(|line| line.stage == "tool.request").collect();
    let seen: Vec<_> = owners
        .iter()
        .map(|line| (&*line.name, line.level, line.owner.as_deref()))
        .collect();
    assert_eq!(
        seen,
        [
            ("k/n", "plugin", Some("k")),
            ("n", "global", None),
            ("n", "scope", Some("s"))
        ]
    );
    // Removing at one level leaves the others.
    assert!(runtime.deregister(Family::ToolRequest, "n", Some(&scope)));
    assert!(!runtime.deregister(Family::ToolRequest, "k/n", None));
    assert!(runtime.remove_component("k"));
    assert_eq!(runtime.registrations_list().len(), 2 * Family::COUNT - 1);
    scope.close(callweir::CloseOptions::default());
    assert_eq!(Arc::strong_count(&held), 1 + Family::COUNT);
}

#[test]
fn c_26_a_thousand_rounds_leave_nothing_behind() {
    let held = Arc::new(());
    for round in 0..1000 {
        let runtime = runtime();
        for family in [
            Family::ToolConditionalExecution,
            Family::ToolExecution,
            Family::ToolSanitizeRequest,
        ] {
            runtime
                .register(family, "n", fits(family, &held), &RegisterOptions::default())
                .unwrap();
        }
        let inside = held.clone();
        runtime
            .subscribe("s", observe(move |_| drop(inside.clone())), None)
            .unwrap();
        if round % 10 == 0 {
            simple(&runtime).unwrap();
        }
        runtime
            .shutdown_blocking(std::time::Duration::from_secs(5))
            .unwrap();
    }
    // The dispatcher's threads let go a moment after they were told to end.
    for _ in 0..200 {
        if Arc::strong_count(&held) == 1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} still held", Arc::strong_count(&held) - 1);
}

#[test]
fn fam_7_callbacks_are_dropped_outside_the_locks() {
    struct Registers(callweir::Runtime);
    impl Drop for Registers {
        fn drop(&mut self) {
            // What a host's destructor may do: use the registry that it was just removed from.
            add(
                &self.0,
                Family::ToolRequest,
                "from drop",
                Handler::transform(|_, payload| Ok(Some(payload))),
            );
            assert!(self.0.deregister(Family::ToolRequest, "from drop", None));
        }
    }
    let runtime = runtime();
    let gate = |runtime: &callweir::Runtime| {
        let held = Registers(runtime.clone());
        Handler::gate(move |_| {
            let _ = &held;
            Ok(Verdict::Allow)
        })
    };
    add(&runtime, Family::ToolConditionalExecution, "g", gate(&runtime));
    let taken = runtime.register(
        Family::ToolConditionalExecution,
        "g",
        gate(&runtime),
        &RegisterOptions::default(),
    );
    assert!(taken.is_err());
    assert!(runtime.deregister(Family::ToolConditionalExecution, "g", None));
    let scope = runtime
        .open_scope(
            "s",
            callweir::ScopeType::Agent,
            None,
            callweir::ScopeOptions::default(),
        )
        .unwrap();
    runtime
        .register(
            Family::ToolConditionalExecution,
            "g",
            gate(&runtime),
            &in_scope(&scope),
        )
        .unwrap();
    scope.close(callweir::CloseOptions::default());
    let held = Registers(runtime.clone());
    runtime
        .subscribe(
            "s",
            observe(move |_| {
                let _ = &held;
            }),
            None,
        )
        .unwrap();
    assert!(runtime.subscribe("s", observe(|_| ()), None).is_err());
    assert!(runtime.unsubscribe("s", None) && !runtime.unsubscribe("s", None));
}

#[test]
fn fam_1_shapes_are_checked_and_wire_names_are_stable() {
    let runtime = runtime();
    let held = Arc::new(());
    for family in Family::ALL {
        for other in Family::ALL {
            let around = |shape| matches!(shape, Shape::Around | Shape::Stream);
            let same = family.shape() == other.shape() || (around(family.shape()) && around(other.shape()));
            let registered = runtime.register(
                *family,
                other.wire_name(),
                fits(*other, &held),
                &RegisterOptions::default(),
            );
            assert_eq!(registered.is_ok(), same, "{family} {other}");
            assert!(
                registered
                    .err()
                    .is_none_or(|error| error.field("path") == Some("$.fn"))
            );
        }
    }
    let names: Vec<_> = Family::ALL
        .iter()
        .map(|family| (family.wire_name(), family.module()))
        .collect();
    let (guard, cept) = (Module::Guardrails, Module::Intercepts);
    assert_eq!(
        names,
        [
            ("tool.conditional_execution", guard),
            ("tool.request", cept),
            ("tool.execution", cept),
            ("tool.sanitize_request", guard),
            ("tool.sanitize_response", guard),
            ("llm.conditional_execution", guard),
            ("llm.request", cept),
            ("llm.execution", cept),
            ("llm.stream_execution", cept),
            ("llm.sanitize_request", guard),
            ("llm.sanitize_response", guard),
            ("mark.sanitize", guard),
            ("scope.sanitize_start", guard),
            ("scope.sanitize_end", guard),
        ]
    );
}

#[test]
fn c_23_each_family_runs_where_its_row_says() {
    // What runs, by family: tool call, manual start and end, mark, scope.
    let expected = [
        (Family::ToolConditionalExecution, [1, 0, 0, 0]),
        (Family::ToolRequest, [1, 0, 0, 0]),
        (Family::ToolExecution, [1, 0, 0, 0]),
        (Family::ToolSanitizeRequest, [1, 1, 0, 0]),
        (Family::ToolSanitizeResponse, [1, 1, 0, 0]),
        (Family::MarkSanitize, [0, 0, 1, 0]),
        (Family::ScopeSanitizeStart, [1, 1, 0, 1]),
        (Family::ScopeSanitizeEnd, [1, 1, 0, 1]),
    ];
    for family in Family::ALL {
        let runs = expected
            .iter()
            .find(|(one, _)| one == family)
            .map_or([0; 4], |(_, runs)| *runs);
        let runtime = runtime();
        let log = record(&runtime);
        let ran = Count::default();
        let counts = ran.clone();
        let handler = match family.shape() {
            Shape::Gate => Handler::gate(move |_| {
                counts.up();
                Ok(Verdict::Allow)
            }),
            Shape::Transform => Handler::transform(move |_, payload| {
                counts.up();
                Ok(Some(payload))
            }),
            Shape::Around | Shape::Stream => Handler::around(move |call, next: Next| {
                counts.up();
                async move { next.run(call).await }
            }),
        };
        add(&runtime, *family, "one", handler);
        let mut before = 0;
        let mut ran_since = |runtime: &callweir::Runtime| {
            flushed(runtime, &log);
            let since = ran.get() - before;
            before = ran.get();
            since
        };
        let result = call(&runtime, echo("t", json!({"a": 1}), &Count::default())).unwrap();
        assert_eq!(result.into_json().unwrap(), json!({"a": 1}));
        let tool = ran_since(&runtime);
        let manual = callweir::ManualCall::start(
            &runtime,
            "m".into(),
            &json!({}).into(),
            callweir::ManualOptions::default(),
        )
        .unwrap();
        manual
            .end(callweir::EndOptions {
                result: Some(json!(1).into()),
                ..callweir::EndOptions::default()
            })
            .unwrap();
        let manual = ran_since(&runtime);
        runtime.mark("k", None, callweir::Mark::default());
        let mark = ran_since(&runtime);
        drop(
            runtime
                .scope("s", callweir::ScopeType::Agent, callweir::ScopeOptions::default())
                .unwrap(),
        );
        assert_eq!([tool, manual, mark, ran_since(&runtime)], runs, "{family}");
    }
}
