//! The Rust driver of the scenario suite: replays a scenario and returns its trace.
//!
//! The format is described in `tests/scenarios/README.md`.

mod behaviour;
mod callbacks;
mod format;
mod scrub;
mod step;
mod world;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use format::Scenario;
use world::World;

/// The folder of the scenarios.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// The scenario files, in the order of their names.
pub fn files() -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a scenario; the error says what is wrong with the file.
pub fn read(text: &str) -> Result<Scenario, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Replays a scenario on a runtime of its own.
///
/// The error names the first step without a label that failed.
pub fn replay(scenario: &Scenario) -> Result<Value, String> {
    let world = World::new(scenario).map_err(|error| format!("{error:?}"))?;
    callweir::block_on(async {
        for (index, step) in scenario.steps.iter().enumerate() {
            let done = world.clone().step(step.clone()).await;
            done.map_err(|error| format!("step {index}: {error:?}"))?;
        }
        // A runtime that the scenario shut down has nothing left to flush.
        let flushed = world
            .runtime
            .flush(Some(std::time::Duration::from_secs(10)))
            .await;
        match flushed {
            Ok(0) => Ok(scrub::scrub(world.take_trace())),
            other => Err(format!("flush at the end: {other:?}")),
        }
    })
}

/// A trace as the golden files hold it: one line for each entry of its lists.
pub fn to_text(trace: &Value) -> String {
    let mut lists = Vec::new();
    for (key, list) in trace.as_object().into_iter().flatten() {
        let lines = list
            .as_array()
            .into_iter()
            .flatten()
            .map(|entry| format!("\n    {entry}"));
        lists.push(format!(
            "\n  \"{key}\": [{}\n  ]",
            lines.collect::<Vec<_>>().join(",")
        ));
    }
    format!("{{{}\n}}\n", lists.join(","))
}
