//! The part that all languages' scanners share: walking over text while blanking what is not code.

/// Source text with its strings and comments taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masked {
    /// The text with a blank for each character of a string's inside and of a comment; lines are where they were.
    pub code: String,
    /// The strings that were taken out.
    pub literals: Vec<Literal>,
}

/// The inside of a string, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// The line it begins on, from 1.
    pub line: usize,
    /// Its text between the quotes, escapes left as they are.
    pub text: String,
}

/// A position in source text, and what was made of the text before it.
pub(super) struct Cursor {
    characters: Vec<char>,
    at: usize,
    line: usize,
    masked: Masked,
}

/// A string that was begun and not ended yet.
pub(super) struct OpenLiteral {
    index: usize,
    start: usize,
}

impl Cursor {
    pub(super) fn new(source: &str) -> Self {
        Self {
            characters: source.chars().collect(),
            at: 0,
            line: 1,
            masked: Masked::default(),
        }
    }

    pub(super) fn done(&self) -> bool {
        self.at >= self.characters.len()
    }

    pub(super) fn finish(self) -> Masked {
        self.masked
    }

    /// The character `ahead` of here; a line feed beyond the end.
    pub(super) fn peek(&self, ahead: usize) -> char {
        self.characters.get(self.at + ahead).copied().unwrap_or('\n')
    }

    /// The character before this one.
    pub(super) fn previous(&self) -> char {
        self.at
            .checked_sub(1)
            .and_then(|at| self.characters.get(at))
            .copied()
            .unwrap_or('\n')
    }

    pub(super) fn starts_with(&self, text: &str) -> bool {
        text.chars()
            .enumerate()
            .all(|(ahead, c)| self.characters.get(self.at + ahead) == Some(&c))
    }

    /// Keeps the next `count` characters as code.
    pub(super) fn keep(&mut self, count: usize) {
        self.advance(count, true);
    }

    /// Blanks the next `count` characters.
    pub(super) fn blank(&mut self, count: usize) {
        self.advance(count, false);
    }

    /// Blanks up to the end of the line.
    pub(super) fn blank_line(&mut self) {
        while !self.done() && self.peek(0) != '\n' {
            self.blank(1);
        }
    }

    /// The masked text up to here.
    pub(super) fn code(&self) -> &str {
        &self.masked.code
    }

    /// Takes a string whose opening quotes are next, up to and with `close`.
    pub(super) fn string(&mut self, open: usize, close: &str, escapes: bool) {
        self.keep(open);
        let literal = self.begin_literal();
        while !self.done() && !self.starts_with(close) {
            let step = if escapes && self.peek(0) == '\\' { 2 } else { 1 };
            self.blank(step);
        }
        self.end_literal(&literal);
        self.keep(close.chars().count());
    }

    /// Begins a string's inside here; strings inside it come after it in the order of literals.
    pub(super) fn begin_literal(&mut self) -> OpenLiteral {
        self.masked.literals.push(Literal {
            line: self.line,
            text: String::new(),
        });
        OpenLiteral {
            index: self.masked.literals.len() - 1,
            start: self.at,
        }
    }

    /// Ends a string's inside before this character.
    pub(super) fn end_literal(&mut self, open: &OpenLiteral) {
        let text = self.characters.get(open.start..self.at).unwrap_or_default();
        if let Some(literal) = self.masked.literals.get_mut(open.index) {
            literal.text = text.iter().collect();
        }
    }

    fn advance(&mut self, count: usize, keep: bool) {
        for _ in 0..count {
            let Some(&character) = self.characters.get(self.at) else {
                return;
            };
            if character == '\n' {
                self.line += 1;
            }
            self.masked
                .code
                .push(if keep || character == '\n' { character } else { ' ' });
            self.at += 1;
        }
    }
}
