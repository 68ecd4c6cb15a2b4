//! The rules of the architecture that can be read off the sources: who depends on whom, who may name what, and how
//! long things are. Each rule is a function from sources to complaints, so that it is itself tested below.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at what it did not expect"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use callweir::{ErrorKind, Family};
use callweir_tests::scan::tree::{Source, root, sources, top_level};
use callweir_tests::scan::{Language, rust, words};

/// Languages of the doors; the core must not know one.
const BINDING_LIBRARIES: [&str; 4] = ["pyo3", "napi", "uniffi", "cbindgen"];
/// How the folders of the doors begin.
const DOOR: &str = "bindings-";
/// What no door may allow again outside its tests: one that panics can take its host's process down.
const FORBIDDEN_ALLOWANCES: [&str; 4] = ["unwrap_used", "expect_used", "panic", "indexing_slicing"];
/// Crates that the core may pull with its default features, itself included.
const CORE_CRATES: usize = 60;
const FILE_LINES: usize = 600;
const TEST_FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 60;
const CODE: [&str; 14] = [
    "rs", "py", "pyi", "ts", "mts", "cts", "js", "mjs", "cjs", "go", "c", "h", "kt", "swift",
];

const TOP_LEVEL: [&str; 15] = [
    ".cargo",
    ".ci",
    ".gitignore",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "bindings-ffi",
    "bindings-node",
    "bindings-python",
    "clippy.toml",
    "core",
    "rustfmt.toml",
    "tests",
    "CHANGELOG.md",
];

/// The core's modules from the ground up: a module may use those of its own level and of the levels before.
const LEVELS: [&[&str]; 6] = [
    &["error", "value", "payload", "block", "id"],
    &["family", "event"],
    // The machine: these hold handles of each other (a scope knows its runtime, a call its scope).
    &[
        "chain",
        "scope",
        "registrations",
        "dispatch",
        "call",
        "timer",
        "runtime",
    ],
    &["registry", "policy", "codec", "export", "closures"],
    &["plugin", "foreign"],
    &["lib"],
];

/// What only the core's tables and generated files may say.
struct Names {
    /// Wire names of families, codes of errors: forbidden as whole strings.
    literals: BTreeSet<String>,
    /// Class names of errors: forbidden as words of code and as whole strings.
    words: BTreeSet<String>,
}

/// The names to guard, from the core's tables.
fn guarded_names() -> Names {
    let families = Family::ALL.iter().map(|family| family.wire_name());
    let codes = ErrorKind::ALL.iter().map(|kind| kind.code());
    Names {
        literals: families.chain(codes).map(str::to_owned).collect(),
        words: ErrorKind::ALL.iter().map(|kind| kind.name().to_owned()).collect(),
    }
}

fn all() -> Vec<Source> {
    sources(&root()).unwrap()
}

fn assert_none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}:\n  {}", complaints.join("\n  "));
}

/// The crates that `cargo tree` lists, one a line, each as `format` says.
fn cargo_tree(arguments: &[&str], format: &str) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--prefix", "none", "--no-dedupe", "--format", format])
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

fn name_of(crate_line: &str) -> &str {
    crate_line.split(' ').next().unwrap_or_default()
}

/// The manifests of the crates whose folders are at the top.
fn manifests(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources
        .iter()
        .filter(|source| source.path.split('/').skip(1).eq(["Cargo.toml"]))
}

/// The names of the crates `bindings-*`, from their manifests.
fn binding_crates(sources: &[Source]) -> Vec<String> {
    let name = |source: &Source| {
        let line = source
            .text
            .lines()
            .find(|line| line.starts_with("name = "))
            .unwrap_or_default();
        line.split('"').nth(1).unwrap_or_default().to_owned()
    };
    manifests(sources)
        .filter(|source| source.path.starts_with(DOOR))
        .map(name)
        .collect()
}

fn foreign_to_core(crates: &[String]) -> Vec<String> {
    let named = |name: &str| {
        BINDING_LIBRARIES
            .iter()
            .any(|library| name == *library || name.starts_with(&format!("{library}-")))
    };
    crates
        .iter()
        .filter(|line| named(name_of(line)))
        .cloned()
        .collect()
}

#[test]
fn core_knows_no_binding_and_stays_small() {
    let normal = cargo_tree(&["-p", "callweir", "-e", "normal"], "{p}");
    assert_none("core depends on a binding library", &foreign_to_core(&normal));
    // What only another platform or a feature would pull counts for the first rule too.
    let everything = cargo_tree(
        &[
            "-p",
            "callweir",
            "-e",
            "normal,build",
            "--all-features",
            "--target",
            "all",
        ],
        "{p}",
    );
    assert_none(
        "core can depend on a binding library",
        &foreign_to_core(&everything),
    );
    let names: BTreeSet<&str> = normal.iter().map(|line| name_of(line)).collect();
    assert!(
        names.len() < CORE_CRATES,
        "core pulls {} crates by default: {names:?}",
        names.len()
    );
}

#[test]
fn bindings_depend_on_the_core_only() {
    let bindings = binding_crates(&all());
    // No door escapes by keeping its crate elsewhere.
    let top = top_level(&root()).unwrap();
    let doors = top.iter().filter(|name| name.starts_with(DOOR)).count();
    assert_eq!(bindings.len(), doors, "one crate for each door: {bindings:?}");
    for binding in bindings {
        let direct = cargo_tree(&["-p", &binding, "-e", "normal,build", "--depth", "1"], "{p}");
        // A crate of the workspace is the only kind whose line ends with a path.
        let ours = direct
            .iter()
            .filter(|line| line.contains(" (") && !line.ends_with("(proc-macro)"));
        let others: Vec<String> = ours
            .filter(|line| ![binding.as_str(), "callweir"].contains(&name_of(line)))
            .cloned()
            .collect();
        assert_none(&format!("{binding} depends on more than the core"), &others);
    }
}

fn guarded_in_bindings(sources: &[Source], names: &Names) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        if !source.path.starts_with(DOOR) || source.is_generated() || source.is_test() {
            continue;
        }
        let Some(language) = Language::of(source) else {
            continue;
        };
        let masked = language.mask(&source.text);
        for literal in &masked.literals {
            if names.literals.contains(&literal.text) || names.words.contains(&literal.text) {
                complaints.push(format!("{}:{}: \"{}\"", source.path, literal.line, literal.text));
            }
        }
        let found = words(&masked.code).filter(|(_, word)| names.words.contains(*word));
        complaints.extend(found.map(|(line, word)| format!("{}:{line}: {word}", source.path)));
    }
    complaints
}

#[test]
fn bindings_name_no_family_and_no_error() {
    let complaints = guarded_in_bindings(&all(), &guarded_names());
    assert_none("names that belong to the core's tables", &complaints);
}

fn too_long(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.has_extension(&CODE) && !source.is_generated())
    {
        let limit = if source.is_test() {
            TEST_FILE_LINES
        } else {
            FILE_LINES
        };
        let lines = source.text.lines().count();
        if lines > limit {
            complaints.push(format!("{}: {lines} lines, the limit is {limit}", source.path));
        }
        if source.is_test() {
            continue;
        }
        let functions = Language::of(source).map(|language| language.functions(&source.text));
        for function in functions
            .iter()
            .flatten()
            .filter(|function| function.lines > FUNCTION_LINES)
        {
            complaints.push(format!(
                "{}:{}: {} has {} lines, the limit is {FUNCTION_LINES}",
                source.path, function.line, function.name, function.lines
            ));
        }
    }
    complaints
}

#[test]
fn files_and_functions_are_short() {
    assert_none("too long", &too_long(&all()));
}

fn named_generated(source: &Source) -> bool {
    let mut parts = source.path.split('/');
    source.has_extension(&CODE) && parts.any(|part| part.trim_start_matches('_').starts_with("generated"))
}

/// A file that is named or placed as generated says so, and a marked one is code that the rules above may skip.
fn unmarked(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| named_generated(source))
        .filter(|source| !source.is_generated())
        .map(|it| it.path.clone())
        .collect()
}

#[test]
fn generated_files_are_marked() {
    assert_none("without the mark of `cargo gen`", &unmarked(&all()));
}

/// TypeScript has a folder for what is generated, so that the mark alone frees no hand-written file of the rules.
fn misplaced(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| Language::of(source) == Some(Language::TypeScript) && !source.is_test())
        .filter(|source| source.is_generated() && !named_generated(source))
        .map(|it| it.path.clone())
        .collect()
}

#[test]
fn generated_typescript_has_its_folder() {
    assert_none("marked outside a folder `generated`", &misplaced(&all()));
}

/// The crates at the top take the workspace's lints, every source says what it is for, and no door lifts the lints
/// against panics.
fn lax_crates(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for manifest in manifests(sources) {
        let mut lines = manifest.text.lines().skip_while(|line| *line != "[lints]");
        if lines.nth(1) != Some("workspace = true") {
            complaints.push(format!("{}: without the workspace's lints", manifest.path));
        }
    }
    let rust = sources.iter().filter(|source| {
        Language::of(source) == Some(Language::Rust) && !source.is_generated() && !source.is_test()
    });
    for source in rust {
        if !source.text.starts_with("//! ") {
            complaints.push(format!("{}: does not begin with what it is for", source.path));
        }
        if !source.path.starts_with(DOOR) {
            continue;
        }
        let code = rust::without_test_modules(&rust::mask(&source.text).code);
        for (line, name) in rust::allowances(&code) {
            if FORBIDDEN_ALLOWANCES.contains(&name.as_str()) {
                complaints.push(format!("{}:{line}: allows {name}", source.path));
            }
        }
    }
    complaints
}

#[test]
fn crates_are_held_to_the_lints() {
    assert_none("laxer than the workspace", &lax_crates(&all()));
}

fn unexpected_entries(names: &[String]) -> Vec<String> {
    names
        .iter()
        .filter(|name| !TOP_LEVEL.contains(&name.as_str()))
        .cloned()
        .collect()
}

#[test]
fn top_level_is_fixed() {
    assert_none(
        "unexpected at the top",
        &unexpected_entries(&top_level(&root()).unwrap()),
    );
}

fn machine_words(sources: &[Source]) -> Vec<String> {
    // Written apart, so that this file does not hold them either.
    let folders = [concat!("/ro", "ot/"), concat!("/wo", "rk/")];
    let hosts = [
        concat!("pypi", ".org"),
        concat!("pythonhosted", ".org"),
        concat!("registry.npmjs", ".org"),
        concat!("static.crates", ".io"),
        concat!("index.crates", ".io"),
        concat!("proxy.golang", ".org"),
    ];
    let mut complaints = Vec::new();
    for source in sources {
        for (index, line) in source.text.lines().enumerate() {
            let folder = folders.iter().any(|folder| {
                // Inside a longer path or an address the words mean something else.
                line.match_indices(folder).any(|(at, _)| {
                    let before = line.get(..at).and_then(|text| text.chars().next_back());
                    !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '}'))
                })
            });
            if folder || hosts.iter().any(|host| line.contains(host)) {
                complaints.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    complaints
}

#[test]
fn no_file_knows_this_machine() {
    assert_none("paths or hosts of a machine", &machine_words(&all()));
}

fn level(module: &str) -> Option<usize> {
    LEVELS.iter().position(|level| level.contains(&module))
}

/// Where the names live that `lib.rs` exports: `Error` in `error` for `pub use error::{Error, Result};`.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for statement in lib.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        let mut names = words(statement)
            .map(|(_, word)| word)
            .filter(|word| !["crate", "self"].contains(word));
        if let Some(module) = names.next() {
            homes.extend(names.map(|name| (name.to_owned(), module.to_owned())));
        }
    }
    homes
}

fn upward_uses(sources: &[Source]) -> Vec<String> {
    let modules: Vec<(&str, &Source)> = sources
        .iter()
        .filter(|source| source.has_extension(&["rs"]) && !source.is_test())
        .filter_map(|source| Some((source.path.strip_prefix("core/src/")?, source)))
        .collect();
    let lib = modules.iter().find(|(path, _)| *path == "lib.rs");
    let homes = lib
        .map(|(_, source)| exports(&rust::mask(&source.text).code))
        .unwrap_or_default();
    let mut complaints = Vec::new();
    for (path, source) in modules {
        let module = path.split(['/', '.']).next().unwrap_or_default();
        let Some(own) = level(module) else {
            complaints.push(format!("{}: {module} has no place in LEVELS", source.path));
            continue;
        };
        let code = rust::without_test_modules(&rust::mask(&source.text).code);
        for (line, name) in rust::crate_paths(&code) {
            let home = homes.get(&name).unwrap_or(&name);
            // Names that are no module are macros and what `lib.rs` defines itself.
            if level(home).is_some_and(|level| level > own) {
                complaints.push(format!("{}:{line}: {module} uses {name} of {home}", source.path));
            }
        }
    }
    complaints
}

#[test]
fn core_modules_look_downward_only() {
    assert_none("against the direction of the layers", &upward_uses(&all()));
}

#[path = "architecture/coverage.rs"]
mod coverage;
#[path = "architecture/rules.rs"]
mod rules;
