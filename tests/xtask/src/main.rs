//! The task runner: `cargo verify`, `cargo demo`, `cargo bench-doors` and `cargo gen`.
//!
//! One module for each command, and the parts that they share: `workspace` (folders), `process` (children),
//! `python` (the virtual environment and the wheel), `node` (the packages, the addon and the TypeScript), `c` (the C library), `report`
//! (counting and tables).

mod bench;
mod c;
mod demo;
mod r#gen;
mod go;
mod node;
mod process;
mod python;
mod report;
mod steps;
mod unavailable;
mod verify;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "usage: cargo verify | cargo demo | cargo bench-doors [--quick] [--peer] [--only ROW] | cargo gen [--check]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let workspace = Workspace::locate();
    let outcome = match words.as_slice() {
        ["verify"] => Ok(verify::run(&workspace)),
        ["demo"] => Ok(demo::run(&workspace)),
        ["bench-doors", arguments @ ..] => bench::run(&workspace, arguments),
        ["gen"] => r#gen::write(&workspace),
        ["gen", "--check"] => r#gen::check(&workspace),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
