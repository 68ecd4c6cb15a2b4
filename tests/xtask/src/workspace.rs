//! Where the repository and its build output are.

use std::env;
use std::path::{Path, PathBuf};

/// The folders that every command works in.
pub(crate) struct Workspace {
    /// Top of the repository.
    pub(crate) root: PathBuf,
    /// Cargo's target folder, absolute.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Finds the folders from what cargo tells a program that it runs.
    pub(crate) fn locate() -> Self {
        // Set by `cargo run`; the compile-time value serves a binary that is started by hand.
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .ancestors()
            .nth(2)
            .map_or_else(|| manifest.clone(), Path::to_path_buf);
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => root.join(folder),
            None => root.join("target"),
        };
        Self { root, target }
    }

    /// An absolute path for one that is relative to the top.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Whether a file or folder is there.
    pub(crate) fn has(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }
}

/// Whether this is a CI run, where nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}
