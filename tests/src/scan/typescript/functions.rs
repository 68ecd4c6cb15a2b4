//! Where functions begin and end: declarations, methods, and arrows with a block.

use std::collections::BTreeMap;

use super::super::Function;
use super::text::{Text, is_word};

/// Words that look like the name of a method: something in parentheses and a block follow.
const CONTROL: [&str; 7] = ["if", "for", "while", "switch", "catch", "with", "await"];
/// Words that a name follows where something is declared.
const MODIFIERS: [&str; 13] = [
    "export",
    "default",
    "const",
    "let",
    "var",
    "return",
    "public",
    "protected",
    "private",
    "static",
    "readonly",
    "override",
    "declare",
];
/// Words of a type that another type follows.
const TYPE_OPERATORS: [&str; 8] = [
    "keyof", "typeof", "readonly", "infer", "unique", "asserts", "new", "abstract",
];

/// The functions in masked text, inner ones too, measured from their name or first word to the brace that ends them.
/// Those without a block are left out. An arrow in a type that gives an object type counts as one.
pub fn functions(code: &str) -> Vec<Function> {
    let text = Text::new(code);
    // By the brace that opens the body, so that none is found twice.
    let mut heads = BTreeMap::new();
    for open in text.positions(b'(') {
        let Some(body) = text.partner(open).and_then(|close| body_after(&text, close + 1)) else {
            continue;
        };
        let head = if body.arrow {
            Some(arrow_head(&text, open))
        } else {
            head(&text, open)
        };
        if let Some(head) = head {
            heads.entry(body.brace).or_insert(head);
        }
    }
    for arrow in text.positions(b'>').filter(|at| text.before(*at) == b'=') {
        let brace = text.skip_blank(arrow + 1);
        if text.at(brace) == b'{' {
            // No parentheses were seen before it: there is one bare parameter.
            let (parameter, _) = text.word_before(arrow - 1);
            heads.entry(brace).or_insert_with(|| arrow_head(&text, parameter));
        }
    }
    let mut found: Vec<Function> = heads
        .into_iter()
        .filter_map(|(brace, head)| measured(&text, head, brace))
        .collect();
    found.sort_by_key(|function| function.line);
    found
}

fn measured(text: &Text<'_>, head: Head, brace: usize) -> Option<Function> {
    let line = text.line(head.start);
    Some(Function {
        name: head.name,
        line,
        lines: text.line(text.partner(brace)?) - line + 1,
    })
}

/// The beginning of a function.
struct Head {
    start: usize,
    name: String,
}

/// The brace that opens a function's body.
struct Body {
    brace: usize,
    arrow: bool,
}

/// The body whose function has its parameters end before `at`.
fn body_after(text: &Text<'_>, at: usize) -> Option<Body> {
    let next = text.skip_blank(at);
    match text.at(next) {
        b'{' => Some(Body {
            brace: next,
            arrow: false,
        }),
        b'=' => arrow_body(text, next),
        b':' => body_after_type(text, next + 1),
        _ => None,
    }
}

fn arrow_body(text: &Text<'_>, at: usize) -> Option<Body> {
    let brace = text.skip_blank(at + 2);
    (text.at(at + 1) == b'>' && text.at(brace) == b'{').then_some(Body { brace, arrow: true })
}

/// Reads the type of a result as far as it goes. What follows a colon may be something else, the rest of a condition
/// for instance; then the words do not make a type with a body behind it.
fn body_after_type(text: &Text<'_>, mut at: usize) -> Option<Body> {
    let mut complete = false;
    loop {
        at = text.skip_blank(at);
        match text.at(at) {
            b'{' if complete => {
                return Some(Body {
                    brace: at,
                    arrow: false,
                });
            }
            b'=' if complete => {
                if let Some(body) = arrow_body(text, at) {
                    return Some(body);
                }
                if text.at(at + 1) != b'>' {
                    return None;
                }
                complete = false;
                at += 2;
            }
            b'(' if complete => return None,
            b'(' | b'[' | b'{' => {
                at = text.partner(at)? + 1;
                complete = true;
            }
            b'<' => at = text.angles_end(at)?,
            quote @ (b'"' | b'\'') if !complete => {
                at += 1;
                while !matches!(text.at(at), b'\n' | 0) && text.at(at) != quote {
                    at += 1;
                }
                at += 1;
                complete = true;
            }
            b'|' | b'&' | b'?' | b':' | b'.' => {
                complete = false;
                at += 1;
            }
            byte if is_word(byte) => {
                let end = text.word_end(at);
                let word = text.slice(at, end);
                if complete && !["is", "extends"].contains(&word) {
                    return None;
                }
                complete = !complete && !TYPE_OPERATORS.contains(&word);
                at = end;
            }
            _ => return None,
        }
    }
}

/// The head of a function or method whose parameters open at `open`; nothing for other blocks behind parentheses.
fn head(text: &Text<'_>, open: usize) -> Option<Head> {
    let end = before_type_parameters(text, open);
    if text.before(end) == b']' {
        let start = text.partner(end - 1)?;
        return Some(Head {
            start,
            name: text.slice(start, end).to_owned(),
        });
    }
    if matches!(text.before(end), b'"' | b'\'') {
        return Some(Head {
            start: end - 1,
            name: "a method".to_owned(),
        });
    }
    let (start, word) = text.word_before(before_star(text, end));
    if word.is_empty() || CONTROL.contains(&word) || text.before(start) == b'.' {
        return None;
    }
    if word == "function" {
        return Some(named_by_its_line(text, start, "a function"));
    }
    let (before, keyword) = text.word_before(before_star(text, text.back_blank(start)));
    match keyword {
        // A class made by a call: `class A extends mixin(B) {`.
        "extends" => None,
        "function" => Some(Head {
            start: before,
            name: word.to_owned(),
        }),
        _ => Some(Head {
            start,
            name: word.to_owned(),
        }),
    }
}

/// The head of an arrow whose parameters begin at `at`.
fn arrow_head(text: &Text<'_>, at: usize) -> Head {
    let end = before_type_parameters(text, at);
    let begin = if end == text.back_blank(at) {
        at
    } else {
        text.skip_blank(end)
    };
    let (start, word) = text.word_before(end);
    let start = if word == "async" { start } else { begin };
    named_by_its_line(text, start, "an arrow function")
}

fn before_type_parameters(text: &Text<'_>, at: usize) -> usize {
    let end = text.back_blank(at);
    if text.before(end) == b'>' && text.before(end.saturating_sub(1)) != b'=' {
        text.back_blank(text.angles_start(end))
    } else {
        end
    }
}

/// The star of a generator stands before its name.
fn before_star(text: &Text<'_>, end: usize) -> usize {
    if text.before(end) == b'*' {
        text.back_blank(end - 1)
    } else {
        end
    }
}

/// A function without a name has that of what it is assigned to on its line.
fn named_by_its_line(text: &Text<'_>, start: usize, otherwise: &str) -> Head {
    let before = text.slice(0, start);
    let line = before.rsplit('\n').next().unwrap_or_default().trim();
    let mut words = line
        .split(|c: char| c.is_ascii() && !is_word(c as u8))
        .filter(|word| !word.is_empty() && !MODIFIERS.contains(word));
    let name = if line.ends_with('=') {
        words.next()
    } else if line.ends_with(':') {
        words.next_back()
    } else {
        None
    };
    Head {
        start,
        name: name.unwrap_or(otherwise).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::mask;
    use super::*;

    fn found(source: &str) -> Vec<(String, usize, usize)> {
        functions(&mask(source).code)
            .into_iter()
            .map(|function| (function.name, function.line, function.lines))
            .collect()
    }

    fn names(source: &str) -> Vec<String> {
        found(source).into_iter().map(|(name, _, _)| name).collect()
    }

    #[test]
    fn declarations_methods_and_arrows_are_measured() {
        let source = r#"
export async function first(
  a: string,
  text = "function no() {",
): Promise<void> {
  const inner = async (b: number) => {
    return `} ${[1].map((c) => { return c; })} {`;
  };
  if (a) { inner(1); } else { for (const x of [1]) { x; } }
}

class A extends mixin(B) {
  #secret: Map<string, () => void> = new Map();
  constructor(private readonly a: number) { super(); }
  static async *each<T extends { b: () => void }>(a: T): AsyncGenerator<T> {
    while (a) { yield a; }
  }
  get size(): number { return 1; }
  #hide(): void {
    // }
  }
  async [Symbol.asyncDispose]() {}
}
"#;
        let expected = [
            ("first", 2, 9),
            ("inner", 6, 3),
            ("an arrow function", 7, 1),
            ("constructor", 14, 1),
            ("each", 15, 3),
            ("size", 18, 1),
            ("#hide", 19, 3),
            ("[Symbol.asyncDispose]", 22, 1),
        ];
        assert_eq!(
            found(source),
            expected.map(|(name, line, lines)| (name.to_owned(), line, lines))
        );
    }

    #[test]
    fn types_of_results_do_not_hide_bodies() {
        let source = r#"
function a(x: unknown): x is { b: string } { return true; }
function b(x: unknown): asserts x is B {}
const c = (x: number): { y: number } => { return { y: x }; };
const d = <T,>(x: T): ((y: T) => void) | undefined => {};
function e(): (y: number) => void { return f; }
function f(): "x" | 'y' | typeof g[number][] {}
const g: Handler<"h"> = async (x): Promise<Map<string, () => void>> => {};
function h<T>(x: T): T extends U ? { a: V } : W {}
function i(this: void): a.B<C>["d"] {}
"#;
        assert_eq!(names(source), ["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    }

    #[test]
    fn what_only_looks_like_a_function_is_none() {
        let source = r"
interface A { b(x: number): C; d(x: number): { e: F }; g(x: H): I
  j(x: K): L }
declare function m(x: N): O;
function m(x: P): Q;
switch (r(s)) { case t(u): { v(); } }
const w = x ? (y) : { z: 1 };
const aa = x ? f(y) : g(y)
const bb = (x: B): C => x
class Cc extends a.b(c) { d = 1 }
try { a(b); } catch (e) { c(d); } finally { e(); }
for await (const a of b(c)) { d(a); }
do { a(); } while (b()) 
{ c(); }
const dd = (a) => ({ b: a });
";
        assert_eq!(names(source), Vec::<String>::new());
    }

    #[test]
    fn functions_without_names_have_that_of_their_line() {
        let source = r#"
export const a = x => { b(y => { z(); }); };
const object = {
  c: async (d) => {}, e() {}, "f-g"() {}, h: function* () {},
};
k.l = function () {};
m(async function () {});
export default async () => {};
n(async o => {});
p(() =>
{
});
"#;
        let expected = [
            "a",
            "an arrow function",
            "c",
            "e",
            "a method",
            "h",
            "k",
            "a function",
            "an arrow function",
            "an arrow function",
            "an arrow function",
        ];
        assert_eq!(names(source), expected);
        assert_eq!(found(source).last().map(|last| (last.1, last.2)), Some((10, 3)));
    }
}
