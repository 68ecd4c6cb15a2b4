"""Where synchronous code runs."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from typing import Any

import pytest
from callweir import TimedOut, Tool, ToolContext, ToolRegistry, guardrails, intercepts, scope, tool

from helpers import PLAIN_KINDS, at_most, call, go, heartbeat, made, run_with

tenant: ContextVar[str] = ContextVar("tenant", default="none")


def test_c02_blocked_tools_starve_nobody() -> None:
    gate = threading.Event()
    registry = ToolRegistry()
    registry.register(tool(name="waits")(lambda: gate.wait(15)), tool(name="x")(lambda: 1))

    async def main() -> None:
        beats = [0.0]
        beating = asyncio.create_task(heartbeat(beats))
        waiting = [asyncio.create_task(registry.dispatch("waits", {})) for _ in range(4)]
        await asyncio.sleep(0.02)
        with at_most(1):
            assert await registry.dispatch("x", {}) == 1
        assert not any(task.done() for task in waiting)
        gate.set()
        assert await asyncio.gather(*waiting) == [True] * 4
        beating.cancel()
        assert beats[0] < 0.3

    go(main)


def test_c02_from_plain_threads() -> None:
    gate, results = threading.Event(), []
    registry = ToolRegistry()
    registry.register(tool(name="waits")(lambda: gate.wait(15)), tool(name="x")(lambda: 1))
    threads = [threading.Thread(target=lambda: results.append(registry.dispatch_sync("waits", {}))) for _ in range(4)]
    for thread in threads:
        thread.start()
    with at_most(1):
        assert registry.dispatch_sync("x", {}) == 1
    assert not results
    gate.set()
    for thread in threads:
        thread.join(10)
    assert results == [True] * 4


@pytest.mark.parametrize("kind", PLAIN_KINDS)
@pytest.mark.parametrize("blocking", [None, True, False])
def test_c102_where_a_synchronous_tool_runs(kind: str, blocking: bool | None, backend: str) -> None:
    noted: list[Any] = []

    def work() -> None:
        noted.append((threading.get_ident(), tenant.get(), scope.get_handle()))

    one = Tool(made(kind, work), name="t", parameters={"type": "object"}, blocking=blocking)
    registry = ToolRegistry().register(one)

    async def main() -> None:
        tenant.set("t1")
        await registry.dispatch("t", {})

    run_with(backend, main)
    ((thread, value, current),) = noted
    assert (thread == threading.get_ident()) is (blocking is False)
    assert value == "t1" and current is not None and current.name == "t"
    registry.dispatch_sync("t", {})
    assert noted[1][0] == threading.get_ident(), "without a loop nobody is blocked"


def test_c102_the_loop_turns_and_a_limit_holds() -> None:
    registry = ToolRegistry().register(tool(name="t")(lambda: time.sleep(0.3)))

    async def main() -> None:
        beats = [0.0]
        beating = asyncio.create_task(heartbeat(beats))
        await registry.dispatch("t", {})
        with at_most(0.25), pytest.raises(TimedOut):
            await registry.dispatch("t", {}, ToolContext(deadline=0.1))
        beating.cancel()
        assert beats[0] < 0.15

    go(main)


def test_c102_everything_else_runs_in_place(backend: str) -> None:
    threads: list[int] = []

    def note(value: Any) -> Any:
        threads.append(threading.get_ident())
        return value

    guardrails.register_tool_conditional_execution("g", 0, lambda *_: note(None))
    intercepts.register_tool_request("r", 0, False, lambda _, args: note(args))
    intercepts.register_tool_execution("e", 0, lambda _, args, next: note(next)(args))
    registry = ToolRegistry().register(tool(name="t")(lambda: 1)).use(lambda one, next: note(next)(one))

    async def main() -> None:
        await registry.dispatch("t", {})
        await call("f", {}, note)

    run_with(backend, main)
    assert threads == [threading.get_ident()] * 8


def test_threads_are_kept_for_the_next_tool() -> None:
    threads: set[int] = set()
    registry = ToolRegistry().register(tool(name="t")(lambda: threads.add(threading.get_ident())))

    async def main() -> None:
        for _ in range(20):
            await registry.dispatch("t", {})

    go(main)
    assert len(threads) <= 3
