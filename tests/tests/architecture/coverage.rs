//! Every family, error kind and outcome that the product can reach occurs in a scenario.

use std::collections::BTreeSet;
use std::fs;

use callweir::{ErrorKind, Family, Outcome};
use callweir_tests::scenario;
use serde_json::Value;

use super::assert_none;

/// What no scenario can show yet, and why not.
const OUT_OF_REACH: [(&str, &str); 15] = [
    ("llm.conditional_execution", LLM),
    ("llm.request", LLM),
    ("llm.execution", LLM),
    ("llm.stream_execution", LLM),
    ("llm.sanitize_request", LLM),
    ("llm.sanitize_response", LLM),
    ("Denied", "the base of two kinds, never raised itself"),
    (
        "ToolCallFailed",
        "for tools without exceptions: C tools and workers are to come",
    ),
    (
        "NotFound",
        "nothing raises it: removing says whether something was there",
    ),
    (
        "InvalidConfig",
        "policies and configuration documents are to come",
    ),
    ("Codec", "codecs are to come"),
    ("Plugin", "plugins are to come"),
    (
        "Internal",
        "needs a callback that panics in Rust, which other doors cannot replay",
    ),
    ("closed_early", "streams are to come"),
    ("incomplete", "streams are to come"),
];
const LLM: &str = "model calls are to come";

/// Says which of `names` are neither seen nor excused, and which are excused although they are seen.
fn uncovered(names: &[&str], seen: &BTreeSet<String>, excused: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in names {
        match (seen.contains(*name), excused.contains(name)) {
            (false, false) => complaints.push(format!("{name} occurs in no scenario")),
            (true, true) => complaints.push(format!("{name} does occur, so it is not out of reach")),
            _ => {}
        }
    }
    let unknown = excused.iter().filter(|name| !names.contains(name));
    complaints.extend(unknown.map(|name| format!("{name} is no name of the core's")));
    complaints
}

/// Collects the texts that `key` has anywhere inside `value`.
fn texts_of(key: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                if let (true, Some(text)) = (name == key, inner.as_str()) {
                    found.insert(text.to_owned());
                }
                texts_of(key, inner, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts_of(key, item, found)),
        _ => {}
    }
}

#[test]
fn every_reachable_name_occurs_in_a_scenario() {
    let mut seen = BTreeSet::new();
    for path in scenario::files().unwrap() {
        let scenario: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        texts_of("family", &scenario, &mut seen);
        let golden = scenario::folder().join("golden").join(path.file_name().unwrap());
        let golden: Value = serde_json::from_str(&fs::read_to_string(golden).unwrap()).unwrap();
        texts_of("kind", &golden, &mut seen);
        texts_of("callweir.outcome", &golden, &mut seen);
    }
    let families = Family::ALL.iter().map(|family| family.wire_name());
    let kinds = ErrorKind::ALL.iter().map(|kind| kind.name());
    let outcomes = Outcome::ALL.iter().map(|outcome| outcome.name());
    let names: Vec<_> = families.chain(kinds).chain(outcomes).collect();
    let excused = OUT_OF_REACH.map(|(name, _)| name);
    assert_none("scenarios", &uncovered(&names, &seen, &excused));
}

#[test]
fn every_golden_trace_has_its_scenario() {
    let names = |files: Vec<std::path::PathBuf>| -> BTreeSet<_> {
        files
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_owned()))
            .collect()
    };
    let golden = fs::read_dir(scenario::folder().join("golden")).unwrap();
    let golden = golden.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names(golden), names(scenario::files().unwrap()));
}

#[test]
fn gaps_and_stale_excuses_are_found() {
    let seen = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
    let found = uncovered(&["a", "b", "c", "d"], &seen, &["c", "d", "x"]);
    let expected = [
        "a occurs in no scenario",
        "c does occur, so it is not out of reach",
        "x is no name of the core's",
    ];
    assert_eq!(found, expected);
}
