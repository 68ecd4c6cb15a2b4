"""What the tests of the Python door share."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import callweir
from callweir import guardrails, intercepts, subscribers, tools

KINDS = [
    "plain",
    "async",
    "awaitable",
    "partial",
    "async_partial",
    "object",
    "async_object",
    "method",
    "async_method",
]
"""The kinds of callables that a program may register."""

ASYNC_KINDS = [kind for kind in KINDS if kind.startswith("a")]
PLAIN_KINDS = [kind for kind in KINDS if not kind.startswith("a")]


class Later:
    """An awaitable that is no coroutine."""

    def __init__(self, make: Callable[[], Awaitable[Any]]) -> None:
        self.make = make

    def __await__(self) -> Any:
        return self.make().__await__()


def made(kind: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a callable of `kind` that does what the plain function `body` does."""

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        await pause()
        value = body(*args, **kwargs)
        return await value if hasattr(value, "__await__") else value

    class Sync:
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return body(*args, **kwargs)

        method = __call__

    class Slow:
        async def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return await slowly(*args, **kwargs)

        method = __call__

    ways: dict[str, Callable[..., Any]] = {
        "plain": lambda *args, **kwargs: body(*args, **kwargs),
        "async": slowly,
        "awaitable": lambda *args, **kwargs: Later(lambda: slowly(*args, **kwargs)),
        "partial": functools.partial(lambda _, *args, **kwargs: body(*args, **kwargs), None),
        "async_partial": functools.partial(slowly),
        "object": Sync(),
        "async_object": Slow(),
        "method": Sync().method,
        "async_method": Slow().method,
    }
    return ways[kind]


async def pause(seconds: float = 0.0) -> None:
    """Gives way once under asyncio and trio."""
    if (trio := sys.modules.get("trio")) is not None and trio.lowlevel.in_trio_run():
        await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


def run_with(backend: str, main: Callable[[], Awaitable[Any]]) -> Any:
    """Runs an async function under an event loop of that name."""
    if backend == "trio":
        import trio

        return trio.run(main)
    if backend == "uvloop":
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(within(main()))
    return asyncio.run(within(main()))


async def within(awaitable: Awaitable[Any], seconds: float = 20.0) -> Any:
    """A test that hangs fails instead."""
    async with asyncio.timeout(seconds):
        return await awaitable


def go(main: Callable[[], Awaitable[Any]]) -> Any:
    """Runs an async function under asyncio."""
    return run_with("asyncio", main)


class Seen(list[Any]):
    """A subscriber of the default runtime that keeps what it gets."""

    def __init__(self, name: str = "seen") -> None:
        super().__init__()
        self.name = name

    def subscribe(self, **options: Any) -> Seen:
        subscribers.register(self.name, self.append, **options)
        return self

    def flushed(self) -> Seen:
        assert subscribers.flush(10) == 0
        return self

    def of(self, kind: str | None, name: str | None = None) -> list[Any]:
        """Lists the starts, ends or marks (None), of one name if one is given."""
        found = [event for event in self if event.scope_category == kind]
        return [event for event in found if name is None or event.name == name]

    def shown(self) -> list[tuple[str, str]]:
        """Lists what happened in order, as kind and name."""
        return [(event.scope_category or "mark", event.name) for event in self]

    def end(self, name: str) -> Any:
        """Gives the one end of that name, after checking that it has the one start."""
        (end,), (start,) = self.of("end", name), self.of("start", name)
        assert start.uuid == end.uuid and start.parent_uuid == end.parent_uuid
        assert self.index(start) < self.index(end)
        return end


def clear() -> None:
    """Takes every global registration off the default runtime."""
    runtime = callweir.Runtime.default()
    for line in callweir.registrations():
        if not runtime.deregister(line["stage"], line["name"]) if "." in line["stage"] else True:
            subscribers.deregister(line["name"])


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fails if the block takes longer."""
    started = time.perf_counter()
    yield
    took = time.perf_counter() - started
    assert took < seconds, f"took {took:.2f} s"


async def heartbeat(beats: list[float], every: float = 0.01) -> None:
    """Notes the largest gap between two turns of the loop in `beats[0]`."""
    last = time.perf_counter()
    while True:
        await asyncio.sleep(every)
        now = time.perf_counter()
        beats[0] = max(beats[0], now - last)
        last = now


def script(code: str, *options: str, timeout: float = 20.0, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own."""
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **env},
    )


def clean(done: subprocess.CompletedProcess[str], returncode: int = 0) -> str:
    """Gives what a script printed, after checking that it ended well and wrote nothing on stderr."""
    assert (done.returncode, done.stderr) == (returncode, ""), (done.returncode, done.stdout, done.stderr)
    return done.stdout


FAMILIES = {
    "tool.conditional_execution": guardrails.register_tool_conditional_execution,
    "tool.execution": intercepts.register_tool_execution,
    "tool.sanitize_request": guardrails.register_tool_sanitize_request,
    "tool.sanitize_response": guardrails.register_tool_sanitize_response,
    "mark.sanitize": guardrails.register_mark_sanitize,
    "scope.sanitize_start": guardrails.register_scope_sanitize_start,
    "scope.sanitize_end": guardrails.register_scope_sanitize_end,
}


def add(family: str, fn: Callable[..., Any], name: str = "entry", priority: int = 0, scope: Any = None) -> None:
    """Registers a callable of a family by its friendly function."""
    if family == "tool.request":
        intercepts.register_tool_request(name, priority, False, fn, scope=scope)
    else:
        FAMILIES[family](name, priority, fn, scope=scope)


def echo(args: Any) -> Any:
    """A tool that gives its arguments."""
    return args


async def call(name: str = "t", args: Any = None, func: Callable[..., Any] = echo, **options: Any) -> Any:
    """Makes a managed call of the default runtime."""
    return await tools.execute(name, {} if args is None else args, func, **options)


def flushed(main: Callable[[], Awaitable[Any]], backend: str = "asyncio") -> Any:
    """Runs an async function and delivers its events before its loop ends: what callbacks await ends with the loop."""

    async def whole() -> Any:
        try:
            return await main()
        finally:
            assert await subscribers.flush_async(10) == 0

    return run_with(backend, whole)
