//! Events: what observers get, sanitizing, typed records.
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
use std::time::Duration;

use callweir::{
    CallEvent, Error, Event, Family, Handler, Mark, Next, Outcome, ToolCall, ToolContext, ToolSpec,
    middleware_fn, observe, observe_calls,
};
use common::*;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_82_what_an_event_sanitizer_may_change() {
    struct Waits(Log);
    impl callweir::foreign::Transform for Waits {
        fn apply(
            &self,
            subject: &callweir::foreign::Subject<'_>,
            payload: callweir::Payload,
            _: &callweir::foreign::Context,
        ) -> callweir::Step<callweir::foreign::Transformed> {
            let callweir::foreign::Subject::Event(event) = subject else {
                panic!("not an event")
            };
            let mut own = Event::clone(event);
            own.name = "forged".into();
            own.uuid = own.parent_uuid.unwrap_or_default();
            let log = self.0.clone();
            callweir::Step::later(async move {
                let fields = payload.into_json()?;
                log.push(fields["data"].clone());
                std::thread::sleep(Duration::from_millis(300));
                let mut data = fields["data"].clone();
                data["added"] = json!(true);
                Ok(Some(
                    json!({"data": data, "name": "forged", "uuid": "forged"}).into(),
                ))
            })
        }
    }
    let runtime = runtime();
    let log = record(&runtime);
    let mask = Handler::transform(|_, payload| {
        let mut copy = payload.into_json()?;
        copy["card"] = json!("***");
        Ok(Some(copy.into()))
    });
    add(&runtime, Family::ToolSanitizeRequest, "mask", mask);
    let seen = Log::default();
    add(
        &runtime,
        Family::ScopeSanitizeStart,
        "waits",
        Handler::Transform(Arc::new(Waits(seen.clone()))),
    );
    let mut invocation = echo("t", json!({"card": "5500"}), &Count::default());
    invocation.metadata = Some(json!({"mine": 1}));
    invocation.tool_call_id = Some("id".into());
    let start = std::time::Instant::now();
    let result = invocation.execute(runtime.clone()).await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(200));
    assert_eq!(result.into_json().unwrap(), json!({"card": "5500"}));
    let events = flushed_async(&runtime, &log).await;
    assert_eq!(seen.all(), [json!({"card": "***"})]);
    let first = &events[0];
    assert_eq!(
        (&first["name"], &first["uuid"]),
        (&json!("t"), &events[1]["uuid"])
    );
    assert_eq!(first["data"], json!({"card": "***", "added": true}));
    assert_eq!(
        (&first["category_profile"], &first["metadata"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(events[1]["metadata"]["mine"], 1);
}

#[test]
fn call_1_own_metadata_is_set_after_the_sanitizers() {
    let runtime = runtime();
    let log = record(&runtime);
    let forges = Handler::transform(|_, _| {
        let metadata = json!({
            "callweir.outcome": "succeeded", "callweir.made_up": 1, "otel.status_code": "OK", "error.type": "None", "kept": 1,
        });
        Ok(Some(json!({"metadata": metadata}).into()))
    });
    add(&runtime, Family::ScopeSanitizeEnd, "forges", forges);
    let fails = callweir::Invocation::new("t", json!({}), callweir::work(|_| async { Err(quota(1)) }));
    call(&runtime, fails).unwrap_err();
    let events = flushed(&runtime, &log);
    let expected = json!({
        "kept": 1, "callweir.outcome": "failed", "error.type": "Quota", "otel.status_code": "ERROR",
    });
    assert_eq!(events[1]["metadata"], expected);
}

#[test]
fn evt_1_an_event_in_full() {
    let runtime = runtime();
    let log = record(&runtime);
    let mark = Mark {
        data: Some(json!({"d": 1})),
        metadata: Some(json!("not an object")),
        data_schema: Some(json!({"s": 1})),
        timestamp: Some(std::time::UNIX_EPOCH + Duration::from_millis(1500)),
    };
    runtime.mark("m", None, mark);
    let events = flushed(&runtime, &log);
    let keys: Vec<_> = events[0]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "kind",
        "atof_version",
        "uuid",
        "parent_uuid",
        "timestamp",
        "name",
        "data",
        "data_schema",
        "metadata",
    ];
    assert_eq!(keys, expected);
    assert_eq!(events[0]["metadata"], json!({"value": "not an object"}));
    assert_eq!(events[0]["timestamp"], "1970-01-01T00:00:01.500000Z");
    simple(&runtime).unwrap();
    let events = flushed(&runtime, &log);
    let keys: Vec<_> = events[1]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for key in expected
        .iter()
        .chain(&["scope_category", "category", "attributes", "category_profile"])
    {
        assert!(keys.contains(key), "{key}");
    }
}

#[test]
fn pay_5_observers_get_copies() {
    let runtime = runtime();
    let edits = |family| {
        add(
            &runtime,
            family,
            "edits",
            Handler::transform(|_, payload| {
                let mut copy = payload.into_json()?;
                copy.as_object_mut().unwrap().clear();
                copy["mine"] = json!(1);
                Ok(Some(copy.into()))
            }),
        );
    };
    edits(Family::ToolSanitizeRequest);
    edits(Family::ToolSanitizeResponse);
    runtime
        .subscribe(
            "a",
            observe(|event| {
                let mut own = Event::clone(event);
                own.data = json!("spoiled").into();
            }),
            None,
        )
        .unwrap();
    let log = record(&runtime);
    let arguments = callweir::Json::from(json!({"list": [1, 2]}));
    let tool = callweir::work(|call: ToolCall| async move {
        let mut value = call.into_arguments().into_json()?;
        value["list"].as_array_mut().unwrap().push(json!(3));
        Ok(value.into())
    });
    let result = call(
        &runtime,
        callweir::Invocation::new("t", callweir::Payload::Json(arguments.clone()), tool),
    )
    .unwrap();
    assert_eq!(result.into_json().unwrap(), json!({"list": [1, 2, 3]}));
    assert_eq!(*arguments, json!({"list": [1, 2]}));
    let events = flushed(&runtime, &log);
    assert!(events.iter().all(|event| event["data"] == json!({"mine": 1})));
    // The start shows the arguments as they were when the call started.
    runtime.deregister(Family::ToolSanitizeRequest, "edits", None);
    call(&runtime, echo("t", json!({"a": 1}), &Count::default())).unwrap();
    assert_eq!(flushed(&runtime, &log)[2]["data"], json!({"a": 1}));
}

#[test]
fn c_83_evt_11_typed_records() {
    let runtime = runtime();
    let seen = Log::default();
    let sink = seen.clone();
    let records = observe_calls(move |event| {
        let text = format!("{event:?}");
        assert!(!text.contains("PRIVATE-9"), "{text}");
        sink.push(match event {
            CallEvent::Started(started) => {
                json!([
                    "started",
                    &*started.tool,
                    started.caller_id.as_deref(),
                    started.uuid.to_string()
                ])
            }
            CallEvent::Completed(done) => {
                let took = done.duration >= Duration::from_millis(2);
                json!([
                    &*done.tool,
                    done.caller_id.as_deref(),
                    done.outcome.name(),
                    done.error_type,
                    done.short_circuited,
                    took
                ])
            }
        });
    });
    runtime.subscribe_calls("calls", records, None).unwrap();
    let taken = runtime.subscribe("calls", observe(|_| ()), None).unwrap_err();
    assert_eq!(taken.code(), Some("already_exists"));
    let tools = registry(&runtime, &["ok", "deny", "short"], &Count::default());
    tools
        .register(
            ToolSpec::new("fails", "Fails.").json(json!({"type": "object"}), |_| async { Err(quota(1)) }),
        )
        .unwrap();
    tools.use_middleware(middleware_fn("m", |call: ToolCall, next: Next| async move {
        std::thread::sleep(Duration::from_millis(2));
        match &**call.name() {
            "deny" => Err(Error::denied("deny", "no").with_code("refined")),
            "short" => Ok(json!("PRIVATE-9").into()),
            _ => next.run(call).await,
        }
    }));
    for name in ["ok", "fails", "deny", "short", "nope"] {
        let context = ToolContext::new().with_caller_id("me");
        let _ = callweir::block_on(tools.dispatch(name, json!({"a": "PRIVATE-9"}), context));
    }
    assert_eq!(runtime.flush_blocking(Some(Duration::from_secs(5))).unwrap(), 0);
    let done: Vec<_> = seen
        .all()
        .into_iter()
        .filter(|record| record[0] != "started")
        .collect();
    assert_eq!(
        done,
        [
            json!(["ok", "me", "succeeded", null, false, true]),
            json!(["fails", "me", "failed", "Quota", false, true]),
            json!(["deny", "me", "refused", "denied", false, true]),
            json!(["short", "me", "succeeded", null, true, true]),
            json!(["nope", "me", "refused", "tool_not_found", false, false]),
        ]
    );
    assert_eq!(seen.len(), 9);
    // Calls that no registry dispatched are not offered.
    simple(&runtime).unwrap();
    assert_eq!(runtime.flush_blocking(Some(Duration::from_secs(5))).unwrap(), 0);
    assert_eq!(seen.len(), 9);
}

#[test]
fn c_63_an_event_emitted_inside_a_subscriber() {
    let runtime = runtime();
    let inner = runtime.clone();
    let answers = observe(move |event| {
        if &*event.name == "go" {
            inner.mark("answer", None, Mark::default());
        }
    });
    runtime.subscribe("answers", answers, None).unwrap();
    let log = record(&runtime);
    runtime.mark("go", None, Mark::default());
    for _ in 0..5 {
        flushed(&runtime, &log);
    }
    let names: Vec<_> = log.all().iter().map(|event| event["name"].clone()).collect();
    assert_eq!(names, ["go", "answer"]);
}

#[test]
fn evt_10_observers_cannot_feed_themselves_for_ever() {
    let feeders: [(&str, fn(&callweir::Runtime)); 4] = [
        ("mark", |runtime| runtime.mark("more", None, Mark::default())),
        ("scope", |runtime| {
            drop(
                runtime
                    .scope(
                        "more",
                        callweir::ScopeType::Function,
                        callweir::ScopeOptions::default(),
                    )
                    .unwrap(),
            );
        }),
        ("call", |runtime| drop(simple(runtime))),
        ("dispatch", |runtime| {
            let tools = registry(runtime, &["more"], &Count::default());
            drop(callweir::block_on(tools.dispatch(
                "more",
                json!({}),
                ToolContext::new(),
            )));
        }),
    ];
    for (name, feed) in feeders {
        for typed in [false, true] {
            let runtime = runtime();
            let log = record(&runtime);
            let heard = Count::default();
            let (inner, counts) = (runtime.clone(), heard.clone());
            if typed {
                runtime
                    .subscribe_calls(
                        "feeds",
                        observe_calls(move |_| {
                            counts.up();
                            feed(&inner);
                        }),
                        None,
                    )
                    .unwrap();
            } else {
                runtime
                    .subscribe(
                        "feeds",
                        observe(move |_| {
                            counts.up();
                            feed(&inner);
                        }),
                        None,
                    )
                    .unwrap();
            }
            let tools = registry(&runtime, &["t"], &Count::default());
            callweir::block_on(tools.dispatch("t", json!({}), ToolContext::new())).unwrap();
            let mut last = usize::MAX;
            let start = std::time::Instant::now();
            while heard.get() != last || runtime.counts().pending > 0 {
                assert!(
                    start.elapsed() < Duration::from_secs(5),
                    "{name} feeds itself: {}",
                    heard.get()
                );
                last = heard.get();
                flushed(&runtime, &log);
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(heard.get() >= 2 && heard.get() < 2000, "{name} {}", heard.get());
            pairs(&log.all());
        }
    }
}

#[test]
fn evt_2_nothing_is_sanitized_without_a_subscriber() {
    let runtime = runtime();
    let ran = Count::default();
    for family in Family::ALL.iter().filter(|family| family.is_sanitizer()) {
        let counts = ran.clone();
        add(
            &runtime,
            *family,
            "s",
            Handler::transform(move |_, payload| {
                counts.up();
                Ok(Some(payload))
            }),
        );
    }
    simple(&runtime).unwrap();
    runtime.mark("m", None, Mark::default());
    assert_eq!(runtime.flush_blocking(Some(Duration::from_secs(1))).unwrap(), 0);
    assert_eq!((ran.get(), runtime.counts().pending), (0, 0));
}

#[test]
fn evt_1_status_goes_with_the_outcome() {
    let status: Vec<_> = Outcome::ALL
        .iter()
        .map(|outcome| (outcome.name(), outcome.status()))
        .collect();
    assert_eq!(
        status,
        [
            ("succeeded", "OK"),
            ("refused", "ERROR"),
            ("failed", "ERROR"),
            ("cancelled", "ERROR"),
            ("closed_early", "UNSET"),
            ("incomplete", "ERROR"),
            ("abandoned", "ERROR"),
        ]
    );
}

#[test]
fn export_json_lines_are_on_disk_after_a_flush() {
    let path = std::env::temp_dir().join(format!("callweir-events-{}.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let runtime = runtime();
    runtime
        .subscribe(
            "file",
            callweir::export::jsonl::JsonLines::open(&path).unwrap(),
            None,
        )
        .unwrap();
    for round in 1..=50 {
        simple(&runtime).unwrap();
        assert_eq!(runtime.flush_blocking(Some(Duration::from_secs(5))).unwrap(), 0);
        let text = std::fs::read_to_string(&path).unwrap();
        let events: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(pairs(&events), round);
    }
    assert!(runtime.unsubscribe("file", None));
    let _ = std::fs::remove_file(&path);
    let missing = callweir::export::jsonl::JsonLines::open("/nowhere/at/all");
    assert!(missing.is_err_and(|error| error.code() == Some("invalid_argument")));
}
