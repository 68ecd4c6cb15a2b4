"""Times the Python door beside plain coroutines and, where it can be imported, `nemo_relay`.

Prints one JSON object a line; `cargo bench-doors` makes the table. All timed figures are taken in this process,
round robin, so that a slow spell of the machine falls on every side alike. What changes the process for good
(memory, import) runs in children of its own.

    python tests/bench/bench_python.py [--quick] [--only ROW] [--peer-path FOLDER] [--peer-memory]
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import faulthandler
import gc
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import callweir

SMALL = {"query": "x" * 100, "n": [1, 2, 3, 4, 5], "opts": {"a": 1.5, "b": True, "c": None}, "id": "call_0123456789abcdef"}
BIG = {"messages": [{"role": "user", "content": "lorem ipsum dolor " * 10, "i": i, "ok": True} for i in range(85)]}
SIZES = (1, 100, 10_000)
HANG_SECONDS = 20.0
"""How long one round of one figure may take before the figure is given up."""


def emit(side: str, row: str, case: str, value: float, unit: str = "us", **more: Any) -> None:
    """Prints one measurement."""
    line = {"door": "python", "side": side, "row": row, "case": case, "unit": unit, "value": round(value, 4), **more}
    print(json.dumps({key: given for key, given in line.items() if given is not None}), flush=True)


def note(text: str) -> None:
    """Prints a line that is no measurement."""
    print(f"# {text}", flush=True)


# ------------------------------------------------------------------------------------------------ timed figures


@dataclass
class Figure:
    """One cell of the table: how it is set up, one step of it, and what was measured so far."""

    side: str
    row: str
    case: str
    step: Callable[[], Awaitable[Any]]
    entries: int | None = None
    setup: Callable[[], Any] = lambda: None
    teardown: Callable[[], Any] = lambda: None
    flush: Callable[[], Awaitable[Any]] | None = None
    calls: int = 1
    """How many calls one step makes."""
    walls: list[float] = field(default_factory=list)
    flushed: list[float] = field(default_factory=list)
    broken: str = ""

    def report(self) -> None:
        """Prints the medians and the lowest rounds."""
        for suffix, values in (("", self.walls), (", with flush", self.flushed)):
            if values:
                value, low = statistics.median(values), min(values)
                emit(self.side, self.row, self.case + suffix, value, entries=self.entries, min=round(low, 4))
        if self.broken:
            note(f"{self.side} {self.row} {self.case}: {self.broken}")


async def timed(figure: Figure, budget: float) -> None:
    """Takes one round: as many steps as the budget allows, then the flush."""
    step = figure.step
    for _ in range(2 if figure.calls == 1 else 1):
        await step()
    start, tried = time.perf_counter(), 0
    while tried < 2 or time.perf_counter() - start < budget / 8:
        await step()
        tried += 1
    steps = max(1, int(budget / ((time.perf_counter() - start) / tried)))
    if figure.flush:
        await figure.flush()
    gc.collect()
    count = range(steps)
    start = time.perf_counter()
    for _ in count:
        await step()
    wall = time.perf_counter() - start
    figure.walls.append(wall / steps / figure.calls * 1e6)
    if figure.flush:
        await figure.flush()
        figure.flushed.append((time.perf_counter() - start) / steps / figure.calls * 1e6)


async def round_robin(figures: list[Figure], rounds: int, budget: float) -> None:
    """Takes every figure once a round; one that hangs or fails is given up, and the others go on."""
    for _ in range(rounds):
        for figure in figures:
            if figure.broken:
                continue
            # The last resort for a figure that blocks the thread: the program ends and says where.
            faulthandler.dump_traceback_later(HANG_SECONDS * 3, exit=True)
            try:
                figure.setup()
                await asyncio.wait_for(timed(figure, budget), HANG_SECONDS)
            except TimeoutError:
                figure.broken = f"hung for {HANG_SECONDS:.0f} s"
            except Exception as error:
                figure.broken = f"failed: {error!r}"
            finally:
                figure.teardown()
                faulthandler.cancel_dump_traceback_later()
    for figure in figures:
        figure.report()


# ------------------------------------------------------------------------------------------------ the three sides


def concurrently(one: Callable[[], Awaitable[Any]], count: int) -> Callable[[], Awaitable[Any]]:
    async def all_at_once() -> None:
        await asyncio.gather(*[one() for _ in range(count)])

    return all_at_once


class Plain:
    """Coroutines that call each other: what a program without any library would write."""

    name = "plain"

    @staticmethod
    async def tool(arguments: Any) -> Any:
        return arguments

    @classmethod
    def chain(cls, count: int) -> Callable[[Any], Any]:
        """Nests `count` coroutines around the tool."""

        def wrap(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
            async def outer(arguments: Any) -> Any:
                return await inner(arguments)

            return outer

        function: Callable[[Any], Any] = cls.tool
        for _ in range(count):
            function = wrap(function)
        return function

    @classmethod
    def figures(cls) -> list[Figure]:
        """Lists the rows that plain code has an answer to."""

        def call(function: Callable[[Any], Any], payload: Any = SMALL) -> Callable[[], Awaitable[Any]]:
            async def step() -> None:
                await function(payload)

            return step

        def checked(checks: list[Callable[[str, Any], Any]], *, changes: bool) -> Callable[[], Awaitable[Any]]:
            async def step() -> None:
                arguments: Any = SMALL
                for check in checks:
                    answer = check("t", arguments)
                    if changes:
                        arguments = answer
                    elif answer is not None:
                        raise PermissionError(answer)
                await cls.tool(arguments)

            return step

        one = cls.name
        made = [Figure(one, "a", "bare call", call(cls.tool))]
        for count in (1, 4, 16):
            requests = checked([lambda name, arguments: arguments] * count, changes=True)
            guards = checked([lambda name, arguments: None] * count, changes=False)
            made.append(Figure(one, "c", "request intercepts", requests, count))
            made.append(Figure(one, "d", "execution intercepts", call(cls.chain(count)), count))
            made.append(Figure(one, "e", "guardrails", guards, count))
        made.append(Figure(one, "d", "execution intercepts, 20 kB", call(cls.chain(16), BIG), 16))
        four = cls.chain(4)
        gathered = concurrently(lambda: four(SMALL), 1000)
        made.append(Figure(one, "i", "1000 concurrent, execution intercepts", gathered, 4, calls=1000))
        return made


class Library:
    """The rows as programs of a library with these modules write them; the two libraries share most names."""

    name = ""

    def __init__(self, library: Any) -> None:
        self.library = library

    async def tool(self, arguments: Any) -> Any:
        return arguments

    def wrapper(self) -> Callable[..., Any]:
        async def around(name: str, arguments: Any, following: Any) -> Any:
            return await following(arguments)

        return around

    def call(self, payload: Any = SMALL, function: Callable[[Any], Any] | None = None) -> Callable[[], Awaitable[Any]]:
        execute, tool = self.library.tools.execute, function or self.tool

        async def step() -> None:
            await execute("t", payload, tool)

        return step

    def figure(self, row: str, case: str, count: int | None, adders: list[tuple[str, Any]], **more: Any) -> Figure:
        """Makes a figure whose entries are registered under `adders`: the end of the function's name, the callback."""
        library, subscribed = self.library, more.pop("subscribed", False)
        options = more.pop("subscribe_options", {})

        def each(verb: str, kind: str) -> Callable[..., Any]:
            name = f"{verb}_{kind}"
            return getattr(library.intercepts, name, None) or getattr(library.guardrails, name)

        def setup() -> None:
            if subscribed:
                library.subscribers.register("s", lambda event: None, **options)
            for kind, callback in adders:
                middle = (False,) if kind == "tool_request" else ()
                for index in range(count or 0):
                    each("register", kind)(f"entry{index:02}", index, *middle, callback)

        def teardown() -> None:
            if subscribed:
                library.subscribers.deregister("s")
            for kind, _ in adders:
                for index in range(count or 0):
                    each("deregister", kind)(f"entry{index:02}")

        flush = library.subscribers.flush_async if subscribed else None
        step = more.pop("step", None) or self.call(more.pop("payload", SMALL))
        return Figure(self.name, row, case, step, count, setup, teardown, flush, **more)

    def figures(self) -> list[Figure]:
        """Lists the rows of the table."""
        around = [("tool_execution", self.wrapper())]
        made = [
            self.figure("a", "bare call", None, []),
            self.figure("b", "one subscriber", None, [], subscribed=True),
        ]
        for count in (1, 4, 16):
            request = [("tool_request", lambda name, arguments: arguments)]
            guard = [("tool_conditional_execution", lambda name, arguments: None)]
            made.append(self.figure("c", "request intercepts", count, request))
            made.append(self.figure("d", "execution intercepts", count, around))
            made.append(self.figure("e", "guardrails", count, guard))
        kinds = ("tool_sanitize_request", "tool_sanitize_response")
        sanitizers = [(kind, lambda name, copy: copy) for kind in kinds]
        made.append(self.figure("f", "sanitizers and a subscriber", 16, sanitizers, subscribed=True))
        made.append(self.figure("d", "execution intercepts, 20 kB", 16, around, payload=BIG))
        step = concurrently(self.call(), 1000)
        made.append(self.figure("i", "1000 concurrent, execution intercepts", 4, around, step=step, calls=1000))
        return made


class Ours(Library):
    """This library."""

    name = "ours"

    def figures(self) -> list[Figure]:
        """Adds the variants that only this library has."""
        made = super().figures()
        inline = {"subscribed": True, "subscribe_options": {"inline": True}}
        made.append(self.figure("b", "one subscriber, inline", None, [], **inline))
        synchronous = self.call(function=lambda arguments: arguments)
        made.append(self.figure("a", "bare call, synchronous function", None, [], step=synchronous))
        return made


class Peer(Library):
    """The peer, whose tools and intercepts return objects of its own."""

    name = "peer"

    async def tool(self, arguments: Any) -> Any:
        return self.library.ToolExecutionResult(arguments)

    def wrapper(self) -> Callable[..., Any]:
        outcome = self.library.ToolExecutionInterceptOutcome

        async def around(context: Any, following: Any) -> Any:
            result = await following(context.args)
            return outcome(result.result)

        return around


def peer_library(folder: str) -> Any:
    """Imports the peer; nothing where it cannot be."""
    if folder:
        sys.path.append(folder)
    try:
        import nemo_relay  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        note(f"no peer: {error}")
        return None
    return nemo_relay


# ------------------------------------------------------------------------------------------------ growth


async def around_nothing(name: str, arguments: Any, following: Any) -> Any:
    return await following(arguments)


def growth_figure(case: str, size: int, step: Callable[[], Awaitable[Any]]) -> Figure:
    return Figure("ours", "growth", case, step, size)


def runtime_step(runtime: Any) -> Callable[[], Awaitable[Any]]:
    execute, tool = runtime.execute, Plain.tool

    async def step() -> None:
        await execute("t", SMALL, tool)

    return step


def with_tools(size: int) -> Figure:
    registry = callweir.ToolRegistry(runtime=callweir.Runtime())

    async def tool(query: str) -> str:
        return query

    registry.register(*[callweir.tool(name=f"tool{index}")(tool) for index in range(size)])
    name, dispatch = f"tool{size // 2}", registry.dispatch

    async def step() -> None:
        await dispatch(name, {"query": "q"})

    return growth_figure("registered tools", size, step)


def with_open_scopes(size: int) -> Figure:
    runtime = callweir.Runtime()
    held = [runtime.open_scope(f"scope{index}", "function") for index in range(size)]
    step = runtime_step(runtime)
    step.__dict__["held"] = held
    return growth_figure("open scopes", size, step)


def inside(runtime: Any, scope: Any) -> Callable[[], Awaitable[Any]]:
    """Makes 100 calls with `scope` as the current one."""
    context = contextvars.copy_context()
    context.run(scope.enter)
    execute, tool = runtime.execute, Plain.tool

    async def calls() -> None:
        for _ in range(100):
            await execute("t", SMALL, tool)

    async def step() -> None:
        await asyncio.create_task(calls(), context=context)

    return step


def with_depth(size: int) -> Figure:
    """Calls inside `size` nested scopes, the outermost of which owns a registration."""
    runtime = callweir.Runtime()
    scope = runtime.open_scope("outermost", "function")
    runtime.register("tool.execution", "local", around_nothing, scope=scope)
    for index in range(size - 1):
        scope = runtime.open_scope(f"scope{index}", "function", parent=scope)
    figure = growth_figure("scope depth", size, inside(runtime, scope))
    figure.calls = 100
    return figure


def with_other_registrations(size: int) -> Figure:
    """Calls inside one scope while `size` other scopes own an intercept each."""
    runtime = callweir.Runtime()
    held = []
    for index in range(size):
        other = runtime.open_scope(f"scope{index}", "function")
        runtime.register("tool.execution", "local", around_nothing, scope=other)
        held.append(other)
    step = inside(runtime, runtime.open_scope("here", "function"))
    step.__dict__["held"] = held
    figure = growth_figure("registrations that do not apply", size, step)
    figure.calls = 100
    return figure


class InFlight:
    """Keeps `size` calls waiting in their tools while others are timed."""

    def __init__(self, size: int) -> None:
        self.runtime, self.size = callweir.Runtime(), size
        self.tasks: list[asyncio.Task[Any]] = []
        self.gate: asyncio.Future[None] | None = None

    async def _wait(self, arguments: Any) -> Any:
        assert self.gate is not None
        await asyncio.shield(self.gate)
        return arguments

    async def start(self) -> None:
        self.gate = asyncio.get_running_loop().create_future()
        one = self.runtime.execute
        self.tasks = [asyncio.create_task(one("t", SMALL, self._wait)) for _ in range(self.size)]
        await asyncio.sleep(0)

    async def stop(self) -> None:
        assert self.gate is not None
        self.gate.set_result(None)
        await asyncio.gather(*self.tasks)


async def growth(rounds: int, budget: float) -> None:
    """Times calls beside 1, 100 and 10,000 of what must not matter."""
    for make in (with_tools, with_open_scopes, with_depth, with_other_registrations):
        await round_robin([make(size) for size in SIZES], rounds, budget)
        gc.collect()
    waiting = [InFlight(size) for size in SIZES]
    for one in waiting:
        await one.start()
    figures = [growth_figure("concurrent calls", one.size, runtime_step(one.runtime)) for one in waiting]
    await round_robin(figures, rounds, budget)
    for one in waiting:
        await one.stop()


# ------------------------------------------------------------------------------------------------ memory and import


def resident_mb() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_mb() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmHWM"))


async def memory(side: Library, slow: bool, count: int) -> None:
    """Makes `count` calls with a subscriber and prints by how much the process grew."""
    seen = [0]

    def subscriber(event: Any) -> None:
        seen[0] += 1
        if slow:
            time.sleep(0.010)

    step, subscribers = side.call(), side.library.subscribers
    subscribers.register("s", subscriber)
    for _ in range(10 if slow else 2000):
        await step()
    await asyncio.wait_for(subscribers.flush_async(), HANG_SECONDS)
    start, began = resident_mb(), time.perf_counter()
    for _ in range(count):
        await step()
    seconds = time.perf_counter() - began
    if not slow:
        await asyncio.wait_for(subscribers.flush_async(), HANG_SECONDS * 5)
    case = "slow subscriber" if slow else "subscriber"
    after = resident_mb() - start
    more = {"calls": count, "seconds": round(seconds, 2), "events": seen[0], "after": round(after, 1)}
    emit(side.name, "memory", case, max(0.0, after, peak_mb() - start), unit="MB", **more)
    # What a slow subscriber has not taken yet would hold up a normal exit.
    os._exit(0)


def child(options: argparse.Namespace, *words: str) -> None:
    """Runs this program for one figure that needs a process of its own."""
    command = [sys.executable, __file__, "--peer-path", options.peer_path, *words]
    try:
        if subprocess.run(command, timeout=300, check=False).returncode != 0:
            note(f"{' '.join(words)}: failed")
    except subprocess.TimeoutExpired:
        note(f"{' '.join(words)}: took longer than 300 s")


def memory_rows(options: argparse.Namespace, sides: list[Library]) -> None:
    scale = 10 if options.quick else 1
    for side in sides:
        if side.name == "peer" and not options.peer_memory:
            continue
        child(options, "--memory", side.name, "--calls", str(200_000 // scale))
        child(options, "--memory", side.name, "--slow", "--calls", str(100_000 // scale))


IMPORT = """
import sys, time, asyncio, json
sys.path.append(sys.argv[1])
def resident():
    with open("/proc/self/statm") as statm: return int(statm.read().split()[1]) * 4096 / 1e6
before, start = resident(), time.perf_counter()
if sys.argv[2]: __import__(sys.argv[2])
print((time.perf_counter() - start) * 1e3, resident() - before)
"""


def import_rows(options: argparse.Namespace, sides: list[Library]) -> None:
    """Times the import in fresh interpreters, alternating, and adds up the installed files."""
    modules = {side.name: side.library.__name__ for side in sides}
    whole: dict[str, list[float]] = {name: [] for name in ["", *modules]}
    grown: dict[str, list[float]] = {name: [] for name in ["", *modules]}
    for _ in range(5 if options.quick else 15):
        for name in whole:
            command = [sys.executable, "-c", IMPORT, options.peer_path, modules.get(name, "")]
            start = time.perf_counter()
            answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
            whole[name].append((time.perf_counter() - start) * 1e3)
            grown[name].append(float(answer[1]))
    for name, module in modules.items():
        # The whole process less one without the library: what the import costs a program.
        differences = [with_it - without for with_it, without in zip(whole[name], whole[""], strict=True)]
        low = min(whole[name]) - min(whole[""])
        emit(name, "import", "import", statistics.median(differences), unit="ms", min=round(low, 2))
        emit(name, "import", "import, memory", statistics.median(grown[name]), unit="MB")
        found = importlib.util.find_spec(module)
        assert found is not None and found.origin is not None
        files = pathlib.Path(found.origin).parent.rglob("*")
        size = sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc")
        emit(name, "import", "installed", size / 1e6, unit="MB")


# ------------------------------------------------------------------------------------------------ the program


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times the Python door.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", default="", help="one row: a to f, i, growth, memory, import")
    parser.add_argument("--peer-path", default="", help="a folder that holds the peer")
    parser.add_argument("--peer-memory", action="store_true", help="the memory rows for the peer too (minutes)")
    parser.add_argument("--memory", default="", help="inside a child: the side")
    parser.add_argument("--slow", action="store_true", help="inside a child: the subscriber takes 10 ms")
    parser.add_argument("--calls", type=int, default=0, help="inside a child: how many calls")
    return parser.parse_args(arguments)


def main() -> None:
    options = options_of(sys.argv[1:])
    if options.memory == "ours":
        asyncio.run(memory(Ours(callweir), options.slow, options.calls))
    library = peer_library(options.peer_path)
    peers: list[Library] = [] if library is None else [Peer(library)]
    if options.memory == "peer":
        asyncio.run(memory(peers[0], options.slow, options.calls))
    sides: list[Library] = [Ours(callweir), *peers]
    rounds, budget = (3, 0.01) if options.quick else (11, 0.03)

    def wanted(row: str) -> bool:
        return options.only in ("", row)

    figures = [*sum((side.figures() for side in sides), []), *Plain.figures()]
    figures = [figure for figure in figures if wanted(figure.row)]
    # Sides of one row next to each other, so that they share the machine's mood.
    figures.sort(key=lambda figure: (figure.row, figure.case, figure.entries or 0))
    note(f"Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    if figures:
        asyncio.run(round_robin(figures, rounds, budget))
    if wanted("growth"):
        asyncio.run(growth(rounds, budget))
    if wanted("import"):
        import_rows(options, sides)
    if wanted("memory"):
        memory_rows(options, sides)
    note(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
