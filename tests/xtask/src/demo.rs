//! `cargo demo`: runs the guide and the replay through every door.

use std::process::Command;

use crate::process;
use crate::report::Report;
use crate::steps::{Context, Outcome, run_one};
use crate::unavailable::Unavailable;
use crate::workspace::Workspace;

/// A program of the demonstration, or of the benchmarks, and what runs it.
pub(crate) enum Program {
    /// An example of the crate `callweir-tests`.
    Rust(&'static str),
    /// A script for the environment's Python, from the top of the repository.
    Python(&'static str),
    /// A script for Node, from the top of the repository.
    Node(&'static str),
}

/// What is run, in this order.
const PROGRAMS: &[Program] = &[
    Program::Rust("guide"),
    Program::Rust("replay"),
    Program::Python("tests/demo/guide.py"),
    Program::Python("tests/demo/replay.py"),
    Program::Node("tests/demo/guide.mjs"),
    Program::Node("tests/demo/replay.mjs"),
];

impl Program {
    /// The heading that it runs under.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Rust(example) => format!("Rust: {example}"),
            Self::Python(script) => format!("Python: {script}"),
            Self::Node(script) => format!("Node: {script}"),
        }
    }

    /// The command that starts it, or the outcome when its language is not to be had.
    pub(crate) fn command(&self, context: &Context<'_>) -> Result<Command, Outcome> {
        match self {
            Self::Rust(example) => Ok(context.cargo(&[
                "run",
                "--release",
                "--quiet",
                "-p",
                "callweir-tests",
                "--example",
                example,
            ])),
            Self::Python(script) => {
                let environment = context.python().map_err(missing_language)?;
                let mut command = environment.python(context.workspace);
                command.arg(script);
                Ok(command)
            }
            Self::Node(script) => {
                let environment = context.node().map_err(missing_language)?;
                let mut command = environment.node(context.workspace);
                command.arg(script);
                Ok(command)
            }
        }
    }
}

/// Runs every program; true when all that could run succeeded.
pub(crate) fn run(workspace: &Workspace) -> bool {
    let context = Context::new(workspace);
    let mut report = Report::default();
    report.add(run_one("Python: build and install", || install_python(&context)));
    report.add(run_one("Node: build and install", || install_node(&context)));
    for program in PROGRAMS {
        report.add(run_one(&program.title(), || match program.command(&context) {
            Ok(mut command) => process::run(&mut command).into(),
            Err(outcome) => outcome,
        }));
    }
    report.print();
    report.total().failed == 0
}

/// Makes the installed Python binding the one that the source describes.
pub(crate) fn install_python(context: &Context<'_>) -> Outcome {
    match context.python() {
        Ok(environment) => environment.install_binding(context.workspace).into(),
        Err(reason) => missing_language(reason),
    }
}

/// Makes the Node package the one that the source describes.
pub(crate) fn install_node(context: &Context<'_>) -> Outcome {
    match context.node() {
        Ok(environment) => environment.install_binding(context).into(),
        Err(reason) => missing_language(reason),
    }
}

/// A language that a developer's machine lacks is skipped by name; CI must have it.
fn missing_language(reason: &Unavailable) -> Outcome {
    match reason {
        Unavailable::Missing(reason) => Outcome::absent(reason),
        Unavailable::Broken(reason) => Outcome::Failed(reason.clone()),
    }
}
