"""Flushing, bounds, and callbacks of the dispatcher that are stuck."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from callweir import Runtime, ShutDown, WouldDeadlock, guardrails, intercepts, scope, subscribers, tools

from helpers import Seen, at_most, call, echo, flushed, go, made, within


def marks(runtime: Any, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        runtime.mark(f"m{number}", {"n": number})


@pytest.mark.parametrize("where", ["subscriber", "sanitizer", "calls"])
@pytest.mark.parametrize("kind", ["plain", "async", "awaitable", "inline"])
def test_c06_flush_in_callbacks_of_the_dispatcher(where: str, kind: str, seen: Seen) -> None:
    got: list[Any] = []

    def blocking(*arguments: Any) -> Any:
        with at_most(0.5):
            try:
                got.append(subscribers.flush(2))
            except WouldDeadlock as error:
                got.append(error)
        return arguments[-1]

    async def awaiting(*arguments: Any) -> Any:
        with at_most(0.5):
            try:
                got.append(await subscribers.flush_async(2))
            except WouldDeadlock as error:
                got.append(error)
        return blocking(*arguments)

    function = {"plain": blocking, "inline": blocking, "async": awaiting, "awaitable": made("awaitable", awaiting)}[
        kind
    ]
    if where == "subscriber":
        subscribers.register("flushes", function, inline=kind == "inline")
    elif where == "calls":
        subscribers.register_calls("flushes", function, inline=kind == "inline")
    else:
        guardrails.register_mark_sanitize("flushes", 0, function)

    async def main() -> None:
        from callweir import ToolRegistry, tool

        scope.event("one")
        if where == "calls":
            await ToolRegistry().register(tool(name="t")(lambda: 1)).dispatch("t", {})
        scope.event("two")

    flushed(main)
    assert got and all(isinstance(one, WouldDeadlock) for one in got), got
    assert [mark.name for mark in seen.flushed().of(None)] == ["one", "two"]
    assert seen[0].metadata is None or "callweir.payload" not in seen[0].metadata


@pytest.mark.parametrize("where", ["guardrail", "request", "execution", "tool"])
@pytest.mark.parametrize("kind", ["async", "awaitable", "plain"])
def test_c06_flush_in_a_call(where: str, kind: str, backend: str, seen: Seen) -> None:
    got: list[Any] = []

    def blocking() -> None:
        with at_most(0.5), pytest.raises(WouldDeadlock, match="await"):
            subscribers.flush(2)

    async def awaiting() -> None:
        scope.event("before")
        got.append(await subscribers.flush_async(5))
        got.append([event.name for event in seen if event.name == "before"])

    def gate(*_: Any) -> Any:
        return awaiting() if kind != "plain" else blocking()

    async def request(_name: str, args: Any) -> Any:
        await awaiting() if kind != "plain" else blocking()
        return args

    if where == "guardrail":
        guardrails.register_tool_conditional_execution("g", 0, made(kind, gate))
    elif where == "request":
        intercepts.register_tool_request("r", 0, False, made(kind, request))
    elif where == "execution":
        intercepts.register_tool_execution("e", 0, made(kind, lambda *_: gate()))
    from helpers import run_with

    with at_most(8):
        run_with(backend, lambda: call("t", {}, made(kind, gate) if where == "tool" else echo))
    assert got == ([] if kind == "plain" else [0, ["before"]])


def test_c06_blocking_forms_outside_a_loop_work_in_calls(seen: Seen) -> None:
    def work(args: Any) -> Any:
        scope.event("before")
        assert subscribers.flush(5) == 0
        assert [mark.name for mark in seen.of(None)] == ["before"]
        return args

    assert tools.execute_sync("t", 1, work) == 1


def test_c06_on_a_running_loop() -> None:
    async def main() -> None:
        runtime = Runtime()
        for blocking in (lambda: subscribers.flush(1), lambda: runtime.flush(1), lambda: runtime.shutdown(1)):
            with at_most(0.5), pytest.raises(WouldDeadlock, match="await"):
                blocking()
        assert await runtime.flush_async() == 0
        assert await runtime.shutdown_async() == 0

    go(main)


@pytest.mark.parametrize("bad", [-1, float("nan"), -0.001])
def test_a_timeout_is_a_number_from_zero(bad: float) -> None:
    with pytest.raises(ValueError):
        subscribers.flush(bad)
    with pytest.raises(ValueError):
        subscribers.flush_async(bad)
    assert subscribers.flush(float("inf")) == subscribers.flush(0) == 0


def test_c61_over_the_event_bound_events_are_dropped_in_pairs() -> None:
    runtime, events, release = Runtime(queue_events=100), [], threading.Event()

    def stuck(event: Any) -> None:
        release.wait(10)
        events.append(event)

    runtime.subscribe("stuck", stuck)

    async def main() -> float:
        started = time.perf_counter()
        for number in range(2000):
            await runtime.execute(f"t{number}", {"x": "y" * 1000}, echo)
        return time.perf_counter() - started

    took = go(main)
    assert took < 1.5, "calls are not slowed"
    assert runtime.counts()["pending"] <= 110
    release.set()
    assert runtime.flush(10) == 0
    runtime.mark("later")
    assert runtime.flush(10) == 0
    starts = [event.uuid for event in events if event.scope_category == "start"]
    ends = [event.uuid for event in events if event.scope_category == "end"]
    assert starts == ends and 0 < len(starts) <= 60
    reports = [event for event in events if event.kind == "mark" and event.name != "later"]
    assert len(reports) == 1 and str(4000 - 2 * len(starts)) in reports[0].to_json()
    assert runtime.counts()["dropped"] == 4000 - 2 * len(starts)
    names = [event.name for event in events if event.scope_category == "start"]
    assert names == sorted(names, key=lambda name: int(name[1:]))
    runtime.shutdown(5)


def test_c61_over_the_byte_bound_payloads_are_dropped() -> None:
    runtime, events, release = Runtime(queue_bytes=64 * 1024), [], threading.Event()

    def stuck(event: Any) -> None:
        release.wait(10)
        events.append(event)

    runtime.subscribe("stuck", stuck)

    async def main() -> None:
        for number in range(500):
            await runtime.execute(f"t{number}", {"x": "y" * 1000}, echo)

    go(main)
    assert runtime.counts()["pending_bytes"] < 1200 * 1024, "an event without payload is small"
    release.set()
    assert runtime.flush(10) == 0
    runtime.mark("later")
    assert runtime.flush(10) == 0
    marked = [event for event in events if event.kind == "mark"]
    calls = [event for event in events if event.kind != "mark"]
    assert [event.data for event in calls if event.data is not None]
    dropped = [event for event in calls if event.data is None]
    assert dropped and all(event.metadata["callweir.payload"] == "dropped" for event in dropped)
    starts = [event.uuid for event in calls if event.scope_category == "start"]
    assert starts == [event.uuid for event in calls if event.scope_category == "end"], "dropped in pairs"
    lost = sum(mark.data["events"] for mark in marked if mark.name != "later")
    assert lost == 1000 - len(calls) == runtime.counts()["dropped"]
    assert sum(len(event.to_json()) for event in calls if event.data is not None) < 128 * 1024
    runtime.shutdown(5)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_c62_a_subscriber_that_never_answers(kind: str) -> None:
    release = threading.Event()
    hung: list[str] = []

    async def hang(event: Any) -> None:
        hung.append(event.name)
        if len(hung) == 1:
            await asyncio.sleep(60)

    def block(event: Any) -> None:
        hung.append(event.name)
        if len(hung) == 1:
            release.wait(20)

    runtime, events = Runtime(sanitizer_timeout=0.2), []
    runtime.subscribe("hangs", hang if kind == "async" else block)
    runtime.subscribe("other", events.append)

    async def main() -> None:
        marks(runtime, 50)
        with at_most(8):
            assert await runtime.flush_async(10) == 0
        assert [event.name for event in events] == [f"m{number}" for number in range(50)]
        counts = runtime.counts()
        assert counts["skipped"] + counts["dropped"] >= 49, counts
        with at_most(4):
            await runtime.shutdown_async(1)

    go(main)
    release.set()
    assert hung[0] == "m0"


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable"])
def test_c64_flush_flushes(kind: str) -> None:
    slow = Seen("slow")

    async def note(event: Any) -> None:
        slow.append(event)

    async def clean(_event: Any, fields: Any) -> Any:
        await asyncio.sleep(0.001)
        return fields

    subscribers.register("slow", made(kind, note))
    guardrails.register_mark_sanitize("s", 0, clean)

    async def main() -> None:
        for number in range(50):
            scope.event(f"a{number}")
        waiting = asyncio.ensure_future(subscribers.flush_async(10))
        await asyncio.sleep(0)
        for number in range(50):
            scope.event(f"b{number}")
        assert await waiting == 0
        assert [event.name for event in slow[:50]] == [f"a{number}" for number in range(50)]
        await call("t")
        scope.event("removed")
        assert subscribers.deregister("slow") is True
        scope.event("after")
        assert await subscribers.flush_async(10) == 0

    go(main)
    assert [event.name for event in slow[50:]] == [*(f"b{number}" for number in range(50)), "t", "t", "removed"]


def test_c64_eight_threads_at_once(seen: Seen) -> None:
    wrong: list[Any] = []
    lock, inside = threading.Lock(), [0]

    def one_at_a_time(_event: Any) -> None:
        if not lock.acquire(blocking=False):
            wrong.append("two at once")
            return
        inside[0] += 1
        lock.release()

    subscribers.register("serial", one_at_a_time)

    def work(number: int) -> None:
        for one in range(50):
            scope.event(f"{number}", one)
            if one % 10 == 9:
                if subscribers.flush(10) != 0:
                    wrong.append("pending")
                mine = [event.data for event in list(seen) if event.name == f"{number}"]
                if mine != list(range(one + 1)):
                    wrong.append((number, one, mine))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with at_most(15):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[:3]
    assert inside[0] == 400 == len(seen)


def test_c64_every_subscriber_sees_one_order() -> None:
    lists = [Seen("one").subscribe(), Seen("two").subscribe(inline=True)]
    slow: list[Any] = []

    async def note(event: Any) -> None:
        await asyncio.sleep(0)
        slow.append(event)

    subscribers.register("three", note)

    def emit(number: int) -> None:
        async def main() -> None:
            for one in range(25):
                await call(f"{number}.{one}")
                scope.event(f"{number}.{one}")
            assert await subscribers.flush_async(10) == 0

        asyncio.run(within(main()))

    threads = [threading.Thread(target=emit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert subscribers.flush(10) == 0
    orders = [[event.uuid for event in one] for one in (*lists, slow)]
    assert len(orders[0]) == 300 and orders[0] == orders[1] == orders[2]


def blocking_functions(seen: Seen) -> dict[str, Callable[[int], Any]]:
    def registers(number: int) -> None:
        name = f"{threading.get_ident()}.{number}"
        guardrails.register_tool_conditional_execution(name, 0, lambda *_: None)
        assert guardrails.deregister_tool_conditional_execution(name)

    def subscribes(number: int) -> None:
        name = f"{threading.get_ident()}.{number}"
        subscribers.register(name, lambda _: None)
        assert subscribers.deregister(name)

    def scopes(number: int) -> None:
        with scope.scope(f"s{number}"):
            pass

    return {
        "flush": lambda _: subscribers.flush(10),
        "register": registers,
        "subscribe": subscribes,
        "scope": scopes,
        "helper": lambda _: tools.conditional_execution("t", {}),
        "request": lambda _: tools.request_intercepts("t", {}),
        "call": lambda number: tools.execute_sync("t", number, echo),
        "manual": lambda number: tools.call_end(tools.call("m", number), number),
    }


def test_c04_the_interpreter_is_free_while_the_core_waits(seen: Seen) -> None:
    guardrails.register_scope_sanitize_start("s", 0, lambda _, fields: fields)
    functions = list(blocking_functions(seen).values())
    wrong: list[BaseException] = []
    counting, gap, last = True, 0.0, time.perf_counter()

    def count() -> None:
        nonlocal gap, last
        while counting:
            now = time.perf_counter()
            gap, last = max(gap, now - last), now
            time.sleep(0.001)

    def work(function: Callable[[int], Any]) -> None:
        try:
            for number in range(100):
                function(number)
        except BaseException as error:
            wrong.append(error)

    interval = sys.getswitchinterval()
    counter = threading.Thread(target=count)
    threads = [threading.Thread(target=work, args=(function,)) for function in functions]
    with at_most(20):
        counter.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counting = False
    counter.join()
    assert not wrong, wrong
    assert gap < 0.5, f"paused for {gap:.3f} s (switch interval {interval})"


def test_shut_down() -> None:
    runtime, events, ran = Runtime(), [], []
    runtime.subscribe("s", events.append)
    handle = runtime.open_scope("S", "function")
    manual = runtime.start_call("m", {})
    assert runtime.shutdown(5) == 0 and runtime.is_shut
    assert runtime.shutdown(5) == 0
    ended = {event.name: event.outcome for event in events if event.scope_category == "end"}
    assert ended == {"S": "abandoned", "m": "abandoned"}
    with pytest.raises(ShutDown):
        go(lambda: runtime.execute("t", {}, ran.append))
    with pytest.raises(ShutDown):
        runtime.register("tool.request", "r", echo)
    with pytest.raises(ShutDown):
        runtime.subscribe("again", echo)
    runtime.mark("late")
    handle.close()
    assert not ran and len(events) == 4
    assert manual is not None
