//! The table of one door: target, ours, plain code, the peer, and how they compare.

use serde_json::Value;

use super::targets::target;

const HEADER: [&str; 9] = [
    "case",
    "target",
    "ours",
    "lowest",
    "ours/target",
    "plain",
    "peer",
    "peer/ours",
    "wanted",
];

/// One row: what was measured for a case, over all rounds that programs printed.
struct Row {
    case: String,
    entries: Option<u64>,
    unit: String,
    group: String,
    ours: Vec<f64>,
    lowest: Vec<f64>,
    plain: Vec<f64>,
    peer: Vec<f64>,
}

/// The doors that have measurements, in the order in which they came.
pub(super) fn doors(measurements: &[Value]) -> Vec<String> {
    let mut doors: Vec<String> = Vec::new();
    for measurement in measurements {
        let door = text(measurement, "door");
        if !doors.contains(&door) {
            doors.push(door);
        }
    }
    doors
}

/// A header and a line for each case of `door`, in the order in which the cases came.
///
/// `wanted` is the peer's figure over ours when the targets were set: on another machine the ratio is what counts.
pub(super) fn of(door: &str, measurements: &[Value]) -> Vec<Vec<String>> {
    let mut rows: Vec<Row> = Vec::new();
    for measurement in measurements.iter().filter(|one| text(one, "door") == door) {
        take(&mut rows, measurement);
    }
    let lines = rows.iter().map(|row| line(door, row));
    std::iter::once(HEADER.map(str::to_owned).to_vec())
        .chain(lines)
        .collect()
}

fn take(rows: &mut Vec<Row>, measurement: &Value) {
    let (case, entries) = (
        text(measurement, "case"),
        measurement.get("entries").and_then(Value::as_u64),
    );
    let group = text(measurement, "row");
    let known = rows
        .iter()
        .position(|row| (&row.group, &row.case, row.entries) == (&group, &case, entries));
    let place = known.unwrap_or_else(|| {
        rows.push(Row {
            case,
            entries,
            unit: text(measurement, "unit"),
            group,
            ours: Vec::new(),
            lowest: Vec::new(),
            plain: Vec::new(),
            peer: Vec::new(),
        });
        rows.len() - 1
    });
    let (Some(row), Some(value)) = (rows.get_mut(place), number(measurement, "value")) else {
        return;
    };
    match text(measurement, "side").as_str() {
        "plain" => row.plain.push(value),
        "peer" => row.peer.push(value),
        _ => {
            row.ours.push(value);
            row.lowest.extend(number(measurement, "min"));
        }
    }
}

fn line(door: &str, row: &Row) -> Vec<String> {
    let target = target(door, &row.case, row.entries);
    let (ours, peer) = (median(&row.ours), median(&row.peer));
    let aim = target.as_ref().map(|target| target.ours);
    let wanted = target.and_then(|target| ratio(target.peer, Some(target.ours)));
    let lowest = row.lowest.iter().copied().reduce(f64::min);
    vec![
        label(row),
        shown(aim),
        shown(ours),
        shown(lowest),
        shown(ratio(ours, aim)),
        shown(median(&row.plain)),
        shown(peer),
        shown(ratio(peer, ours)),
        shown(wanted),
    ]
}

fn label(row: &Row) -> String {
    let mut label = match row.group.as_str() {
        "" => row.case.clone(),
        group => format!("{group}. {}", row.case),
    };
    if let Some(entries) = row.entries {
        label.extend([" x", &entries.to_string()]);
    }
    match row.unit.as_str() {
        "" => label,
        unit => format!("{label} [{unit}]"),
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn ratio(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    Some(above? / below.filter(|below| *below > 0.0)?)
}

fn text(measurement: &Value, member: &str) -> String {
    measurement
        .get(member)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn number(measurement: &Value, member: &str) -> Option<f64> {
    measurement.get(member).and_then(Value::as_f64)
}

/// Three digits that matter, as in the table of figures to reach.
fn shown(value: Option<f64>) -> String {
    match value {
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_become_one_row_for_each_case() {
        let lines = [
            r#"{"door": "rust", "row": "d", "case": "execution intercepts", "entries": 4, "unit": "us", "value": 0.7, "min": 0.6}"#,
            r#"{"door": "python", "row": "a", "case": "bare call", "unit": "us", "value": 3}"#,
            r#"{"door": "rust", "side": "peer", "row": "d", "case": "execution intercepts", "entries": 4, "unit": "us", "value": 42}"#,
            r#"{"door": "rust", "side": "plain", "row": "d", "case": "execution intercepts", "entries": 4, "unit": "us", "value": 0.14}"#,
            r#"{"door": "rust", "row": "d", "case": "execution intercepts", "entries": 4, "unit": "us", "value": 1.4, "min": 0.5}"#,
            r#"{"door": "rust", "row": "d", "case": "execution intercepts", "entries": 4, "unit": "us", "value": 0.35}"#,
        ];
        let found: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(doors(&found), ["rust", "python"]);
        let label = "d. execution intercepts x4 [us]";
        let line = [
            label, "0.70", "0.70", "0.50", "1.00", "0.14", "42.0", "60.0", "60.0",
        ];
        assert_eq!(of("rust", &found), [HEADER.to_vec(), line.to_vec()]);
        let line = ["a. bare call [us]", "1.50", "3.00", "", "2.00", "", "", "", "233"];
        assert_eq!(of("python", &found), [HEADER.to_vec(), line.to_vec()]);
    }
}
