"""Context variables and scopes: who sees what, and how scopes end."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
from callweir import (
    AlreadyEnded,
    InvalidArgument,
    ToolRegistry,
    attach,
    current_call,
    guardrails,
    intercepts,
    propagation,
    scope,
    subscribers,
    tool,
    tools,
)

from helpers import Seen, call, clean, go, made, pause, run_with, script

tenant: ContextVar[str] = ContextVar("tenant", default="none")


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable", "async_method"])
def test_c08_callbacks_see_the_caller_s_context(kind: str, backend: str) -> None:
    read: list[tuple[str, str]] = []

    def note(stage: str) -> None:
        read.append((stage, tenant.get()))

    def gate(_name: str, _args: Any) -> None:
        note("guardrail")

    def request(_name: str, args: Any) -> Any:
        note("request")
        return args

    async def execution(_name: str, args: Any, next: Any) -> Any:
        note("before")
        result = await next(args)
        note("after")
        return result

    def work(args: Any) -> Any:
        note("tool")
        tenant.set(f"x{args}")
        return args

    guardrails.register_tool_conditional_execution("g", 0, made(kind, gate))
    intercepts.register_tool_request("r", 0, False, made(kind, request))
    intercepts.register_tool_execution("e", 0, made("async" if kind == "plain" else kind, execution))

    async def one(number: int) -> None:
        tenant.set(f"t{number}")
        await call("t", number, made(kind, work))
        note(f"caller{number}")

    async def main() -> None:
        await one(1)

    run_with(backend, main)
    before, after = [entry for entry in read if entry[1] == "t1"], [entry for entry in read if entry[1] == "x1"]
    assert [stage for stage, _ in before] == ["guardrail", "request", "before", "tool"]
    assert [stage for stage, _ in after] == ["after", "caller1"]
    assert tenant.get() == "none"


def test_c08_ten_tasks_with_their_own_tenants() -> None:
    wrong: list[Any] = []

    async def execution(_name: str, args: Any, next: Any) -> Any:
        await asyncio.sleep(0.001 * (args % 3))
        if tenant.get() != f"t{args}":
            wrong.append((args, tenant.get()))
        result = await next(args)
        if tenant.get() != f"x{args}":
            wrong.append((args, tenant.get()))
        return result

    async def work(args: Any) -> Any:
        await asyncio.sleep(0.001 * (args % 4))
        if tenant.get() != f"t{args}":
            wrong.append((args, tenant.get()))
        tenant.set(f"x{args}")
        return args

    intercepts.register_tool_execution("e", 0, execution)

    async def one(number: int) -> str:
        tenant.set(f"t{number}")
        await call("t", number, work)
        return tenant.get()

    async def main() -> list[str]:
        return list(await asyncio.gather(*(one(number) for number in range(10))))

    assert go(main) == [f"x{number}" for number in range(10)]
    assert not wrong


def test_call_6_queued_callbacks_see_the_context_of_the_emission() -> None:
    read: dict[str, list[str]] = {"plain": [], "async": []}

    async def slow(event: Any) -> None:
        await asyncio.sleep(0)
        read["async"].append(f"{event.name}={tenant.get()}")

    subscribers.register("plain", lambda event: read["plain"].append(f"{event.name}={tenant.get()}"))
    subscribers.register("async", slow)

    async def one(number: int) -> None:
        tenant.set(f"t{number}")
        scope.event(f"m{number}")

    async def main() -> None:
        await asyncio.gather(*(asyncio.create_task(one(number)) for number in range(5)))
        assert await subscribers.flush_async(10) == 0

    go(main)
    for got in read.values():
        assert sorted(got) == [f"m{number}=t{number}" for number in range(5)]


@pytest.mark.parametrize("kind", ["plain", "partial", "object", "method"])
def test_c09_a_synchronous_tool_on_its_thread(kind: str, backend: str, seen: Seen) -> None:
    noted: list[Any] = []

    def work() -> None:
        noted.append((threading.get_ident(), tenant.get(), scope.get_handle(), current_call()))
        thread = threading.Thread(target=lambda: noted.append(scope.get_handle()))
        thread.start()
        thread.join()

    from callweir import Tool

    registry = ToolRegistry().register(Tool(made(kind, work), name="t", parameters={"type": "object"}))

    async def main() -> Any:
        tenant.set("t1")
        with scope.scope("S") as handle:
            await registry.dispatch("t", {})
        return handle

    outer = run_with(backend, main)
    (thread, value, current, running), fresh = noted
    assert thread != threading.get_ident()
    assert value == "t1"
    assert current == running and current.name == "t" and current.parent == outer
    assert fresh is None
    assert seen.flushed().end("t").parent_uuid == outer.uuid


def test_c12_concurrent_siblings(backend: str, seen: Seen) -> None:
    anyio = pytest.importorskip("anyio")
    chance = random.Random(12)
    waits = [chance.random() * 0.02 for _ in range(20)]

    async def child(number: int) -> None:
        with scope.scope(f"c{number}") as mine:
            await anyio.sleep(waits[number])
            assert scope.get_handle() == mine
            await call(f"t{number}", number)
            async with scope.scope(f"i{number}") as inner:
                await anyio.sleep(waits[-number])
                assert inner.parent == mine
            assert scope.get_handle() == mine

    async def main() -> None:
        with scope.scope("P"):
            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(child, number)

    run_with(backend, main)
    parent = seen.flushed().end("P")
    assert parent.outcome == "succeeded"
    for number in range(20):
        mine = seen.end(f"c{number}")
        assert mine.parent_uuid == parent.uuid
        assert seen.end(f"t{number}").parent_uuid == mine.uuid == seen.end(f"i{number}").parent_uuid
    assert len(seen.of("start")) == len(seen.of("end")) == 61


def test_c13_closing_twice_and_out_of_order(seen: Seen) -> None:
    one = scope.push("one")
    scope.pop(one)
    scope.pop(one)
    scope.pop(one, outcome="failed")
    assert [end.outcome for end in seen.flushed().of("end", "one")] == ["succeeded"]
    assert scope.get_handle() is None
    scope.pop()

    outer = scope.push("A")
    inner = scope.push("B")
    assert inner.parent == outer
    scope.pop(outer)
    assert not inner.is_open and not outer.is_open
    scope.pop(inner)
    assert [event.name for event in seen.flushed().of("end")[1:]] == ["B", "A"]
    assert (seen.end("B").outcome, seen.end("A").outcome) == ("abandoned", "succeeded")
    while scope.get_handle() is not None:
        scope.get_handle().step_out()  # type: ignore[union-attr]


def test_c13_a_lost_handle_another_thread_and_equal_handles(seen: Seen) -> None:
    def lose() -> None:
        scope.push("lost")
        raise KeyError("x")

    def body() -> None:
        outer = scope.push("A")
        with pytest.raises(KeyError):
            lose()
        scope.pop(outer)

    copy_context().run(body)
    assert (seen.flushed().end("lost").outcome, seen.end("A").outcome) == ("abandoned", "succeeded")

    def elsewhere() -> None:
        handle = scope.push("far")
        same = scope.get_handle()
        assert same == handle and hash(same) == hash(handle) and {same, handle} == {handle}
        assert same != scope.push("other")
        thread = threading.Thread(target=scope.pop, args=(handle,))
        thread.start()
        thread.join()
        assert not handle.is_open

    copy_context().run(elsewhere)

    async def tasks() -> None:
        handle = scope.push("task")
        await asyncio.create_task(asyncio.to_thread(scope.pop, handle))
        assert not handle.is_open

    go(tasks)
    assert seen.flushed().end("far").outcome == seen.end("task").outcome == "succeeded"
    with scope.scope("after"):
        pass
    assert seen.flushed().end("after").outcome == "succeeded"


def test_c13_a_manual_call_ended_twice(seen: Seen) -> None:
    handle = tools.call("m", {"a": 1}, tool_call_id="c1")
    tools.call_end(handle, {"r": 1})
    with pytest.raises(AlreadyEnded):
        tools.call_end(handle, {"r": 2})
    with pytest.raises(AlreadyEnded):
        tools.call_end(handle, error=ValueError())
    end = seen.flushed().end("m")
    assert (end.data, end.outcome, end.category_profile) == ({"r": 1}, "succeeded", {"tool_call_id": "c1"})
    failed = tools.call("f", {})
    tools.call_end(failed, error=ValueError("secret 5500"))
    end = seen.flushed().end("f")
    assert (end.outcome, end.metadata["error.type"]) == ("failed", "ValueError")
    assert "5500" not in end.to_json()
    with pytest.raises(InvalidArgument):
        tools.call_end(tools.call("g", {}), outcome="splendid")
    tools.call_end(tools.call("h", {}), outcome="cancelled")
    assert seen.flushed().end("h").outcome == "cancelled"


@pytest.mark.parametrize("form", ["with", "async with"])
@pytest.mark.parametrize("leave", ["end", "return", "error", "cancel"])
def test_c99_scopes_as_managers(form: str, leave: str, backend: str, seen: Seen) -> None:
    error = {"error": KeyError("x"), "cancel": KeyboardInterrupt()}.get(leave)

    def inside(handle: Any) -> None:
        assert scope.get_handle() == handle and handle.is_open
        if error is not None:
            raise error

    async def body() -> int:
        manager = scope.scope("S", "agent", input={"i": 1}, metadata={"m": 1}, attributes=["remote"])
        if form == "with":
            with manager as handle:
                manager.set_output({"o": 1})
                inside(handle)
                if leave == "return":
                    return 1
        else:
            async with manager as handle:
                manager.set_output({"o": 1})
                await pause()
                inside(handle)
                if leave == "return":
                    return 1
        return 0

    async def main() -> None:
        try:
            await body()
        except BaseException as caught:
            assert caught is error
        else:
            assert error is None
        assert scope.get_handle() is None

    run_with(backend, main)
    end, start = seen.flushed().end("S"), seen.of("start", "S")[0]
    assert end.outcome == {"error": "failed", "cancel": "cancelled"}.get(leave, "succeeded")
    assert end.metadata.get("error.type") == (type(error).__name__ if error else None)
    assert (start.category, start.data, start.attributes) == ("agent", {"i": 1}, ["remote"])
    assert start.metadata["m"] == 1 and end.data == {"o": 1}


def test_c99_one_manager_nests_and_is_used_again(seen: Seen) -> None:
    manager = scope.scope("S")
    with manager as outer, manager as inner:
        assert inner.parent == outer
    with manager as later:
        assert later not in (outer, inner) and later.parent is None
    assert len(seen.flushed().of("end", "S")) == 3


def test_c99_left_in_another_task(seen: Seen) -> None:
    async def main() -> None:
        manager = scope.scope("S")
        await asyncio.create_task(manager.__aenter__())
        await asyncio.create_task(manager.__aexit__(None, None, None))
        assert scope.get_handle() is None

    go(main)
    assert seen.flushed().end("S").outcome == "succeeded"


OTHER_PROCESS = """
    import asyncio, json, sys
    from callweir import attach, current_call, propagation, scope, subscribers, tools
    events = []
    subscribers.register("s", events.append)

    async def main(value):
        with attach(value) as handle:
            assert scope.get_handle() == handle
            await tools.execute("far", {}, lambda args: args)
            with scope.scope("inner"):
                assert propagation()["traceparent"][3:35] == value["traceparent"][3:35]
        assert scope.get_handle() is None

    asyncio.run(main(json.loads(sys.argv[1] if len(sys.argv) > 1 else __VALUE__)))
    subscribers.flush(5)
    print(json.dumps([[e.scope_category, e.name, e.parent_uuid] for e in events]))
"""


def test_c100_a_scope_in_two_processes(seen: Seen) -> None:
    assert propagation() is None
    with scope.scope("S") as handle:
        value = propagation()
        assert value is not None
    assert len(json.dumps(value)) < 1000
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", value["traceparent"])
    shown = json.loads(clean(script(OTHER_PROCESS.replace("__VALUE__", repr(json.dumps(value))))))
    assert shown == [
        ["start", "far", handle.uuid],
        ["end", "far", handle.uuid],
        ["start", "inner", handle.uuid],
        ["end", "inner", handle.uuid],
    ]
    assert seen.flushed().end("S").outcome == "succeeded"


@pytest.mark.parametrize("broken", [None, 5, {}, [], {"traceparent": "00-zz"}, {"uuid": 7}, "text", {"traceparent": 1}])
def test_c100_a_broken_value(broken: Any) -> None:
    with pytest.raises(InvalidArgument):
        attach(broken)
    assert scope.get_handle() is None


def test_scopes_of_their_own_family_level(seen: Seen) -> None:
    asked: list[str] = []
    with scope.scope("S") as handle:
        guardrails.register_tool_conditional_execution("g", 0, lambda name, _: asked.append(name), scope=handle)
        go(lambda: call("inside"))
    go(lambda: call("outside"))
    assert asked == ["inside"]
    assert guardrails.deregister_tool_conditional_execution("g", scope=handle) is False


def test_current_call() -> None:
    noted: list[Any] = []

    @tool
    def t() -> None:
        with scope.scope("inner"):
            noted.append(current_call())

    assert current_call() is None
    go(lambda: ToolRegistry().register(t).dispatch("t", {}))
    assert noted[0].name == "t" and current_call() is None
