//! Reading source text for the architecture tests: which files there are, and what is code in them.

mod lexer;
pub mod python;
pub mod rust;
pub mod tree;
pub mod typescript;

pub use lexer::{Literal, Masked};

/// A language that can be scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// Python, stubs too.
    Python,
    /// TypeScript, and JavaScript as a part of it.
    TypeScript,
}

impl Language {
    /// The language of a file, by the end of its name.
    pub fn of(source: &tree::Source) -> Option<Self> {
        let languages = [
            (Self::Rust, &["rs"][..]),
            (Self::Python, &["py", "pyi"]),
            (Self::TypeScript, &["ts", "mts", "cts", "js", "mjs", "cjs"]),
        ];
        languages
            .into_iter()
            .find_map(|(language, extensions)| source.has_extension(extensions).then_some(language))
    }

    /// Takes strings and comments out of source text.
    pub fn mask(self, text: &str) -> Masked {
        match self {
            Self::Rust => rust::mask(text),
            Self::Python => python::mask(text),
            Self::TypeScript => typescript::mask(text),
        }
    }

    /// The functions of a file that are no tests, inner ones too.
    pub fn functions(self, text: &str) -> Vec<Function> {
        match self {
            Self::Rust => rust::functions(&rust::without_test_modules(&rust::mask(text).code)),
            Self::Python => python::functions(text),
            Self::TypeScript => typescript::functions(&typescript::mask(text).code),
        }
    }
}

/// A function and how many lines it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line that it begins on, from 1.
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
