//! Managed calls: pairs, payloads, order of the steps, manual calls.
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
    EndOptions, Error, ErrorKind, Family, Handler, HostFailure, Invocation, ManualCall, ManualOptions, Mark,
    Next, Options, Outcome, Payload, Runtime, Scope, ScopeOptions, ScopeType, ToolCall, ToolContext, Verdict,
    block_on, conditional_execution, parse_json, request_intercepts, work,
};
use common::*;
use serde_json::{Value, json};

fn end_of(events: &[Value]) -> &Value {
    let ends = of_kind(events, "tool", "end");
    assert_eq!(ends.len(), 1, "{events:#?}");
    ends[0]
}

#[test]
fn c_24_pairs_by_outcome() {
    let runtime = runtime();
    let log = record(&runtime);
    let reject = Handler::gate(|call| {
        Ok(if &**call.name() == "no" {
            Verdict::reject("never")
        } else {
            Verdict::Allow
        })
    });
    add(&runtime, Family::ToolConditionalExecution, "g", reject);
    let short = Handler::around(|call: ToolCall, next: Next| async move {
        if &**call.name() == "short" {
            Ok(json!("made up").into())
        } else {
            next.run(call).await
        }
    });
    add(&runtime, Family::ToolExecution, "s", short);
    let count = Count::default();
    call(&runtime, echo("yes", json!({"a": 1}), &count)).unwrap();
    let fail = Invocation::new("fails", json!({}), work(|_| async { Err(quota(1)) }));
    assert!(call(&runtime, fail).is_err());
    let rejected = call(&runtime, echo("no", json!({}), &count)).unwrap_err();
    assert_eq!(
        (rejected.kind(), rejected.field("by")),
        (Some(ErrorKind::CallRejected), Some("g"))
    );
    let made = call(&runtime, echo("short", json!({}), &count)).unwrap();
    assert_eq!(made.into_json().unwrap(), json!("made up"));
    assert_eq!(count.get(), 1);
    let events = flushed(&runtime, &log);
    pairs(&events);
    let ends = of_kind(&events, "tool", "end");
    let seen: Vec<_> = ends
        .iter()
        .map(|end| (end["name"].as_str().unwrap(), outcome(end)))
        .collect();
    assert_eq!(
        seen,
        [("yes", "succeeded"), ("fails", "failed"), ("short", "succeeded")]
    );
    let short: Vec<_> = ends
        .iter()
        .map(|end| &end["metadata"]["callweir.short_circuited"])
        .collect();
    assert_eq!(short, [&Value::Null, &Value::Null, &json!(true)]);
    let mark = marks(&events)[0];
    assert_eq!(
        (mark["name"].as_str(), &mark["data"]),
        (
            Some("no"),
            &json!({"rejected": true, "rejection_reason": "never"})
        )
    );
    assert_eq!(mark["metadata"]["callweir.mark"], "rejection");
}

#[test]
fn c_35b_next_twice_is_one_pair_with_attempts() {
    let runtime = runtime();
    let log = record(&runtime);
    let twice = Handler::around(|call: ToolCall, next: Next| async move {
        next.run(call.clone()).await?;
        next.run(call).await
    });
    add(&runtime, Family::ToolExecution, "twice", twice);
    let count = Count::default();
    call(&runtime, echo("t", json!({}), &count)).unwrap();
    assert_eq!(count.get(), 2);
    let events = flushed(&runtime, &log);
    assert_eq!(pairs(&events), 1);
    assert_eq!(end_of(&events)["metadata"]["callweir.attempt"], 2);
}

#[test]
fn fam_5_next_concurrently_runs_the_rest_each_time() {
    let runtime = runtime();
    let log = record(&runtime);
    let both = Handler::around(|call: ToolCall, next: Next| async move {
        let (a, b) = futures_util::future::join(
            next.run(call.clone().with_arguments(json!(1))),
            next.run(call.with_arguments(json!(2))),
        )
        .await;
        Ok(json!([a?.into_json()?, b?.into_json()?]).into())
    });
    add(&runtime, Family::ToolExecution, "both", both);
    let inner = Count::default();
    let seen = inner.clone();
    let counting = Handler::around(move |call, next: Next| {
        seen.up();
        async move { next.run(call).await }
    });
    runtime
        .register(Family::ToolExecution, "inner", counting, &at(1))
        .unwrap();
    let count = Count::default();
    let result = call(&runtime, echo("t", json!({}), &count)).unwrap();
    assert_eq!(result.into_json().unwrap(), json!([1, 2]));
    assert_eq!((count.get(), inner.get()), (2, 2));
    assert_eq!(pairs(&flushed(&runtime, &log)), 1);
}

#[test]
fn c_72_next_after_the_call_is_expired() {
    for depth in [0, 3] {
        let runtime = runtime();
        let log = record(&runtime);
        let kept: Arc<parking_lot::Mutex<Option<(Next, ToolCall)>>> = Arc::default();
        let slot = kept.clone();
        let keep = Handler::around(move |call: ToolCall, next: Next| {
            *slot.lock() = Some((next.clone(), call.clone()));
            async move { next.run(call).await }
        });
        for index in 0..depth {
            runtime
                .register(
                    Family::ToolExecution,
                    &format!("pass{index}"),
                    pass(),
                    &at(index - 1),
                )
                .unwrap();
        }
        add(&runtime, Family::ToolExecution, "keep", keep);
        let count = Count::default();
        call(&runtime, echo("t", json!({}), &count)).unwrap();
        let before = flushed(&runtime, &log).len();
        let (next, call) = kept.lock().take().unwrap();
        assert_eq!(
            block_on(next.run(call)).unwrap_err().kind(),
            Some(ErrorKind::Expired)
        );
        assert_eq!(count.get(), 1);
        assert_eq!(flushed(&runtime, &log).len(), before);
    }
}

#[test]
fn c_22_who_sees_which_arguments() {
    let runtime = runtime();
    let log = record(&runtime);
    let seen = Log::default();
    let dest = |payload: &Payload| payload.to_json().unwrap()["dest"].clone();
    let sink = seen.clone();
    let gate = Handler::gate(move |call| {
        sink.push(json!(["gate", dest(call.arguments())]));
        Ok(Verdict::Allow)
    });
    add(&runtime, Family::ToolConditionalExecution, "g", gate);
    let south = Handler::transform(|_, _| Ok(Some(json!({"dest": "south"}).into())));
    add(&runtime, Family::ToolRequest, "r", south);
    let sink = seen.clone();
    let around = Handler::around(move |call: ToolCall, next: Next| {
        sink.push(json!(["around", dest(call.arguments())]));
        async move { next.run(call).await }
    });
    add(&runtime, Family::ToolExecution, "e", around);
    let sink = seen.clone();
    let tool = work(move |call: ToolCall| {
        sink.push(json!(["tool", dest(call.arguments())]));
        async move { Ok(json!(null).into()) }
    });
    let arguments = callweir::Json::from(json!({"dest": "north"}));
    call(
        &runtime,
        Invocation::new("t", Payload::Json(arguments.clone()), tool),
    )
    .unwrap();
    assert_eq!(
        seen.all(),
        [
            json!(["gate", "north"]),
            json!(["around", "south"]),
            json!(["tool", "south"])
        ]
    );
    assert_eq!(*arguments, json!({"dest": "north"}));
    assert_eq!(
        of_kind(&flushed(&runtime, &log), "tool", "start")[0]["data"],
        json!({"dest": "south"})
    );
}

#[test]
fn c_45_c_55_order_and_numbers_stay() {
    let texts = [
        r#"{"z":1,"model":"m","inner":{"y":[{"d":1,"c":2}],"b":2},"a":3}"#,
        r#"{"count":42,"id":4611686018427387905,"ratio":0.5,"u":18446744073709551615,"i":-9223372036854775808}"#,
        r#"{"big":123456789012345678901234567890,"exp":1E5,"small":1.50e-7,"zero":-0.0,"huge":1e400}"#,
    ];
    for text in texts {
        let runtime = runtime();
        let log = record(&runtime);
        add(
            &runtime,
            Family::ToolRequest,
            "noop",
            Handler::transform(|_, payload| Ok(Some(payload))),
        );
        add(
            &runtime,
            Family::ToolSanitizeRequest,
            "noop",
            Handler::transform(|_, payload| Ok(Some(payload))),
        );
        let seen = Log::default();
        let sink = seen.clone();
        let tool = work(move |call: ToolCall| {
            sink.push(call.arguments().to_json().unwrap().to_string());
            async move { Ok(call.into_arguments()) }
        });
        let result = call(&runtime, Invocation::new("t", parse_json(text).unwrap(), tool)).unwrap();
        assert_eq!(result.into_json().unwrap().to_string(), text);
        assert_eq!(seen.texts(), [text]);
        for event in flushed(&runtime, &log) {
            assert_eq!(event["data"].to_string(), text);
        }
    }
}

#[test]
fn pay_6_pay_2_copies_are_made_only_for_observers() {
    struct Counted(Count);
    impl callweir::foreign::HostValue for Counted {
        fn to_json(&self) -> callweir::Result<callweir::Json> {
            self.0.up();
            Err(Error::not_json("$.a[3]", "no"))
        }
        fn isolate(&self) -> callweir::Result<Payload> {
            Err(Error::not_json("$", "no"))
        }
        fn keys(&self, _: &mut dyn FnMut(&str)) -> bool {
            true
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    let runtime = runtime();
    let copies = Count::default();
    let value: Arc<dyn callweir::foreign::HostValue> = Arc::new(Counted(copies.clone()));
    let invocation = |value: &Arc<dyn callweir::foreign::HostValue>| {
        Invocation::new(
            "t",
            Payload::Host(value.clone()),
            work(|call: ToolCall| async { Ok(call.into_arguments()) }),
        )
    };
    let same = |result: Payload| matches!(&result, Payload::Host(back) if Arc::ptr_eq(back, &value));
    assert!(same(call(&runtime, invocation(&value)).unwrap()));
    assert_eq!(copies.get(), 0);
    let log = record(&runtime);
    // A value that is not JSON fails nobody but the observers, who learn where.
    assert!(same(call(&runtime, invocation(&value)).unwrap()));
    assert_eq!(copies.get(), 2);
    for event in flushed(&runtime, &log) {
        assert_eq!(event["data"], Value::Null);
        assert_eq!(event["metadata"]["callweir.payload"], "not_json");
        assert_eq!(event["metadata"]["callweir.not_json_path"], "$.a[3]");
    }
}

#[test]
fn pay_3_too_deep_a_value_is_not_json_for_observers_only() {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    for (depth, fits) in [(511, true), (512, true), (513, false), (600, false)] {
        let runtime = runtime();
        let log = record(&runtime);
        let result = call(&runtime, echo("t", nested(depth), &Count::default())).unwrap();
        assert_eq!(result.into_json().unwrap(), nested(depth));
        for event in flushed(&runtime, &log) {
            assert_eq!(event["data"].is_array(), fits, "{depth}");
            let path = event["metadata"]["callweir.not_json_path"].as_str().map(str::len);
            assert_eq!(path, (!fits).then_some(1 + 512 * 3), "{depth}");
        }
    }
}

#[test]
fn c_16a_error_text_stays_out_of_events_unless_switched_on() {
    for error_text in [false, true] {
        let runtime = Runtime::new(Options {
            error_text,
            ..Options::default()
        });
        let log = record(&runtime);
        let fails = Invocation::new("t", json!({}), work(|_| async { Err(quota(7)) }));
        let error = call(&runtime, fails).unwrap_err();
        assert_eq!(error.downcast_ref::<Quota>().unwrap().0, 7);
        let events = flushed(&runtime, &log);
        assert_eq!(end_of(&events)["metadata"]["error.type"], "Quota");
        assert_eq!(end_of(&events)["metadata"]["otel.status_code"], "ERROR");
        assert_eq!(Value::from(events).to_string().contains("5500"), error_text);
    }
}

#[test]
fn err_4_control_flow_passes_unchanged_and_counts_as_cancelled() {
    struct Exit;
    impl HostFailure for Exit {
        fn type_name(&self) -> Option<String> {
            Some("SystemExit".to_owned())
        }
        fn message(&self) -> String {
            "3".to_owned()
        }
        fn is_control(&self) -> bool {
            true
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    for fired in [false, true] {
        let runtime = runtime();
        let log = record(&runtime);
        let exit = Error::host(Arc::new(Exit));
        let token = callweir::CancellationToken::new();
        let (raised, inner) = (exit.clone(), token.clone());
        let mut invocation = Invocation::new(
            "t",
            json!({}),
            work(move |_| {
                if fired {
                    inner.cancel();
                }
                let raised = raised.clone();
                async move { Err(raised) }
            }),
        );
        invocation.context = ToolContext::new().with_cancellation(token);
        assert!(call(&runtime, invocation).unwrap_err().same(&exit));
        let events = flushed(&runtime, &log);
        assert_eq!((pairs(&events), outcome(end_of(&events))), (1, "cancelled"));
    }
}

#[test]
fn call_5_calls_nest_and_parents_follow() {
    let runtime = runtime();
    let log = record(&runtime);
    let inner = runtime.clone();
    let outer = Invocation::new(
        "outer",
        json!({}),
        work(move |_| {
            let runtime = inner.clone();
            async move {
                runtime.mark("inside", Scope::current().as_ref(), Mark::default());
                echo("inner", json!({}), &Count::default()).execute(runtime).await
            }
        }),
    );
    call(&runtime, outer).unwrap();
    let events = flushed(&runtime, &log);
    assert_eq!(pairs(&events), 2);
    let start = |name: &str| events.iter().find(|event| event["name"] == name).unwrap();
    assert_eq!(start("inner")["parent_uuid"], start("outer")["uuid"]);
    assert_eq!(start("inside")["parent_uuid"], start("outer")["uuid"]);
    assert_eq!(start("outer")["parent_uuid"], Value::Null);
    assert!(Scope::current().is_none());
}

#[test]
fn evt_1_shape_of_a_tool_call() {
    let runtime = runtime();
    let log = record(&runtime);
    let mut invocation = echo("t", json!({"a": 1}), &Count::default());
    invocation.tool_call_id = Some("call_1".into());
    invocation.metadata = Some(json!({"run": 7, "callweir.outcome": "forged", "error.type": "forged"}));
    call(&runtime, invocation).unwrap();
    let events = flushed(&runtime, &log);
    for (event, phase) in events.iter().zip(["start", "end"]) {
        assert_eq!(event["kind"], "scope");
        assert_eq!(event["atof_version"], "0.1");
        assert_eq!(
            (&event["category"], &event["scope_category"]),
            (&json!("tool"), &json!(phase))
        );
        assert_eq!(event["category_profile"], json!({"tool_call_id": "call_1"}));
        assert_eq!(event["metadata"]["run"], 7);
        assert_eq!(
            (&event["attributes"], &event["data_schema"]),
            (&json!([]), &Value::Null)
        );
        assert_eq!(event["uuid"].as_str().unwrap().as_bytes()[14], b'7');
        assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
        assert_eq!(event["metadata"]["error.type"], Value::Null);
    }
    assert_eq!(events[0]["metadata"]["callweir.outcome"], Value::Null);
    assert_eq!(outcome(&events[1]), "succeeded");
    assert_eq!(events[1]["metadata"]["otel.status_code"], "OK");
    assert_eq!(events[1]["metadata"]["callweir.attempt"], Value::Null);
}

#[test]
fn c_13_6_manual_calls_end_once() {
    let runtime = runtime();
    let log = record(&runtime);
    let options = ManualOptions {
        tool_call_id: Some("id".into()),
        ..ManualOptions::default()
    };
    let handle = ManualCall::start(&runtime, "m".into(), &json!({"a": 1}).into(), options).unwrap();
    let inside = runtime
        .open_scope(
            "left",
            ScopeType::Function,
            Some(handle.scope().clone()),
            ScopeOptions::default(),
        )
        .unwrap();
    handle
        .end(EndOptions {
            result: Some(json!(5).into()),
            ..EndOptions::default()
        })
        .unwrap();
    assert!(!inside.is_open());
    for _ in 0..2 {
        let again = handle.end(EndOptions::default()).unwrap_err();
        assert_eq!(again.kind(), Some(ErrorKind::AlreadyEnded));
    }
    let fails = ManualCall::start(&runtime, "f".into(), &json!({}).into(), ManualOptions::default()).unwrap();
    fails
        .end(EndOptions {
            error: Some(quota(1)),
            ..EndOptions::default()
        })
        .unwrap();
    let told = ManualCall::start(&runtime, "o".into(), &json!({}).into(), ManualOptions::default()).unwrap();
    told.end(EndOptions {
        outcome: Some(Outcome::Cancelled),
        ..EndOptions::default()
    })
    .unwrap();
    let events = flushed(&runtime, &log);
    assert_eq!(pairs(&events), 4);
    let ends: Vec<_> = events
        .iter()
        .filter(|event| event["scope_category"] == "end")
        .collect();
    let seen: Vec<_> = ends
        .iter()
        .map(|end| (end["name"].as_str().unwrap(), outcome(end)))
        .collect();
    assert_eq!(
        seen,
        [
            ("left", "abandoned"),
            ("m", "succeeded"),
            ("f", "failed"),
            ("o", "cancelled")
        ]
    );
    assert_eq!(ends[1]["data"], 5);
    assert_eq!(ends[2]["metadata"]["error.type"], "Quota");
}

#[test]
fn section_4_manual_calls_run_sanitizers_and_nothing_else() {
    let runtime = runtime();
    let log = record(&runtime);
    let ran = Count::default();
    for family in [Family::ToolSanitizeRequest, Family::ToolSanitizeResponse] {
        add(
            &runtime,
            family,
            "s",
            Handler::transform(|_, _| Ok(Some(json!("masked").into()))),
        );
    }
    let counts = ran.clone();
    add(
        &runtime,
        Family::ToolConditionalExecution,
        "g",
        Handler::gate(move |_| {
            counts.up();
            Ok(Verdict::reject("no"))
        }),
    );
    let handle =
        ManualCall::start(&runtime, "m".into(), &json!({}).into(), ManualOptions::default()).unwrap();
    handle
        .end(EndOptions {
            result: Some(json!(5).into()),
            ..EndOptions::default()
        })
        .unwrap();
    let events = flushed(&runtime, &log);
    assert!(
        events.iter().all(|event| event["data"] == "masked"),
        "{events:#?}"
    );
    assert_eq!((events.len(), ran.get()), (2, 0));
}

#[test]
fn section_4_phases_run_alone() {
    let runtime = runtime();
    let log = record(&runtime);
    let gate = Handler::gate(|call| {
        let blocked = call.arguments().to_json()?["block"] == true;
        Ok(if blocked {
            Verdict::reject("")
        } else {
            Verdict::Allow
        })
    });
    add(&runtime, Family::ToolConditionalExecution, "g", gate);
    add(
        &runtime,
        Family::ToolRequest,
        "r",
        Handler::transform(|_, _| Ok(Some(json!("changed").into()))),
    );
    let ask = |arguments: Value| {
        block_on(conditional_execution(
            runtime.clone(),
            None,
            "t".into(),
            arguments.into(),
        ))
    };
    ask(json!({})).unwrap();
    let rejected = ask(json!({"block": true})).unwrap_err();
    assert_eq!(
        (rejected.code(), rejected.field("reason")),
        (Some("rejected"), Some(""))
    );
    assert_eq!(pairs(&flushed(&runtime, &log)), 2);
    assert!(of_kind(&log.all(), "guardrail", "start").len() == 2);
    let changed = block_on(request_intercepts(
        runtime.clone(),
        None,
        "t".into(),
        json!({}).into(),
    ))
    .unwrap();
    assert_eq!(changed.into_json().unwrap(), json!("changed"));
    assert_eq!(flushed(&runtime, &log).len(), 4);
}

#[test]
fn fam_9_runtimes_share_nothing() {
    let (a, b) = (runtime(), runtime());
    let (log_a, log_b) = (record(&a), record(&b));
    add(
        &a,
        Family::ToolConditionalExecution,
        "g",
        Handler::gate(|_| Ok(Verdict::reject("a"))),
    );
    assert!(simple(&a).is_err());
    assert!(simple(&b).is_ok());
    a.shutdown_blocking(std::time::Duration::from_secs(5)).unwrap();
    assert!(simple(&b).is_ok());
    assert_eq!(flushed(&b, &log_b).len(), 4);
    assert_eq!(log_a.len(), 3);
    assert!(Runtime::default() == Runtime::default());
}

#[test]
fn fam_5_what_was_not_awaited_in_time_has_expired() {
    let (saved, ran) = (Arc::new(parking_lot::Mutex::new(None)), Count::default());
    let runtime = Runtime::new(Options::default());
    let keep = saved.clone();
    let leak = Handler::around(move |call, next: Next| {
        *keep.lock() = Some(next.run(call));
        async { Ok(json!("early").into()) }
    });
    runtime
        .register(
            Family::ToolExecution,
            "leak",
            leak,
            &callweir::RegisterOptions::default(),
        )
        .unwrap();
    let result = block_on(echo("t", json!(1), &ran).execute(runtime)).unwrap();
    assert_eq!(result.into_json().unwrap(), json!("early"));
    let late = saved.lock().take().unwrap();
    assert_eq!(block_on(late).unwrap_err().code(), Some("expired"));
}
