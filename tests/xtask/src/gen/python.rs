//! The generated modules of the Python package: errors, guardrails and intercepts.

use std::fmt::Write as _;

use callweir::{ErrorKind, Family, Module, Shape, Subject};

use super::MARK;

/// Returns the text of `errors.py`.
pub(crate) fn errors() -> String {
    let mut text = format!(
        "\"\"\"Errors of Callweir's own, one class for each kind; {MARK}.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import Any, ClassVar\n\n\
         from . import _native\n\n{BASE}"
    );
    for kind in ErrorKind::ALL {
        error_class(&mut text, *kind);
    }
    text.push_str("\n\nBY_NAME: dict[str, type[Error]] = {\n");
    for kind in ErrorKind::ALL {
        let _ = writeln!(text, "    \"{0}\": {0},", kind.name());
    }
    text.push_str("}\n\n__all__ = [\n    \"Error\",\n");
    for kind in ErrorKind::ALL {
        let _ = writeln!(text, "    \"{}\",", kind.name());
    }
    text.push_str("]\n");
    text
}

const BASE: &str = r#"
class Error(Exception):
    """The base of Callweir's own errors. What a callback raised is not one of them and arrives as it was."""

    kind: ClassVar[str] = "Error"
    code: str = "error"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @classmethod
    def _build(cls, message: str, code: str, fields: dict[str, Any]) -> Error:
        made = cls.__new__(cls)
        Exception.__init__(made, message)
        made.code = code
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    def for_model(self) -> str:
        """Returns the text that a model may read, as JSON."""
        return _native.for_model(self)

    def __reduce__(self) -> Any:
        state = {name: value for name, value in self.__dict__.items() if name != "__notes__"}
        return (_rebuild, (type(self), str(self), self.code, state))


def _rebuild(cls: type[Error], message: str, code: str, fields: dict[str, Any]) -> Error:
    return cls._build(message, code, fields)  # pyright: ignore[reportPrivateUsage]
"#;

fn error_class(text: &mut String, kind: ErrorKind) {
    // A time-out of ours is one of Python's too, so that `except TimeoutError` catches both.
    let extra = if kind == ErrorKind::TimedOut {
        ", TimeoutError"
    } else {
        ""
    };
    let _ = write!(
        text,
        "\n\nclass {}({}{extra}):\n    \"\"\"{}\"\"\"\n\n    kind: ClassVar[str] = \"{}\"\n    code: str = \"{}\"\n",
        kind.name(),
        kind.parent(),
        kind.doc(),
        kind.name(),
        kind.code()
    );
    if kind.fields().is_empty() {
        let _ = write!(
            text,
            "\n    def __init__(self, message: str | None = None, *, code: str | None = None) -> None:\n\
             \x20       text = _native.describe(\"{}\", {{}}) if message is None else message\n\
             \x20       Error.__init__(self, text, code=code)\n",
            kind.name()
        );
        return;
    }
    for field in kind.fields() {
        let _ = writeln!(text, "    {field}: str");
    }
    let parameters: Vec<_> = kind
        .fields()
        .iter()
        .map(|field| format!("{field}: str"))
        .collect();
    let given: Vec<_> = kind
        .fields()
        .iter()
        .map(|field| format!("\"{field}\": {field}"))
        .collect();
    let _ = write!(
        text,
        "\n    def __init__(\n        self, {}, *, message: str | None = None, code: str | None = None\n    ) -> None:\n\
         \x20       text = _native.describe(\"{}\", {{{}}}) if message is None else message\n\
         \x20       Error.__init__(self, text, code=code)\n",
        parameters.join(", "),
        kind.name(),
        given.join(", ")
    );
    for field in kind.fields() {
        let _ = writeln!(text, "        self.{field} = {field}");
    }
}

/// The types of callbacks, which only type checkers need.
const GUARDRAIL_TYPES: &str = r"
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._native import Event
    from ._runtime import Verdict

    _Gate = Callable[[str, Any], str | Verdict | None | Awaitable[str | Verdict | None]]
    _Transform = Callable[[str, Any], Any]
    _EventTransform = Callable[[Event, dict[str, Any]], Any]
    _ModelCallback = Callable[..., Any]
";

const INTERCEPT_TYPES: &str = r"
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._native import Next

    _Transform = Callable[[str, Any], Any]
    _Around = Callable[[str, Any, Next], Any]
    _ModelCallback = Callable[..., Any]
";

/// Returns the name of the type of a family's callbacks.
fn callback_type(family: Family) -> &'static str {
    match (family.subject(), family.shape()) {
        (Subject::Tool, Shape::Gate) => "_Gate",
        (Subject::Tool, Shape::Transform) => "_Transform",
        (Subject::Tool, Shape::Around | Shape::Stream) => "_Around",
        (Subject::Event, _) => "_EventTransform",
        (Subject::Llm | Subject::LlmCopy, _) => "_ModelCallback",
    }
}

/// Returns the text of `guardrails.py` or `intercepts.py`.
pub(crate) fn families(module: Module) -> String {
    let (what, types) = match module {
        Module::Guardrails => (
            "Guardrails: decide whether calls run, and sanitize what observers see",
            GUARDRAIL_TYPES,
        ),
        Module::Intercepts => (
            "Intercepts: change the real request, or wrap the real work",
            INTERCEPT_TYPES,
        ),
    };
    let mut text = format!(
        "\"\"\"{what}; {MARK}.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import TYPE_CHECKING, Any\n\n\
         from ._native import ScopeHandle, default_runtime\n{types}"
    );
    let own: Vec<_> = Family::ALL
        .iter()
        .copied()
        .filter(|family| family.module() == module)
        .collect();
    for family in &own {
        family_functions(&mut text, *family);
    }
    text.push_str("\n\n__all__ = [\n");
    let mut names: Vec<_> = own.iter().map(|family| function_name(*family)).collect();
    names.sort();
    for verb in ["deregister", "register"] {
        for name in &names {
            let _ = writeln!(text, "    \"{verb}_{name}\",");
        }
    }
    text.push_str("]\n");
    text
}

fn function_name(family: Family) -> String {
    family.wire_name().replace('.', "_")
}

fn family_functions(text: &mut String, family: Family) {
    let name = function_name(family);
    let (parameter, argument) = if family.can_break() {
        ("break_chain: bool, ", ", break_chain=break_chain")
    } else {
        ("", "")
    };
    let _ = write!(
        text,
        "\n\ndef register_{name}(\n    name: str, priority: int, {parameter}fn: {}, *, \
         scope: ScopeHandle | None = None\n) -> None:\n    \"\"\"{}\n\n    A taken name is `AlreadyExists`; the first \
         entry stays. Lower priorities run first.\n    \"\"\"\n    default_runtime().register(\n        \"{}\", name, \
         fn, priority=priority, scope=scope{argument}\n    )\n",
        callback_type(family),
        family.doc(),
        family.wire_name()
    );
    let _ = write!(
        text,
        "\n\ndef deregister_{name}(name: str, *, scope: ScopeHandle | None = None) -> bool:\n    \"\"\"Removes an \
         entry; returns whether it was there.\"\"\"\n    return default_runtime().deregister(\"{}\", name, scope=scope)\n",
        family.wire_name()
    );
}
