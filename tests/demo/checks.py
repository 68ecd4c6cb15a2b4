"""What the demonstrations share: a place for their files, and checks that decide how they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def output(name: str) -> Path:
    """Makes the folder for what demonstrations write, and returns a path in it; an old file there is removed."""
    folder = TESTS.parent / "target" / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.unlink(missing_ok=True)
    return path


class Checks:
    """Statements about a run that have to be true."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, statement: str, holds: bool) -> None:
        """Prints a statement and whether it is true."""
        print("ok    " if holds else "FAILED", statement)
        self.failed += not holds

    def equal(self, statement: str, expected: Any, found: Any) -> None:
        """Prints a statement and whether the two sides are equal; both are shown if they are not."""
        self.check(statement, expected == found)
        if expected != found:
            print(f"       expected: {expected!r}\n       found:    {found!r}")

    def exit_code(self) -> int:
        """Gives the exit code of the demonstration: 1 if any statement was false."""
        return 1 if self.failed else 0
