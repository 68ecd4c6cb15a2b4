//! Events as JavaScript subscribers get them: as text, which each of them reads for itself.

use std::sync::Arc;
use std::time::SystemTime;

use callweir::{CallEvent, Event};
use serde_json::{Value, json};

use crate::value::{is_plain_text, marked};

/// Returns the wire form of an event as JavaScript can read it.
pub(crate) fn text(event: &Arc<Event>) -> String {
    let text = event.to_text();
    if is_plain_text(&text) {
        text
    } else {
        marked(&event.to_json())
    }
}

/// Returns a typed record of a registry call; times are in milliseconds.
pub(crate) fn record(event: &CallEvent) -> String {
    let record: Value = match event {
        CallEvent::Started(started) => json!({
            "event": "started",
            "uuid": started.uuid.to_string(),
            "tool": &*started.tool,
            "callerId": started.caller_id.as_deref(),
            "timestamp": milliseconds(started.timestamp),
        }),
        CallEvent::Completed(completed) => json!({
            "event": "completed",
            "uuid": completed.uuid.to_string(),
            "tool": &*completed.tool,
            "callerId": completed.caller_id.as_deref(),
            "timestamp": milliseconds(completed.timestamp),
            "outcome": completed.outcome.name(),
            "errorType": completed.error_type,
            "duration": completed.duration.as_secs_f64() * 1000.0,
            "shortCircuited": completed.short_circuited,
        }),
    };
    record.to_string()
}

fn milliseconds(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
        * 1000.0
}
