//! Reading source text for the architecture tests: which files there are, and what is code in them.

mod lexer;
pub mod python;
pub mod rust;
pub mod tree;

pub use lexer::{Literal, Masked};

/// A function and how many lines it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn` or `def`, from 1.
    pub line: usize,
    /// Lines from that line to its last one, both counted.
    pub lines: usize,
}

/// The words of masked text with the line of each, from 1.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(index, line)| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .map(move |word| (index + 1, word))
    })
}
