//! `cargo verify`: everything that CI checks, in one run that goes on after failures.

use std::fs;
use std::process::Command;

use crate::report::{Counts, cargo_test_counts, node_test_counts, pytest_counts, script_counts};
use crate::steps::{Context, Outcome, Step, run_all};
use crate::workspace::Workspace;
use crate::{c, r#gen, go, node, process, python};

const STEPS: &[Step] = &[
    // First, because the interpreter decides how the binding is compiled in all the others.
    ("python environment", python_environment),
    ("node packages", node_packages),
    ("cargo fmt --check", format),
    // Before the other builds, because maturin settles how PyO3 is configured; they take what it compiled.
    ("wheel", wheel),
    ("node addon and dist", node_addon),
    ("cargo clippy", clippy),
    ("cargo gen --check", generated),
    ("cargo test", rust_tests),
    ("pytest bindings-python/tests", |context| {
        pytest(context, "bindings-python/tests")
    }),
    ("pytest tests/python", |context| pytest(context, "tests/python")),
    ("stubtest", stubtest),
    ("pyright --strict", pyright),
    ("node --test bindings-node/tests", |context| {
        node_tests(context, "bindings-node/tests")
    }),
    ("node --test tests/node", |context| {
        node_tests(context, "tests/node")
    }),
    ("node types", node_types),
    ("C library", |context| match context.c() {
        Ok(_) => Outcome::Counted(Counts::one(true)),
        Err(reason) => Outcome::Failed(reason.clone()),
    }),
    ("C tests", |context| {
        c_programs(context, "bindings-ffi/c/tests", script_counts)
    }),
    ("C examples", |context| {
        c_programs(context, "bindings-ffi/c/examples", |_| Counts::one(true))
    }),
    ("go vet", go::vet),
    ("go test", go::test),
    ("go test -race", go::race),
    // The README's examples come here: a row whose function runs each of its code blocks and counts them.
];

/// Runs all steps; true when nothing failed.
pub(crate) fn run(workspace: &Workspace) -> bool {
    let report = run_all(&Context::new(workspace), STEPS);
    report.print();
    report.total().failed == 0
}

fn python_environment(context: &Context<'_>) -> Outcome {
    match context.python() {
        Ok(_) => Outcome::Counted(Counts::one(true)),
        Err(reason) => Outcome::Failed(reason.to_string()),
    }
}

fn node_packages(context: &Context<'_>) -> Outcome {
    with_node(context, |_| Outcome::Counted(Counts::one(true)))
}

fn format(context: &Context<'_>) -> Outcome {
    process::run(&mut context.cargo(&["fmt", "--all", "--check"])).into()
}

fn wheel(context: &Context<'_>) -> Outcome {
    with_python(context, |environment| {
        environment.install_binding(context.workspace).into()
    })
}

fn node_addon(context: &Context<'_>) -> Outcome {
    with_node(context, |environment| environment.install_binding(context).into())
}

fn clippy(context: &Context<'_>) -> Outcome {
    let arguments = [
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    process::run(&mut context.cargo(&arguments)).into()
}

fn generated(context: &Context<'_>) -> Outcome {
    r#gen::check(context.workspace).into()
}

fn rust_tests(context: &Context<'_>) -> Outcome {
    let mut command = context.cargo(&["test", "--release", "--workspace", "--no-fail-fast"]);
    counted(&mut command, cargo_test_counts)
}

fn pytest(context: &Context<'_>, folder: &str) -> Outcome {
    if !context.workspace.has(folder) {
        return Outcome::absent(format!("no {folder}"));
    }
    with_python(context, |environment| {
        let mut command = environment.python(context.workspace);
        command.args(["-m", "pytest", "-q", "--color=no", folder]);
        counted(&mut command, pytest_counts)
    })
}

fn stubtest(context: &Context<'_>) -> Outcome {
    with_python(context, |environment| {
        let mut command = environment.python(context.workspace);
        process::run(command.args(["-m", "mypy.stubtest", "callweir"])).into()
    })
}

fn pyright(context: &Context<'_>) -> Outcome {
    let folder = "bindings-python/tests/typing";
    let Ok(entries) = fs::read_dir(context.workspace.path(folder)) else {
        return Outcome::absent(format!("no {folder}"));
    };
    // With nothing to read pyright finds no error either.
    if !entries
        .flatten()
        .any(|entry| entry.path().extension().is_some_and(|name| name == "py"))
    {
        return Outcome::Failed(format!("{folder} holds no .py file"));
    }
    with_python(context, |environment| {
        let mut command = environment.python(context.workspace);
        // Strictness is no option of the command line, only of the settings file.
        command.args([
            "-m",
            "pyright",
            "--warnings",
            "--project",
            "tests/pyrightconfig.json",
        ]);
        process::run(command.arg("--pythonpath").arg(environment.executable())).into()
    })
}

fn node_tests(context: &Context<'_>, folder: &str) -> Outcome {
    if !context.workspace.has(folder) {
        return Outcome::absent(format!("no {folder}"));
    }
    let files = match node::test_files(&context.workspace.path(folder)) {
        Ok(files) if files.is_empty() => return Outcome::Failed(format!("{folder} holds no .test.mjs file")),
        Ok(files) => files,
        Err(error) => return Outcome::Failed(format!("cannot list {folder}: {error}")),
    };
    with_node(context, |environment| {
        let mut command = environment.node(context.workspace);
        command.args(["--test", "--test-reporter=spec"]).args(files);
        counted(&mut command, node_test_counts)
    })
}

fn node_types(context: &Context<'_>) -> Outcome {
    let script = "bindings-node/tests/types/check.mjs";
    if !context.workspace.has(script) {
        return Outcome::absent(format!("no {script}"));
    }
    with_node(context, |environment| {
        let mut command = environment.node(context.workspace);
        counted(command.arg(script), script_counts)
    })
}

/// Compiles and runs each C file of a folder, a program of its own, and adds up what they count.
fn c_programs(context: &Context<'_>, folder: &str, count: fn(&[String]) -> Counts) -> Outcome {
    let prefix = match context.c() {
        Ok(prefix) => prefix,
        Err(reason) => return Outcome::Failed(reason.clone()),
    };
    let sources = match c::sources(&context.workspace.path(folder)) {
        Ok(sources) => sources,
        Err(reason) => return Outcome::Failed(reason),
    };
    let mut total = Counts::default();
    for source in sources {
        let name = source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        println!("-- {name}");
        let mut command = match prefix.program(context.workspace, &name, &[source]) {
            Ok(command) => command,
            Err(outcome) => return outcome,
        };
        match process::run_and_keep(&mut command) {
            Ok(finished) => {
                let counts = count(&finished.lines).checked(finished.success);
                total.passed += counts.passed;
                total.failed += counts.failed;
            }
            Err(reason) => return Outcome::Failed(reason),
        }
    }
    Outcome::Counted(total)
}

/// Runs a step that needs Python; without one it fails, and says what is missing.
fn with_python(context: &Context<'_>, step: impl FnOnce(&python::Environment) -> Outcome) -> Outcome {
    match context.python() {
        Ok(environment) => step(environment),
        Err(reason) => Outcome::Failed(reason.to_string()),
    }
}

/// Runs a step that needs Node; without it the step fails, and says what is missing.
fn with_node(context: &Context<'_>, step: impl FnOnce(&node::Environment) -> Outcome) -> Outcome {
    match context.node() {
        Ok(environment) => step(environment),
        Err(reason) => Outcome::Failed(reason.to_string()),
    }
}

fn counted(command: &mut Command, count: fn(&[String]) -> Counts) -> Outcome {
    match process::run_and_keep(command) {
        Ok(finished) => Outcome::Counted(count(&finished.lines).checked(finished.success)),
        Err(reason) => Outcome::Failed(reason),
    }
}
