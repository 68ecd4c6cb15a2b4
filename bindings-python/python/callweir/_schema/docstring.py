# SPDX-License-Identifier: Apache-2.0
"""Read the summary and the parameters' descriptions in a docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

_HEADING = re.compile(r"(?:(?:Keyword |Other )?(?:Args|Arguments|Parameters)|Returns|Yields|Raises):?$")
_PARAMETERS = re.compile(r"(?:Keyword |Other )?(?:Args|Arguments|Parameters):$")
_GOOGLE = re.compile(r"(?P<names>\*{0,2}\w+)(?:\s*\(.*?\))?\s*:\s*(?P<text>.*)")
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?(?P<text>)")
_REST = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(?P<names>\*{0,2}\w+)\s*:\s*(?P<text>.*)"
)


def summarize(doc: str) -> str:
    """Give the first paragraph on one line."""
    lines = [line.strip() for line in doc.partition("\n\n")[0].splitlines()]
    # A section may follow without an empty line, or be all there is.
    sections = (n for n, line in enumerate(lines) if not line or _HEADING.match(line) or _REST.match(line))
    return " ".join(lines[: next(sections, len(lines))])


def parameter_docs(doc: str) -> dict[str, str]:
    """Find the parameters' descriptions in a docstring of Google, NumPy or reST style."""
    lines = doc.splitlines()
    docs = _entries(lines, _REST)
    for number, line in enumerate(lines, 1):
        rest = lines[number:]
        if _PARAMETERS.match(line.strip()):
            margin = _indent(line)
            end = (index for index, each in enumerate(rest) if each.strip() and _indent(each) <= margin)
            docs |= _entries(rest[: next(end, len(rest))], _GOOGLE)
        elif line.strip() in ("Parameters", "Other Parameters") and rest and set(rest[0].strip()) == {"-"}:
            following = (index for index in range(1, len(rest) - 1) if set(rest[index + 1].strip()) == {"-"})
            docs |= _entries(rest[1 : next(following, len(rest))], _NUMPY)
    return docs


def class_doc(cls: type) -> str:
    """Give the docstring a class was written with."""
    doc = vars(cls).get("__doc__")
    # Dataclasses and named tuples without a docstring get their own signature as one.
    return inspect.cleandoc(doc) if isinstance(doc, str) and not doc.startswith(f"{cls.__name__}(") else ""


def _entries(lines: Iterable[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Read entries: a line at the block's own indent opens one, deeper lines continue it."""
    found: dict[str, list[str]] = {}
    margin, current = None, list[str]()
    for line in filter(str.strip, lines):
        margin = _indent(line) if margin is None else margin
        if _indent(line) > margin:
            current.append(line.strip())
            continue
        match = pattern.fullmatch(line.strip())
        current = [match["text"]] if match else []
        for name in match["names"].split(",") if match else ():
            found[name.strip().lstrip("*")] = current
    return {name: text for name, parts in found.items() if (text := " ".join(filter(None, parts)))}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
