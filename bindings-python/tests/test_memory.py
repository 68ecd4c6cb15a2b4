"""Nothing is kept after its use."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from typing import Any

import pytest
from callweir import Cancellation, Runtime, ToolRegistry, guardrails, intercepts, scope, subscribers, tool, tools

from helpers import Seen, add, call, echo, flushed, go, made


class Thing:
    """Something that can be watched."""

    def toJSON(self) -> str:
        return "thing"


class Oops(Exception):
    pass


def gone(*references: Any) -> None:
    """Waits for the objects to go, without another call."""
    until = time.perf_counter() + 5
    while any(reference() is not None for reference in references):
        gc.collect()
        left = [reference() for reference in references if reference() is not None]
        assert time.perf_counter() < until, [(one, gc.get_referrers(one)) for one in left]
        del left
        time.sleep(0.005)


@pytest.mark.parametrize("how", ["success", "error", "cancelled", "rejected", "pool"])
@pytest.mark.parametrize("observed", [False, True])
def test_c70_references_are_released(how: str, observed: bool) -> None:
    kept: list[Any] = []

    def watch(thing: Any) -> Any:
        kept.append(weakref.ref(thing))
        return thing

    async def work(args: Any) -> Any:
        if how == "cancelled":
            await asyncio.sleep(30)
        if how == "error":
            raise watch(Oops())
        return watch(Thing())

    class Callback:
        def __call__(self, _name: str, _args: Any) -> Any:
            return "no" if how == "rejected" else None

    guardrails.register_tool_conditional_execution("g", 0, watch(Callback()))
    intercepts.register_tool_execution("e", 0, made("async", lambda _, args, next: next(args)))
    if observed:
        subscribers.register("s", lambda event: event.data)
    registry = ToolRegistry().register(tool(name="p", parameters={"type": "object"})(lambda a: watch(Thing())))

    async def main() -> None:
        with scope.scope("S", input=watch(Thing())):
            if how == "pool":
                await registry.dispatch("p", {"a": watch(Thing())})
                return
            task = asyncio.create_task(call("t", {"a": watch(Thing())}, work))
            await asyncio.sleep(0.01)
            if how == "cancelled":
                task.cancel()
            await asyncio.wait([task])
            task.exception() if not task.cancelled() else None

    flushed(main)
    assert guardrails.deregister_tool_conditional_execution("g")
    assert len(kept) >= 3
    gone(*kept)


@pytest.mark.parametrize("family", ["tool.conditional_execution", "tool.request", "tool.execution", "mark.sanitize"])
def test_c70_callbacks_go_with_their_registration(family: str) -> None:
    def callback() -> Any:
        return lambda *_: None

    runtime = Runtime.default()
    first = callback()
    reference = weakref.ref(first)
    add(family, first, "n")
    second = callback()
    refused = weakref.ref(second)
    with pytest.raises(Exception, match="n"):
        add(family, second, "n")
    del second
    gone(refused)
    del first
    gc.collect()
    assert reference() is not None, "a registered callback lives"
    assert runtime.deregister(family, "n")
    gone(reference)
    third = callback()
    scoped = weakref.ref(third)
    with scope.scope("S") as handle:
        add(family, third, "n", scope=handle)
        del third
    gone(scoped)


def test_c70_subscribers_tokens_and_registries() -> None:
    class Layer:
        def __call__(self, one: Any, next: Any) -> Any:
            return next(one)

    layer, note, function = Layer(), lambda _: None, lambda: 1
    references = [weakref.ref(layer), weakref.ref(note), weakref.ref(function)]
    subscribers.register("s", note)
    registry = ToolRegistry().register(tool(name="t")(function)).use(layer)
    token = Cancellation()
    go(lambda: registry.dispatch("t", {}))
    go(lambda: call("t", {}, cancellation=token))
    assert subscribers.deregister("s") and subscribers.flush(5) == 0
    del registry, layer, note, function, token
    gone(*references)


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize("how", ["plain", "async", "error", "observed", "manual", "cancelled"])
def test_c70_memory_is_flat(how: str) -> None:
    pytest.importorskip("resource")
    if how == "observed":
        subscribers.register("s", lambda event: event.data)
        guardrails.register_tool_sanitize_request("c", 0, lambda _, args: args)
    guardrails.register_tool_conditional_execution("g", 0, lambda *_: None)

    async def slow(args: Any) -> Any:
        await asyncio.sleep(0)
        return args

    def fail(_args: Any) -> None:
        raise ValueError

    async def round_(count: int) -> None:
        for number in range(count):
            if how == "manual":
                with scope.scope("S"):
                    tools.call_end(tools.call("m", number), number)
            elif how == "cancelled":
                task = asyncio.create_task(call("t", {}, slow))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            else:
                try:
                    await call("t", {"n": number}, {"async": slow, "error": fail}.get(how, echo))
                except ValueError:
                    pass
            if number % 500 == 0:
                assert await subscribers.flush_async(10) == 0
        assert await subscribers.flush_async(10) == 0

    async def main() -> int:
        await round_(3000)
        gc.collect()
        before = resident()
        await round_(8000)
        gc.collect()
        return resident() - before

    assert go(main) < 5_000_000


def test_c26_a_list_does_not_grow(seen: Seen) -> None:
    from callweir import AlreadyExists

    ran: list[int] = []
    guardrails.register_tool_conditional_execution("g", 0, lambda *_: ran.append(1))
    for number in range(2, 6):
        with pytest.raises(AlreadyExists):
            guardrails.register_tool_conditional_execution("g", 0, lambda *_, n=number: ran.append(n))
    go(lambda: call("t"))
    assert ran == [1]
    with pytest.raises(AlreadyExists):
        subscribers.register("seen", echo)


def test_c26_runtimes_come_and_go() -> None:
    def one() -> weakref.ref[Any]:
        runtime, thing = Runtime(), Thing()
        runtime.register("tool.request", "r", lambda _, args, thing=thing: args)
        runtime.subscribe("s", lambda event, thing=thing: None)
        go(lambda: runtime.execute("t", {}, echo))
        assert len(runtime.registrations()) == 2
        runtime.shutdown(5)
        return weakref.ref(thing)

    references = [one() for _ in range(30)]
    gc.collect()
    before = resident()
    references += [one() for _ in range(170)]
    gone(*references)
    assert resident() - before < 5_000_000
