"""Failures: whose object arrives, what each family's failure does, what events and models get to know."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import callweir
import pytest
from callweir import (
    CallRejected,
    Denied,
    Expired,
    InvalidReturn,
    Runtime,
    TimedOut,
    ToolCallDenied,
    ToolCallFailed,
    ToolNotFound,
    ToolNotPermitted,
    ToolRegistry,
    for_model,
    guardrails,
    intercepts,
    scope,
    subscribers,
    tool,
    tools,
)

from helpers import KINDS, Seen, add, call, echo, flushed, go, made, pause, run_with


class Quota(Exception):
    def __init__(self, code: int, *, request_id: str) -> None:
        super().__init__(f"quota {code}")
        self.code = code
        self.request_id = request_id


class Slotted(Exception):
    __slots__ = ()


def quota() -> Exception:
    error = Quota(429, request_id="r1")
    error.__cause__ = KeyError("cause")
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "own": quota,
    "builtin": lambda: ValueError("x"),
    "slotted": Slotted,
    "group": lambda: ExceptionGroup("g", [ValueError(1)]),
    "stop": lambda: StopAsyncIteration(1),
    "timeout": lambda: TimeoutError(),
    "os": lambda: FileNotFoundError(2, "no"),
    "callweir": lambda: ToolCallFailed("other", "Kind"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_c15_the_caller_gets_the_tool_s_exception(kind: str, depth: int, backend: str) -> None:
    error = quota()
    cause, passed = error.__cause__, []

    def the_tool_s_frame(_args: Any) -> None:
        raise error

    async def around(_name: str, args: Any, next: Any) -> Any:
        try:
            return await next(args)
        except Quota as caught:
            passed.append(caught)
            raise

    for number in range(depth):
        intercepts.register_tool_execution(f"e{number}", 0, around)
    with pytest.raises(Quota) as caught:
        run_with(backend, lambda: call("t", {}, made(kind, the_tool_s_frame)))
    assert caught.value is error and error.request_id == "r1"  # type: ignore[attr-defined]
    assert error.__cause__ is cause
    assert all(one is error for one in passed) and len(passed) == depth
    assert "the_tool_s_frame" in "".join(traceback.format_tb(error.__traceback__))
    (note,) = error.__notes__
    assert "func" in note and "'t'" in note


@pytest.mark.parametrize("what", ERRORS)
@pytest.mark.parametrize("where", ["guardrail", "request", "before", "after", "middleware", "registry", "pool"])
def test_c15_from_every_stage(what: str, where: str) -> None:
    error = ERRORS[what]()

    def fail(*_: Any) -> None:
        raise error

    async def around(_name: Any, *rest: Any) -> Any:
        *_, next = rest
        if where == "after":
            await next(_name if len(rest) == 1 else rest[0])
        raise error

    if where == "guardrail":
        add("tool.conditional_execution", fail)
    elif where == "request":
        add("tool.request", fail)
    elif where in ("before", "after"):
        add("tool.execution", around)
    registry = ToolRegistry()

    @tool(blocking=where == "pool")
    def t() -> int:
        if where in ("registry", "pool"):
            raise error
        return 1

    registry.register(t)
    if where == "middleware":
        registry.use(around)
    with pytest.raises(BaseException) as caught:
        go(lambda: registry.dispatch("t", {}))
    assert caught.value is error


def test_c15_the_note_names_the_stage_that_raised() -> None:
    async def outer(_name: str, args: Any, next: Any) -> Any:
        return await next(args)

    def inner(_name: str, _args: Any, _next: Any) -> Any:
        raise ValueError("x")

    intercepts.register_tool_execution("outer", 0, outer)
    intercepts.register_tool_execution("inner", 1, inner)
    with pytest.raises(ValueError) as caught:
        go(lambda: call("t"))
    assert caught.value.__notes__ == ["callweir: raised in tool.execution 'inner'"]


def test_c15_a_replaced_exception_keeps_its_context() -> None:
    async def around(_name: str, args: Any, next: Any) -> Any:
        try:
            return await next(args)
        except ValueError as error:
            raise KeyError("new") from error

    def fail(_args: Any) -> None:
        raise ValueError("old")

    intercepts.register_tool_execution("e", 0, around)
    with pytest.raises(KeyError) as caught:
        go(lambda: call("t", {}, fail))
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("error_text", [False, True])
def test_c16_error_text_stays_out_of_events_and_logs(error_text: bool, caplog: pytest.LogCaptureFixture) -> None:
    runtime, events = Runtime(error_text=error_text), []
    runtime.subscribe("s", events.append)

    def fail(*_: Any) -> None:
        raise ValueError("card 5500-0000-1111")

    runtime.subscribe("fails", fail)
    with caplog.at_level(logging.DEBUG), pytest.raises(ValueError, match="card 5500-0000-1111"):
        go(lambda: runtime.execute("t", {}, fail))
    assert runtime.flush(5) == 0
    (end,) = [event for event in events if event.scope_category == "end"]
    assert end.outcome == "failed" and end.metadata["error.type"] == "ValueError"
    assert ("5500" in end.to_json()) is error_text
    assert "5500" not in caplog.text and "ValueError" in caplog.text
    assert runtime.counts()["failures"] == 2
    runtime.shutdown(5)


@pytest.mark.parametrize("control", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("kind", ["plain", "async", "object"])
def test_c16_process_control_passes_through(control: BaseException, kind: str, seen: Seen) -> None:
    def fail(_args: Any) -> None:
        raise control

    async def main() -> None:
        try:
            await call("t", {}, made(kind, fail))
        except BaseException as error:
            assert error is control
        else:
            raise AssertionError

    go(main)
    end = seen.flushed().end("t")
    assert end.outcome == "cancelled"


def test_c16_exit_from_a_tool_ends_the_program() -> None:
    from helpers import script

    done = script("""
        import asyncio, sys
        from callweir import tools
        async def work(args): sys.exit(3)
        asyncio.run(tools.execute("t", {}, work))
    """)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable", "async_method"])
@pytest.mark.parametrize("family", ["tool.conditional_execution", "tool.request"])
def test_c20_before_the_work(kind: str, family: str, seen: Seen) -> None:
    error, ran = ValueError("no"), []

    def fail(*_: Any) -> None:
        raise error

    add(family, made(kind, fail))
    with pytest.raises(ValueError) as caught:
        go(lambda: call("t", {}, ran.append))
    assert caught.value is error and not ran
    seen.flushed()
    if family == "tool.request":
        assert not seen
    else:
        assert seen.shown() == [("start", "entry"), ("end", "entry")]
        assert seen[1].data["error"] == "ValueError" and seen[1].outcome == "failed"


@pytest.mark.parametrize("after", [False, True])
def test_c20_execution_intercepts(after: bool, seen: Seen) -> None:
    ran: list[Any] = []

    async def around(_name: str, args: Any, next: Any) -> Any:
        if after:
            await next(args)
        raise ValueError("no")

    add("tool.execution", around)
    with pytest.raises(ValueError):
        go(lambda: call("t", 1, ran.append))
    assert ran == ([1] if after else [])
    end = seen.flushed().end("t")
    assert (end.outcome, end.metadata["error.type"], end.metadata["otel.status_code"]) == (
        "failed",
        "ValueError",
        "ERROR",
    )


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable", "object"])
@pytest.mark.parametrize("family", ["tool.sanitize_request", "tool.sanitize_response"])
def test_c20_payload_sanitizers(kind: str, family: str, seen: Seen) -> None:
    later: list[Any] = []

    def fail(*_: Any) -> None:
        raise ValueError("no")

    def also(_name: str, value: Any) -> Any:
        later.append(value)
        return value

    add(family, made(kind, fail), "a")
    add(family, also, "b")
    assert flushed(lambda: call("t", {"s": 1})) == {"s": 1}
    end, start = seen.flushed().end("t"), seen.of("start", "t")[0]
    broken, whole = (start, end) if family == "tool.sanitize_request" else (end, start)
    assert broken.data is None and broken.metadata["callweir.payload"] == "withheld"
    assert whole.data == {"s": 1} and not later
    assert end.outcome == "succeeded"


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable", "object"])
@pytest.mark.parametrize("family", ["scope.sanitize_start", "scope.sanitize_end", "mark.sanitize"])
def test_c20_event_sanitizers(kind: str, family: str, seen: Seen) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no")

    add(family, made(kind, fail))

    async def main() -> None:
        assert await call("t", {"s": 1}, metadata={"m": 1}) == {"s": 1}
        scope.event("m", {"s": 1}, {"m": 1})

    flushed(main)
    seen.flushed()
    broken = {"scope.sanitize_start": "start", "scope.sanitize_end": "end", "mark.sanitize": None}[family]
    for event in seen:
        if event.scope_category == broken:
            assert event.data is None and event.category_profile is None and "m" not in event.metadata
            assert event.metadata["callweir.payload"] == "withheld"
        else:
            assert event.data == {"s": 1}
    assert seen.end("t").outcome == "succeeded"


@pytest.mark.parametrize("kind", KINDS)
def test_c20_subscribers(kind: str, seen: Seen) -> None:
    before = Runtime.default().counts()["failures"]

    def fail(_event: Any) -> None:
        raise ValueError("no")

    subscribers.register("fails", made(kind, fail))

    async def main() -> None:
        for _ in range(3):
            assert await call("t", 1) == 1
        assert await subscribers.flush_async(10) == 0

    go(main)
    assert len(seen.flushed()) == 6
    assert Runtime.default().counts()["failures"] == before + 6


@pytest.mark.parametrize("backend_again", [False, True])
def test_c72_next_after_the_call(backend_again: bool, seen: Seen) -> None:
    kept: list[Any] = []
    ran: list[Any] = []

    async def around(_name: str, args: Any, next: Any) -> Any:
        kept.append(next)
        return await next(args) if backend_again else 0

    async def middleware(one: Any, next: Any) -> Any:
        kept.append(lambda _: next(one))
        return await next(one)

    intercepts.register_tool_execution("e", 0, around)

    async def main() -> None:
        await call("t", {}, ran.append)
        await ToolRegistry().register(tool(name="r")(lambda: ran.append(1))).use(middleware).dispatch("r", {})
        assert await subscribers.flush_async(5) == 0
        before = (len(ran), len(seen))
        for next in kept:
            with pytest.raises(Expired):
                await next({})
        assert await subscribers.flush_async(5) == 0
        assert before == (len(ran), len(seen))

    go(main)


@pytest.mark.parametrize("wrong", [True, False, 0, 1, b"no", [], {}, object(), ("no",), 1.5])
@pytest.mark.parametrize("kind", ["plain", "async", "awaitable"])
def test_c80_a_verdict_that_is_none(wrong: Any, kind: str, seen: Seen) -> None:
    ran: list[Any] = []
    add("tool.conditional_execution", made(kind, lambda *_: wrong))
    with pytest.raises(InvalidReturn) as caught:
        go(lambda: call("t", {}, ran.append))
    assert not isinstance(caught.value, Denied)
    assert (caught.value.family, caught.value.entry) == ("tool.conditional_execution", "entry")
    assert not ran and not seen.flushed().of("start", "t")


@pytest.mark.parametrize("kind", KINDS)
def test_c80_an_intercept_that_returns_nothing(kind: str, seen: Seen) -> None:
    ran: list[Any] = []

    def edit(_name: str, args: Any) -> None:
        args["edited"] = 1

    add("tool.request", made(kind, edit))
    arguments = {"a": 1}
    with pytest.raises(InvalidReturn) as caught:
        go(lambda: call("t", arguments, ran.append))
    assert (caught.value.family, caught.value.entry) == ("tool.request", "entry")
    assert not ran and not seen.flushed() and arguments == {"a": 1}


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable"])
def test_c80_sanitizers_and_execution_intercepts_that_return_nothing(kind: str, seen: Seen) -> None:
    later: list[Any] = []
    nothing = made(kind, lambda *_: None)
    add("tool.sanitize_response", nothing, "a")
    add("tool.sanitize_response", lambda name, value: later.append(value), "b")
    assert flushed(lambda: call("one", {"a": 1})) == {"a": 1}
    end = seen.flushed().end("one")
    assert end.data is None and end.metadata["callweir.payload"] == "omitted" and not later

    add("scope.sanitize_end", nothing)
    assert flushed(lambda: call("two", {"a": 1}, metadata={"m": 1})) == {"a": 1}
    end = seen.flushed().end("two")
    assert end.data is None and end.category_profile is None
    assert end.metadata["callweir.outcome"] == "succeeded" and "m" not in end.metadata

    add("tool.execution", nothing)
    assert flushed(lambda: call("three", {"a": 1})) is None
    end = seen.flushed().end("three")
    assert end.outcome == "succeeded" and end.metadata["callweir.short_circuited"] is True


def test_c81_the_text_that_a_model_gets() -> None:
    def deny(one: Any, next: Any) -> Any:
        if one.name == "limited":
            raise ToolCallDenied(one.name, "over limit")
        return next(one)

    @tool
    def limited() -> None: ...

    @tool
    def fails() -> None:
        raise ValueError("card 5500")

    @tool
    def pay() -> None: ...

    registry = ToolRegistry().register(limited, fails, pay).use(deny)
    subset = registry.subset(["limited", "fails"])
    expected = {
        "limited": '{"error":"denied: over limit"}',
        "nope": '{"error":"not found: nope"}',
        "pay": '{"error":"not permitted: pay"}',
        "fails": '{"error":"failed: ValueError"}',
    }
    for name, text in expected.items():
        with pytest.raises(Exception) as caught:
            go(lambda: subset.dispatch(name, {}))
        assert for_model(caught.value) == text
        if isinstance(caught.value, callweir.Error):
            assert caught.value.for_model() == text
    guardrails.register_tool_conditional_execution("g", 0, lambda *_: 'say "no"\n')
    with pytest.raises(CallRejected) as rejected:
        go(lambda: call("t"))
    assert json.loads(for_model(rejected.value)) == {"error": 'denied: say "no"\n'}
    assert for_model(Quota(1, request_id="secret")) == '{"error":"failed: Quota"}'
    assert "secret" not in for_model(KeyboardInterrupt("secret"))


def test_errors_form_one_table() -> None:
    for name, kind in callweir.errors.BY_NAME.items():
        assert getattr(callweir, name) is kind and issubclass(kind, callweir.Error)
    assert issubclass(ToolCallDenied, Denied) and issubclass(CallRejected, Denied)
    assert issubclass(ToolNotPermitted, ToolNotFound)
    assert issubclass(TimedOut, ToolCallFailed) and issubclass(TimedOut, TimeoutError)
    denied = ToolCallDenied("pay", "over limit", code="rate_limited")
    assert (denied.tool, denied.reason, denied.code) == ("pay", "over limit", "rate_limited")
    assert ToolCallDenied("pay", "x").code == "denied" and ToolNotFound("t").code == "tool_not_found"
    again = pickle.loads(pickle.dumps(denied))
    assert (type(again), str(again), again.tool, again.reason, again.code) == (
        ToolCallDenied,
        str(denied),
        "pay",
        "over limit",
        "rate_limited",
    )
    assert "over limit" in str(denied)


def test_a_denial_made_by_the_program_is_refused(seen: Seen) -> None:
    class Mine(ToolCallDenied):
        pass

    def deny(_name: str, _args: Any, _next: Any) -> None:
        raise Mine("t", "mine", code="own")

    add("tool.execution", deny)
    with pytest.raises(Mine) as caught:
        go(lambda: call("t"))
    assert caught.value.code == "own"
    end = seen.flushed().end("t")
    assert (end.outcome, end.metadata["error.type"]) == ("refused", "denied")


def test_an_error_in_the_arguments_of_a_function() -> None:
    with pytest.raises(TypeError):
        tools.execute("t", {}, 5)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        guardrails.register_tool_conditional_execution("g", 0, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        subscribers.register("s", None)  # type: ignore[arg-type]
    with pytest.raises((TypeError, OverflowError)):
        guardrails.register_tool_conditional_execution("g", 2**40, echo)
    with pytest.raises(callweir.InvalidArgument):
        Runtime.default().register("tool.nothing", "g", echo)
    with pytest.raises(callweir.InvalidArgument):
        scope.push("s", "planet")
    assert not callweir.registrations()

    async def takes_two(_name: str) -> None:
        await pause()

    guardrails.register_tool_conditional_execution("g", 0, takes_two)
    with pytest.raises(TypeError, match="positional"):
        go(lambda: call("t"))
