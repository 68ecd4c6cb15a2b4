//! Counting what passed and failed, and the tables that say so.

use std::ops::AddAssign;
use std::time::Duration;

/// Passed and failed checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    /// One check that passed or failed.
    pub(crate) fn one(passed: bool) -> Self {
        Self {
            passed: u64::from(passed),
            failed: u64::from(!passed),
        }
    }

    /// Makes sure that a runner which failed, or which ran nothing, is counted as a failure.
    ///
    /// A test program that does not compile or that crashes prints no closing line of its own.
    pub(crate) fn checked(mut self, success: bool) -> Self {
        if self.failed == 0 && (!success || self.passed == 0) {
            self.failed = 1;
        }
        self
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Sums the lines `test result: ok. 3 passed; 1 failed; ...` of a cargo test run.
pub(crate) fn cargo_test_counts(lines: &[String]) -> Counts {
    let mut total = Counts::default();
    for line in lines {
        if let Some(at) = line.find("test result: ") {
            total += counts_before(line.get(at..).unwrap_or_default(), &["failed"]);
        }
    }
    total
}

/// Reads pytest's closing line: `2 failed, 10 passed, 1 skipped in 0.50s`, with or without `=` around it.
pub(crate) fn pytest_counts(lines: &[String]) -> Counts {
    let closing = lines.iter().rev().find(|line| {
        let line = line.trim_matches(|c| c == '=' || c == ' ');
        line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" in ")
    });
    closing.map_or_else(Counts::default, |line| {
        counts_before(line, &["failed", "error", "errors"])
    })
}

/// Reads the lines that close the spec report of Node's test runner: `ℹ pass 10`, `ℹ fail 0`, `ℹ cancelled 0`.
pub(crate) fn node_test_counts(lines: &[String]) -> Counts {
    // From the end, because a test may print such a line, too.
    let number = |name: &str| {
        lines.iter().rev().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["ℹ", word, count] if *word == name => count.parse::<u64>().ok(),
                _ => None,
            }
        })
    };
    let of = |name: &str| number(name).unwrap_or(0);
    // A file that holds no test is itself counted as one that passed.
    let empty_file = |line: &&String| {
        let name = line.strip_prefix("✔ ").and_then(|rest| rest.rsplit_once(" ("));
        name.is_some_and(|(name, _)| name.ends_with(".test.mjs"))
    };
    let empty = lines.iter().filter(empty_file).map(|_| 1).sum();
    Counts {
        passed: of("pass").saturating_sub(empty),
        // What was cancelled was cut off by its parent's end: it has not passed.
        failed: of("fail") + of("cancelled") + empty,
    }
}

/// Reads the last line of a script that counts by itself: `3 passed, 0 failed`.
pub(crate) fn script_counts(lines: &[String]) -> Counts {
    let closing = lines.iter().rev().find(|line| !line.trim().is_empty());
    closing.map_or_else(Counts::default, |line| counts_before(line, &["failed"]))
}

/// Adds up the numbers that stand before `passed` and before the words for failures.
fn counts_before(line: &str, failures: &[&str]) -> Counts {
    let mut counts = Counts::default();
    let mut number: Option<u64> = None;
    for word in line
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        match number.take() {
            Some(count) if word == "passed" => counts.passed += count,
            Some(count) if failures.contains(&word) => counts.failed += count,
            _ => number = word.parse().ok(),
        }
    }
    counts
}

/// One line of the closing table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) counts: Counts,
    pub(crate) elapsed: Duration,
    /// Why a step failed before it could count, or why it had nothing to do.
    pub(crate) note: String,
}

/// All steps of a run.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn total(&self) -> Counts {
        let mut total = Counts::default();
        for row in &self.rows {
            total += row.counts;
        }
        total
    }

    /// Prints the table and, as the very last line, the plain count that CI reads.
    pub(crate) fn print(&self) {
        let mut table = vec![
            ["step", "passed", "failed", "seconds", ""]
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
        ];
        for row in &self.rows {
            table.push(vec![
                row.name.clone(),
                row.counts.passed.to_string(),
                row.counts.failed.to_string(),
                format!("{:.1}", row.elapsed.as_secs_f64()),
                row.note.clone(),
            ]);
        }
        let total = self.total();
        println!(
            "\n{}\n{} passed, {} failed",
            render(&table),
            total.passed,
            total.failed
        );
    }
}

/// Lays rows out in columns under the first row; columns of numbers stand to the right.
pub(crate) fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let layout: Vec<(usize, bool)> = (0..columns)
        .map(|column| {
            let width = rows
                .iter()
                .map(|row| cell(row, column).chars().count())
                .max()
                .unwrap_or(0);
            let mut values = rows.iter().skip(1).map(|row| cell(row, column));
            (
                width,
                values.all(|value| value.is_empty() || value.parse::<f64>().is_ok()),
            )
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = layout.iter().enumerate().map(|(column, &(width, numbers))| {
            let value = cell(row, column);
            if numbers {
                format!("{value:>width$}")
            } else {
                format!("{value:<width$}")
            }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn sums_every_cargo_test_result() {
        let output = lines(
            "test a ... ok\n\
             test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
             test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        assert_eq!(
            cargo_test_counts(&output),
            Counts {
                passed: 14,
                failed: 3
            }
        );
    }

    #[test]
    fn reads_the_closing_line_of_pytest() {
        let plain = lines("....\n4 passed in 0.02s");
        assert_eq!(pytest_counts(&plain), Counts { passed: 4, failed: 0 });
        let rich = lines("== 1 failed, 2 passed, 1 skipped, 2 errors in 0.50s (0:00:01) ==\nnoise");
        assert_eq!(pytest_counts(&rich), Counts { passed: 2, failed: 3 });
        assert_eq!(pytest_counts(&lines("no tests ran in 0.01s")), Counts::default());
    }

    #[test]
    fn reads_the_closing_lines_of_node() {
        let spec =
            lines("✔ a (1ms)\nℹ tests 7\nℹ pass 4\nℹ fail 2\nℹ cancelled 1\nℹ skipped 0\n✖ failing tests:");
        assert_eq!(node_test_counts(&spec), Counts { passed: 4, failed: 3 });
        let misleading =
            lines("ℹ pass 99\n✔ a (1ms)\n✔ b (2ms)\nℹ pass 2\nℹ fail 0\nℹ cancelled 0\nℹ todo 0");
        assert_eq!(node_test_counts(&misleading), Counts { passed: 2, failed: 0 });
        let empty_file = lines("✔ a (1ms)\n✔ /top/tests/node/b.test.mjs (70.2ms)\nℹ pass 2\nℹ fail 0");
        assert_eq!(node_test_counts(&empty_file), Counts { passed: 1, failed: 1 });
        for nothing in ["", "ℹ pass many", "we pass 3", "Cannot find module"] {
            assert_eq!(node_test_counts(&lines(nothing)), Counts::default(), "{nothing}");
        }
    }

    #[test]
    fn reads_the_last_line_of_a_script() {
        let output = lines("1 passed, 1 failed\nok a\n12 passed, 2 failed\n\n");
        assert_eq!(
            script_counts(&output),
            Counts {
                passed: 12,
                failed: 2
            }
        );
        assert_eq!(
            script_counts(&lines("5 passed, 0 failed\nSyntaxError")),
            Counts::default()
        );
    }

    #[test]
    fn a_runner_that_failed_or_ran_nothing_is_a_failure() {
        let passed = Counts { passed: 2, failed: 0 };
        assert_eq!(passed.checked(true), passed);
        assert_eq!(passed.checked(false), Counts { passed: 2, failed: 1 });
        assert_eq!(Counts::default().checked(true), Counts { passed: 0, failed: 1 });
        assert_eq!(
            Counts { passed: 0, failed: 2 }.checked(false),
            Counts { passed: 0, failed: 2 }
        );
    }

    #[test]
    fn columns_line_up() {
        let rows = vec![lines("name\nus\n"), lines("a\n12.5\n"), lines("longer\n3\n")];
        assert_eq!(render(&rows), "name      us\na       12.5\nlonger     3\n");
    }
}
