//! The Go module: checked and tested against the installed C library.

use std::process::Command;

use crate::process;
use crate::report::Counts;
use crate::steps::{Context, Outcome};

const MODULE: &str = "bindings-ffi/go";

/// Runs `go vet`.
pub(crate) fn vet(context: &Context<'_>) -> Outcome {
    with_go(context, |command| {
        process::run(command.args(["vet", "./..."])).into()
    })
}

/// Runs the tests with a collector that runs all the time: what C refers to must outlive it.
pub(crate) fn test(context: &Context<'_>) -> Outcome {
    tests(context, |command| command.env("GOGC", "1"))
}

/// Runs the tests with the race detector.
pub(crate) fn race(context: &Context<'_>) -> Outcome {
    tests(context, |command| command.arg("-race"))
}

fn tests(context: &Context<'_>, how: fn(&mut Command) -> &mut Command) -> Outcome {
    with_go(context, |command| {
        how(command.arg("test")).args(["-count=1", "-v", "./..."]);
        match process::run_and_keep(command) {
            Ok(finished) => Outcome::Counted(counts(&finished.lines).checked(finished.success)),
            Err(reason) => Outcome::Failed(reason),
        }
    })
}

fn counts(lines: &[String]) -> Counts {
    let of = |mark: &str| {
        lines
            .iter()
            .filter(|line| line.trim_start().starts_with(mark))
            .count() as u64
    };
    Counts {
        passed: of("--- PASS:"),
        failed: of("--- FAIL:"),
    }
}

fn with_go(context: &Context<'_>, step: impl FnOnce(&mut Command) -> Outcome) -> Outcome {
    let prefix = match context.c() {
        Ok(prefix) => prefix,
        Err(reason) => return Outcome::Failed(reason.clone()),
    };
    if process::read(process::command(context.workspace, "go").arg("version")).is_none() {
        return Outcome::absent("no go");
    }
    let mut command = process::command(context.workspace, "go");
    command
        .current_dir(context.workspace.path(MODULE))
        .env("CGO_ENABLED", "1");
    step(prefix.lend(&mut command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_their_lines() {
        let lines = [
            "=== RUN   TestA",
            "--- PASS: TestA (0.00s)",
            "    --- FAIL: TestB/c (0.00s)",
        ]
        .map(str::to_owned);
        assert_eq!(counts(&lines), Counts { passed: 1, failed: 1 });
    }
}
