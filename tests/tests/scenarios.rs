//! Replays every scenario through the Rust door and compares its trace with the golden one.
//!
//! With `CALLWEIR_BLESS=1` the golden files are written instead; review them against the specification.

use std::path::Path;

use callweir_tests::scenario;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let files = match scenario::files() {
        Ok(files) if !files.is_empty() => files,
        other => {
            eprintln!("no scenarios: {other:?}");
            std::process::exit(1);
        }
    };
    let trials = files.into_iter().map(|path| {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Trial::test(name.clone(), move || check(&path, &name))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn check(path: &Path, name: &str) -> Result<(), Failed> {
    let scenario = scenario::read(&std::fs::read_to_string(path)?)?;
    let trace = scenario::to_text(&scenario::replay(&scenario)?);
    let golden = scenario::folder().join("golden").join(format!("{name}.json"));
    if std::env::var_os("CALLWEIR_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(scenario::folder().join("golden"))?;
        return Ok(std::fs::write(golden, trace)?);
    }
    let expected = std::fs::read_to_string(golden)?;
    if trace == expected {
        Ok(())
    } else {
        Err(difference(&expected, &trace).into())
    }
}

/// The first line that differs, with what comes before it.
fn difference(expected: &str, found: &str) -> String {
    let same = expected
        .lines()
        .zip(found.lines())
        .take_while(|(a, b)| a == b)
        .count();
    let before: Vec<_> = found.lines().take(same).skip(same.saturating_sub(3)).collect();
    let line = |text: &str| text.lines().nth(same).unwrap_or("<end>").to_owned();
    format!(
        "line {}:\n{}\nexpected: {}\nfound:    {}",
        same + 1,
        before.join("\n"),
        line(expected),
        line(found)
    )
}
