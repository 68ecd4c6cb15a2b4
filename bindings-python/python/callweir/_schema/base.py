# SPDX-License-Identifier: Apache-2.0
"""What every part of the package shares; it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]
Convert = Callable[[Any, str], Any]


class ArgumentError(ValueError):
    """An argument that cannot become what its parameter's annotation asks for."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def at(path: str, key: str | int) -> str:
    """Give the path of an entry of the value at `path`."""
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}"
    import json

    return f"{path}[{key if isinstance(key, int) else json.dumps(str(key))}]"
