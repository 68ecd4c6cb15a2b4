"""How results, errors, contexts and call records appear in a trace."""

from __future__ import annotations

import json
import math
from typing import Any

import callweir

from .world import HostCancelled, HostError, World


def shown(value: Any) -> Any:
    """Shows a result; a value that JSON cannot hold is shown by its path."""
    path = _odd_path(value, "$")
    return value if path is None else {"not_json": path}


def _odd_path(value: Any, path: str) -> str | None:
    inner: list[tuple[str, Any]] = []
    if isinstance(value, float) and not math.isfinite(value):
        return path
    if isinstance(value, dict):
        inner = [(f"{path}.{key}", item) for key, item in value.items()]  # pyright: ignore[reportUnknownVariableType]
    elif isinstance(value, list):
        inner = [(f"{path}[{at}]", item) for at, item in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    found = (_odd_path(item, where) for where, item in inner)
    return next((odd for odd in found if odd is not None), None)


def error_form(world: World, error: BaseException) -> dict[str, Any]:
    """Shows an error the same way in every language: no message of Callweir's own, no type of the host's."""
    if isinstance(error, HostCancelled):
        return {"kind": "HostCancelled"}
    model = json.loads(callweir.for_model(error))
    if not isinstance(error, callweir.Error):
        # The very object that was raised, not one that looks like it.
        raised = isinstance(error, HostError) and any(error is one for one in world.raised)
        kind = "HostError" if raised else f"unexpected {type(error).__name__}"
        return {"kind": kind, "message": str(error), "for_model": model}
    names = vars(type(error)).get("__annotations__", {})
    fields = {name: getattr(error, name) for name in names if name not in ("kind", "code") and hasattr(error, name)}
    form = {"kind": error.kind, "code": error.code, "fields": fields, "for_model": model}
    if isinstance(error, callweir.Cancelled) and error.__cause__ is not None:
        form["cause"] = error_form(world, error.__cause__)
    return form


def context_form(context: callweir.ToolContext) -> dict[str, Any]:
    """Shows a context; what is left until the deadline is rounded to a minute, so that it is the same every time."""
    left = context.deadline
    minutes = None if left is None else int((max(left, 0.0) + 30) // 60)
    return {"caller_id": context.caller_id, "metadata": context.metadata, "deadline_min": minutes}


def call_record(event: callweir.ToolCallStarted | callweir.ToolCallCompleted) -> dict[str, Any]:
    """Shows a typed record of a registry call."""
    start = isinstance(event, callweir.ToolCallStarted)
    record: dict[str, Any] = {"event": "started" if start else "completed", "uuid": event.uuid}
    record |= {"tool": event.tool, "caller_id": event.caller_id}
    if isinstance(event, callweir.ToolCallCompleted):
        record |= {"outcome": event.outcome, "error_type": event.error_type}
        record["short_circuited"] = event.short_circuited
    return record


def line(registration: dict[str, Any]) -> dict[str, Any]:
    """Shows a line of `explain` or `registrations`."""
    return {key: registration[key] for key in ("stage", "name", "level", "owner", "priority")}
