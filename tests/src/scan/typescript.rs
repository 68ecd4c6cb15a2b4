//! A scanner for TypeScript and JavaScript that knows just enough: strings, templates, patterns, comments, functions.

mod functions;
mod text;

use super::Masked;
use super::lexer::Cursor;

pub use functions::functions;

/// Words that a value follows, so that a `/` behind them begins a pattern.
const BEFORE_VALUES: [&str; 15] = [
    "await",
    "case",
    "default",
    "delete",
    "do",
    "else",
    "in",
    "instanceof",
    "new",
    "of",
    "return",
    "throw",
    "typeof",
    "void",
    "yield",
];

/// Takes strings, patterns and comments out of source. A template is one string, and the code inside it stays code.
pub fn mask(source: &str) -> Masked {
    let mut cursor = Cursor::new(source);
    if cursor.starts_with("#!") {
        cursor.blank_line();
    }
    while !cursor.done() {
        code(&mut cursor);
        // A brace that closes nothing.
        cursor.keep(1);
    }
    cursor.finish()
}

/// Takes code up to the brace that closes what is around it, or to the end.
fn code(cursor: &mut Cursor) {
    let mut depth = 0_usize;
    while !cursor.done() {
        match cursor.peek(0) {
            '/' if cursor.peek(1) == '/' => cursor.blank_line(),
            '/' if cursor.peek(1) == '*' => block_comment(cursor),
            '/' => pattern_or_division(cursor),
            '"' | '\'' => string(cursor),
            '`' => template(cursor),
            '}' if depth == 0 => return,
            brace => {
                match brace {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                cursor.keep(1);
            }
        }
    }
}

fn block_comment(cursor: &mut Cursor) {
    cursor.blank(2);
    while !cursor.done() && !cursor.starts_with("*/") {
        cursor.blank(1);
    }
    cursor.blank(2);
}

/// A string ends with its line at the latest, so that a quote in a pattern that was not seen as one harms little.
fn string(cursor: &mut Cursor) {
    let quote = cursor.peek(0);
    cursor.keep(1);
    let literal = cursor.begin_literal();
    while !cursor.done() && !matches!(cursor.peek(0), '\n') && cursor.peek(0) != quote {
        let step = if cursor.peek(0) == '\\' { 2 } else { 1 };
        cursor.blank(step);
    }
    cursor.end_literal(&literal);
    cursor.keep(1);
}

fn template(cursor: &mut Cursor) {
    cursor.keep(1);
    let literal = cursor.begin_literal();
    while !cursor.done() && cursor.peek(0) != '`' {
        if cursor.starts_with("${") {
            cursor.keep(2);
            code(cursor);
            cursor.keep(1);
        } else {
            let step = if cursor.peek(0) == '\\' { 2 } else { 1 };
            cursor.blank(step);
        }
    }
    cursor.end_literal(&literal);
    cursor.keep(1);
}

fn pattern_or_division(cursor: &mut Cursor) {
    let length = if value_expected(cursor.code()) {
        pattern_length(cursor)
    } else {
        None
    };
    cursor.keep(1);
    if let Some(length) = length {
        let literal = cursor.begin_literal();
        cursor.blank(length);
        cursor.end_literal(&literal);
        cursor.keep(1);
    }
}

/// Whether a value comes next; behind a bracket that closes it is taken for an operator, which it nearly always is.
fn value_expected(code: &str) -> bool {
    let code = code.trim_end();
    let word = code.rsplit(|c| !is_word(c)).next().unwrap_or_default();
    if word.is_empty() {
        // A slash ends a pattern, and quotes end strings: these are values themselves.
        return !code.ends_with([')', ']', '}', '"', '\'', '`', '/']);
    }
    let property = code
        .strip_suffix(word)
        .is_some_and(|before| before.ends_with('.'));
    BEFORE_VALUES.contains(&word) && !property
}

/// The length of the pattern whose slash is next, or nothing if no slash on this line closes it.
fn pattern_length(cursor: &Cursor) -> Option<usize> {
    let mut in_class = false;
    let mut ahead = 1;
    loop {
        match cursor.peek(ahead) {
            '\n' => return None,
            '\\' => ahead += 1,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return Some(ahead - 1),
            _ => {}
        }
        ahead += 1;
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(masked: &Masked) -> Vec<(usize, &str)> {
        masked
            .literals
            .iter()
            .map(|literal| (literal.line, literal.text.as_str()))
            .collect()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        let masked = mask(
            "#!/usr/bin/env node\nf('x\\'', \"y\"); // 'z'\n/* \"w\n ' */ f(); /** ` */ f('don\nf('v');\n",
        );
        assert_eq!(texts(&masked), [(2, "x\\'"), (2, "y"), (4, "don"), (5, "v")]);
        assert!(!masked.code.contains(['x', 'y', 'z', 'w', 'v', '!']));
        assert_eq!(masked.code.lines().count(), 5);
    }

    #[test]
    fn templates_keep_their_code() {
        let masked = mask("a(`x {\\` ${b(`y ${c} } ${'z'}`, { d: '}' })} w\n$ { }`);\ne('v');");
        let inner = "y ${c} } ${'z'}";
        let outer = format!("x {{\\` ${{b(`{inner}`, {{ d: '}}' }})}} w\n$ {{ }}");
        assert_eq!(
            texts(&masked),
            [(1, outer.as_str()), (1, inner), (1, "z"), (1, "}"), (3, "v")]
        );
        let code: String = masked.code.split_whitespace().collect();
        assert_eq!(code, "a(`${b(`${c}${''}`,{d:''})}`);e('');");
    }

    #[test]
    fn patterns_are_told_from_divisions() {
        let source = "a = /[/'\"]\\/{/g; b = c / d; e = f() / g[0] / 'h'; return /}/.test(i);\n\
                      j = k.in / 2 / 'l'; m = /n/ / 3; o = p ? /`/ : /q/u; r = 1 / 2;\ns = (/'/); t = [\n/}/];";
        let masked = mask(source);
        let found: Vec<&str> = texts(&masked).into_iter().map(|(_, text)| text).collect();
        assert_eq!(found, ["[/'\"]\\/{", "h", "}", "l", "n", "`", "q", "'", "}"]);
        assert!(!masked.code.contains(['{', '}', '`']));
    }

    #[test]
    fn a_brace_too_many_ends_nothing() {
        assert_eq!(mask("} a('x') }\nb('y')").literals.len(), 2);
    }
}
