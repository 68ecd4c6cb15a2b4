//! Child processes: no shell, no standard input, output streamed while it is read.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::workspace::Workspace;

/// What a child did.
pub(crate) struct Finished {
    /// Whether it exited with code 0.
    pub(crate) success: bool,
    /// The lines of its standard output, kept when asked for.
    pub(crate) lines: Vec<String>,
}

/// A command for `program` that starts in the top folder.
pub(crate) fn command(workspace: &Workspace, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&workspace.root).stdin(Stdio::null());
    command
}

/// A cargo command; the cargo that started this program, if one did.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    let mut command = command(workspace, env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // These describe the package that `cargo run` started, not what the child works on.
    command
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("CARGO_MANIFEST_PATH");
    command
}

/// Runs a child whose output goes straight to ours.
pub(crate) fn run(command: &mut Command) -> Result<bool, String> {
    let shown = describe(command);
    let status = command
        .status()
        .map_err(|error| format!("cannot start {shown}: {error}"))?;
    Ok(status.success())
}

/// Runs a child, showing its standard output line by line and keeping it.
pub(crate) fn run_and_keep(command: &mut Command) -> Result<Finished, String> {
    let shown = describe(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {shown}: {error}"))?;
    let mut lines = Vec::new();
    if let Some(output) = child.stdout.take() {
        let mut stdout = std::io::stdout();
        // Split on bytes: a test may print what is not UTF-8, and that must not end the stream.
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            // Our own reader may be gone; the child's result still counts.
            let _ = writeln!(stdout, "{line}");
            lines.push(line);
        }
    }
    let status = child.wait().map_err(|error| format!("lost {shown}: {error}"))?;
    Ok(Finished {
        success: status.success(),
        lines,
    })
}

/// Runs a child quietly and returns its standard output, if it succeeded.
pub(crate) fn read(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
