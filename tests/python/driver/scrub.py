"""Makes traces comparable: no times, and ids numbered in order of first appearance."""

from __future__ import annotations

import re
from typing import Any

from .world import Trace

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CANCELLATIONS = ("CancelledError", "Cancelled")
"""What asyncio and trio call their cancellation. Other languages have none to name."""


def scrub(trace: Trace) -> dict[str, list[Any]]:
    """Builds the trace; lists that most scenarios do not need are left out where they are empty."""
    for event in trace.events:
        del event["timestamp"]
        metadata = event["metadata"]
        if isinstance(metadata, dict) and metadata.get("error.type") in _CANCELLATIONS:
            del metadata["error.type"]
    ids: dict[str, str] = {}
    # Events come first: they hold the ids in the order in which these were made.
    events, calls, steps = (
        [_numbered(entry, ids) for entry in entries] for entries in (trace.events, trace.calls, trace.steps)
    )
    scrubbed: dict[str, list[Any]] = {"steps": steps}
    middle = {"log": trace.log, "queued": trace.queued, "calls": calls}
    scrubbed |= {key: entries for key, entries in middle.items() if entries}
    return scrubbed | {"events": events}


def _numbered(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, str) and _UUID.fullmatch(value):
        return ids.setdefault(value, f"#{len(ids) + 1}")
    if isinstance(value, list):
        return [_numbered(item, ids) for item in value]
    if isinstance(value, dict):
        return {key: _numbered(item, ids) for key, item in value.items()}
    return value
