//! `cargo bench-doors`: the same work through every door, beside plain code of the host language and the peer.
//!
//! Each program prints one JSON object a line for each measurement:
//! `{"door": "python", "side": "ours", "row": "d", "case": "execution intercepts", "entries": 4, "unit": "us",
//! "value": 3.1, "min": 2.9}`. `door`, `case` and `value` are required; `side` is `ours` (if absent), `plain` or
//! `peer`. A line that comes again (programs that alternate) adds a round: the table shows medians. `host` is added
//! to what was measured under another host than the usual one. All members are kept in `target/bench/doors.json`.
//! Lines that are not JSON objects are only shown.

mod node;
mod table;
mod targets;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};

use crate::demo::{Program, install_node, install_python};
use crate::process;
use crate::report::{Counts, Report, render};
use crate::steps::{Context, Outcome, run_one};
use crate::workspace::Workspace;

const PYTHON: Program = Program::Python("tests/bench/bench_python.py");
const NODE: Program = Program::Node("tests/bench/bench_node.mjs");
const RUST: Program = Program::Rust("bench_rust");
const PEER_PROJECT: &str = "tests/bench/peer_rust/Cargo.toml";
const PEER_PACKAGE: &str = "nemo-relay==0.10.4";

/// The rows of the table that the Rust peer has, too.
const PEER_ROWS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "i"];

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    quick: bool,
    peer: bool,
    only: Option<String>,
}

impl Arguments {
    /// Reads `--quick`, `--peer` and `--only ROW`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => arguments.quick = true,
                "--peer" => arguments.peer = true,
                "--only" => {
                    let row = words.next().ok_or("--only takes a row")?;
                    arguments.only = Some((*row).to_owned());
                }
                other => {
                    return Err(format!(
                        "bench-doors: {other}? There are --quick, --peer, --only ROW"
                    ));
                }
            }
        }
        Ok(arguments)
    }

    fn wants(&self, row: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == row)
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.quick {
            words.push("--quick".to_owned());
        }
        if let Some(row) = &self.only {
            words.extend(["--only".to_owned(), row.clone()]);
        }
        words
    }
}

/// Runs every program, prints one table, and writes the measurements as JSON.
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<bool, String> {
    let arguments = Arguments::parse(words)?;
    let context = Context::new(workspace);
    let mut report = Report::default();
    let mut bench = Bench {
        context: &context,
        arguments,
        measurements: Vec::new(),
    };
    report.add(run_one("Python: build and install", || install_python(&context)));
    report.add(run_one(&PYTHON.title(), || bench.python()));
    report.add(run_one("Node: build and install", || install_node(&context)));
    report.add(run_one(&NODE.title(), || bench.node()));
    if bench.arguments.peer {
        let title = format!("{}: with the peer", node::HOST);
        report.add(run_one(&title, || bench.node_with_peer()));
    }
    report.add(run_one("Rust: build", || bench.build_rust()));
    if bench.arguments.peer {
        report.add(run_one("Rust: build the peer", || bench.build_peer()));
    }
    report.add(run_one(&RUST.title(), || bench.rust()));
    if bench.arguments.wants("scaling") {
        report.add(run_one("Rust: scaling", || bench.scaling()));
    }
    for door in table::doors(&bench.measurements) {
        println!("\n{door}\n{}", render(&table::of(&door, &bench.measurements)));
    }
    write(workspace, &bench.measurements)?;
    report.print();
    Ok(report.total().failed == 0)
}

struct Bench<'a> {
    context: &'a Context<'a>,
    arguments: Arguments,
    measurements: Vec<Value>,
}

impl Bench<'_> {
    fn python(&mut self) -> Outcome {
        if let Some(outcome) = self.skips_scaling() {
            return outcome;
        }
        let mut command = match PYTHON.command(self.context) {
            Ok(command) => command,
            Err(outcome) => return outcome,
        };
        command.args(self.arguments.words());
        if let Some(folder) = self.peer_package() {
            command.arg("--peer-path").arg(folder);
        }
        if self.arguments.peer {
            command.arg("--peer-memory");
        }
        self.measure(pinned(&command))
    }

    /// The outcome of a door without the row, if only that is wanted.
    fn skips_scaling(&self) -> Option<Outcome> {
        let skips = self.arguments.only.as_deref() == Some("scaling");
        skips.then(|| Outcome::Skipped("scaling is a row of the Rust door".to_owned()))
    }

    /// The folder of the peer's Python package, installed once; nothing where it cannot be.
    fn peer_package(&self) -> Option<PathBuf> {
        let folder = self.context.workspace.target.join("bench").join("peer-python");
        let stamp = folder.join("installed");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == PEER_PACKAGE) {
            return Some(folder);
        }
        let environment = self.context.python().ok()?;
        let mut install = environment.python(self.context.workspace);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        install.arg("--target").arg(&folder).arg(PEER_PACKAGE);
        let installed =
            process::run(&mut install).unwrap_or(false) && fs::write(&stamp, PEER_PACKAGE).is_ok();
        if !installed {
            println!("{PEER_PACKAGE} cannot be installed; its column stays empty");
        }
        installed.then_some(folder)
    }

    fn build_rust(&self) -> Outcome {
        let words = [
            "build",
            "--release",
            "--quiet",
            "-p",
            "callweir-tests",
            "--example",
        ];
        let words = [&words[..], &["bench_rust"]].concat();
        process::run(&mut self.context.cargo(&words)).into()
    }

    fn build_peer(&self) -> Outcome {
        let mut command = process::cargo(self.context.workspace);
        command.args(["build", "--release", "--quiet", "--manifest-path", PEER_PROJECT]);
        command.arg("--target-dir").arg(self.peer_target());
        // Set by `cargo run` for this program: a build script that watches them would run again, and much with it.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_"))
        {
            command.env_remove(name);
        }
        process::run(&mut command).into()
    }

    fn peer_target(&self) -> PathBuf {
        self.context.workspace.target.join("peer")
    }

    /// Runs the Rust program; with the peer, both take turns with short runs.
    fn rust(&mut self) -> Outcome {
        let workspace = self.context.workspace;
        let ours = workspace.target.join("release/examples/bench_rust");
        let peer = self.peer_target().join("release/peer-rust");
        if self.arguments.only.as_deref() == Some("scaling") {
            return Outcome::Skipped("measured apart".to_owned());
        }
        let turns = PEER_ROWS.iter().any(|row| self.arguments.wants(row));
        if !(self.arguments.peer && peer.exists() && turns) {
            return self.measure(pinned(&self.command(&ours, &self.arguments.words())));
        }
        let mut outcome = self.take_turns(&[&ours, &peer]);
        if self.arguments.only.is_none() {
            for row in ["growth", "memory"] {
                let mut words = self.arguments.words();
                words.extend(["--only", row].map(str::to_owned));
                outcome = both(outcome, self.measure(pinned(&self.command(&ours, &words))));
            }
        }
        outcome
    }

    fn take_turns(&mut self, programs: &[&Path]) -> Outcome {
        let turns = if self.arguments.quick { 3 } else { 9 };
        let rows = PEER_ROWS.into_iter().filter(|row| self.arguments.wants(row));
        let mut outcome = Outcome::Counted(Counts::default());
        for row in rows.collect::<Vec<_>>() {
            let words = ["--rounds", "1", "--only", row].map(str::to_owned);
            for program in std::iter::repeat_n(programs, turns).flatten() {
                outcome = both(outcome, self.measure(pinned(&self.command(program, &words))));
            }
        }
        outcome
    }

    /// Two threads need two cores: not pinned.
    fn scaling(&mut self) -> Outcome {
        let program = self.context.workspace.target.join("release/examples/bench_rust");
        let mut words = self.arguments.words();
        words.extend(["--only", "scaling"].map(str::to_owned));
        let command = self.command(&program, &words);
        self.measure(command)
    }

    fn command(&self, program: &Path, words: &[String]) -> Command {
        let mut command = process::command(self.context.workspace, program);
        command.args(words);
        command
    }

    fn measure(&mut self, command: Command) -> Outcome {
        self.measure_under(None, command)
    }

    /// Runs a program and keeps what it measured, marked with the host if it is not the usual one.
    fn measure_under(&mut self, host: Option<&str>, mut command: Command) -> Outcome {
        match process::run_and_keep(&mut command) {
            Ok(finished) => {
                let found: Vec<Value> = finished
                    .lines
                    .iter()
                    .filter_map(|line| measurement(line))
                    .map(|measured| under(host, measured))
                    .collect();
                let counts = Counts::one(finished.success && !found.is_empty());
                self.measurements.extend(found);
                Outcome::Counted(counts)
            }
            Err(reason) => Outcome::Failed(reason),
        }
    }
}

/// Adds two outcomes up; what could not run at all stays.
fn both(one: Outcome, other: Outcome) -> Outcome {
    match (one, other) {
        (Outcome::Counted(mut counts), Outcome::Counted(more)) => {
            counts += more;
            Outcome::Counted(counts)
        }
        (Outcome::Counted(_), other) => other,
        (one, _) => one,
    }
}

/// The same command on one core, where `taskset` exists: its figures are steadier.
fn pinned(command: &Command) -> Command {
    let mut pinned = match first_core() {
        Some(core) => {
            let mut taskset = Command::new("taskset");
            taskset.args(["-c", &core]).arg(command.get_program());
            taskset
        }
        None => Command::new(command.get_program()),
    };
    pinned.args(command.get_args()).stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        pinned.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => pinned.env(name, value),
            None => pinned.env_remove(name),
        };
    }
    pinned
}

/// The first core that this process may use; nothing where `taskset` cannot be started.
fn first_core() -> Option<String> {
    process::read(Command::new("taskset").arg("--version"))?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let first = allowed.trim().split([',', '-']).next()?;
    Some(first.to_owned())
}

fn measurement(line: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    let complete =
        value.get("door")?.is_string() && value.get("case")?.is_string() && value.get("value")?.is_number();
    complete.then_some(value)
}

fn under(host: Option<&str>, mut measurement: Value) -> Value {
    if let (Some(host), Some(members)) = (host, measurement.as_object_mut()) {
        members.insert("host".to_owned(), Value::from(host));
    }
    measurement
}

fn write(workspace: &Workspace, measurements: &[Value]) -> Result<(), String> {
    let folder = workspace.target.join("bench");
    let path = folder.join("doors.json");
    let tables: Map<String, Value> = table::doors(measurements)
        .into_iter()
        .map(|door| {
            let rows = table::of(&door, measurements);
            (door, json!(rows))
        })
        .collect();
    let text = format!(
        "{:#}\n",
        json!({ "tables": tables, "measurements": measurements })
    );
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
    fn arguments_are_read() {
        let parsed = Arguments::parse(&["--quick", "--only", "d"]).unwrap();
        assert!(parsed.quick && !parsed.peer && parsed.wants("d") && !parsed.wants("a"));
        assert_eq!(parsed.words(), ["--quick", "--only", "d"]);
        assert!(Arguments::parse(&["--only"]).is_err());
        assert!(Arguments::parse(&["fast"]).is_err());
    }

    #[test]
    fn only_complete_lines_are_measurements() {
        assert!(measurement(r#"{"door": "rust", "case": "call", "value": 0.5}"#).is_some());
        for line in [
            "warming up",
            "{}",
            r#"{"door": "rust", "case": "call", "value": "0.5"}"#,
        ] {
            assert!(measurement(line).is_none(), "{line}");
        }
    }
}
