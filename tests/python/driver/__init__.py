"""Replays scenarios through the Python door; the format is described in `tests/scenarios/README.md`."""

from .files import GOLDEN, SCENARIOS, difference, names, read
from .hosts import ASYNCIO, TRIO, UVLOOP, Host
from .replay import replay
from .world import Style

__all__ = [
    "ASYNCIO",
    "GOLDEN",
    "SCENARIOS",
    "TRIO",
    "UVLOOP",
    "Host",
    "Style",
    "difference",
    "names",
    "read",
    "replay",
]
