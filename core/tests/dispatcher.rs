//! The dispatcher: bounds, hung callbacks, flush, shutdown.
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use callweir::{
    EndOptions, ErrorKind, Family, Handler, Limits, ManualCall, ManualOptions, Mark, Options,
    RegisterOptions, Runtime, ScopeOptions, ScopeType, observe, observe_async,
};
use common::*;
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

fn limits(events: usize, bytes: usize) -> Limits {
    Limits {
        events,
        bytes,
        ..Limits::default()
    }
}

/// A subscriber that waits until it is let go, and records.
fn gated(runtime: &Runtime) -> (Log, Arc<AtomicBool>) {
    let (log, open) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let (sink, gate) = (log.clone(), open.clone());
    let stuck = observe(move |event| {
        while !gate.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        sink.push(event.to_json());
    });
    runtime.subscribe("gated", stuck, None).unwrap();
    (log, open)
}

#[test]
fn c_61_over_the_event_bound_pairs_are_dropped_and_told() {
    let runtime = runtime_with(limits(100, 64 << 20));
    let (log, open) = gated(&runtime);
    let start = Instant::now();
    for n in 0..2000 {
        call(
            &runtime,
            echo("t", json!({"n": n, "fill": "x".repeat(1000)}), &Count::default()),
        )
        .unwrap();
    }
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    let counts = runtime.counts();
    assert!(
        counts.pending <= 101 && counts.pending_bytes < 101 * 3000,
        "{counts:?}"
    );
    open.store(true, Ordering::Release);
    flushed(&runtime, &log);
    let events = flushed(&runtime, &log);
    assert!(pairs(&events) >= 50);
    let told: u64 = marks(&events)
        .iter()
        .map(|mark| mark["data"]["events"].as_u64().unwrap())
        .sum();
    assert_eq!(told, runtime.counts().dropped);
    assert_eq!(told + 2 * pairs(&events) as u64, 4000);
    assert_eq!(marks(&events).len(), 1);
    assert_eq!(marks(&events)[0]["metadata"]["callweir.mark"], "dropped");
    let order: Vec<_> = of_kind(&events, "tool", "start")
        .iter()
        .map(|start| start["data"]["n"].as_u64().unwrap())
        .collect();
    assert!(order.is_sorted());
    simple(&runtime).unwrap();
    assert_eq!(pairs(&flushed(&runtime, &log)), pairs(&events) + 1);
}

#[test]
fn c_61_over_the_byte_bound_payloads_are_dropped() {
    let runtime = runtime_with(limits(10_000, 64 << 10));
    let (log, open) = gated(&runtime);
    for _ in 0..2000 {
        call(
            &runtime,
            echo("t", json!({"fill": "x".repeat(1000)}), &Count::default()),
        )
        .unwrap();
        // Beyond the bound there is only what an event is beside its payload.
        let counts = runtime.counts();
        assert!(counts.pending_bytes <= (64 << 10) + counts.pending * 1024);
    }
    open.store(true, Ordering::Release);
    let events = flushed(&runtime, &log);
    assert_eq!(pairs(&events), 2000);
    let word = |event: &Value| event["metadata"]["callweir.payload"] == "dropped";
    let without: Vec<_> = events.iter().filter(|event| word(event)).collect();
    assert!(!without.is_empty() && without.len() < events.len());
    assert!(without.iter().all(|event| event["data"].is_null()));
    assert!(
        events
            .iter()
            .filter(|event| !word(event) && event["kind"] == "scope")
            .all(|event| event["data"].is_object())
    );
}

#[test]
fn evt_7_typed_records_stay_paired() {
    let runtime = runtime_with(limits(20, 64 << 20));
    let open = Arc::new(AtomicBool::new(false));
    let (log, gate) = (Log::default(), open.clone());
    let sink = log.clone();
    let records = callweir::observe_calls(move |event| {
        while !gate.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (id, phase) = match event {
            callweir::CallEvent::Started(one) => (one.uuid, "start"),
            callweir::CallEvent::Completed(one) => (one.uuid, "end"),
        };
        sink.push(json!({"uuid": id.to_string(), "scope_category": phase}));
    });
    runtime.subscribe_calls("calls", records, None).unwrap();
    let tools = registry(&runtime, &["t"], &Count::default());
    let inner = tools.clone();
    // Calls inside calls: the bound falls between starts and ends.
    let nested = callweir::ToolSpec::new("nested", "").json(json!({"type": "object"}), move |_| {
        let tools = inner.clone();
        async move { tools.dispatch("t", json!({}), callweir::ToolContext::new()).await }
    });
    tools.register(nested).unwrap();
    for _ in 0..30 {
        callweir::block_on(tools.dispatch("nested", json!({}), callweir::ToolContext::new())).unwrap();
    }
    open.store(true, Ordering::Release);
    assert!(pairs(&flushed(&runtime, &log)) >= 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_62_a_hung_sanitizer_withholds_one_payload() {
    let callback_time = Duration::from_millis(1500);
    for blocks in [false, true] {
        let runtime = runtime_with(Limits {
            callback_time,
            ..Limits::default()
        });
        let log = record(&runtime);
        let first = Count::default();
        let asynchronous = first.clone();
        let hangs = if blocks {
            Handler::transform(move |_, payload| {
                if first.up() == 1 {
                    std::thread::sleep(Duration::from_secs(4));
                }
                Ok(Some(payload))
            })
        } else {
            Handler::transform_async(move |payload| {
                let first = asynchronous.up() == 1;
                async move {
                    if first {
                        std::future::pending::<()>().await;
                    }
                    Ok(Some(payload))
                }
            })
        };
        add(&runtime, Family::ToolSanitizeRequest, "hangs", hangs);
        let start = Instant::now();
        for n in 0..1000 {
            echo("t", json!({"n": n}), &Count::default())
                .execute(runtime.clone())
                .await
                .unwrap();
        }
        assert!(start.elapsed() < SECOND / 2);
        let pending = runtime.flush(Some(SECOND / 2)).await.unwrap();
        assert!(
            pending > 1990 && start.elapsed() < SECOND + SECOND / 2,
            "{pending}"
        );
        let events = flushed_async(&runtime, &log).await;
        assert!(start.elapsed() < 3 * SECOND);
        assert_eq!(pairs(&events), 1000);
        assert_eq!(
            (&events[0]["data"], &events[0]["metadata"]["callweir.payload"]),
            (&Value::Null, &json!("withheld"))
        );
        let rest = of_kind(&events, "tool", "start");
        assert!(
            rest.iter()
                .enumerate()
                .skip(1)
                .all(|(n, event)| event["data"]["n"] == n)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_62_a_hung_subscriber_is_skipped_until_it_comes_back() {
    for blocks in [false, true] {
        let runtime = runtime_with(Limits {
            callback_time: Duration::from_millis(300),
            ..Limits::default()
        });
        let release = Arc::new(AtomicBool::new(false));
        let (gate, heard) = (release.clone(), Count::default());
        let counts = heard.clone();
        let waits = move || gate.load(Ordering::Acquire);
        let stuck = if blocks {
            observe(move |_| {
                counts.up();
                while !waits() {
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
        } else {
            let waits = Arc::new(waits);
            observe_async(move |_| {
                counts.up();
                let waits = waits.clone();
                async move {
                    while !waits() {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    Ok(())
                }
            })
        };
        runtime.subscribe("stuck", stuck, None).unwrap();
        let log = record(&runtime);
        for _ in 0..50 {
            echo("t", json!({}), &Count::default())
                .execute(runtime.clone())
                .await
                .unwrap();
        }
        let start = Instant::now();
        assert_eq!(pairs(&flushed_async(&runtime, &log).await), 50);
        assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
        assert_eq!((heard.get(), runtime.counts().skipped), (1, 99));
        release.store(true, Ordering::Release);
        let start = Instant::now();
        while runtime.counts().pending > 0 {
            assert!(start.elapsed() < 2 * SECOND);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        echo("t", json!({}), &Count::default())
            .execute(runtime.clone())
            .await
            .unwrap();
        assert_eq!(pairs(&flushed_async(&runtime, &log).await), 51);
        assert_eq!(heard.get(), 3);
        release.store(false, Ordering::Release);
        echo("t", json!({}), &Count::default())
            .execute(runtime.clone())
            .await
            .unwrap();
        let start = Instant::now();
        runtime.shutdown(SECOND / 5).await.unwrap();
        assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
        release.store(true, Ordering::Release);
    }
}

/// Notes how a flush went.
fn note(seen: &Log, result: callweir::Result<usize>) {
    seen.push(result.map_or_else(
        |error| error.code().unwrap_or_default().to_owned(),
        |left| left.to_string(),
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_06_flush_inside_callbacks() {
    let runtime = runtime();
    let log = record(&runtime);
    let seen = Log::default();
    let (inner, sink) = (runtime.clone(), seen.clone());
    runtime
        .subscribe(
            "sync",
            observe(move |_| note(&sink, inner.flush_blocking(Some(SECOND)))),
            None,
        )
        .unwrap();
    let (inner, sink) = (runtime.clone(), seen.clone());
    runtime
        .subscribe(
            "async",
            observe_async(move |_| {
                let (inner, sink) = (inner.clone(), sink.clone());
                async move {
                    note(&sink, inner.flush(None).await);
                    note(&sink, inner.shutdown(SECOND).await);
                    Ok(())
                }
            }),
            None,
        )
        .unwrap();
    let (inner, sink) = (runtime.clone(), seen.clone());
    add(
        &runtime,
        Family::MarkSanitize,
        "s",
        Handler::transform(move |_, payload| {
            note(&sink, inner.flush_blocking(None));
            Ok(Some(payload))
        }),
    );
    let start = Instant::now();
    runtime.mark("m", None, Mark::default());
    flushed_async(&runtime, &log).await;
    assert!(start.elapsed() < SECOND / 2);
    assert_eq!(seen.texts(), ["would_deadlock"; 4]);
    runtime.mark("m", None, Mark::default());
    assert_eq!(flushed_async(&runtime, &log).await.len(), 2);
    // Guardrails, intercepts and tools may flush.
    for name in ["sync", "async"] {
        assert!(runtime.unsubscribe(name, None));
    }
    let flushes = |runtime: &Runtime, seen: &Log| {
        let (runtime, seen) = (runtime.clone(), seen.clone());
        async move { note(&seen, runtime.flush(Some(SECOND)).await) }
    };
    let (inner, sink) = (runtime.clone(), seen.clone());
    add(
        &runtime,
        Family::ToolConditionalExecution,
        "g",
        Handler::gate_async(move |_| {
            let flush = flushes(&inner, &sink);
            async move {
                flush.await;
                Ok(callweir::Verdict::Allow)
            }
        }),
    );
    let (inner, sink) = (runtime.clone(), seen.clone());
    add(
        &runtime,
        Family::ToolExecution,
        "e",
        Handler::around(move |call, next: callweir::Next| {
            let flush = flushes(&inner, &sink);
            async move {
                flush.await;
                next.run(call).await
            }
        }),
    );
    let (inner, sink) = (runtime.clone(), seen.clone());
    let tool = callweir::work(move |_| {
        let flush = flushes(&inner, &sink);
        async move {
            flush.await;
            Ok(json!(1).into())
        }
    });
    callweir::Invocation::new("t", json!({}), tool)
        .execute(runtime.clone())
        .await
        .unwrap();
    assert_eq!(seen.texts()[8..], ["0"; 3]);
}

#[test]
fn c_05_blocking_functions_inside_async_code() {
    let check = |inside: bool| {
        let runtime = runtime();
        let log = record(&runtime);
        simple(&runtime).unwrap();
        let expected = inside.then_some(ErrorKind::WouldDeadlock);
        for result in [
            runtime.flush_blocking(Some(SECOND)),
            runtime.shutdown_blocking(SECOND),
        ] {
            let error = result.as_ref().err();
            assert_eq!(error.and_then(callweir::Error::kind), expected);
            assert!(error.is_none_or(|error| error.to_string().contains("().await")));
        }
        assert_eq!(
            callweir::block_until(std::future::pending::<()>(), Some(Instant::now() + SECOND / 100)),
            None
        );
        assert_eq!(callweir::block_on(runtime.flush(Some(SECOND))).unwrap(), 0);
        assert_eq!(pairs(&log.all()), 1);
    };
    let start = Instant::now();
    let one = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    one.block_on(async { check(true) });
    let many = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    check(false);
    many.block_on(async { tokio::spawn(async move { check(true) }).await.unwrap() });
    assert!(start.elapsed() < SECOND / 2, "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_64_flush_covers_what_came_before() {
    let runtime = runtime();
    let log = Log::default();
    let busy = Arc::new(AtomicBool::new(false));
    let (sink, flag) = (log.clone(), busy.clone());
    runtime
        .subscribe(
            "async",
            observe_async(move |event| {
                assert!(!flag.swap(true, Ordering::SeqCst), "two at a time");
                let (sink, flag) = (sink.clone(), flag.clone());
                async move {
                    tokio::task::yield_now().await;
                    if sink.len() % 50 == 0 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    sink.push(event.to_json());
                    flag.store(false, Ordering::SeqCst);
                    Ok(())
                }
            }),
            None,
        )
        .unwrap();
    add(
        &runtime,
        Family::ToolSanitizeResponse,
        "s",
        Handler::transform_async(|payload| async {
            tokio::task::yield_now().await;
            Ok(Some(payload))
        }),
    );
    for round in 1..=3 {
        for _ in 0..200 {
            echo("t", json!({}), &Count::default())
                .execute(runtime.clone())
                .await
                .unwrap();
        }
        let flushes: Vec<_> = (0..8)
            .map(|_| {
                let (runtime, log) = (runtime.clone(), log.clone());
                tokio::spawn(async move {
                    assert_eq!(runtime.flush(Some(10 * SECOND)).await.unwrap(), 0);
                    log.len()
                })
            })
            .collect();
        for flush in flushes {
            assert!(flush.await.unwrap() >= 400 * round);
        }
    }
    assert_eq!(pairs(&log.all()), 600);
    assert_eq!(runtime.counts().failures, 0);
    // What was emitted before a removal is delivered also to the removed subscriber.
    echo("t", json!({}), &Count::default())
        .execute(runtime.clone())
        .await
        .unwrap();
    assert!(runtime.unsubscribe("async", None));
    assert_eq!(runtime.flush(Some(5 * SECOND)).await.unwrap(), 0);
    assert_eq!(pairs(&log.all()), 601);
    echo("t", json!({}), &Count::default())
        .execute(runtime.clone())
        .await
        .unwrap();
    assert_eq!(runtime.flush(None).await.unwrap(), 0);
    assert_eq!(log.len(), 1202);
}

#[test]
fn evt_2_many_threads_lose_nothing_and_keep_order() {
    let runtime = runtime();
    let logs = [record_as(&runtime, "a", None), record_as(&runtime, "b", None)];
    add(
        &runtime,
        Family::MarkSanitize,
        "s",
        Handler::transform(|_, payload| Ok(Some(payload))),
    );
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (runtime, logs) = (&runtime, &logs);
            scope.spawn(move || {
                for n in 0..300_usize {
                    call(runtime, echo("t", json!([thread, n]), &Count::default())).unwrap();
                    // Marks are sanitized, calls are not: they must not overtake each other.
                    let mark = Mark {
                        data: Some(json!([thread, n])),
                        ..Mark::default()
                    };
                    runtime.mark("m", None, mark);
                    if n % 97 == 0 {
                        assert_eq!(runtime.flush_blocking(Some(10 * SECOND)).unwrap(), 0);
                        let mine = |event: &&Value| event["data"][0] == thread;
                        assert!(
                            logs.iter()
                                .all(|log| log.all().iter().filter(mine).count() == 3 * (n + 1))
                        );
                    }
                }
            });
        }
    });
    for log in &logs {
        let events = flushed(&runtime, log);
        assert_eq!((pairs(&events), events.len()), (1800, 5400));
        for thread in 0..6 {
            let mine: Vec<_> = events.iter().filter(|event| event["data"][0] == thread).collect();
            for (n, three) in mine.chunks(3).enumerate() {
                assert!(three.iter().all(|event| event["data"][1] == n), "{three:#?}");
                assert_eq!(
                    (&three[0]["uuid"], &three[2]["kind"]),
                    (&three[1]["uuid"], &json!("mark"))
                );
            }
        }
    }
}

#[test]
fn c_65_shutdown_ends_what_is_open_and_refuses_the_rest() {
    let runtime = runtime();
    let log = record(&runtime);
    let outer = runtime
        .open_scope("outer", ScopeType::Agent, None, ScopeOptions::default())
        .unwrap();
    let inner = runtime
        .open_scope(
            "inner",
            ScopeType::Agent,
            Some(outer.clone()),
            ScopeOptions::default(),
        )
        .unwrap();
    let options = ManualOptions {
        parent: Some(inner),
        ..ManualOptions::default()
    };
    let manual = ManualCall::start(&runtime, "manual".into(), &json!({}).into(), options).unwrap();
    for _ in 0..100 {
        simple(&runtime).unwrap();
    }
    assert_eq!(runtime.shutdown_blocking(5 * SECOND).unwrap(), 0);
    assert_eq!(runtime.shutdown_blocking(Duration::MAX).unwrap(), 0);
    let events = log.all();
    assert_eq!(pairs(&events), 103);
    let left: Vec<_> = events
        .iter()
        .filter(|event| event["name"] != "t" && event["scope_category"] == "end")
        .collect();
    let seen: Vec<_> = left
        .iter()
        .map(|end| (end["name"].as_str().unwrap(), outcome(end)))
        .collect();
    assert_eq!(
        seen,
        [
            ("manual", "abandoned"),
            ("inner", "abandoned"),
            ("outer", "abandoned")
        ]
    );
    let ran = Count::default();
    let shut =
        |result: callweir::Result<()>| assert_eq!(result.unwrap_err().kind(), Some(ErrorKind::ShutDown));
    shut(call(&runtime, echo("t", json!({}), &ran)).map(drop));
    let tools = registry(&runtime, &["t"], &ran);
    shut(callweir::block_on(tools.dispatch("t", json!({}), callweir::ToolContext::new())).map(drop));
    shut(runtime.register(Family::ToolExecution, "e", pass(), &RegisterOptions::default()));
    shut(runtime.subscribe("late", observe(|_| ()), None));
    shut(
        runtime
            .open_scope("late", ScopeType::Agent, None, ScopeOptions::default())
            .map(drop),
    );
    shut(ManualCall::start(&runtime, "m".into(), &json!({}).into(), ManualOptions::default()).map(drop));
    runtime.mark("late", None, Mark::default());
    outer.close(callweir::CloseOptions::default());
    manual.end(EndOptions::default()).unwrap();
    assert_eq!(runtime.flush_blocking(None).unwrap(), 0);
    assert_eq!((log.len(), ran.get()), (events.len(), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evt_9_a_call_that_outlives_shutdown_disturbs_nobody() {
    let runtime = Runtime::new(Options::default());
    let log = record(&runtime);
    let tool = callweir::work(|_| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(json!(1).into())
    });
    let running = tokio::spawn(callweir::Invocation::new("t", json!({}), tool).execute(runtime.clone()));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(runtime.shutdown(SECOND).await.unwrap(), 0);
    assert_eq!(running.await.unwrap().unwrap().into_json().unwrap(), json!(1));
    assert_eq!(runtime.flush(None).await.unwrap(), 0);
    assert_eq!((log.len(), runtime.counts().pending), (1, 0));
}
