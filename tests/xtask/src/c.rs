//! The C door: the library, installed under a folder of the build as `cargo cinstall` lays it out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::steps::{Context, Outcome};
use crate::workspace::Workspace;

/// The flags that every C program of the repository compiles with.
const STRICT: [&str; 5] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];

/// Where the library is installed for the programs of the repository.
pub(crate) struct Prefix {
    folder: PathBuf,
}

impl Prefix {
    /// Builds the library and installs it with its header and its pkg-config file.
    pub(crate) fn install(context: &Context<'_>) -> Result<Self, String> {
        let workspace = context.workspace;
        if !process::run(&mut context.cargo(&["build", "--release", "-p", "callweir-ffi"]))? {
            return Err("the library does not build".to_owned());
        }
        let prefix = Self::of(workspace);
        prefix
            .copy(workspace)
            .map_err(|error| format!("cannot install the library: {error}"))?;
        Ok(prefix)
    }

    fn of(workspace: &Workspace) -> Self {
        Self {
            folder: workspace.target.join("callweir-ffi"),
        }
    }

    fn copy(&self, workspace: &Workspace) -> std::io::Result<()> {
        let (lib, include) = (self.folder.join("lib"), self.folder.join("include"));
        fs::create_dir_all(lib.join("pkgconfig"))?;
        fs::create_dir_all(&include)?;
        fs::copy(
            workspace.path("bindings-ffi/include/callweir.h"),
            include.join("callweir.h"),
        )?;
        for name in ["libcallweir.so", "libcallweir.a"] {
            // Removed first: a process that has the old one mapped keeps it whole.
            let _ = fs::remove_file(lib.join(name));
            fs::copy(workspace.target.join("release").join(name), lib.join(name))?;
        }
        fs::write(lib.join("pkgconfig/callweir.pc"), self.description())
    }

    /// The pkg-config file, as cargo-c writes it.
    fn description(&self) -> String {
        format!(
            "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\nName: callweir\n\
             Description: Decide about, change, wrap and record the tool and model calls of a program\n\
             Version: {}\nLibs: -L${{libdir}} -lcallweir\nCflags: -I${{includedir}}\n\
             Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc\n",
            self.folder.display(),
            env!("CARGO_PKG_VERSION"),
        )
    }

    /// Lets a child find the library when it compiles and when it runs.
    pub(crate) fn lend<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let lib = self.folder.join("lib");
        command
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
            .env("LD_LIBRARY_PATH", lib)
    }

    /// What `pkg-config` says a program needs, and nothing else.
    fn flags(&self, workspace: &Workspace) -> Option<Vec<String>> {
        let mut command = process::command(workspace, "pkg-config");
        self.lend(&mut command).args(["--cflags", "--libs", "callweir"]);
        Some(
            process::read(&mut command)?
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        )
    }

    /// Compiles a program of these sources and returns the command that runs it, or why it cannot be.
    pub(crate) fn program(
        &self,
        workspace: &Workspace,
        name: &str,
        sources: &[PathBuf],
    ) -> Result<Command, Outcome> {
        let flags = self
            .flags(workspace)
            .ok_or_else(|| Outcome::absent("no pkg-config"))?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        if process::read(process::command(workspace, &compiler).arg("--version")).is_none() {
            return Err(Outcome::absent("no C compiler"));
        }
        let built = self.folder.join("programs");
        fs::create_dir_all(&built).map_err(|error| Outcome::Failed(error.to_string()))?;
        let program = built.join(name);
        let mut compile = process::command(workspace, compiler);
        compile.args(STRICT).args(["-O1", "-g", "-pthread"]).args(sources);
        compile.arg("-o").arg(&program).args(flags);
        match process::run(&mut compile) {
            Ok(true) => {
                let mut command = process::command(workspace, program);
                self.lend(&mut command);
                Ok(command)
            }
            Ok(false) => Err(Outcome::Failed(format!("{name} does not compile"))),
            Err(reason) => Err(Outcome::Failed(reason)),
        }
    }
}

/// Lists the C files of a folder, in the order of their names.
pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut found: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|name| name == "c"))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(format!("{} holds no C file", folder.display()));
    }
    Ok(found)
}
