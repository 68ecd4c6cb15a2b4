//! A scanner for Python that knows just enough: strings, comments, brackets and indentation.

use super::lexer::Cursor;
use super::{Function, Masked};

/// Takes strings and comments out of Python source.
pub fn mask(source: &str) -> Masked {
    let mut cursor = Cursor::new(source);
    while !cursor.done() {
        if cursor.peek(0) == '#' {
            cursor.blank_line();
        } else if matches!(cursor.peek(0), '"' | '\'') {
            let quote = cursor.peek(0).to_string();
            let triple = quote.repeat(3);
            // In a raw string too a backslash keeps the quote behind it from closing.
            if cursor.starts_with(&triple) {
                cursor.string(3, &triple, true);
            } else {
                cursor.string(1, &quote, true);
            }
        } else {
            cursor.keep(1);
        }
    }
    cursor.finish()
}

/// A line of masked text as the indentation sees it.
struct Line<'a> {
    text: &'a str,
    indent: usize,
    /// Whether a statement may begin here: not blank, and not inside brackets.
    starts: bool,
}

/// The functions of a file, methods and inner ones too.
pub fn functions(source: &str) -> Vec<Function> {
    let masked = mask(source);
    let lines = lines(&masked.code);
    // A string's own lines are blank in the masked text, so a function's last line comes from the source.
    let filled: Vec<bool> = source.lines().map(|line| !line.trim().is_empty()).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = defined_name(line) else { continue };
        let end = lines
            .iter()
            .enumerate()
            .skip(index + 1)
            .find(|(_, later)| later.starts && later.indent <= line.indent)
            .map_or(lines.len(), |(end, _)| end);
        let last = (index..end)
            .rev()
            .find(|at| filled.get(*at) == Some(&true))
            .unwrap_or(index);
        found.push(Function {
            name: name.to_owned(),
            line: index + 1,
            lines: last - index + 1,
        });
    }
    found
}

fn lines(code: &str) -> Vec<Line<'_>> {
    let mut depth = 0_usize;
    let mut in_triple = false;
    let mut lines = Vec::new();
    for text in code.lines() {
        let starts = depth == 0 && !in_triple && !text.trim().is_empty();
        lines.push(Line {
            text,
            indent: text.chars().take_while(|c| c.is_whitespace()).count(),
            starts,
        });
        for character in text.chars() {
            match character {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        // Quotes stay in masked text, so an odd number of triples leaves a string open.
        let triples = text.matches("\"\"\"").count() + text.matches("'''").count();
        in_triple ^= triples % 2 == 1;
    }
    lines
}

fn defined_name<'a>(line: &Line<'a>) -> Option<&'a str> {
    let text = line.text.trim_start();
    let rest = text
        .strip_prefix("async ")
        .map_or(text, str::trim_start)
        .strip_prefix("def ")?;
    line.starts
        .then(|| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
class A:
    async def first(
        self,
        text="def no(): # (",
    ) -> None:
        """Doc
with a line at the margin (
        """
        def inner():
            return ''

        return {
    1: 2,
        }

    # trailing
    x = 1

def last(): return '\'def no():'
"#;

    #[test]
    fn functions_end_with_their_indentation() {
        let found = functions(SOURCE);
        let summary: Vec<(&str, usize, usize)> = found
            .iter()
            .map(|function| (function.name.as_str(), function.line, function.lines))
            .collect();
        assert_eq!(summary, [("first", 3, 15), ("inner", 10, 2), ("last", 20, 1)]);
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        let masked = mask("a = 'x' # 'y'\nb = \"\"\"z\nw\"\"\" + r'\\'q'\n");
        let found: Vec<(usize, &str)> = masked
            .literals
            .iter()
            .map(|literal| (literal.line, literal.text.as_str()))
            .collect();
        assert_eq!(found, [(1, "x"), (2, "z\nw"), (3, "\\'q")]);
        assert!(!masked.code.contains(['x', 'y', 'z', 'w', 'q']));
    }
}
