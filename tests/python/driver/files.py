"""Scenario files, and the text form in which traces are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCENARIOS = Path(__file__).parents[2] / "scenarios"
GOLDEN = SCENARIOS / "golden"


def names() -> list[str]:
    """Lists the scenarios in the order of their names."""
    return sorted(path.stem for path in SCENARIOS.glob("*.json"))


def read(name: str) -> dict[str, Any]:
    """Reads a scenario."""
    return json.loads((SCENARIOS / f"{name}.json").read_text(encoding="utf-8"))


def to_text(trace: dict[str, list[Any]]) -> str:
    """Writes a trace as the golden files hold it: one line for each entry of its lists."""
    lists: list[str] = []
    for key, entries in trace.items():
        lines = [f"\n    {_line(entry)}" for entry in entries]
        lists.append(f'\n  "{key}": [{",".join(lines)}\n  ]')
    return f"{{{','.join(lists)}\n}}\n"


def _line(entry: Any) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def difference(name: str, found: str) -> str | None:
    """Compares a trace with the golden one; the answer shows the first line that differs, after those before it."""
    expected = (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    if found == expected:
        return None
    wanted, got = expected.splitlines(), found.splitlines()
    same = 0
    while same < min(len(wanted), len(got)) and wanted[same] == got[same]:
        same += 1
    before = "\n".join(got[max(same - 3, 0) : same])
    left, right = ("<end>" if same >= len(lines) else lines[same] for lines in (wanted, got))
    return f"{name}, line {same + 1}:\n{before}\nexpected: {left}\nfound:    {right}"
