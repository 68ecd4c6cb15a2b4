"""Exporters: subscribers that send events somewhere."""

from __future__ import annotations

from os import PathLike

from ._native import default_runtime


def jsonl(path: str | PathLike[str], *, name: str = "jsonl") -> None:
    """Appends every event to a file, one ATOF event a line.

    It runs as the subscriber `name`; `subscribers.deregister(name)` ends it. A file that cannot be opened is
    `InvalidArgument`.
    """
    default_runtime().export_jsonl(path, name)


__all__ = ["jsonl"]
