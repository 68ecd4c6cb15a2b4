//! The Node side: an interpreter, the packages that the lock file fixes, the addon and the compiled TypeScript.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::steps::Context;
use crate::unavailable::Unavailable;
use crate::workspace::Workspace;

const PACKAGE: &str = "bindings-node";
const OLDEST: u32 = 20;
/// Where scripts outside the package's own folder find it under its name.
const LINK: &str = "tests/node_modules/callweir";

/// Prints one line: version, platform as napi-rs names it, and the real executable.
const PROBE: &str = r#"
process.report.excludeNetwork = true;
const libc = process.report.getReport().header.glibcVersionRuntime ? "-gnu" : "-musl";
const abi = { linux: libc, win32: "-msvc" }[process.platform] ?? "";
console.log([process.versions.node, `${process.platform}-${process.arch}${abi}`, process.execPath].join("\t"));
"#;

/// What an interpreter says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interpreter {
    executable: PathBuf,
    /// As napi-rs writes it, `linux-x64-gnu`.
    platform: String,
}

impl Interpreter {
    fn parse(answer: &str) -> Option<Self> {
        let fields: Vec<&str> = answer.trim().split('\t').collect();
        let [version, platform, executable] = fields.as_slice() else {
            return None;
        };
        let major: u32 = version.split('.').next()?.parse().ok()?;
        (major >= OLDEST).then(|| Self {
            executable: PathBuf::from(executable),
            platform: (*platform).to_owned(),
        })
    }

    fn find() -> Result<Self, Unavailable> {
        let chosen = env::var_os("NODE").filter(|chosen| !chosen.is_empty());
        let program = chosen.clone().unwrap_or_else(|| OsString::from("node"));
        let answer = process::read(Command::new(&program).args(["-e", PROBE]));
        let found = answer.as_deref().and_then(Self::parse).ok_or_else(|| {
            Unavailable::Missing(match &chosen {
                Some(chosen) => format!("NODE={} is no Node {OLDEST} or newer", chosen.display()),
                None => format!("no Node {OLDEST} or newer: tried node"),
            })
        })?;
        let built = built_platform();
        if found.platform == built {
            Ok(found)
        } else {
            Err(Unavailable::Missing(format!(
                "this Node is one for {}, and cargo builds for {built}",
                found.platform
            )))
        }
    }

    /// npm, where this interpreter's own installation has one; else the first on the path.
    fn npm(&self) -> OsString {
        let name = if cfg!(windows) { "npm.cmd" } else { "npm" };
        let beside = self.executable.with_file_name(name);
        if beside.exists() {
            beside.into_os_string()
        } else {
            name.into()
        }
    }
}

/// Node, with everything that `bindings-node/package-lock.json` lists.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    interpreter: Interpreter,
}

impl Environment {
    /// Finds Node and npm, and installs the packages unless those that are there still fit.
    pub(crate) fn prepare(workspace: &Workspace) -> Result<Self, Unavailable> {
        let environment = Self {
            interpreter: Interpreter::find()?,
        };
        environment.install_packages(workspace)?;
        Ok(environment)
    }

    /// A command that starts Node in the top folder.
    pub(crate) fn node(&self, workspace: &Workspace) -> Command {
        self.command(workspace, &self.interpreter.executable)
    }

    /// Makes the addon, the compiled TypeScript and the link to them what the sources describe.
    pub(crate) fn install_binding(&self, context: &Context<'_>) -> Result<bool, String> {
        let workspace = context.workspace;
        if !process::run(&mut context.cargo(&["build", "--release", "-p", "callweir-node"]))? {
            return Ok(false);
        }
        self.copy_addon(workspace)?;
        let mut compile = self.node(workspace);
        compile.current_dir(package(workspace)).arg("npm/build.mjs");
        if !process::run(&mut compile)? {
            return Ok(false);
        }
        link(workspace).map_err(|error| format!("cannot make {LINK}: {error}"))?;
        Ok(true)
    }

    /// A command that starts npm in the top folder.
    pub(crate) fn npm(&self, workspace: &Workspace) -> Command {
        self.command(workspace, self.interpreter.npm())
    }

    /// A command that starts a program in the top folder, with variables that do not change what Node does.
    pub(crate) fn command(&self, workspace: &Workspace, program: impl AsRef<OsStr>) -> Command {
        let mut command = process::command(workspace, program);
        // Tests must not depend on what the machine's user has configured, and their output is read.
        for name in ["NODE_OPTIONS", "NODE_PATH", "NODE_TEST_CONTEXT", "FORCE_COLOR"] {
            command.env_remove(name);
        }
        command.env("NO_COLOR", "1");
        // npm and what it starts look for `node` there: let it be this one.
        let own = self.interpreter.executable.parent().map(Path::to_path_buf);
        let inherited = env::var_os("PATH").unwrap_or_default();
        if let Ok(path) = env::join_paths(own.into_iter().chain(env::split_paths(&inherited))) {
            command.env("PATH", path);
        }
        command
    }

    fn install_packages(&self, workspace: &Workspace) -> Result<(), Unavailable> {
        let wanted = lock(workspace).map_err(Unavailable::Broken)?;
        // Inside the folder, so that it goes with what it vouches for.
        let stamp = package(workspace).join("node_modules").join(".installed");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        if process::read(self.npm(workspace).arg("--version")).is_none() {
            return Err(Unavailable::Missing(
                "no npm beside Node or on the path".to_owned(),
            ));
        }
        let mut install = self.npm(workspace);
        // Without scripts: the package's own would build what the steps after this one build.
        install
            .current_dir(package(workspace))
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        if !process::run(&mut install).map_err(Unavailable::Broken)? {
            return Err(Unavailable::Broken(format!(
                "npm could not install the packages of {PACKAGE}"
            )));
        }
        fs::write(&stamp, wanted)
            .map_err(|error| Unavailable::Broken(format!("cannot write {}: {error}", stamp.display())))
    }

    /// Puts the library that cargo built under the name that the package loads.
    fn copy_addon(&self, workspace: &Workspace) -> Result<(), String> {
        let (prefix, suffix) = (env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        let built = workspace
            .target
            .join("release")
            .join(format!("{prefix}callweir_node{suffix}"));
        let name = format!("callweir.{}.node", self.interpreter.platform);
        let folder = package(workspace);
        // Renamed into place: a process that has the old file mapped keeps it whole.
        let fresh = folder.join(format!("{name}.{}", std::process::id()));
        fs::copy(&built, &fresh)
            .and_then(|_| fs::rename(&fresh, folder.join(&name)))
            .map_err(|error| format!("cannot copy {} to {name}: {error}", built.display()))
    }
}

/// Lists the `*.test.mjs` files below a folder, in the order of their paths.
///
/// What `node --test` does with a folder differs between its versions; with files it is always the same.
pub(crate) fn test_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                if name != "node_modules" {
                    folders.push(entry.path());
                }
            } else if name.ends_with(".test.mjs") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn package(workspace: &Workspace) -> PathBuf {
    workspace.path(PACKAGE)
}

/// What the installed packages depend on: the lock, and the file that it must agree with.
fn lock(workspace: &Workspace) -> Result<String, String> {
    let mut text = String::new();
    for name in ["package-lock.json", "package.json"] {
        let path = package(workspace).join(name);
        text +=
            &fs::read_to_string(&path).map_err(|error| format!("cannot read {PACKAGE}/{name}: {error}"))?;
    }
    Ok(text)
}

/// The platform that this program, and so the addon, is compiled for, as napi-rs names it.
fn built_platform() -> String {
    let arch = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let libc = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    match env::consts::OS {
        "linux" => format!("linux-{arch}-{libc}"),
        "macos" => format!("darwin-{arch}"),
        "windows" => format!("win32-{arch}-msvc"),
        other => format!("{other}-{arch}"),
    }
}

/// Makes the package importable by its name from scripts below `tests`.
#[cfg(unix)]
fn link(workspace: &Workspace) -> io::Result<()> {
    let link = workspace.path(LINK);
    let target = Path::new("../..").join(PACKAGE);
    if fs::read_link(&link).is_ok_and(|current| current == target) {
        return Ok(());
    }
    if let Some(folder) = link.parent() {
        fs::create_dir_all(folder)?;
    }
    // Whatever else stands there is a link to another place, or a mistake to be told of.
    if fs::symlink_metadata(&link).is_ok() {
        fs::remove_file(&link)?;
    }
    std::os::unix::fs::symlink(&target, &link)
}

#[cfg(not(unix))]
fn link(_: &Workspace) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "links to the Node package are made on Unix only",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_read_from_its_answer() {
        let found = Interpreter::parse("20.19.1\tlinux-x64-gnu\t/usr/bin/node\n");
        let expected = Interpreter {
            executable: PathBuf::from("/usr/bin/node"),
            platform: "linux-x64-gnu".to_owned(),
        };
        assert_eq!(found, Some(expected));
        for answer in ["", "18.20.0\tlinux-x64-gnu\t/usr/bin/node", "twenty\tlinux\tnode"] {
            assert_eq!(Interpreter::parse(answer), None, "{answer}");
        }
    }

    #[test]
    fn test_files_are_found_at_any_depth() {
        let folder = env::temp_dir().join(format!("callweir-xtask-{}", std::process::id()));
        for name in [
            "b.test.mjs",
            "deep/a.test.mjs",
            "deep/helper.mjs",
            "node_modules/x.test.mjs",
        ] {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = test_files(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [folder.join("b.test.mjs"), folder.join("deep/a.test.mjs")]);
        assert!(test_files(&folder).is_err());
    }
}
