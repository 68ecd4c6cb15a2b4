//! Properties over random inputs: JSON text, and one pair for each call.
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
    CancellationToken, Error, Family, Handler, Invocation, Next, ToolCall, ToolContext, Verdict, parse_json,
    work,
};
use common::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// JSON text with numbers in every spelling, without spaces.
fn json_text() -> impl Strategy<Value = String> {
    let number = "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
    let string = any::<String>().prop_map(|text| Value::from(text).to_string());
    let leaf = prop_oneof![
        number.prop_map(|text| text),
        string.clone(),
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        let key = string.clone();
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key, inner), 0..6).prop_map(|pairs| {
                let mut seen = std::collections::HashSet::new();
                let pairs = pairs.into_iter().filter(|(key, _)| seen.insert(key.clone()));
                let texts: Vec<_> = pairs.map(|(key, value)| format!("{key}:{value}")).collect();
                format!("{{{}}}", texts.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn pay_3_json_text_comes_back_as_it_was(text in json_text()) {
        prop_assert_eq!(parse_json(&text).unwrap().to_string(), text);
    }

    /// Spaces, duplicate keys and escapes do not matter to the reader that keeps exponents.
    #[test]
    fn pay_3_the_exact_reader_agrees_with_the_parser(text in json_text()) {
        let spaced = format!(" [ 1E2 ,\t{{\"k\\\"\\u0065\" : {text} , \"k\\\"\\u0065\":\n{text} }}\r] ");
        let value = parse_json(&spaced).unwrap();
        prop_assert_eq!(value.to_string(), format!("[1E2,{{\"k\\\"e\":{text}}}]"));
    }

    #[test]
    fn pay_3_cut_text_is_an_error(text in json_text(), at in any::<prop::sample::Index>()) {
        let container = format!("[{text}]");
        let cut: String = container.chars().take(at.index(container.chars().count())).collect();
        prop_assert_eq!(parse_json(&cut).unwrap_err().code().map(str::to_owned), Some("invalid_argument".to_owned()));
    }
}

/// What one entry or the work does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Pass,
    Fail,
    Deny,
    Panic,
    Answer,
    Twice,
    Cancel,
    Hang,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => Just(Act::Pass),
        1 => Just(Act::Fail),
        1 => Just(Act::Deny),
        1 => Just(Act::Panic),
        1 => Just(Act::Answer),
        1 => Just(Act::Twice),
        1 => Just(Act::Cancel),
        1 => Just(Act::Hang),
    ]
}

async fn play(act: Act, token: CancellationToken) -> callweir::Result<bool> {
    match act {
        Act::Pass | Act::Twice => Ok(true),
        Act::Answer => Ok(false),
        Act::Fail => Err(quota(1)),
        Act::Deny => Err(Error::denied("t", "no")),
        Act::Panic => panic!("act"),
        Act::Cancel => {
            token.cancel();
            Ok(true)
        }
        Act::Hang => std::future::pending().await,
    }
}

fn around(act: Act, token: &CancellationToken) -> Handler {
    let token = token.clone();
    Handler::around(move |call: ToolCall, next: Next| {
        let token = token.clone();
        async move {
            if !play(act, token).await? {
                return Ok(json!("answered").into());
            }
            if matches!(act, Act::Twice) {
                let _ = next.run(call.clone()).await;
            }
            next.run(call).await
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn call_1_one_pair_for_each_call(
        gates in prop::collection::vec(act(), 0..3),
        requests in prop::collection::vec(act(), 0..3),
        arounds in prop::collection::vec(act(), 0..4),
        tool in act(),
        polls in 1_usize..4,
    ) {
        let runtime = runtime();
        let log = record(&runtime);
        let token = CancellationToken::new();
        for (index, act) in gates.iter().copied().enumerate() {
            let token = token.clone();
            let gate = Handler::gate_async(move |_| {
                let token = token.clone();
                async move { Ok(if play(act, token).await? { Verdict::Allow } else { Verdict::reject("no") }) }
            });
            add(&runtime, Family::ToolConditionalExecution, &format!("g{index}"), gate);
        }
        for (index, act) in requests.iter().copied().enumerate() {
            let token = token.clone();
            let request = Handler::transform_async(move |payload| {
                let token = token.clone();
                async move { Ok(play(act, token).await?.then_some(payload)) }
            });
            add(&runtime, Family::ToolRequest, &format!("r{index}"), request);
        }
        for (index, act) in arounds.iter().copied().enumerate() {
            add(&runtime, Family::ToolExecution, &format!("e{index}"), around(act, &token));
        }
        let fires = token.clone();
        let last = work(move |_| {
            let token = fires.clone();
            async move { play(tool, token).await.map(|_| json!(1).into()) }
        });
        let mut invocation = Invocation::new("t", json!({"a": 1}), last);
        invocation.context = ToolContext::new().with_cancellation(token.clone());
        let mut running = Box::pin(invocation.execute(runtime.clone()));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut result = None;
        for _ in 0..polls {
            if let std::task::Poll::Ready(ended) = running.as_mut().poll(&mut cx) {
                result = Some(ended);
                break;
            }
        }
        drop(running);
        let events = flushed(&runtime, &log);
        pairs(&events);
        // The call has a pair exactly if its guardrails and request intercepts let it through.
        let through = |acts: &[Act]| acts.iter().all(|act| matches!(act, Act::Pass | Act::Twice));
        let starts = of_kind(&events, "tool", "start").len();
        prop_assert_eq!(starts, usize::from(through(&gates) && through(&requests)));
        if starts == 1 {
            let end = of_kind(&events, "tool", "end")[0];
            let expected = match &result {
                None => "cancelled",
                Some(Ok(_)) => "succeeded",
                Some(Err(error)) if error.code() == Some("denied") => "refused",
                Some(Err(error)) if error.code() == Some("cancelled") => "cancelled",
                Some(Err(_)) => "failed",
            };
            prop_assert_eq!(outcome(end), expected);
        }
    }
}
