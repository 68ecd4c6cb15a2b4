//! `cargo bench-doors`: the same work through every door, side by side.
//!
//! Each program prints one JSON object a line for each measurement:
//! `{"door": "python", "case": "execution intercepts", "entries": 4, "unit": "us", "value": 3.1}`.
//! `door`, `case` and `value` are required; a row of the table is a case with its entries and unit, a column is a
//! door. All other members are kept in `target/bench/doors.json`. Lines that are not JSON objects are only shown.

use std::fs;

use serde_json::{Value, json};

use crate::demo::{Program, install_binding};
use crate::process;
use crate::report::{Counts, Report, render};
use crate::steps::{Context, Outcome, run_one};
use crate::workspace::Workspace;

/// What is measured, in this order.
const PROGRAMS: &[Program] = &[
    Program::Rust("bench_rust"),
    Program::Python("tests/bench/bench_python.py"),
];

/// Runs every program, prints one table, and writes the measurements as JSON.
pub(crate) fn run(workspace: &Workspace) -> Result<bool, String> {
    let context = Context::new(workspace);
    let mut report = Report::default();
    let mut measurements = Vec::new();
    report.add(run_one("Python: build and install", || install_binding(&context)));
    for program in PROGRAMS {
        report.add(run_one(&program.title(), || {
            measure(program, &context, &mut measurements)
        }));
    }
    println!("\n{}", render(&table(&measurements)));
    write(workspace, &measurements)?;
    report.print();
    Ok(report.total().failed == 0)
}

fn measure(program: &Program, context: &Context<'_>, measurements: &mut Vec<Value>) -> Outcome {
    let mut command = match program.command(context) {
        Ok(command) => command,
        Err(outcome) => return outcome,
    };
    match process::run_and_keep(&mut command) {
        Ok(finished) => {
            let found: Vec<Value> = finished
                .lines
                .iter()
                .filter_map(|line| measurement(line))
                .collect();
            let counts = Counts::one(finished.success && !found.is_empty());
            measurements.extend(found);
            Outcome::Counted(counts)
        }
        Err(reason) => Outcome::Failed(reason),
    }
}

fn measurement(line: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    let complete =
        value.get("door")?.is_string() && value.get("case")?.is_string() && value.get("value")?.is_number();
    complete.then_some(value)
}

/// Rows in the order in which the cases came, columns in the order of the doors.
fn table(measurements: &[Value]) -> Vec<Vec<String>> {
    let mut doors: Vec<String> = Vec::new();
    let mut rows: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for measurement in measurements {
        let door = text(measurement, "door");
        if !doors.contains(&door) {
            doors.push(door.clone());
        }
        let label = label(measurement);
        let cell = (door, number(measurement.get("value")));
        match rows.iter_mut().find(|(known, _)| *known == label) {
            Some((_, cells)) => cells.push(cell),
            None => rows.push((label, vec![cell])),
        }
    }
    let mut table = vec![[vec!["case".to_owned()], doors.clone()].concat()];
    for (label, cells) in rows {
        let value = |door: &String| {
            cells
                .iter()
                .find(|(owner, _)| owner == door)
                .map_or_else(String::new, |(_, value)| value.clone())
        };
        table.push([vec![label], doors.iter().map(value).collect()].concat());
    }
    table
}

fn label(measurement: &Value) -> String {
    let mut label = text(measurement, "case");
    if let Some(entries) = measurement.get("entries") {
        label.extend([" x", &entries.to_string()]);
    }
    match text(measurement, "unit").as_str() {
        "" => label,
        unit => format!("{label} [{unit}]"),
    }
}

fn text(measurement: &Value, member: &str) -> String {
    measurement
        .get(member)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Three digits that matter, as in the table of figures to reach.
fn number(value: Option<&Value>) -> String {
    match value.and_then(Value::as_f64) {
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
        None => String::new(),
    }
}

fn write(workspace: &Workspace, measurements: &[Value]) -> Result<(), String> {
    let folder = workspace.target.join("bench");
    let path = folder.join("doors.json");
    let text = format!("{:#}\n", json!({ "measurements": measurements }));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_become_one_row_for_each_case() {
        let lines = [
            r#"{"door": "rust", "case": "call", "entries": 4, "unit": "us", "value": 0.512}"#,
            "warming up",
            r#"{"door": "python", "case": "call", "entries": 4, "unit": "us", "value": 13.04}"#,
            r#"{"door": "python", "case": "import", "unit": "ms", "value": 120}"#,
        ];
        let found: Vec<Value> = lines.iter().filter_map(|line| measurement(line)).collect();
        assert_eq!(
            table(&found),
            [
                ["case", "rust", "python"],
                ["call x4 [us]", "0.51", "13.0"],
                ["import [ms]", "", "120"]
            ]
        );
    }
}
