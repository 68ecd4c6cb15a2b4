//! The Python side: an interpreter, a virtual environment with fixed packages, and the binding's wheel.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::unavailable::Unavailable;
use crate::workspace::Workspace;

const REQUIREMENTS: &str = "tests/requirements.txt";
const BINDING: &str = "bindings-python/Cargo.toml";
const CANDIDATES: [&str; 4] = ["python3", "python3.13", "python3.12", "python3.11"];

/// Prints one line: version, whether it is new enough, the real executable, and the name that maturin gives to the ABI.
const PROBE: &str = "
import struct, sys, sysconfig
print(sys.version_info >= (3, 11), sys.implementation.name, '%d.%d' % sys.version_info[:2],
      getattr(sys, 'abiflags', '') or '-', struct.calcsize('P') * 8, sys.base_prefix, sep='\\t')
";

/// What an interpreter says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interpreter {
    executable: PathBuf,
    /// As maturin writes it, `cpython-3.11-64bit`.
    signature: String,
    base_prefix: String,
}

impl Interpreter {
    /// Asks `executable`; nothing when it does not run or is too old.
    fn probe(executable: &Path) -> Option<Self> {
        let answer = process::read(Command::new(executable).args(["-c", PROBE]))?;
        Self::parse(executable, &answer)
    }

    fn parse(executable: &Path, answer: &str) -> Option<Self> {
        let fields: Vec<&str> = answer.trim().split('\t').collect();
        let ["True", implementation, version, flags, width, base_prefix] = fields.as_slice() else {
            return None;
        };
        let flags = if *flags == "-" { "" } else { flags };
        Some(Self {
            executable: executable.to_path_buf(),
            signature: format!("{implementation}-{version}{flags}-{width}bit"),
            base_prefix: (*base_prefix).to_owned(),
        })
    }

    fn find() -> Result<Self, Unavailable> {
        if let Some(chosen) = env::var_os("PYTHON").filter(|chosen| !chosen.is_empty()) {
            return Self::probe(Path::new(&chosen)).ok_or_else(|| {
                Unavailable::Missing(format!(
                    "PYTHON={} is no Python 3.11 or newer",
                    chosen.to_string_lossy()
                ))
            });
        }
        CANDIDATES
            .iter()
            .find_map(|name| Self::probe(Path::new(name)))
            .ok_or_else(|| {
                Unavailable::Missing(format!(
                    "no Python 3.11 or newer: tried {}",
                    CANDIDATES.join(", ")
                ))
            })
    }
}

/// A virtual environment in the target folder that has everything in `tests/requirements.txt`.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    interpreter: Interpreter,
}

impl Environment {
    /// Makes the environment, or takes the one that is there when it still fits.
    pub(crate) fn prepare(workspace: &Workspace) -> Result<Self, Unavailable> {
        let system = Interpreter::find()?;
        let folder = workspace.target.join("venv");
        let python = venv_python(&folder);
        // Stale: its interpreter is gone, or is not the one that would be taken now.
        let fits = |inner: &Interpreter| {
            inner.base_prefix == system.base_prefix && inner.signature == system.signature
        };
        let interpreter = match Interpreter::probe(&python).filter(fits) {
            Some(interpreter) => interpreter,
            None => create(workspace, &system, &folder, &python)?,
        };
        let environment = Self { interpreter };
        environment
            .install_requirements(workspace, &folder)
            .map_err(Unavailable::Broken)?;
        Ok(environment)
    }

    /// A command that starts this environment's Python.
    pub(crate) fn python(&self, workspace: &Workspace) -> Command {
        let mut command = process::command(workspace, &self.interpreter.executable);
        // Tests must not depend on what the machine's user has installed or configured.
        command
            .env("PYTHONNOUSERSITE", "1")
            .env_remove("PYTHONPATH")
            .env_remove("PYTHONHOME");
        command
    }

    /// The environment's interpreter.
    pub(crate) fn executable(&self) -> &Path {
        &self.interpreter.executable
    }

    /// The variables that PyO3's build script reads, with the values that maturin gives them.
    pub(crate) fn build_variables(&self, workspace: &Workspace) -> Vec<(&'static str, OsString)> {
        let mut variables = self.maturin_variables();
        if let Some(config) = self.stable_abi_config(workspace) {
            variables.push(("PYO3_CONFIG_FILE", config.into_os_string()));
        }
        variables
    }

    fn maturin_variables(&self) -> Vec<(&'static str, OsString)> {
        vec![
            (
                "PYO3_PYTHON",
                self.interpreter.executable.clone().into_os_string(),
            ),
            (
                "PYO3_ENVIRONMENT_SIGNATURE",
                self.interpreter.signature.clone().into(),
            ),
            ("PYO3_BUILD_EXTENSION_MODULE", "1".into()),
        ]
    }

    /// The file in which maturin describes a stable ABI to PyO3, once it has built such a wheel.
    fn stable_abi_config(&self, workspace: &Workspace) -> Option<PathBuf> {
        // Without the feature maturin sets no such variable, whatever file an earlier build left.
        if !fs::read_to_string(workspace.path(BINDING))
            .ok()?
            .contains("\"abi3")
        {
            return None;
        }
        let version = self.interpreter.signature.split('-').nth(1)?;
        let ours =
            |name: &str| name.starts_with("pyo3-config-") && name.contains(&format!("-{version}-abi3"));
        let entries = fs::read_dir(workspace.target.join("maturin")).ok()?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        let found = paths.find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(ours))?;
        found.canonicalize().ok()
    }

    /// Builds the wheel with what cargo has already compiled, and installs it.
    pub(crate) fn install_binding(&self, workspace: &Workspace) -> Result<bool, String> {
        let wheels = workspace.target.join("wheels");
        // An older wheel beside the new one would make the choice below a guess.
        if wheels.exists() {
            fs::remove_dir_all(&wheels)
                .map_err(|error| format!("cannot empty {}: {error}", wheels.display()))?;
        }
        let mut build = self.python(workspace);
        build.args([
            "-m",
            "maturin",
            "build",
            "--release",
            "--manifest-path",
            BINDING,
            "--interpreter",
        ]);
        build
            .arg(&self.interpreter.executable)
            .arg("--target-dir")
            .arg(&workspace.target);
        // The wheel stays on this machine: no check against a portable platform tag.
        build.arg("--out").arg(&wheels).args(["--compatibility", "linux"]);
        build.envs(self.maturin_variables());
        if !process::run(&mut build)? {
            return Ok(false);
        }
        let mut install = self.pip_install(workspace);
        install
            .args(["--force-reinstall", "--no-deps"])
            .arg(only_wheel(&wheels)?);
        process::run(&mut install)
    }

    fn install_requirements(&self, workspace: &Workspace, folder: &Path) -> Result<(), String> {
        let path = workspace.path(REQUIREMENTS);
        let wanted =
            fs::read_to_string(&path).map_err(|error| format!("cannot read {REQUIREMENTS}: {error}"))?;
        let stamp = folder.join("requirements.stamp");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        let mut install = self.pip_install(workspace);
        install.arg("--requirement").arg(&path);
        if !process::run(&mut install)? {
            return Err(format!("pip could not install {REQUIREMENTS}"));
        }
        fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))
    }

    fn pip_install(&self, workspace: &Workspace) -> Command {
        let mut command = self.python(workspace);
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        command
    }
}

fn create(
    workspace: &Workspace,
    system: &Interpreter,
    folder: &Path,
    python: &Path,
) -> Result<Interpreter, Unavailable> {
    println!("creating {}", folder.display());
    let mut command = process::command(workspace, &system.executable);
    command.args(["-m", "venv", "--clear"]).arg(folder);
    let made = process::run(&mut command).map_err(Unavailable::Broken)?;
    made.then(|| Interpreter::probe(python)).flatten().ok_or_else(|| {
        // Debian ships `venv` apart from the interpreter.
        Unavailable::Broken(format!("{} -m venv failed", system.executable.display()))
    })
}

fn venv_python(folder: &Path) -> PathBuf {
    if cfg!(windows) {
        folder.join("Scripts").join("python.exe")
    } else {
        folder.join("bin").join("python")
    }
}

fn only_wheel(folder: &Path) -> Result<PathBuf, String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("no wheels in {}: {error}", folder.display()))?;
    let wheels: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect();
    match wheels.as_slice() {
        [wheel] => Ok(wheel.clone()),
        found => Err(format!(
            "expected one wheel in {}, found {}",
            folder.display(),
            found.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_read_from_its_answer() {
        let path = Path::new("python3");
        let found = Interpreter::parse(path, "True\tcpython\t3.13\tt\t64\t/usr\n");
        assert_eq!(
            found.map(|it| it.signature),
            Some("cpython-3.13t-64bit".to_owned())
        );
        let plain = Interpreter::parse(path, "True\tcpython\t3.11\t-\t64\t/usr\n");
        assert_eq!(
            plain.map(|it| it.signature),
            Some("cpython-3.11-64bit".to_owned())
        );
        assert_eq!(
            Interpreter::parse(path, "False\tcpython\t3.9\t-\t64\t/usr\n"),
            None
        );
    }
}
