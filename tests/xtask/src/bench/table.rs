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

/// Where the columns of another host stand: before the peer, which runs under it.
const BEFORE_PEER: usize = 6;

/// One row: what was measured for a case, over all rounds that programs printed.
#[derive(Default)]
struct Row {
    case: String,
    entries: Option<u64>,
    unit: String,
    group: String,
    ours: Vec<f64>,
    lowest: Vec<f64>,
    plain: Vec<f64>,
    /// Ours and plain code under another host than the usual one: the peer's, where it needs its own.
    hosted: Hosted,
    peer: Vec<f64>,
}

#[derive(Default)]
struct Hosted {
    ours: Vec<f64>,
    plain: Vec<f64>,
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
/// What was measured under another `host` has columns of its own, and the peer is compared with ours there.
pub(super) fn of(door: &str, measurements: &[Value]) -> Vec<Vec<String>> {
    let of_door = || measurements.iter().filter(|one| text(one, "door") == door);
    let host = of_door()
        .map(|one| text(one, "host"))
        .find(|host| !host.is_empty());
    let mut rows: Vec<Row> = Vec::new();
    for measurement in of_door() {
        take(&mut rows, measurement);
    }
    let lines = rows.iter().map(|row| line(door, row, host.is_some()));
    std::iter::once(header(host.as_deref())).chain(lines).collect()
}

fn header(host: Option<&str>) -> Vec<String> {
    let mut header = HEADER.map(str::to_owned).to_vec();
    if let Some(host) = host {
        let columns = ["plain", "ours"].map(|side| format!("{side}, {host}"));
        header.splice(BEFORE_PEER..BEFORE_PEER, columns);
    }
    header
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
            ..Row::default()
        });
        rows.len() - 1
    });
    let (Some(row), Some(value)) = (rows.get_mut(place), number(measurement, "value")) else {
        return;
    };
    let hosted = !text(measurement, "host").is_empty();
    match (text(measurement, "side").as_str(), hosted) {
        ("peer", _) => row.peer.push(value),
        ("plain", false) => row.plain.push(value),
        ("plain", true) => row.hosted.plain.push(value),
        (_, true) => row.hosted.ours.push(value),
        (_, false) => {
            row.ours.push(value);
            row.lowest.extend(number(measurement, "min"));
        }
    }
}

fn line(door: &str, row: &Row, hosted: bool) -> Vec<String> {
    let target = target(door, &row.case, row.entries);
    let (ours, peer) = (median(&row.ours), median(&row.peer));
    let beside_peer = if hosted { median(&row.hosted.ours) } else { ours };
    let aim = target.as_ref().map(|target| target.ours);
    let wanted = target.and_then(|target| ratio(target.peer, Some(target.ours)));
    let lowest = row.lowest.iter().copied().reduce(f64::min);
    let mut line = vec![
        label(row),
        shown(aim),
        shown(ours),
        shown(lowest),
        shown(ratio(ours, aim)),
        shown(median(&row.plain)),
        shown(peer),
        shown(ratio(peer, beside_peer)),
        shown(wanted),
    ];
    if hosted {
        let columns = [median(&row.hosted.plain), beside_peer].map(shown);
        line.splice(BEFORE_PEER..BEFORE_PEER, columns);
    }
    line
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

    #[test]
    fn another_host_has_columns_of_its_own_and_the_peer_is_compared_there() {
        let lines = [
            r#"{"door": "node", "side": "ours", "row": "a", "case": "bare call", "unit": "us", "value": 4, "min": 3}"#,
            r#"{"door": "node", "side": "plain", "row": "a", "case": "bare call", "unit": "us", "value": 0.3}"#,
            r#"{"door": "node", "side": "ours", "row": "a", "case": "bare call", "unit": "us", "value": 2.5, "host": "Node 24"}"#,
            r#"{"door": "node", "side": "plain", "row": "a", "case": "bare call", "unit": "us", "value": 0.1, "host": "Node 24"}"#,
            r#"{"door": "node", "side": "peer", "row": "a", "case": "bare call", "unit": "us", "value": 200, "host": "Node 24"}"#,
        ];
        let found: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let table = of("node", &found);
        let columns = ["plain", "plain, Node 24", "ours, Node 24", "peer"];
        assert_eq!(table[0][5..9], columns);
        let line = [
            "a. bare call [us]",
            "2.00",
            "4.00",
            "3.00",
            "2.00",
            "0.30",
            "0.10",
            "2.50",
            "200",
            "80.0",
            "70.0",
        ];
        assert_eq!(table[1..], [line.to_vec()]);
    }
}
