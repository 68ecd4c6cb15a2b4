//! Failures: who sees which error, and what observers are told.
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

use callweir::{
    Error, ErrorKind, Family, Handler, Invocation, Next, Outcome, ToolCall, ToolContext, ToolRegistry,
    ToolSpec, Verdict, observe, observe_async, work,
};
use common::*;
use serde_json::{Value, json};

#[test]
fn c_15_the_same_error_arrives_through_any_number_of_intercepts() {
    for count in [0, 1, 5] {
        for inside in [false, true] {
            let runtime = runtime();
            let log = record(&runtime);
            let raised = quota(9);
            let seen = Log::default();
            for index in 0..count {
                let (sink, expected) = (seen.clone(), raised.clone());
                let watch = Handler::around(move |call, next: Next| {
                    let (sink, expected) = (sink.clone(), expected.clone());
                    async move {
                        let result = next.run(call).await;
                        sink.push(result.as_ref().is_err_and(|error| error.same(&expected)));
                        result
                    }
                });
                runtime
                    .register(Family::ToolExecution, &format!("w{index}"), watch, &at(index))
                    .unwrap();
            }
            let error = raised.clone();
            let after = Handler::around(move |call, next: Next| {
                let error = error.clone();
                async move {
                    next.run(call).await?;
                    Err(error)
                }
            });
            if !inside {
                runtime
                    .register(Family::ToolExecution, "after", after, &at(100))
                    .unwrap();
            }
            let error = raised.clone();
            let tool = work(move |_| {
                let error = error.clone();
                async move {
                    if inside {
                        Err(error)
                    } else {
                        Ok(Value::Null.into())
                    }
                }
            });
            let got = call(&runtime, Invocation::new("t", json!({}), tool)).unwrap_err();
            assert!(got.same(&raised));
            assert_eq!((got.downcast_ref::<Quota>().unwrap().0, got.kind()), (9, None));
            assert_eq!(seen.all(), vec![json!(true); usize::try_from(count).unwrap()]);
            let events = flushed(&runtime, &log);
            assert_eq!((pairs(&events), outcome(&events[1])), (1, "failed"));
        }
    }
}

#[test]
fn c_18_a_panic_settles_the_call_and_nothing_else() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "in drop");
        }
    }
    let before = || Handler::around(|_, _| async { panic!("before") });
    let at_once = || {
        Handler::around(
            |_, _| -> std::future::Ready<callweir::Result<callweir::Payload>> { panic!("at once") },
        )
    };
    let after = || {
        Handler::around(|call, next: Next| async move {
            next.run(call).await?;
            panic!("after")
        })
    };
    let in_drop = || {
        Handler::around(|call, next: Next| async move {
            let _bomb = Bomb;
            next.run(call).await
        })
    };
    for (handler, ran) in [(before(), 0), (at_once(), 0), (after(), 1), (in_drop(), 1)] {
        let runtime = runtime();
        let log = record(&runtime);
        runtime
            .register(Family::ToolExecution, "p", handler, &at(0))
            .unwrap();
        let count = Count::default();
        let error = call(&runtime, echo("t", json!({}), &count)).unwrap_err();
        assert_eq!((error.kind(), count.get()), (Some(ErrorKind::Internal), ran));
        runtime.deregister(Family::ToolExecution, "p", None);
        for _ in 0..100 {
            simple(&runtime).unwrap();
        }
        let events = flushed(&runtime, &log);
        assert_eq!((pairs(&events), outcome(&events[1])), (101, "failed"));
        assert_eq!(events[1]["metadata"]["error.type"], "internal");
    }
}

#[test]
fn c_18_a_panic_on_the_publication_path_reaches_nobody() {
    struct Holds(Log);
    impl callweir::foreign::Observe for Holds {
        fn observe(&self, _: &Arc<callweir::Event>, _: &callweir::foreign::Origin) -> callweir::Step<()> {
            panic!("observe")
        }
        fn flush(&self) -> callweir::Result<()> {
            self.0.push("flush");
            panic!("flush")
        }
    }
    impl Drop for Holds {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "in drop");
        }
    }
    let runtime = runtime();
    let other = Log::default();
    let wrote = Log::default();
    runtime
        .subscribe("panics", observe(|_| panic!("observer")), None)
        .unwrap();
    runtime
        .subscribe("later", observe_async(|_| async { panic!("observer") }), None)
        .unwrap();
    runtime
        .subscribe("holds", Arc::new(Holds(wrote.clone())), None)
        .unwrap();
    let sink = other.clone();
    runtime
        .subscribe("fine", observe(move |event| sink.push(event.to_json())), None)
        .unwrap();
    add(
        &runtime,
        Family::ToolSanitizeRequest,
        "s",
        Handler::transform(|_, _| panic!("sanitizer")),
    );
    add(
        &runtime,
        Family::ToolSanitizeResponse,
        "s",
        Handler::transform_async(|_| async { panic!("sanitizer") }),
    );
    for _ in 0..50 {
        assert_eq!(simple(&runtime).unwrap(), json!({}));
    }
    let events = flushed(&runtime, &other);
    assert_eq!(pairs(&events), 50);
    assert!(
        events
            .iter()
            .all(|event| event["metadata"]["callweir.payload"] == "withheld")
    );
    assert!(runtime.counts().failures >= 400, "{:?}", runtime.counts());
    assert!(wrote.len() > 0);
    // Queued events hold the subscriber: it may be dropped, and panic, on the dispatcher's thread.
    simple(&runtime).unwrap();
    assert!(
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.unsubscribe("holds", None)))
            .unwrap_or(true)
    );
    for _ in 0..100 {
        simple(&runtime).unwrap();
    }
    assert_eq!(pairs(&flushed(&runtime, &other)), 151);
}

#[test]
fn c_20_request_intercepts_fail_closed() {
    let fails = || Handler::transform(|_, _| Err(quota(1)));
    let nothing = || Handler::transform(|_, _| Ok(None));
    for (handler, kind) in [(fails(), None), (nothing(), Some(ErrorKind::InvalidReturn))] {
        let runtime = runtime();
        let log = record(&runtime);
        add(&runtime, Family::ToolRequest, "bad", handler);
        let later = Count::default();
        let counts = later.clone();
        runtime
            .register(
                Family::ToolRequest,
                "later",
                Handler::transform(move |_, payload| {
                    counts.up();
                    Ok(Some(payload))
                }),
                &at(1),
            )
            .unwrap();
        let ran = Count::default();
        let error = call(&runtime, echo("t", json!({}), &ran)).unwrap_err();
        assert_eq!(error.kind(), kind);
        if kind.is_some() {
            assert_eq!(
                (error.field("family"), error.field("entry")),
                (Some("tool.request"), Some("bad"))
            );
        }
        assert_eq!((ran.get(), later.get(), flushed(&runtime, &log).len()), (0, 0, 0));
    }
}

#[test]
fn c_20_execution_intercepts_before_and_after() {
    let before = || Handler::around(|_, _| async { Err(quota(1)) });
    let after = || {
        Handler::around(|call, next: Next| async move {
            next.run(call).await?;
            Err(quota(1))
        })
    };
    for (handler, expected) in [(before(), 0), (after(), 1)] {
        let runtime = runtime();
        let log = record(&runtime);
        add(&runtime, Family::ToolExecution, "bad", handler);
        let ran = Count::default();
        let error = call(&runtime, echo("t", json!({}), &ran)).unwrap_err();
        assert_eq!(
            (error.downcast_ref::<Quota>().unwrap().0, ran.get()),
            (1, expected)
        );
        let events = flushed(&runtime, &log);
        assert_eq!((pairs(&events), outcome(&events[1])), (1, "failed"));
        assert_eq!(events[1]["metadata"]["callweir.short_circuited"], Value::Null);
    }
}

#[test]
fn c_20_sanitizers_withhold_or_omit_and_skip_the_rest() {
    for (family, broken) in [
        (Family::ToolSanitizeRequest, 0),
        (Family::ToolSanitizeResponse, 1),
    ] {
        for (fails, word) in [(true, "withheld"), (false, "omitted")] {
            let runtime = runtime();
            let log = record(&runtime);
            add(
                &runtime,
                family,
                "a",
                Handler::transform(move |_, _| if fails { Err(quota(1)) } else { Ok(None) }),
            );
            let later = Count::default();
            let counts = later.clone();
            add(
                &runtime,
                family,
                "b",
                Handler::transform(move |_, payload| {
                    counts.up();
                    Ok(Some(payload))
                }),
            );
            let arguments = json!({"secret": 1});
            let result = call(&runtime, echo("t", arguments.clone(), &Count::default())).unwrap();
            assert_eq!(result.into_json().unwrap(), arguments);
            let events = flushed(&runtime, &log);
            assert_eq!(events[broken]["data"], Value::Null);
            assert_eq!(events[broken]["metadata"]["callweir.payload"], word);
            assert_eq!(events[1 - broken]["data"], arguments);
            assert_eq!((later.get(), runtime.counts().failures), (0, u64::from(fails)));
        }
    }
}

#[test]
fn c_20_event_sanitizers_clear_the_three_fields() {
    let kinds: [(fn() -> Handler, &str); 4] = [
        (|| Handler::transform(|_, _| Err(quota(1))), "withheld"),
        (
            || Handler::transform(|_, _| Ok(Some(json!(7).into()))),
            "withheld",
        ),
        (|| Handler::transform(|_, _| panic!("event")), "withheld"),
        (|| Handler::transform(|_, _| Ok(None)), "omitted"),
    ];
    for (make, word) in kinds {
        let runtime = runtime();
        let log = record(&runtime);
        for family in [
            Family::ScopeSanitizeStart,
            Family::ScopeSanitizeEnd,
            Family::MarkSanitize,
        ] {
            add(&runtime, family, "bad", make());
            add(
                &runtime,
                family,
                "later",
                Handler::transform(|_, _| Ok(Some(json!({"data": "later"}).into()))),
            );
        }
        let mut invocation = echo("t", json!({"secret": 1}), &Count::default());
        invocation.metadata = Some(json!({"secret": 2}));
        invocation.tool_call_id = Some("secret".into());
        call(&runtime, invocation).unwrap();
        let mark = callweir::Mark {
            data: Some(json!("secret")),
            ..callweir::Mark::default()
        };
        runtime.mark("m", None, mark);
        let events = flushed(&runtime, &log);
        assert_eq!(events.len(), 3);
        for event in &events {
            assert_eq!(
                (&event["data"], &event["category_profile"]),
                (&Value::Null, &Value::Null)
            );
            assert_eq!(event["metadata"]["callweir.payload"], word);
        }
        assert!(!Value::from(events.clone()).to_string().contains("secret"));
        assert_eq!(outcome(&events[1]), "succeeded");
        assert_eq!(events[1]["metadata"]["otel.status_code"], "OK");
    }
}

#[test]
fn c_20_a_failing_subscriber_is_counted_and_the_others_get_all() {
    let runtime = runtime();
    runtime
        .subscribe("bad", observe_async(|_| async { Err(quota(1)) }), None)
        .unwrap();
    let log = record(&runtime);
    for _ in 0..3 {
        simple(&runtime).unwrap();
    }
    assert_eq!(pairs(&flushed(&runtime, &log)), 3);
    assert_eq!(runtime.counts().failures, 6);
}

#[test]
fn c_81_the_text_that_a_model_gets() {
    let runtime = runtime();
    let registry = registry(&runtime, &["pay", "look"], &Count::default());
    registry
        .register(
            ToolSpec::new("fails", "Fails.").json(json!({"type": "object"}), |_| async { Err(quota(5500)) }),
        )
        .unwrap();
    let part = registry.subset(["look", "fails"]).unwrap();
    let text = |registry: &ToolRegistry, name: &str| {
        callweir::block_on(registry.dispatch(name, json!({}), ToolContext::new()))
            .unwrap_err()
            .for_model()
    };
    assert_eq!(text(&part, "nope"), r#"{"error":"not found: nope"}"#);
    assert_eq!(text(&part, "pay"), r#"{"error":"not permitted: pay"}"#);
    assert_eq!(text(&part, "fails"), r#"{"error":"failed: Quota"}"#);
    part.use_middleware(callweir::middleware_fn("deny", |call: ToolCall, _| async move {
        Err(Error::denied(&**call.name(), "over \"limit\"").with_code("rate"))
    }));
    assert_eq!(text(&part, "look"), r#"{"error":"denied: over \"limit\""}"#);
    add(
        &runtime,
        Family::ToolConditionalExecution,
        "g",
        Handler::gate(|_| Ok(Verdict::reject("closed"))),
    );
    assert_eq!(text(&part, "look"), r#"{"error":"denied: closed"}"#);
    assert_eq!(text(&part, "nope"), r#"{"error":"not found: nope"}"#);
}

#[test]
fn err_3_the_table_of_errors() {
    for kind in ErrorKind::ALL {
        let error = Error::new(*kind, "text");
        assert_eq!(error.code(), Some(kind.code()));
        let known =
            kind.parent() == "Error" || ErrorKind::ALL.iter().any(|other| other.name() == kind.parent());
        assert!(known, "{kind:?}");
        let snake: String = kind
            .name()
            .char_indices()
            .flat_map(|(at, one)| {
                let dash = (at > 0 && one.is_uppercase()).then_some('_');
                dash.into_iter().chain(one.to_lowercase())
            })
            .collect();
        let given = matches!(kind, ErrorKind::ToolCallDenied | ErrorKind::CallRejected);
        assert_eq!(kind.code() == snake, !given, "{kind:?}");
    }
    let refined = Error::denied("t", "r").with_code("rate_limited");
    assert_eq!(
        (refined.code(), refined.type_name().as_deref()),
        (Some("rate_limited"), Some("denied"))
    );
    assert_eq!(Outcome::of(&refined), Outcome::Refused);
    let boxed: Box<dyn std::error::Error + Send + Sync> = quota(4).into();
    assert_eq!(boxed.source().unwrap().downcast_ref::<Quota>().unwrap().0, 4);
}
