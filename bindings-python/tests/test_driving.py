"""Callables of every kind under every event loop, and the forms without one."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import warnings
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest
from callweir import (
    CallRejected,
    InvalidReturn,
    Tool,
    ToolRegistry,
    Verdict,
    WouldDeadlock,
    guardrails,
    intercepts,
    scope,
    subscribers,
    tool,
    tools,
)

from helpers import (
    ASYNC_KINDS,
    KINDS,
    PLAIN_KINDS,
    Seen,
    add,
    at_most,
    call,
    echo,
    go,
    heartbeat,
    made,
    run_with,
    within,
)


def bodies(ran: list[str]) -> dict[str, Callable[..., Any]]:
    """What an entry of each family does to show that it ran."""

    def note(family: str, value: Callable[..., Any]) -> Callable[..., Any]:
        def body(*args: Any) -> Any:
            ran.append(family)
            return value(*args)

        return body

    async def around(_name: str, args: Any, next: Any) -> Any:
        return {**await next({**args, "around": 1}), "after": 1}

    return {
        "tool.conditional_execution": note("tool.conditional_execution", lambda *_: None),
        "tool.request": note("tool.request", lambda _, args: {**args, "request": 1}),
        "tool.execution": note("tool.execution", around),
        "tool.sanitize_request": note("tool.sanitize_request", lambda _, args: {**args, "clean": 1}),
        "tool.sanitize_response": note("tool.sanitize_response", lambda _, result: {**result, "clean": 1}),
        "scope.sanitize_start": note("scope.sanitize_start", lambda _, fields: fields),
        "scope.sanitize_end": note("scope.sanitize_end", lambda _, fields: fields),
        "mark.sanitize": note("mark.sanitize", lambda _, fields: fields),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_c07_every_family_takes_every_kind(kind: str, backend: str, seen: Seen) -> None:
    ran: list[str] = []
    for family, body in bodies(ran).items():
        add(family, made(kind, body))

    async def main() -> Any:
        result = await call("t", {"q": 1}, made(kind, lambda args: {**args, "tool": 1}))
        scope.event("m", {"x": 1})
        assert await subscribers.flush_async(10) == 0
        return result

    assert run_with(backend, main) == {"q": 1, "request": 1, "around": 1, "tool": 1, "after": 1}
    # Sanitizers run when they get their turn, the guardrail's own scope among what they see.
    chain = ["tool.conditional_execution", "tool.request", "tool.execution"]
    assert [family for family in ran if family in chain] == chain
    assert set(ran) == set(bodies([]))
    start, end = seen.of("start", "t")[0], seen.of("end", "t")[0]
    assert start.data == {"q": 1, "request": 1, "clean": 1}
    assert end.data["clean"] == 1 and end.outcome == "succeeded"


@pytest.mark.parametrize("kind", KINDS)
def test_c07_subscribers_of_every_kind(kind: str, backend: str) -> None:
    names: list[str] = []
    subscribers.register("s", made(kind, lambda event: names.append(event.name)))

    async def main() -> None:
        for number in range(5):
            scope.event(f"m{number}")
        assert await subscribers.flush_async(10) == 0

    run_with(backend, main)
    assert names == [f"m{number}" for number in range(5)]


@pytest.mark.parametrize("kind", KINDS)
def test_c07_middleware_and_tools_of_every_kind(kind: str, backend: str) -> None:
    async def around(call: Any, next: Any) -> Any:
        return [await next(call.with_arguments({"a": call.arguments["a"] + 1}))]

    def add_one(a: int) -> int:
        return a + 1

    registry = ToolRegistry().register(Tool(made(kind, add_one), name="add", parameters={"type": "object"}))
    registry.use(made(kind, around))

    async def main() -> Any:
        return await registry.dispatch("add", {"a": 1})

    assert run_with(backend, main) == [3]


@pytest.mark.parametrize("kind", ASYNC_KINDS)
@pytest.mark.parametrize("family", ["tool.conditional_execution", "tool.request"])
def test_c07_an_awaitable_callback_outside_a_loop_is_an_error(kind: str, family: str) -> None:
    ran: list[str] = []
    add(family, made(kind, bodies(ran)[family]), "late")
    helper = tools.conditional_execution if family == "tool.conditional_execution" else tools.request_intercepts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidReturn, match="late") as caught:
            helper("t", {"q": 1})
        gc.collect()
    assert caught.value.entry == "late"
    assert caught.value.family == family
    assert not ran


@pytest.mark.parametrize("kind", PLAIN_KINDS)
def test_c07_helpers_outside_a_loop_give_values(kind: str) -> None:
    ran: list[str] = []
    for family in ("tool.conditional_execution", "tool.request"):
        add(family, made(kind, bodies(ran)[family]))
    assert tools.conditional_execution("t", {"q": 1}) is None
    assert tools.request_intercepts("t", {"q": 1}) == {"q": 1, "request": 1}
    add("tool.conditional_execution", made(kind, lambda *_: "no"), "refuses")
    with pytest.raises(CallRejected) as caught:
        tools.conditional_execution("t", {})
    assert (caught.value.reason, caught.value.by, caught.value.name) == ("no", "refuses", "t")


@pytest.mark.parametrize("kind", KINDS)
def test_c07_helpers_inside_a_loop_give_awaitables(kind: str, backend: str, seen: Seen) -> None:
    ran: list[str] = []
    add("tool.conditional_execution", made(kind, lambda _, args: "no" if args.get("bad") else None))
    add("tool.request", made(kind, bodies(ran)["tool.request"]))

    async def main() -> None:
        allowed = tools.conditional_execution("t", {})
        assert hasattr(allowed, "__await__")
        assert await allowed is None  # type: ignore[misc]
        assert await tools.request_intercepts("t", {"q": 2}) == {"q": 2, "request": 1}
        with pytest.raises(CallRejected):
            await tools.conditional_execution("t", {"bad": 1})  # type: ignore[misc]

    run_with(backend, main)
    assert not seen.flushed().of("start", "t"), "helpers make no call"
    assert len(seen.of("start", "entry")) == 2, "the guardrails of a helper emit their scopes"


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_c07_synchronous_forms(kind: str) -> None:
    assert tools.execute_sync("t", {"a": 1}, echo) == {"a": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidReturn):
            tools.execute_sync("t", {}, made(kind, echo))
        gc.collect()
    registry = ToolRegistry().register(tool(name="add")(lambda a: a + 1))
    assert registry.dispatch_sync("add", {"a": 1}) == 2

    async def main() -> None:
        with pytest.raises(WouldDeadlock, match="await"):
            tools.execute_sync("t", {}, echo)
        with pytest.raises(WouldDeadlock, match="await"):
            registry.dispatch_sync("add", {"a": 1})

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go(main)


def test_a_synchronous_intercept_may_return_what_next_gave(backend: str) -> None:
    intercepts.register_tool_execution("pass", 0, lambda name, args, next: next(args))
    assert run_with(backend, lambda: call("t", {"a": 1})) == {"a": 1}


def test_verdicts() -> None:
    guardrails.register_tool_conditional_execution(
        "v", 0, lambda _, args: Verdict.reject("") if args["no"] else Verdict.allow()
    )
    assert go(lambda: call("t", {"no": False})) == {"no": False}
    with pytest.raises(CallRejected) as caught:
        go(lambda: call("t", {"no": True}))
    assert caught.value.reason == "", "an empty reason rejects all the same"


def test_a_call_that_is_not_awaited_never_happened(seen: Seen) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        awaitable = tools.execute("t", {}, echo)
        del awaitable
        gc.collect()
    assert not seen.flushed()


def test_an_awaitable_is_a_coroutine_and_is_used_once() -> None:
    async def main() -> None:
        awaitable = tools.execute("t", {"a": 1}, echo)
        assert inspect.isawaitable(awaitable) and asyncio.iscoroutine(awaitable)
        assert await awaitable == {"a": 1}
        with pytest.raises(RuntimeError, match="reuse"):
            await awaitable
        # What tasks, gather and wait_for accept.
        assert await asyncio.create_task(tools.execute("t", 1, echo)) == 1
        assert await asyncio.gather(*(tools.execute("t", n, echo) for n in range(3))) == [0, 1, 2]
        assert await asyncio.wait_for(tools.execute("t", 2, echo), 5) == 2
        assert asyncio.get_running_loop().create_task(tools.execute("t", 3, echo), context=copy_context()).cancel()

    go(main)
    assert asyncio.run(tools.execute("t", 4, echo)) == 4


def test_next_may_be_called_concurrently(backend: str, seen: Seen) -> None:
    async def both(_name: str, args: Any, next: Any) -> Any:
        import anyio

        results: list[Any] = []

        async def one(number: int) -> None:
            results.append(await next({"n": number}))

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(one, number)
        return sorted(results)

    async def work(args: Any) -> int:
        import anyio

        await anyio.sleep(0.001 * args["n"])
        return int(args["n"])

    pytest.importorskip("anyio")
    intercepts.register_tool_execution("both", 0, both)
    assert run_with(backend, lambda: call("t", {}, work)) == [0, 1, 2]
    assert seen.flushed().end("t").outcome == "succeeded"


def test_c34_waiting_does_not_block_the_loop() -> None:
    async def slow(_name: str, _args: Any) -> None:
        await asyncio.sleep(0.2)

    guardrails.register_tool_conditional_execution("slow", 0, slow)
    release = threading.Event()
    subscribers.register("held", lambda _: release.wait(10))

    async def main() -> float:
        beats = [0.0]
        beating = asyncio.create_task(heartbeat(beats))
        flushing = asyncio.create_task(subscribers.flush_async(0.3))  # type: ignore[arg-type]
        await asyncio.gather(*(call("t", {"n": n}) for n in range(100)))
        await flushing
        beating.cancel()
        release.set()
        assert await subscribers.flush_async(10) == 0
        return beats[0]

    assert go(main) < 0.1


def test_c34_a_large_payload_does_not_block_the_loop(seen: Seen) -> None:
    big = {"text": "x" * 5_000_000}
    intercepts.register_tool_request("keep", 0, False, lambda _, args: args)

    async def main() -> float:
        beats = [0.0]
        beating = asyncio.create_task(heartbeat(beats))
        for _ in range(3):
            assert (await call("t", big))["text"] is big["text"]
            await asyncio.sleep(0.02)
        assert await subscribers.flush_async(10) == 0
        beating.cancel()
        return beats[0]

    assert go(main) < 0.25


def test_many_loops_and_threads_at_once(seen: Seen) -> None:
    async def slow(_name: str, args: Any, next: Any) -> Any:
        await asyncio.sleep(0)
        return await next(args)

    intercepts.register_tool_execution("slow", 0, slow)
    wrong: list[BaseException] = []

    def thread(number: int) -> None:
        async def main() -> None:
            for one in range(20):
                assert await call(f"t{number}", one) == one

        try:
            asyncio.run(within(main()))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(6)]
    with at_most(15):
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert not wrong
    assert len(seen.flushed().of("end")) == 120
