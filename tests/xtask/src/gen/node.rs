//! The generated modules of the Node package: errors, kinds, names, families, guardrails and intercepts.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use callweir::{ErrorKind, Family, Module, Outcome, ScopeType, Shape, Subject};

use super::MARK;

/// How long a line may be.
const WIDTH: usize = 110;

/// The name that every JavaScript error has for its class, so that no field of ours can have it.
const TAKEN: &str = "name";
/// What a field of that name is called instead.
const INSTEAD: &str = "targetName";

/// Returns the text of `errors.ts`.
pub(crate) fn errors() -> String {
    let mut text = format!(
        "/** Errors of Callweir's own, one class for each kind; {MARK}. */\n\nimport {{ native }} from \"../native\";\n{BASE}"
    );
    for kind in ErrorKind::ALL {
        error_class(&mut text, *kind);
    }
    text
}

/// Returns the text of `names.ts`: the words of the wire format.
pub(crate) fn names() -> String {
    let mut text = format!(
        "/** The words of the wire format; {MARK}. */\n\n/** The types of scopes; each is the text that events show. */\nexport const ScopeType = Object.freeze({{\n"
    );
    for scope in ScopeType::ALL {
        let _ = writeln!(text, "  {scope:?}: \"{scope}\",");
    }
    text.push_str("} as const);\n\n/** The type of a scope. */\nexport type ScopeType = (typeof ScopeType)[keyof typeof ScopeType];\n");
    text.push_str("\n/** How a call, scope or manual call ended. */\nexport type Outcome =\n");
    for (index, outcome) in Outcome::ALL.iter().enumerate() {
        let end = if index + 1 == Outcome::ALL.len() { ";" } else { "" };
        let _ = writeln!(text, "  | \"{outcome}\"{end}");
    }
    text
}

/// Returns the text of `kinds.ts`: what the door itself needs of the errors, and programs must not.
pub(crate) fn kinds() -> String {
    let mut text = format!(
        "/** Errors by their kinds, and made from what the core says of them; {MARK}. */\n\n\
         import {{\n  CallweirError,\n"
    );
    for kind in ErrorKind::ALL {
        let _ = writeln!(text, "  {},", kind.name());
    }
    text.push_str(
        "} from \"./errors\";\n\n/** A class, whatever its constructor takes. */\n\
         type ErrorClass = new (...args: never[]) => CallweirError;\n\
         \n/** The class of each kind. */\n\
         const ERRORS: Readonly<Record<string, ErrorClass>> = {\n",
    );
    for kind in ErrorKind::ALL {
        let _ = writeln!(text, "  {},", kind.name());
    }
    text.push_str(
        "};\n\n/** The fields of each kind, as every language names them. */\n\
         const FIELDS: Readonly<Record<string, readonly string[]>> = {\n",
    );
    for kind in ErrorKind::ALL {
        let fields: Vec<_> = kind.fields().iter().map(|field| format!("\"{field}\"")).collect();
        let _ = writeln!(text, "  {}: [{}],", kind.name(), fields.join(", "));
    }
    text.push_str("};\n");
    text.push_str(&BUILD.replace("TAKEN", TAKEN).replace("INSTEAD", INSTEAD));
    text
}

const BASE: &str = r#"
/** What the constructors of errors take last. */
export interface CallweirErrorOptions {
  /** The text; the kind's own if absent. */
  message?: string | undefined;
  /** The stable code; the kind's own if absent. */
  code?: string | undefined;
  /** The error behind this one. */
  cause?: unknown;
}

/** The base of Callweir's own errors. What a callback threw is not one of them and arrives as it was. */
export class CallweirError extends Error {
  /** The name of the kind. */
  static readonly kind: string = "Error";
  /** The code of an error that is given no other. */
  static readonly code: string = "error";

  /** The stable code. */
  declare code: string;

  constructor(message?: string, options?: CallweirErrorOptions) {
    const cause = options?.cause;
    super(message ?? options?.message ?? "", cause === undefined ? undefined : { cause });
    this.code = options?.code ?? new.target.code;
  }

  /** The name of the kind. */
  get kind(): string {
    return (this.constructor as typeof CallweirError).kind;
  }

  /** Returns the text that a model may read, as JSON. */
  forModel(): string {
    return native.forModel(this);
  }
}
"#;

const BUILD: &str = r#"
/** An error already has a `TAKEN`, that of its class: a field of that name is a property of another. */
function property(field: string): string {
  return field === "TAKEN" ? "INSTEAD" : field;
}

/** Makes an error of a kind from what the core says of it, past the constructor of the kind's class. */
export function buildError(
  kind: string,
  message: string,
  code: string,
  fields: Readonly<Record<string, string>>,
  cause?: unknown,
): CallweirError {
  const made = Reflect.construct(
    CallweirError,
    [message, { code, cause }],
    ERRORS[kind] ?? CallweirError,
  ) as CallweirError;
  // The engine leaves out frames up to the class, whose constructor did not run: all of them.
  Error.captureStackTrace(made, buildError);
  for (const [field, value] of Object.entries(fields)) {
    (made as unknown as Record<string, unknown>)[property(field)] = value;
  }
  return made;
}

/** Returns the fields of an error, under the names that they have in every language. */
export function fieldsOf(error: CallweirError): Record<string, string> {
  const values = error as unknown as Record<string, unknown>;
  const found: Record<string, string> = {};
  for (const field of FIELDS[error.kind] ?? []) {
    const value = values[property(field)];
    if (typeof value === "string") {
      found[field] = value;
    }
  }
  return found;
}

for (const [name, { prototype }] of [["CallweirError", CallweirError] as const, ...Object.entries(ERRORS)]) {
  Object.defineProperty(prototype, "name", { value: name, configurable: true, writable: true });
}
"#;

/// Returns the kind whose class is the base of this kind's; nothing for the root.
fn parent(kind: ErrorKind) -> Option<ErrorKind> {
    ErrorKind::ALL
        .iter()
        .copied()
        .find(|other| other.name() == kind.parent())
}

/// Returns the fields that the classes above a kind's declare.
fn inherited(kind: ErrorKind) -> Vec<&'static str> {
    std::iter::successors(parent(kind), |above| parent(*above))
        .flat_map(ErrorKind::fields)
        .copied()
        .collect()
}

/// Says whether a class below that of `kind` has no such field.
fn is_dropped(kind: ErrorKind, field: &str) -> bool {
    let below = |other: &&ErrorKind| {
        std::iter::successors(parent(**other), |above| parent(*above)).any(|above| above == kind)
    };
    ErrorKind::ALL
        .iter()
        .filter(below)
        .any(|other| !other.fields().contains(&field))
}

fn property(field: &str) -> &str {
    if field == TAKEN { INSTEAD } else { field }
}

fn error_class(text: &mut String, kind: ErrorKind) {
    let name = kind.name();
    let base = parent(kind).map_or("CallweirError", ErrorKind::name);
    let _ = write!(
        text,
        "\n/** {} */\nexport class {name} extends {base} {{\n  static override readonly kind: string = \"{name}\";\n\
         \x20 static override readonly code: string = \"{}\";\n",
        kind.doc(),
        kind.code()
    );
    let above = inherited(kind);
    let own: Vec<&str> = kind
        .fields()
        .iter()
        .copied()
        .filter(|field| !above.contains(field))
        .collect();
    if !own.is_empty() {
        text.push('\n');
    }
    for field in &own {
        let optional = if is_dropped(kind, field) { "?" } else { "" };
        let _ = writeln!(text, "  declare readonly {}{optional}: string;", property(field));
    }
    text.push('\n');
    constructor(text, kind, &own);
    text.push_str("}\n");
}

fn constructor(text: &mut String, kind: ErrorKind, own: &[&str]) {
    let fields = kind.fields();
    let parameters: Vec<_> = if fields.is_empty() {
        vec!["message?: string".to_owned()]
    } else {
        fields.iter().map(|field| format!("{field}: string")).collect()
    };
    let default = format!("native.describe(\"{}\", {})", kind.name(), object(fields));
    let message = if fields.is_empty() {
        format!("message ?? options?.message ?? {default}")
    } else {
        format!("options?.message ?? {default}")
    };
    let _ = writeln!(
        text,
        "  constructor({}, options?: CallweirErrorOptions) {{",
        parameters.join(", ")
    );
    match parent(kind) {
        Some(above) if !above.fields().is_empty() => {
            // The class above has no field that it is not given.
            let given = above.fields().iter().map(|field| {
                if fields.contains(field) {
                    field
                } else {
                    "undefined as never"
                }
            });
            let given: Vec<_> = given.collect();
            let _ = writeln!(
                text,
                "    const text = {message};\n    super({}, {{ ...options, message: text }});",
                given.join(", ")
            );
        }
        _ => {
            let _ = writeln!(text, "    super({message}, options);");
        }
    }
    for field in own {
        // The class below gives none.
        let only = if is_dropped(kind, field) {
            format!("if ({field} !== undefined) ")
        } else {
            String::new()
        };
        let _ = writeln!(text, "    {only}this.{} = {field};", property(field));
    }
    text.push_str("  }\n");
}

/// Writes an object that takes each field from the variable of its name.
fn object(fields: &[&str]) -> String {
    if fields.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{ {} }}", fields.join(", "))
    }
}

/// Returns the name of the type of a family's callbacks.
fn callback_type(family: Family) -> &'static str {
    match (family.subject(), family.shape()) {
        (Subject::Tool, Shape::Gate) => "Gate",
        (Subject::Tool, Shape::Transform) => "Transform",
        (Subject::Tool, Shape::Around | Shape::Stream) => "Around",
        (Subject::Event, _) => "EventTransform",
        (Subject::Llm | Subject::LlmCopy, _) => "ModelCallback",
    }
}

/// Returns the line that imports the types of these families' callbacks, and `more`.
fn import_types(families: &[Family], more: &[&'static str]) -> String {
    let callbacks = families.iter().map(|family| callback_type(*family));
    let names: BTreeSet<&str> = callbacks.chain(more.iter().copied()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    format!("import type {{ {} }} from \"../types\";\n", names.join(", "))
}

/// Returns the text of `families.ts`.
pub(crate) fn callbacks() -> String {
    let mut text = format!(
        "/** The families of middleware, and what their callbacks look like; {MARK}. */\n\n{}\n\
         /** The type of each family's callbacks. */\nexport interface FamilyCallbacks {{\n",
        import_types(Family::ALL, &[])
    );
    for family in Family::ALL {
        let _ = writeln!(
            text,
            "  /** {} */\n  \"{}\": {};",
            family.doc(),
            family.wire_name(),
            callback_type(*family)
        );
    }
    text.push_str("}\n\n/** The name of a family. */\nexport type Family = keyof FamilyCallbacks;\n");
    text
}

/// Returns the text of `guardrails.ts` or `intercepts.ts`.
pub(crate) fn families(module: Module) -> String {
    let what = match module {
        Module::Guardrails => "Guardrails: decide whether calls run, and sanitize what observers see",
        Module::Intercepts => "Intercepts: change the real request, or wrap the real work",
    };
    let own: Vec<_> = Family::ALL
        .iter()
        .copied()
        .filter(|family| family.module() == module)
        .collect();
    let mut text = format!(
        "/** {what}; {MARK}. */\n\nimport {{ defaultRuntime }} from \"../runtime\";\n{}",
        import_types(&own, &["EntryOptions"])
    );
    for family in own {
        family_functions(&mut text, family);
    }
    text
}

/// Writes a wire name in capitals and small letters: `LlmSanitizeRequest`.
fn pascal_case(wire_name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        first.to_uppercase() + rest
    };
    wire_name.split(['.', '_']).map(capital).collect()
}

fn family_functions(text: &mut String, family: Family) {
    let name = pascal_case(family.wire_name());
    let callback = format!("fn: {}", callback_type(family));
    let mut parameters = vec!["name: string", "priority: number"];
    if family.can_break() {
        parameters.push("breakChain: boolean");
    }
    parameters.extend([callback.as_str(), "options?: EntryOptions"]);
    let argument = if family.can_break() { ", breakChain" } else { "" };
    let mut head = format!(
        "export function register{name}({}): void {{",
        parameters.join(", ")
    );
    if head.len() > WIDTH {
        head = format!(
            "export function register{name}(\n  {},\n): void {{",
            parameters.join(",\n  ")
        );
    }
    let _ = write!(
        text,
        "\n/**\n * {doc}\n *\n * A taken name is `AlreadyExists`; the first entry stays. Lower priorities run first.\n \
         */\n{head}\n  defaultRuntime().register(\"{wire}\", name, fn, {{ ...options, priority{argument} }});\n}}\n",
        doc = family.doc(),
        wire = family.wire_name(),
    );
    let _ = write!(
        text,
        "\n/** Removes an entry; returns whether it was there. */\n\
         export function deregister{name}(name: string, options?: EntryOptions): boolean {{\n\
         \x20 return defaultRuntime().deregister(\"{}\", name, options);\n}}\n",
        family.wire_name()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_language() {
        assert_eq!(pascal_case("llm.sanitize_request"), "LlmSanitizeRequest");
        assert_eq!(pascal_case(""), "");
    }

    #[test]
    fn no_line_is_too_long() {
        let files = [
            errors(),
            kinds(),
            callbacks(),
            families(Module::Guardrails),
            families(Module::Intercepts),
        ];
        for line in files.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn a_field_that_a_special_case_lacks_is_optional() {
        assert!(is_dropped(ErrorKind::ToolCallFailed, "tool"));
        assert!(!is_dropped(ErrorKind::Denied, "reason"));
        assert_eq!(inherited(ErrorKind::CallRejected), ["reason"]);
    }
}
