"""A replay from the first step to the trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import callweir

from .files import to_text
from .forms import call_record
from .hosts import Host
from .scrub import scrub
from .step import PATIENCE, run_step
from .world import Broken, Style, World


def replay(scenario: dict[str, Any], style: Style, host: Host) -> str:
    """Replays a scenario on a runtime of its own, and gives its trace as text."""
    return host.run(_replay(scenario, style, host))


async def _replay(scenario: dict[str, Any], style: Style, host: Host) -> str:
    world = World(scenario, style, host)
    try:
        if scenario.get("trace", True):
            world.runtime.subscribe("trace", _tracer(world), inline=world.inline)
        if scenario.get("calls"):
            world.runtime.subscribe_calls("calls", _records(world), inline=world.inline)
        for step in scenario["steps"]:
            await run_step(world, step)
        pending = await world.runtime.flush_async(PATIENCE)
        if pending:
            raise Broken(f"{pending} events are left at the end")
        return to_text(scrub(world.trace))
    finally:
        await world.runtime.shutdown_async(PATIENCE)


def _tracer(world: World) -> Callable[[callweir.Event], Any]:
    if world.sync:
        return lambda event: world.trace.events.append(event.to_dict())

    async def trace(event: callweir.Event) -> None:
        world.trace.events.append(json.loads(event.to_json()))

    return trace


def _records(world: World) -> Callable[..., Any]:
    if world.sync:
        return lambda event: world.trace.calls.append(call_record(event))

    async def record(event: callweir.ToolCallStarted | callweir.ToolCallCompleted) -> None:
        world.trace.calls.append(call_record(event))

    return record
