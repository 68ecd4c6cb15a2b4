"""Cancelling: tasks, tokens and time limits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import callweir
import pytest
from callweir import (
    CallRejected,
    Cancellation,
    Cancelled,
    Denied,
    TimedOut,
    ToolCallDenied,
    ToolContext,
    ToolRegistry,
    guardrails,
    intercepts,
    subscribers,
    tool,
    tools,
)

from helpers import Seen, at_most, call, clean, echo, go, heartbeat, made, run_with, script

STAGES = ["guardrail", "request", "execution", "middleware", "tool"]


class Path:
    """A registry and chain in which one stage waits for ever."""

    def __init__(self, stage: str, kind: str = "async") -> None:
        self.stage = stage
        self.reached: list[str] = []
        self.cleaned: list[str] = []
        guardrails.register_tool_conditional_execution("g", 0, made(kind, self.gate))
        intercepts.register_tool_request("r", 0, False, made(kind, self.request))
        intercepts.register_tool_execution("e", 0, made(kind, self.execution))

        @tool(parameters={"type": "object"})
        async def t() -> int:
            await self.at("tool")
            return 1

        self.registry = ToolRegistry().register(t).use(made(kind, self.middleware))

    async def at(self, stage: str) -> None:
        import anyio

        self.reached.append(stage)
        if stage != self.stage:
            return
        try:
            await anyio.sleep(30)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.005)
            self.cleaned.append(stage)

    async def gate(self, _name: str, _args: Any) -> None:
        await self.at("guardrail")

    async def request(self, _name: str, args: Any) -> Any:
        await self.at("request")
        return args

    async def around(self, stage: str, argument: Any, next: Any) -> Any:
        import anyio

        await self.at(stage)
        try:
            return await next(argument)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.005)
            if self.stage != stage:
                self.cleaned.append(stage)

    async def execution(self, _name: str, args: Any, next: Any) -> Any:
        return await self.around("execution", args, next)

    async def middleware(self, one: Any, next: Any) -> Any:
        return await self.around("middleware", one, next)

    def check(self, seen: Seen, count: int = 1) -> None:
        seen.flushed()
        assert set(self.reached) == set(STAGES[: STAGES.index(self.stage) + 1]), "later stages do not start"
        order = [
            stage for stage in ("tool", "middleware", "execution", "request", "guardrail") if stage in self.cleaned
        ]
        assert self.stage in self.cleaned
        if count == 1:
            assert self.cleaned == order, "clean-up runs from the inside out"
        ends = seen.of("end", "t")
        inside = self.stage in ("execution", "middleware", "tool")
        assert [end.outcome for end in ends] == (["cancelled"] * count if inside else [])
        guarded = [end.outcome for end in seen.of("end", "g")]
        assert guarded == ["cancelled" if self.stage == "guardrail" else "succeeded"] * count


@pytest.mark.parametrize("kind", ["async", "awaitable", "async_method"])
@pytest.mark.parametrize("stage", STAGES)
def test_c30_the_task_is_cancelled(stage: str, kind: str, backend: str, seen: Seen) -> None:
    anyio = pytest.importorskip("anyio")
    path = Path(stage, kind)
    got: list[BaseException] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def one() -> None:
                try:
                    await path.registry.dispatch("t", {})
                except BaseException as error:
                    got.append(error)
                    assert path.cleaned and path.cleaned[0] == stage
                    raise

            group.start_soon(one)
            while stage not in path.reached:
                await anyio.sleep(0.001)
            await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    with at_most(5):
        run_with(backend, main)
    assert type(got[0]).__name__ in ("CancelledError", "Cancelled") and not isinstance(got[0], callweir.Error)
    path.check(seen)


@pytest.mark.parametrize("stage", STAGES)
def test_c30_fifty_at_once_and_a_slow_subscriber(stage: str, seen: Seen) -> None:
    release = threading.Event()
    subscribers.register("slow", lambda _: release.wait(10))
    path = Path(stage)

    async def main() -> None:
        running = [asyncio.create_task(path.registry.dispatch("t", {})) for _ in range(50)]
        while path.reached.count(stage) < 50:
            await asyncio.sleep(0.001)
        with at_most(1):
            for task in running:
                task.cancel("why")
            results = await asyncio.gather(*running, return_exceptions=True)
        assert all(type(result) is asyncio.CancelledError for result in results)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    try:
        go(main)
    finally:
        release.set()
    path.check(seen, 50)


def test_c30_the_message_of_the_cancellation_is_kept() -> None:
    async def wait(_args: Any) -> None:
        await asyncio.sleep(30)

    async def main() -> None:
        task = asyncio.create_task(call("t", {}, wait))
        await asyncio.sleep(0.01)
        task.cancel("why")
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert caught.value.args == ("why",)
        assert task.cancelled()

    go(main)


# Not under trio, where a token is heard when the callback's own wait ends.
@pytest.mark.parametrize("backend", ["asyncio", "uvloop"])
@pytest.mark.parametrize("stage", STAGES)
def test_c30_a_token_fires(stage: str, backend: str, seen: Seen) -> None:
    anyio = pytest.importorskip("anyio")
    path = Path(stage)
    token = Cancellation()

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def one() -> None:
                with pytest.raises(Cancelled):
                    await path.registry.dispatch("t", {}, ToolContext(cancellation=token))
                released.append(time.perf_counter())

            released: list[float] = []
            group.start_soon(one)
            while stage not in path.reached:
                await anyio.sleep(0.001)
            await anyio.sleep(0.01)
            threading.Thread(target=token.cancel).start()
            while not released:
                await anyio.sleep(0.001)
            with anyio.fail_after(2):
                while stage not in path.cleaned:
                    await anyio.sleep(0.001)

    with at_most(5):
        run_with(backend, main)
    path.cleaned.sort(key=["tool", "middleware", "execution", "request", "guardrail"].index)
    path.check(seen)


def test_c30_what_counts_as_cancelled(seen: Seen) -> None:
    token = Cancellation()

    def ended(how: str) -> Any:
        async def work(_args: Any) -> Any:
            token_now.cancel()
            if how == "result":
                return 5
            raise {"error": ValueError("late"), "denial": ToolCallDenied("t", "no")}[how]

        token_now = Cancellation()
        return go(lambda: call(how, {}, work, cancellation=token_now))

    assert ended("result") == 5
    assert seen.flushed().end("result").outcome == "succeeded"
    with pytest.raises(ToolCallDenied):
        ended("denial")
    assert seen.flushed().end("denial").outcome == "refused"
    with pytest.raises(Cancelled) as caught:
        ended("error")
    assert isinstance(caught.value.__cause__, ValueError)
    assert seen.flushed().end("error").outcome == "cancelled"
    assert not token.cancelled


def test_c30_a_tool_that_catches_the_cancellation_has_succeeded(backend: str, seen: Seen) -> None:
    anyio = pytest.importorskip("anyio")
    results: list[Any] = []

    async def stubborn(_args: Any) -> str:
        try:
            await anyio.sleep(30)
        except anyio.get_cancelled_exc_class():
            pass
        return "done"

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def one() -> None:
                results.append(await call("t", {}, stubborn))

            group.start_soon(one)
            await anyio.sleep(0.02)
            group.cancel_scope.cancel()

    run_with(backend, main)
    assert results == ["done"]
    assert seen.flushed().end("t").outcome == "succeeded"


def test_c30_a_child_token() -> None:
    parent = Cancellation()
    child = parent.child()
    child.cancel()
    assert child.cancelled and not parent.cancelled
    other = parent.child()
    parent.cancel()
    assert other.cancelled and parent.child().cancelled


@pytest.mark.parametrize("when", ["at once", "cancelled", "finished"])
def test_c03_the_loop_closes_while_a_call_unwinds(when: str, seen: Seen) -> None:
    guardrails.register_tool_conditional_execution("g", 0, made("async", lambda *_: None))

    async def work(args: Any) -> Any:
        await asyncio.sleep(0.02 if when != "finished" else 0.001)
        return args

    def one(number: int) -> None:
        async def main() -> None:
            task = asyncio.create_task(call(f"t{number}", number, work))
            if when == "at once":
                await asyncio.sleep(0)
            elif when == "cancelled":
                await asyncio.sleep(0.001 * (number % 20))
                task.cancel()
            else:
                await asyncio.sleep(0.001 * (number % 3))

        asyncio.run(main())

    with at_most(20):
        for number in range(200 if when != "cancelled" else 100):
            one(number)
    starts, ends = seen.flushed().of("start"), seen.of("end")
    assert sorted(start.uuid for start in starts) == sorted(end.uuid for end in ends)
    outcomes = {end.outcome for end in ends if end.category == "tool"}
    assert outcomes <= ({"cancelled", "succeeded"} if when == "finished" else {"cancelled"})
    assert go(lambda: call("later", 1)) == 1


def test_c03_in_a_process_of_its_own() -> None:
    clean(
        script(
            """
        import asyncio
        from callweir import ToolRegistry, tool, tools, guardrails
        @tool
        def sync_tool() -> int:
            import time; time.sleep(0.02); return 1
        registry = ToolRegistry().register(sync_tool)
        async def work(args): await asyncio.sleep(0.02)
        async def gate(name, args): await asyncio.sleep(0.001)
        guardrails.register_tool_conditional_execution("g", 0, gate)
        async def main(n):
            task = asyncio.create_task(tools.execute("t", {}, work))
            other = asyncio.create_task(registry.dispatch("sync_tool", {}))
            await asyncio.sleep(0.001 * (n % 20))
            if n % 2: task.cancel()
        for n in range(60): asyncio.run(main(n))
    """,
            "-X",
            "dev",
        )
    )


def test_c35_calling_next_twice(seen: Seen) -> None:
    ran: list[Any] = []

    async def twice(_name: str, args: Any, next: Any) -> Any:
        await next(args)
        return await next(args)

    async def work(args: Any) -> int:
        ran.append(args)
        await asyncio.sleep(0 if args else 30)
        return len(ran)

    intercepts.register_tool_execution("twice", 0, twice)
    assert go(lambda: call("b", 1, work)) == 2
    assert len(ran) == 2 and seen.flushed().end("b").outcome == "succeeded"

    async def cancelled() -> None:
        task = asyncio.create_task(call("c", 0, work))
        while len(ran) < 3:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    go(cancelled)
    assert len(ran) == 3 and seen.flushed().end("c").outcome == "cancelled"


def test_c36_a_token_that_has_fired(seen: Seen, backend: str) -> None:
    ran: list[str] = []

    class Middleware:
        def __call__(self, one: Any, next: Any) -> Any:
            ran.append("middleware")
            return next(one)

        def on_refused(self, one: Any, refusal: Any) -> None:
            ran.append("refused")

    guardrails.register_tool_conditional_execution("g", 0, lambda *_: ran.append("g"))
    intercepts.register_tool_request("r", 0, False, lambda name, args: ran.append("r"))
    token = Cancellation()
    token.cancel()
    registry = ToolRegistry().register(tool(name="t")(lambda: ran.append("tool"))).use(Middleware())
    context = ToolContext(cancellation=token)

    async def main() -> None:
        with pytest.raises(Cancelled):
            await call("t", {}, ran.append, cancellation=token)
        for name in ("t", "unknown"):
            with pytest.raises(Cancelled):
                await registry.dispatch(name, {}, context)
            with pytest.raises(Cancelled):
                await registry.dispatch_json(name, "{}", context)

    run_with(backend, main)
    with pytest.raises(Cancelled):
        registry.dispatch_sync("t", {}, context)
    with pytest.raises(Cancelled):
        tools.execute_sync("t", {}, echo, cancellation=token)
    assert not ran and not seen.flushed()


def test_c36_a_deadline_that_has_passed(seen: Seen) -> None:
    ran: list[Any] = []
    registry = ToolRegistry().register(tool(name="t")(lambda: ran.append(1)))
    with pytest.raises(TimedOut):
        go(lambda: registry.dispatch("t", {}, ToolContext(deadline=0)))
    assert not ran


def test_c38_a_hung_guardrail(backend: str, seen: Seen) -> None:
    anyio = pytest.importorskip("anyio")
    asked: list[Any] = []
    ran: list[Any] = []
    late = anyio.Event if backend == "trio" else asyncio.Event
    release: list[Any] = []

    async def gate(_name: str, args: Any) -> None:
        asked.append(args)
        if args == 1:
            with contextlib.suppress(BaseException):
                await release[0].wait()
            return

    guardrails.register_tool_conditional_execution("g", 0, gate)

    async def main() -> None:
        release.append(late())
        with anyio.move_on_after(0.05) as moved:
            await call("t", 1, ran.append)
        assert moved.cancelled_caught or moved.cancel_called
        await call("t", 2, ran.append)
        release[0].set()
        await anyio.sleep(0.01)

    run_with(backend, main)
    assert asked == [1, 2] and 2 in ran
    assert seen.flushed().of("end", "t")[-1].outcome == "succeeded"


async def limit(one: Any, next: Any) -> Any:
    """A time limit as a program would write it."""
    try:
        async with asyncio.timeout(0.2):
            return await next(one)
    except TimeoutError as error:
        raise TimedOut from error


def test_c31_a_time_limit_around_synchronous_tools(seen: Seen) -> None:
    release, ended = threading.Event(), []

    @tool
    def slow() -> int:
        release.wait(10)
        ended.append(1)
        return 1

    @tool
    def quick() -> int:
        return 1

    registry = ToolRegistry().register(slow, quick).use(limit)

    async def main() -> None:
        beats = [0.0]
        beating = asyncio.create_task(heartbeat(beats))
        with at_most(1.5):
            results = await asyncio.gather(*(registry.dispatch("slow", {}) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(result, TimedOut) for result in results), results
        with at_most(1):
            assert await asyncio.gather(*(registry.dispatch("quick", {}) for _ in range(5))) == [1] * 5
        beating.cancel()
        assert beats[0] < 0.2

    before = callweir._pool.abandoned()
    go(main)
    events = len(seen.flushed())
    assert [end.outcome for end in seen.of("end", "slow")] == ["failed"] * 20
    assert {end.metadata["error.type"] for end in seen.of("end", "slow")} == {"timed_out"}
    release.set()
    deadline = time.perf_counter() + 5
    while len(ended) < 20 or callweir._pool.abandoned() < before + 20:
        assert time.perf_counter() < deadline
        time.sleep(0.005)
    assert len(seen.flushed()) == events, "a late result adds no event"


def test_c31_a_limit_around_each_kind_of_tool(seen: Seen) -> None:
    async def wait() -> None:
        await asyncio.sleep(30)

    for kind in ("async", "awaitable", "async_object", "async_partial"):
        registry = ToolRegistry().use(limit)
        registry.register(callweir.Tool(made(kind, wait), name=kind, parameters={"type": "object"}))
        with pytest.raises(TimedOut), at_most(3):
            go(lambda: registry.dispatch(kind, {}))
        assert seen.flushed().end(kind).outcome == "failed"


def test_c31_a_deadline_ends_a_synchronous_tool(seen: Seen) -> None:
    release = threading.Event()
    registry = ToolRegistry().register(tool(name="slow")(lambda: release.wait(10)))
    with at_most(3), pytest.raises(TimedOut):
        go(lambda: registry.dispatch("slow", {}, ToolContext(deadline=0.1)))
    release.set()
    assert seen.flushed().end("slow").metadata["error.type"] == "timed_out"


def test_c31_a_sleeping_tool_does_not_hold_up_the_end() -> None:
    with at_most(10):
        done = script("""
            import asyncio, time
            from callweir import ToolRegistry, tool
            @tool
            def sleeps() -> None: time.sleep(60)
            async def main():
                task = asyncio.create_task(ToolRegistry().register(sleeps).dispatch("sleeps", {}))
                await asyncio.sleep(0.05)
                task.cancel()
            asyncio.run(main())
            print("end")
        """)
    assert clean(done) == "end\n"


def test_a_denial_that_came_first_stays(seen: Seen) -> None:
    async def slow(_name: str, _args: Any) -> str:
        return "no"

    guardrails.register_tool_conditional_execution("g", 0, slow)
    token = Cancellation()

    async def main() -> None:
        with pytest.raises(CallRejected) as caught:
            await call("t", {}, cancellation=token)
        token.cancel()
        assert isinstance(caught.value, Denied)

    go(main)
