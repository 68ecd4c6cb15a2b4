"""Behaviours as the callbacks that the Python door takes, plain or asynchronous."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction
from typing import Any

import callweir

from .behaviour import End, Frame, Ops
from .forms import error_form
from .world import Broken, World

Answer = Callable[[End], Any]

_WAITING_OPS = ("next", "swallow", "sleep")
_WAITING_STEPS = ("execute", "dispatch", "direct", "alone", "guardrails", "requests", "use_next", "shutdown", "flush")


def waits(op: Any) -> bool:
    """Says whether an operation has to be awaited."""
    name = op if isinstance(op, str) else next(iter(op))
    if name == "step":
        return any(action in _WAITING_STEPS for action in op["step"])
    return name in _WAITING_OPS


def finish(running: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that never waits to its end, as part of a plain function."""
    try:
        running.send(None)
    except StopIteration as done:
        return done.value
    running.close()
    raise Broken("a plain function had to wait")


def function(world: World, ops: Ops, make: Callable[..., Frame], answer: Answer) -> Callable[..., Any]:
    """Makes the function that runs `ops` in the frame that `make` gives, and returns what `answer` makes of the end.

    It is asynchronous unless the style says otherwise. A plain one may end with `next`: it returns the awaitable.
    """
    tail = ops[-1:] == ["next"]
    head = ops[:-1] if tail else ops
    if not world.sync or any(waits(op) for op in head):

        async def waiting(*args: Any, **kwargs: Any) -> Any:
            return answer(await make(*args, **kwargs).run(ops))

        return waiting

    def plain(*args: Any, **kwargs: Any) -> Any:
        frame = make(*args, **kwargs)
        end = finish(frame.run(head))
        return frame.start_next() if tail and end.how == "value" else answer(end)

    return plain


def handler(world: World, family: str, name: str, ops: Ops) -> Callable[..., Any]:
    """Makes the callback of an entry."""

    def of_call(called: str, value: Any) -> Frame:
        return Frame(world, name, value, called)

    def of_payload(_: Any, value: Any) -> Frame:
        return Frame(world, name, value, queued="sanitize" in family)

    def of_intercept(called: str, value: Any, proceed: Any) -> Frame:
        return Frame(world, name, value, called, proceed=proceed)

    if family.endswith("conditional_execution"):
        return function(world, ops, of_call, lambda end: _verdict(world, end))
    if family.endswith("execution"):
        return function(world, ops, of_intercept, result)
    return function(world, ops, of_payload, result)


def _verdict(world: World, end: End) -> Any:
    """Reads an end as a guardrail's answer, in both of the forms that say the same."""
    match end.how:
        case "reject":
            return callweir.Verdict.reject(end.value) if world.sync else end.value
        case "wrong":
            return True
        case _:
            return callweir.Verdict.allow() if world.sync else None


def result(end: End) -> Any:
    """Reads an end as a value."""
    if end.how == "reject":
        raise Broken("only a guardrail rejects")
    return "wrong" if end.how == "wrong" else end.value


def work(world: World, name: str, ops: Ops) -> Callable[..., Any]:
    """Makes the work of a call that is given as a function."""
    return function(world, ops, lambda value: Frame(world, name, value, name), result)


def next_alone(world: World, ops: Ops) -> Callable[..., Any]:
    """Makes the `next` of a middleware that is tested alone."""

    async def proceed(call: callweir.ToolCall) -> Any:
        return result(await Frame(world, "next", call.arguments, call.name, call=call).run(ops))

    return proceed


def tool(world: World, spec: dict[str, Any]) -> callweir.Tool:
    """Makes a tool."""
    name = spec["name"]

    def of_arguments(arguments: dict[str, Any], context: callweir.ToolContext) -> Frame:
        return Frame(world, name, arguments, name, context=context)

    run = function(world, spec.get("run", []), of_arguments, result)

    async def waiting(callweir_context: callweir.ToolContext, **arguments: Any) -> Any:
        return await run(arguments, callweir_context)

    def plain(callweir_context: callweir.ToolContext, **arguments: Any) -> Any:
        return run(arguments, callweir_context)

    return callweir.Tool(
        waiting if iscoroutinefunction(run) else plain,
        name=name,
        description=spec.get("description", ""),
        parameters=spec.get("parameters", {"type": "object"}),
        read_only=spec.get("read_only", False),
        idempotent=spec.get("idempotent", False),
    )


def subscriber(world: World, name: str, ops: Ops) -> Callable[..., Any]:
    """Makes a subscriber."""

    def of_event(event: callweir.Event) -> Frame:
        return Frame(world, name, event.to_dict(), queued=True, event=event)

    return function(world, ops, of_event, lambda _: None)


class Scripted:
    """A registry's middleware with a behaviour for each of its two callbacks."""

    def __init__(self, world: World, spec: dict[str, Any]) -> None:
        self.__name__ = name = spec["name"]

        def of_call(call: callweir.ToolCall, proceed: Any) -> Frame:
            return Frame(world, name, call.arguments, call.name, call=call, proceed=proceed)

        def of_refusal(call: callweir.ToolCall, refusal: callweir.Error) -> Frame:
            return Frame(world, f"{name}.on_refused", error_form(world, refusal), call.name, call=call)

        self._run = function(world, spec["run"], of_call, result)
        self.on_refused = function(world, spec.get("on_refused", []), of_refusal, lambda _: None)

    def __call__(self, call: callweir.ToolCall, proceed: Any) -> Any:
        return self._run(call, proceed)
