//! Running named steps one after another, whatever the ones before did.

use std::cell::OnceCell;
use std::io::{IsTerminal, Write};
use std::process::Command;
use std::time::Instant;

use crate::process;
use crate::report::{Counts, Report, Row};
use crate::unavailable::Unavailable;
use crate::workspace::{Workspace, in_ci};
use crate::{c, node, python};

/// What a step came to.
pub(crate) enum Outcome {
    /// It ran; this is what passed and failed.
    Counted(Counts),
    /// It could not run, and that is a failure.
    Failed(String),
    /// It had nothing to do, or its tool is not on this machine and need not be.
    Skipped(String),
}

impl Outcome {
    /// What is not there is skipped by name on a developer's machine; CI must have everything.
    pub(crate) fn absent(what: impl Into<String>) -> Self {
        if in_ci() {
            Self::Failed(what.into())
        } else {
            Self::Skipped(what.into())
        }
    }
}

impl From<Result<bool, String>> for Outcome {
    fn from(result: Result<bool, String>) -> Self {
        match result {
            Ok(passed) => Self::Counted(Counts::one(passed)),
            Err(reason) => Self::Failed(reason),
        }
    }
}

/// One row of a command's table: the heading, and what is done.
pub(crate) type Step = (&'static str, fn(&Context<'_>) -> Outcome);

/// What the steps of one run share.
pub(crate) struct Context<'a> {
    pub(crate) workspace: &'a Workspace,
    python: OnceCell<Result<python::Environment, Unavailable>>,
    node: OnceCell<Result<node::Environment, Unavailable>>,
    c: OnceCell<Result<c::Prefix, String>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(workspace: &'a Workspace) -> Self {
        Self {
            workspace,
            python: OnceCell::new(),
            node: OnceCell::new(),
            c: OnceCell::new(),
        }
    }

    /// The Python environment, prepared by the first step that asks.
    pub(crate) fn python(&self) -> Result<&python::Environment, &Unavailable> {
        self.python
            .get_or_init(|| python::Environment::prepare(self.workspace))
            .as_ref()
    }

    /// Node with its packages, prepared by the first step that asks.
    pub(crate) fn node(&self) -> Result<&node::Environment, &Unavailable> {
        self.node
            .get_or_init(|| node::Environment::prepare(self.workspace))
            .as_ref()
    }

    /// The C library, built and installed by the first step that asks.
    pub(crate) fn c(&self) -> Result<&c::Prefix, &String> {
        self.c.get_or_init(|| c::Prefix::install(self)).as_ref()
    }

    /// A cargo command that builds the binding for the environment's interpreter.
    ///
    /// Every cargo call of a run gets the same variables: a build script that saw others would run again,
    /// and with it everything that depends on it.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = process::cargo(self.workspace);
        command.args(arguments);
        if let Ok(environment) = self.python() {
            command.envs(environment.build_variables(self.workspace));
        }
        command
    }
}

/// Runs all steps, each under a heading, and returns what they came to.
pub(crate) fn run_all(context: &Context<'_>, steps: &[Step]) -> Report {
    let mut report = Report::default();
    for (name, step) in steps {
        report.add(run_one(name, || step(context)));
    }
    report
}

/// Runs one step under a heading with its name, and prints its time after it.
pub(crate) fn run_one(name: &str, step: impl FnOnce() -> Outcome) -> Row {
    println!("\n{}", heading(name));
    // The child writes to the same place, unbuffered by us.
    let _ = std::io::stdout().flush();
    let start = Instant::now();
    let (counts, note) = match step() {
        Outcome::Counted(counts) => (counts, String::new()),
        Outcome::Failed(reason) => (Counts::one(false), reason),
        Outcome::Skipped(reason) => (Counts::default(), format!("skipped: {reason}")),
    };
    let elapsed = start.elapsed();
    if !note.is_empty() {
        println!("{note}");
    }
    println!("({:.1} s)", elapsed.as_secs_f64());
    Row {
        name: name.to_owned(),
        counts,
        elapsed,
        note,
    }
}

fn heading(name: &str) -> String {
    if std::io::stdout().is_terminal() {
        format!("\x1b[1m== {name}\x1b[0m")
    } else {
        format!("== {name}")
    }
}
