//! What the demonstrations share: a place for their files, and checks that decide how they end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes the folder for what demonstrations write, and returns a path in it; an old file there is removed.
pub fn output(name: &str) -> std::io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/demo");
    std::fs::create_dir_all(&folder)?;
    let path = folder.canonicalize()?.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(path),
    }
}

/// Statements about a run that have to be true.
#[derive(Debug, Default)]
pub struct Checks {
    failed: usize,
}

impl Checks {
    /// Prints a statement and whether it is true.
    pub fn check(&mut self, statement: &str, holds: bool) {
        println!("{} {statement}", if holds { "ok    " } else { "FAILED" });
        self.failed += usize::from(!holds);
    }

    /// Prints a statement and whether the two sides are equal; both are shown if they are not.
    pub fn equal<T: PartialEq + std::fmt::Debug>(&mut self, statement: &str, expected: &T, found: &T) {
        self.check(statement, expected == found);
        if expected != found {
            println!("       expected: {expected:?}\n       found:    {found:?}");
        }
    }

    /// The exit code of the demonstration: 1 if any statement was false.
    pub fn finish(&self) -> ExitCode {
        ExitCode::from(u8::from(self.failed > 0))
    }
}
