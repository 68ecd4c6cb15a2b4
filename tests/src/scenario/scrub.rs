//! Makes traces comparable: no times, and ids numbered in order of first appearance.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::world::Lists;

/// Builds the trace; lists that most scenarios do not need are left out where they are empty.
pub(super) fn scrub(lists: Lists) -> Value {
    let mut ids = HashMap::new();
    let Lists {
        mut steps,
        log,
        queued,
        mut events,
        mut calls,
    } = lists;
    for event in &mut events {
        if let Value::Object(event) = event {
            event.shift_remove("timestamp");
        }
    }
    // Events come first: they hold the ids in the order in which these were made.
    for value in events.iter_mut().chain(&mut calls).chain(&mut steps) {
        number(value, &mut ids);
    }
    let mut trace = Map::new();
    trace.insert("steps".to_owned(), Value::Array(steps));
    for (key, list) in [("log", log), ("queued", queued), ("calls", calls)] {
        if !list.is_empty() {
            trace.insert(key.to_owned(), Value::Array(list));
        }
    }
    trace.insert("events".to_owned(), Value::Array(events));
    Value::Object(trace)
}

fn number(value: &mut Value, ids: &mut HashMap<String, usize>) {
    match value {
        Value::String(text) if is_uuid(text) => {
            let next = ids.len() + 1;
            let id = *ids.entry(std::mem::take(text)).or_insert(next);
            *text = format!("#{id}");
        }
        Value::Array(items) => items.iter_mut().for_each(|item| number(item, ids)),
        Value::Object(map) => map.values_mut().for_each(|item| number(item, ids)),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

fn is_uuid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    let fits = |(index, byte): (usize, u8)| {
        if dashes.contains(&index) {
            byte == b'-'
        } else {
            byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
        }
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}
