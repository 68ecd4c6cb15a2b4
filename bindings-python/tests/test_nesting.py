"""Calls inside calls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from callweir import CallRejected, ToolRegistry, guardrails, intercepts, scope, subscribers, tool, tools

from helpers import KINDS, Seen, at_most, call, echo, go, made, pause, run_with, within


@pytest.mark.parametrize("kind", ["async", "awaitable", "async_partial", "async_object", "async_method"])
def test_c01_a_managed_call_inside_a_tool(kind: str, backend: str, seen: Seen) -> None:
    asked: list[str] = []
    guardrails.register_tool_conditional_execution("g", 0, lambda name, _: asked.append(name))

    async def nested(_args: Any) -> Any:
        return await call("inner", {"q": "b"})

    with at_most(2):
        assert run_with(backend, lambda: call("outer", {"q": "a"}, made(kind, nested))) == {"q": "b"}
    assert asked == ["outer", "inner"]
    outer, inner = seen.flushed().end("outer"), seen.end("inner")
    assert inner.parent_uuid == outer.uuid and outer.parent_uuid is None
    guarded = [event.parent_uuid for event in seen.of("start", "g")]
    assert guarded == [None, outer.uuid]


@pytest.mark.parametrize("place", ["guardrail", "request", "execution", "middleware"])
@pytest.mark.parametrize("kind", ["async", "async_object"])
def test_call_5_a_managed_call_inside_every_callback(place: str, kind: str, backend: str, seen: Seen) -> None:
    asked: list[str] = []

    async def gate(name: str, _args: Any) -> None:
        asked.append(name)
        if place == "guardrail" and name == "outer":
            assert await call("inner", 1) == 1

    async def request(name: str, args: Any) -> Any:
        if place == "request" and name == "outer":
            return await call("inner", args)
        return args

    async def execution(name: str, args: Any, next: Any) -> Any:
        if place == "execution" and name == "outer":
            assert await call("inner", args) == args
        return await next(args)

    async def middleware(one: Any, next: Any) -> Any:
        if place == "middleware":
            assert await call("inner", 2) == 2
        return await next(one)

    guardrails.register_tool_conditional_execution("g", 0, made(kind, gate))
    intercepts.register_tool_request("r", 0, False, made(kind, request))
    intercepts.register_tool_execution("e", 0, made(kind, execution))
    registry = ToolRegistry().register(tool(name="outer")(lambda: "done")).use(made(kind, middleware))

    async def main() -> Any:
        return await registry.dispatch("outer", {})

    assert run_with(backend, main) == "done"
    assert asked == ["outer", "inner"]
    outer, inner = seen.flushed().end("outer"), seen.end("inner")
    inside = place in ("execution", "middleware")
    assert inner.parent_uuid == (outer.uuid if inside else None) or place == "guardrail"


@pytest.mark.parametrize("way", ["loop", "sync"])
def test_call_5_from_threads_inside_a_tool(way: str, seen: Seen) -> None:
    rejected: list[str] = []
    guardrails.register_tool_conditional_execution("g", 0, lambda _, args: "no" if args.get("bad") else None)

    def inside(args: Any) -> Any:
        def make(arguments: Any) -> Any:
            if way == "loop":
                return asyncio.run(within(call("inner", arguments)))
            return tools.execute_sync("inner", arguments, echo)

        try:
            make({"bad": 1})
        except CallRejected as error:
            rejected.append(error.reason)
        return make(args)

    async def main() -> Any:
        return await call("outer", {"a": 1}, lambda args: asyncio.to_thread(inside, args))

    assert go(main) == {"a": 1}
    assert rejected == ["no"]
    # `to_thread` carries the context over, so the call is known there.
    assert seen.flushed().end("inner").parent_uuid == seen.end("outer").uuid

    def plain(args: Any) -> Any:
        result: list[Any] = []
        thread = threading.Thread(target=lambda: result.append(inside(args)))
        thread.start()
        thread.join(10)
        return result[0]

    del seen[:]
    assert go(lambda: call("outer", {"a": 2}, plain)) == {"a": 2}
    assert seen.flushed().end("inner").parent_uuid is None, "a fresh thread has no scope"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in ("plain", "async", "awaitable")])
def test_call_5_to_any_depth(kind: str, seen: Seen) -> None:
    depth = 200

    async def down(args: Any) -> Any:
        if args == depth:
            return args
        return await call(f"t{args}", args + 1, made(kind, down))

    assert go(lambda: call("top", 1, made(kind, down))) == depth
    ends = seen.flushed().of("end")
    assert len(ends) == depth and all(end.outcome == "succeeded" for end in ends)
    assert [end.parent_uuid for end in ends[:-1]] == [end.uuid for end in ends[1:]]


def test_recursion_without_end_is_an_error_of_python() -> None:
    async def down(args: Any) -> Any:
        return await call("t", args, down)

    with pytest.raises(RecursionError):
        go(lambda: call("t", 0, down))
    assert go(lambda: call("t", 1)) == 1


def test_c14_work_that_outlives_its_tool(backend: str, seen: Seen) -> None:
    asked: list[str] = []
    guardrails.register_tool_conditional_execution("g", 0, lambda name, _: asked.append(name))

    async def work(args: Any) -> Any:
        await pause(0.02)
        if args == 1:
            raise ValueError(args)
        return args

    async def with_asyncio(_args: Any) -> list[Any]:
        background = [asyncio.create_task(call(f"b{n}", n, work)) for n in range(3)]
        await asyncio.sleep(0)
        scope.push("left")
        return background

    async def main_asyncio() -> None:
        background = await call("outer", {}, with_asyncio)
        assert scope.get_handle() is None or not scope.get_handle().is_open  # type: ignore[union-attr]
        await asyncio.gather(*background, return_exceptions=True)

    async def main_trio() -> None:
        import trio

        async def quietly(number: int) -> None:
            try:
                await call(f"b{number}", number, work)
            except ValueError:
                pass

        async with trio.open_nursery() as nursery:

            async def outer(_args: Any) -> None:
                for number in range(3):
                    nursery.start_soon(quietly, number)
                scope.push("left")

            await call("outer", {}, outer)

    run_with(backend, main_trio if backend == "trio" else main_asyncio)
    scope_now = scope.get_handle()
    assert scope_now is None
    outer = seen.flushed().end("outer")
    outcomes = [seen.end(f"b{number}").outcome for number in range(3)]
    assert outcomes == ["succeeded", "failed", "succeeded"]
    if backend != "trio":
        # A task of trio inherits its nursery's context and not that of whoever starts it there.
        assert {seen.end(f"b{number}").parent_uuid for number in range(3)} == {outer.uuid}
    assert sorted(asked) == ["b0", "b1", "b2", "outer"]
    left = seen.end("left")
    assert left.outcome == "abandoned" and left.parent_uuid == outer.uuid
    assert seen.index(left) < seen.index(outer)
    assert subscribers.flush(5) == 0
