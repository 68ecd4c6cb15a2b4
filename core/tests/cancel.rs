//! Cancelling: by token, by deadline, by dropping the future.
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

use std::time::{Duration, Instant};

use callweir::{
    CancellationToken, Error, ErrorKind, Family, Handler, Invocation, Next, ToolCall, ToolContext, ToolSpec,
    Verdict, middleware_fn, work,
};
use common::*;
use serde_json::json;

const FAR: Duration = Duration::from_secs(60);

struct Dropped(Count);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.up();
    }
}

/// Sleeps for long and counts in `dropped` when it is let go.
async fn sleep_long(dropped: Count) {
    let _guard = Dropped(dropped);
    tokio::time::sleep(FAR).await;
}

fn with_token(mut invocation: Invocation, token: &CancellationToken) -> Invocation {
    invocation.context = ToolContext::new().with_cancellation(token.clone());
    invocation
}

fn cancel_soon(token: &CancellationToken) {
    let token = token.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        token.cancel();
    });
}

/// Hangs in one of the three places, is cancelled by token or drop, and says what was seen.
async fn cancelled_in(place: Family, by_token: bool) -> (Vec<serde_json::Value>, usize, usize) {
    let runtime = runtime();
    let log = record(&runtime);
    let stuck = Count::default();
    let later = Count::default();
    let dropped = stuck.clone();
    match place {
        Family::ToolConditionalExecution => add(
            &runtime,
            place,
            "stuck",
            Handler::gate_async(move |_| {
                let dropped = dropped.clone();
                async {
                    sleep_long(dropped).await;
                    Ok(Verdict::Allow)
                }
            }),
        ),
        Family::ToolRequest => add(
            &runtime,
            place,
            "stuck",
            Handler::transform_async(move |payload| {
                let dropped = dropped.clone();
                async {
                    sleep_long(dropped).await;
                    Ok(Some(payload))
                }
            }),
        ),
        _ => add(
            &runtime,
            place,
            "stuck",
            Handler::around(move |call, next: Next| {
                let dropped = dropped.clone();
                async move {
                    sleep_long(dropped).await;
                    next.run(call).await
                }
            }),
        ),
    }
    let token = CancellationToken::new();
    let start = Instant::now();
    let running = with_token(echo("t", json!({}), &later), &token).execute(runtime.clone());
    if by_token {
        cancel_soon(&token);
        let error = running.await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::Cancelled));
    } else {
        assert!(
            tokio::time::timeout(Duration::from_millis(50), running)
                .await
                .is_err()
        );
    }
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "{:?}",
        start.elapsed()
    );
    (flushed_async(&runtime, &log).await, stuck.get(), later.get())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_30_cancel_reaches_each_stage() {
    for by_token in [true, false] {
        let (events, stuck, later) = cancelled_in(Family::ToolConditionalExecution, by_token).await;
        assert_eq!((pairs(&events), stuck, later), (1, 1, 0));
        let end = of_kind(&events, "guardrail", "end")[0];
        assert_eq!(outcome(end), "cancelled");
        assert_eq!(
            end["data"],
            json!({"allowed": false, "rejected": false, "cancelled": true})
        );
        let (events, stuck, later) = cancelled_in(Family::ToolRequest, by_token).await;
        assert_eq!((events.len(), stuck, later), (0, 1, 0));
        let (events, stuck, later) = cancelled_in(Family::ToolExecution, by_token).await;
        assert_eq!((pairs(&events), stuck, later), (1, 1, 0));
        assert_eq!(outcome(&events[1]), "cancelled");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_30_fifty_at_once_with_a_slow_subscriber() {
    let runtime = runtime();
    runtime
        .subscribe(
            "slow",
            callweir::observe(|_| std::thread::sleep(Duration::from_millis(5))),
            None,
        )
        .unwrap();
    let dropped = Count::default();
    let token = CancellationToken::new();
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let dropped = dropped.clone();
            let tool = work(move |_| {
                let dropped = dropped.clone();
                async {
                    sleep_long(dropped).await;
                    Ok(json!(1).into())
                }
            });
            tokio::spawn(with_token(Invocation::new("t", json!({}), tool), &token).execute(runtime.clone()))
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    token.cancel();
    for call in calls {
        assert_eq!(
            call.await.unwrap().unwrap_err().kind(),
            Some(ErrorKind::Cancelled)
        );
    }
    assert!(
        start.elapsed() < Duration::from_millis(300),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(dropped.get(), 50);
}

#[test]
fn c_30_what_the_fired_token_makes_of_a_result() {
    let denial = || Err(Error::denied("t", "no"));
    let cases: [(fn() -> callweir::Result<callweir::Payload>, Option<&str>, &str); 3] = [
        (|| Ok(json!(1).into()), None, "succeeded"),
        (|| Err(quota(1)), Some("cancelled"), "cancelled"),
        (|| Err(Error::denied("t", "no")), Some("denied"), "refused"),
    ];
    assert!(denial().map(|(): ()| ()).is_err());
    for (result, code, expected) in cases {
        let runtime = runtime();
        let log = record(&runtime);
        let token = CancellationToken::new();
        let fires = token.clone();
        let tool = work(move |_| {
            fires.cancel();
            let result = result();
            async { result }
        });
        let got = call(
            &runtime,
            with_token(Invocation::new("t", json!({}), tool), &token),
        );
        assert_eq!(got.as_ref().err().and_then(Error::code), code);
        if code == Some("cancelled") {
            let error = got.unwrap_err();
            assert_eq!(error.cause().unwrap().downcast_ref::<Quota>().unwrap().0, 1);
        }
        assert_eq!(outcome(&flushed(&runtime, &log)[1]), expected);
    }
}

#[test]
fn c_30_later_stages_do_not_start_once_the_token_has_fired() {
    // Each stage fires the token and passes at once, without ever waiting.
    for (family, expected, pair) in [
        (Family::ToolConditionalExecution, 0, 0),
        (Family::ToolRequest, 0, 0),
        (Family::ToolExecution, 0, 1),
    ] {
        let runtime = runtime();
        let log = record(&runtime);
        let token = CancellationToken::new();
        let later = Count::default();
        let fires = token.clone();
        let counts = later.clone();
        let (first, second) = match family {
            Family::ToolConditionalExecution => (
                Handler::gate(move |_| {
                    fires.cancel();
                    Ok(Verdict::Allow)
                }),
                Handler::gate(move |_| {
                    counts.up();
                    Ok(Verdict::Allow)
                }),
            ),
            Family::ToolRequest => (
                Handler::transform(move |_, payload| {
                    fires.cancel();
                    Ok(Some(payload))
                }),
                Handler::transform(move |_, payload| {
                    counts.up();
                    Ok(Some(payload))
                }),
            ),
            _ => (
                Handler::around(move |call, next: Next| {
                    fires.cancel();
                    async move { next.run(call).await }
                }),
                Handler::around(move |call, next: Next| {
                    counts.up();
                    async move { next.run(call).await }
                }),
            ),
        };
        add(&runtime, family, "a", first);
        add(&runtime, family, "b", second);
        let error = call(&runtime, with_token(echo("t", json!({}), &later), &token)).unwrap_err();
        assert_eq!(
            (error.kind(), later.get()),
            (Some(ErrorKind::Cancelled), expected),
            "{family}"
        );
        assert_eq!(
            of_kind(&flushed(&runtime, &log), "tool", "end").len(),
            pair,
            "{family}"
        );
    }
}

#[tokio::test]
async fn c_35c_no_further_attempt_after_a_cancel() {
    for waits in [false, true] {
        let runtime = runtime();
        let log = record(&runtime);
        let twice = Handler::around(|call: ToolCall, next: Next| async move {
            let _ = next.run(call.clone()).await;
            next.run(call).await
        });
        add(&runtime, Family::ToolExecution, "twice", twice);
        let token = CancellationToken::new();
        let (fires, attempts) = (token.clone(), Count::default());
        let counts = attempts.clone();
        let tool = work(move |_| {
            counts.up();
            fires.cancel();
            async move {
                if waits {
                    tokio::time::sleep(FAR).await;
                }
                Ok(json!(1).into())
            }
        });
        let error = with_token(Invocation::new("t", json!({}), tool), &token)
            .execute(runtime.clone())
            .await
            .unwrap_err();
        assert_eq!((error.kind(), attempts.get()), (Some(ErrorKind::Cancelled), 1));
        let events = flushed_async(&runtime, &log).await;
        assert_eq!((pairs(&events), outcome(&events[1])), (1, "cancelled"));
    }
}

#[test]
fn c_36_a_fired_token_or_a_past_deadline_runs_nothing() {
    let runtime = runtime();
    let log = record(&runtime);
    let touched = Count::default();
    let counts = touched.clone();
    add(
        &runtime,
        Family::ToolConditionalExecution,
        "g",
        Handler::gate(move |_| {
            counts.up();
            Ok(Verdict::Allow)
        }),
    );
    let counts = touched.clone();
    add(
        &runtime,
        Family::ToolRequest,
        "r",
        Handler::transform(move |_, payload| {
            counts.up();
            Ok(Some(payload))
        }),
    );
    let tools = registry(&runtime, &["t"], &touched);
    struct Hook(Count);
    impl callweir::Middleware for Hook {
        async fn run(
            self: std::sync::Arc<Self>,
            call: ToolCall,
            next: Next,
        ) -> callweir::Result<callweir::Payload> {
            self.0.up();
            next.run(call).await
        }
        async fn on_refused(self: std::sync::Arc<Self>, _: ToolCall, _: Error) -> callweir::Result<()> {
            self.0.up();
            Ok(())
        }
    }
    tools.use_middleware(Hook(touched.clone()));
    let token = CancellationToken::new();
    token.cancel();
    let fired = ToolContext::new().with_cancellation(token);
    let past = ToolContext::new().with_deadline(Instant::now());
    for (context, kind) in [(fired, ErrorKind::Cancelled), (past, ErrorKind::TimedOut)] {
        let mut invocation = echo("t", json!({}), &touched);
        invocation.context = context.clone();
        assert_eq!(call(&runtime, invocation).unwrap_err().kind(), Some(kind));
        for (name, arguments) in [("t", "{}"), ("unknown", "{}"), ("t", "{broken")] {
            let error = callweir::block_on(tools.dispatch(name, arguments, context.clone())).unwrap_err();
            assert_eq!(error.kind(), Some(kind));
        }
    }
    assert_eq!((touched.get(), flushed(&runtime, &log).len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_31_a_timeout_middleware_lets_go_of_the_tool() {
    for by_token in [false, true] {
        let runtime = runtime();
        let log = record(&runtime);
        let dropped = Count::default();
        let finished = Count::default();
        let (guard, late) = (dropped.clone(), finished.clone());
        let tools = registry(&runtime, &["quick"], &Count::default());
        let slow = ToolSpec::new("slow", "Sleeps.").json(json!({"type": "object"}), move |_| {
            let (guard, late) = (guard.clone(), late.clone());
            async move {
                sleep_long(guard).await;
                late.up();
                Ok(json!(1).into())
            }
        });
        tools.register(slow).unwrap();
        tools.use_middleware(middleware_fn(
            "timeout",
            move |call: ToolCall, next: Next| async move {
                let limit = Duration::from_millis(100);
                if !by_token {
                    let context = call.context().clone().with_deadline(Instant::now() + limit);
                    return next.run(call.with_context(context)).await;
                }
                let token = CancellationToken::new();
                let running = next.run(call.with_cancellation(token.clone()));
                tokio::spawn(async move {
                    tokio::time::sleep(limit).await;
                    token.cancel();
                });
                let timed_out = || Error::new(ErrorKind::TimedOut, "too slow");
                running.await.map_err(|error| {
                    if error.kind() == Some(ErrorKind::Cancelled) {
                        timed_out()
                    } else {
                        error
                    }
                })
            },
        ));
        let start = Instant::now();
        let slow: Vec<_> = (0..20)
            .map(|_| {
                let tools = tools.clone();
                tokio::spawn(async move { tools.dispatch("slow", json!({}), ToolContext::new()).await })
            })
            .collect();
        for call in slow {
            assert_eq!(call.await.unwrap().unwrap_err().kind(), Some(ErrorKind::TimedOut));
        }
        assert!(
            start.elapsed() < Duration::from_millis(600),
            "{:?}",
            start.elapsed()
        );
        for _ in 0..5 {
            tools
                .dispatch("quick", json!({}), ToolContext::new())
                .await
                .unwrap();
        }
        assert_eq!((dropped.get(), finished.get()), (20, 0));
        let events = flushed_async(&runtime, &log).await;
        assert_eq!(pairs(&events), 25);
        let ends: Vec<_> = of_kind(&events, "tool", "end")
            .into_iter()
            .filter(|end| end["name"] == "slow")
            .collect();
        assert!(
            ends.iter()
                .all(|end| outcome(end) == "failed" && end["metadata"]["error.type"] == "timed_out")
        );
    }
}

#[tokio::test]
async fn call_3_a_dropped_call_ends_its_inner_calls_first() {
    let runtime = runtime();
    let log = record(&runtime);
    let inner = runtime.clone();
    let outer = Invocation::new(
        "outer",
        json!({}),
        work(move |_| {
            let runtime = inner.clone();
            async move {
                let _left = runtime.scope(
                    "left",
                    callweir::ScopeType::Function,
                    callweir::ScopeOptions::default(),
                )?;
                let stuck = work(|_| async {
                    sleep_long(Count::default()).await;
                    Ok(json!(1).into())
                });
                Invocation::new("inner", json!({}), stuck)
                    .execute(runtime.clone())
                    .await
            }
        }),
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(30), outer.execute(runtime.clone()))
            .await
            .is_err()
    );
    let events = flushed_async(&runtime, &log).await;
    assert_eq!(pairs(&events), 3);
    let ends: Vec<_> = events
        .iter()
        .filter(|event| event["scope_category"] == "end")
        .collect();
    let names: Vec<_> = ends.iter().map(|end| end["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["inner", "left", "outer"]);
    assert_eq!((outcome(ends[0]), outcome(ends[2])), ("cancelled", "cancelled"));
    assert!(callweir::Scope::current().is_none());
}
