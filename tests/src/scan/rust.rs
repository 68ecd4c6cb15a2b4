//! A scanner for Rust that knows just enough: strings, characters, comments and braces.

use super::lexer::Cursor;
use super::{Function, Masked};

/// Takes strings, characters and comments out of Rust source.
pub fn mask(source: &str) -> Masked {
    let mut cursor = Cursor::new(source);
    while !cursor.done() {
        if cursor.starts_with("//") {
            cursor.blank_line();
        } else if cursor.starts_with("/*") {
            block_comment(&mut cursor);
        } else if let Some((open, close)) = raw_string(&cursor) {
            cursor.string(open, &close, false);
        } else if cursor.peek(0) == '"' {
            cursor.string(1, "\"", true);
        } else if cursor.peek(0) == '\'' {
            character_or_lifetime(&mut cursor);
        } else {
            cursor.keep(1);
        }
    }
    cursor.finish()
}

/// Block comments nest.
fn block_comment(cursor: &mut Cursor) {
    let mut depth = 0;
    while !cursor.done() {
        if cursor.starts_with("/*") {
            depth += 1;
            cursor.blank(2);
        } else if cursor.starts_with("*/") {
            depth -= 1;
            cursor.blank(2);
            if depth == 0 {
                return;
            }
        } else {
            cursor.blank(1);
        }
    }
}

/// The length of a raw string's opening (`r#"`, `br"`, `cr##"`) and what closes it.
fn raw_string(cursor: &Cursor) -> Option<(usize, String)> {
    if is_word(cursor.previous()) {
        return None;
    }
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| cursor.starts_with(prefix) && matches!(cursor.peek(prefix.len()), '"' | '#'))?;
    let mut hashes = 0;
    while cursor.peek(prefix.len() + hashes) == '#' {
        hashes += 1;
    }
    // Without a quote it is a raw identifier, `r#type`.
    (cursor.peek(prefix.len() + hashes) == '"')
        .then(|| (prefix.len() + hashes + 1, format!("\"{}", "#".repeat(hashes))))
}

fn character_or_lifetime(cursor: &mut Cursor) {
    if cursor.peek(1) == '\\' {
        cursor.keep(1);
        cursor.blank(2);
        while !cursor.done() && !matches!(cursor.peek(0), '\'' | '\n') {
            cursor.blank(1);
        }
        cursor.keep(1);
    } else if cursor.peek(2) == '\'' && cursor.peek(1) != '\'' {
        cursor.keep(1);
        cursor.blank(1);
        cursor.keep(1);
    } else {
        cursor.keep(1);
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Blanks the modules under `#[cfg(test)]` in masked text.
pub fn without_test_modules(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        let (before, after) = rest.split_at(at);
        kept.push_str(before);
        let end = end_of_item(after).unwrap_or(after.len());
        let (item, later) = after.split_at(end);
        let declaration = item
            .get(MARK.len()..)
            .unwrap_or_default()
            .split('{')
            .next()
            .unwrap_or_default();
        if words_of(declaration).any(|word| word == "mod") {
            kept.extend(item.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            kept.push_str(item);
        }
        rest = later;
    }
    kept.push_str(rest);
    kept
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// Where the item ends that begins here: behind its `;` or its closing brace.
fn end_of_item(code: &str) -> Option<usize> {
    let mut brackets = 0_usize;
    let mut braces = 0_usize;
    for (at, character) in code.char_indices() {
        match character {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && brackets == 0 {
                    return Some(at + 1);
                }
            }
            ';' if braces == 0 && brackets == 0 => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The functions in masked text, inner ones too; declarations without a body are left out.
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = code
        .get(from..)
        .and_then(|rest| rest.find("fn "))
        .map(|at| from + at)
    {
        from = at + 3;
        if code
            .get(..at)
            .and_then(|before| before.chars().next_back())
            .is_some_and(is_word)
        {
            continue;
        }
        let item = code.get(at..).unwrap_or_default();
        let Some(name) = item.get(3..).and_then(|rest| words_of(rest).next()) else {
            continue;
        };
        let Some(end) = end_of_item(item) else { continue };
        let text = item.get(..end).unwrap_or_default();
        if text.ends_with('}') {
            let line = code.get(..at).unwrap_or_default().matches('\n').count() + 1;
            found.push(Function {
                name: name.to_owned(),
                line,
                lines: text.matches('\n').count() + 1,
            });
        }
    }
    found
}

/// The names that follow `crate::` in masked text, each with its line: `a` for `crate::a::B`, `a` and `C` for
/// `crate::{a::B, C}`. A macro's `$crate` is its user's business and left out.
pub fn crate_paths(code: &str) -> Vec<(usize, String)> {
    const MARK: &str = "crate::";
    let mut found = Vec::new();
    for (at, _) in code.match_indices(MARK) {
        let before = code.get(..at).unwrap_or_default();
        if before.chars().next_back().is_some_and(|c| is_word(c) || c == '$') {
            continue;
        }
        let line = before.matches('\n').count() + 1;
        let rest = code.get(at + MARK.len()..).unwrap_or_default();
        for name in first_names(rest) {
            found.push((line, name));
        }
    }
    found
}

/// The lints that masked text allows or expects, each with its line and without its tool: `panic` for
/// `#[allow(clippy::panic)]`.
pub fn allowances(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for mark in ["allow(", "expect("] {
        for (at, _) in code.match_indices(mark) {
            let before = code.get(..at).unwrap_or_default();
            // In an attribute, a bracket or the comma of `cfg_attr` stands before it.
            if !before.trim_end().ends_with(['[', ',']) {
                continue;
            }
            let line = before.matches('\n').count() + 1;
            let list = code.get(at + mark.len()..).unwrap_or_default();
            let list = list.split(')').next().unwrap_or_default();
            let lints = list
                .split(',')
                .filter_map(|lint| words_of(lint.rsplit(':').next()?).next());
            found.extend(lints.map(|lint| (line, lint.to_owned())));
        }
    }
    found
}

/// The first segment of a path, or of each path in a group.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return words_of(path.split(|c: char| !is_word(c)).next().unwrap_or_default())
            .map(str::to_owned)
            .collect();
    };
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, character) in group.char_indices() {
        let ends = match character {
            '{' => {
                depth += 1;
                false
            }
            '}' if depth > 0 => {
                depth -= 1;
                false
            }
            ',' | '}' => depth == 0,
            _ => false,
        };
        if ends {
            names.extend(
                words_of(group.get(start..at).unwrap_or_default())
                    .next()
                    .map(str::to_owned),
            );
            start = at + 1;
            if character == '}' {
                break;
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_characters_and_comments_are_not_code() {
        let source = r##"let a = "{ \" }"; // fn x() {
let b = '{'; let c = '\''; let d: &'static str = r#"}"}"#; /* { /* { */ */ let e = b"}"; let r#type = '"';"##;
        let masked = mask(source);
        assert!(!masked.code.contains(['{', '}']), "{}", masked.code);
        assert_eq!(masked.code.lines().count(), 2);
        assert!(masked.code.contains("&'static str") && masked.code.contains("r#type"));
        let texts: Vec<&str> = masked
            .literals
            .iter()
            .map(|literal| literal.text.as_str())
            .collect();
        assert_eq!(texts, ["{ \\\" }", "}\"}", "}"]);
        assert_eq!(
            masked
                .literals
                .iter()
                .map(|literal| literal.line)
                .collect::<Vec<_>>(),
            [1, 2, 2]
        );
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let code = mask(
            "trait T {\n    fn declared(a: [u8; 2]);\n}\n\
             pub(crate) fn long(\n    a: u8,\n) -> u8\nwhere\n    u8: Copy,\n{\n    fn inner() { \"}\"; }\n    a\n}\n\
             type F = fn (u8);\nlet define_fn = 1;\n",
        )
        .code;
        let found = functions(&code);
        let summary: Vec<(&str, usize, usize)> = found
            .iter()
            .map(|function| (function.name.as_str(), function.line, function.lines))
            .collect();
        assert_eq!(summary, [("long", 4, 9), ("inner", 10, 1)]);
    }

    #[test]
    fn test_modules_go_and_their_neighbours_stay() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n#[cfg(test)]\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}\n";
        let kept = without_test_modules(code);
        let names: Vec<String> = functions(&kept)
            .into_iter()
            .map(|function| function.name)
            .collect();
        assert_eq!(names, ["a", "c", "e"]);
        assert_eq!(kept.lines().count(), code.lines().count());
        assert!(!kept.contains("mod d"));
    }

    #[test]
    fn allowances_are_found_in_attributes() {
        let code = "#[allow(\n    clippy::panic,\n    dead_code,\n    reason = \"\"\n)]\nfn a() { b.expect(c, panic); }\n#![cfg_attr(d, expect(clippy::unwrap_used))]\n";
        let found = allowances(code);
        let expected = [(1, "panic"), (1, "dead_code"), (1, "reason"), (7, "unwrap_used")];
        assert_eq!(found, expected.map(|(line, name)| (line, name.to_owned())));
    }

    #[test]
    fn crate_paths_name_their_modules() {
        let code = "use crate::error::Error;\nuse crate::{value::{Payload, Value}, Family,\n chain as c};\n$crate::hidden::x();\nlet a = crate::scope::now();\npub(crate) fn x() {}\n";
        let found = crate_paths(code);
        let expected = [
            (1, "error"),
            (2, "value"),
            (2, "Family"),
            (2, "chain"),
            (5, "scope"),
        ];
        assert_eq!(found, expected.map(|(line, name)| (line, name.to_owned())));
    }
}
