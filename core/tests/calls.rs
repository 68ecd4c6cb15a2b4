//! Managed calls through the Rust door.
use std::sync::Arc;
use std::time::Duration;

use callweir::*;
use parking_lot::Mutex;
use serde_json::{Value, json};

fn recorded(runtime: &Runtime) -> Arc<Mutex<Vec<Value>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = events.clone();
    runtime
        .subscribe(
            "rec",
            observe(move |event| sink.lock().push(event.to_json())),
            None,
        )
        .unwrap();
    events
}

#[test]
fn call_1_one_pair_and_the_result() {
    let runtime = Runtime::new(Options::default());
    let events = recorded(&runtime);
    let call = Invocation::new(
        "t",
        json!({"a": 1}),
        work(|call: ToolCall| async move { Ok(call.arguments().clone()) }),
    );
    let result = block_on(call.execute(runtime.clone())).unwrap();
    assert_eq!(result.into_json().unwrap(), json!({"a": 1}));
    assert_eq!(runtime.flush_blocking(Some(Duration::from_secs(5))).unwrap(), 0);
    let events = events.lock();
    assert_eq!(events.len(), 2, "{events:#?}");
    assert_eq!(events[0]["uuid"], events[1]["uuid"]);
    assert_eq!(events[1]["metadata"]["callweir.outcome"], "succeeded");
    assert_eq!(events[1]["data"], json!({"a": 1}));
}
