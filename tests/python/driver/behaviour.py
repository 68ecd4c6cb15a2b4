"""Behaviours: the small programs that callbacks and tools run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import callweir

from .forms import context_form, error_form, shown
from .world import Broken, World

Ops = list[Any]

_ABSENT: Any = object()


@dataclass(frozen=True)
class End:
    """How a behaviour ended, if it did not fail: `value`, `nothing`, `reject`, `wrong` or `denial`."""

    how: str
    value: Any = None


@dataclass
class Frame:
    """What a callback was given, and the value that it works on."""

    world: World
    by: str
    value: Any
    name: str = ""
    queued: bool = False
    call: callweir.ToolCall | None = None
    context: callweir.ToolContext | None = None
    proceed: Callable[[Any], Awaitable[Any]] | None = None
    event: callweir.Event | None = None
    passed: Any = field(default=_ABSENT)

    async def run(self, ops: Ops) -> End:
        """Runs the operations; only those that say so wait."""
        for op in ops:
            end = await self._one(op)
            if end is not None:
                return end
        return End("value", self.value)

    async def _one(self, op: Any) -> End | None:
        name, argument = (op, None) if isinstance(op, str) else next(iter(op.items()))
        match name:
            case "next":
                self.value = await self.start_next()
            case "swallow":
                try:
                    self.value = await self.start_next()
                except Exception as error:
                    self.value = {"caught": error_form(self.world, error)}
            case "sleep":
                await anyio.sleep(argument / 1000)
            case "step":
                from .step import run_step

                await run_step(self.world, argument, self.queued)
            case "reject" | "nothing" | "wrong":
                return End(name, argument)
            case "fail":
                raise self.world.fail(argument)
            case "deny":
                raise callweir.ToolCallDenied(self.name, argument)
            case "return_denial":
                return End("denial", callweir.ToolCallDenied(self.name, argument))
            case _:
                self._at_once(name, argument)
        return None

    def _at_once(self, name: str, argument: Any) -> None:
        match name:
            case "record":
                self._log({"value": shown(self.value)})
            case "record_context":
                context = self.context if self.call is None else self.call.context
                if context is None:
                    raise Broken(f"'{self.by}' has no context")
                self._log(context_form(context))
            case "note":
                self._note_event()
            case "set":
                self.value[argument[0]] = argument[1]
            case "append":
                self.value.setdefault(argument[0], []).append(argument[1])
            case "remove":
                self.value.pop(argument, None)
            case "replace":
                self.value = argument
            case "unjson":
                self.value = {"a": [1, 2, 3, float("inf")]}
            case "keep_next":
                self._keep_next(argument)
            case "context":
                if self.call is None:
                    raise Broken(f"'{self.by}' has no call")
                self.call = self.call.with_context(context_of(self.world, argument, self.call.context))
            case "fire":
                self.world.token(argument).fire()
            case _:
                raise Broken(f"no such operation: {name}")

    def start_next(self) -> Awaitable[Any]:
        """Makes the awaitable of `next`; a further one passes the same arguments as the first."""
        if self.proceed is None:
            raise Broken(f"'{self.by}' has no next")
        if self.passed is _ABSENT:
            self.passed = self.value
        return self.proceed(self.passed if self.call is None else self.call.with_arguments(self.passed))

    def _keep_next(self, slot: str) -> None:
        proceed, call = self.proceed, self.call
        if proceed is None:
            raise Broken(f"'{self.by}' has no next")

        def use(arguments: Any) -> Awaitable[Any]:
            return proceed(arguments if call is None else call.with_arguments(arguments))

        self.world.nexts[slot] = use

    def _log(self, what: dict[str, Any]) -> None:
        self.world.log({"by": self.by} | what, self.queued)

    def _note_event(self) -> None:
        if self.event is None:
            raise Broken(f"'{self.by}' has no event")
        self._log({"event": f"{self.event.scope_category or 'mark'} {self.event.name}"})


def context_of(world: World, spec: dict[str, Any], old: callweir.ToolContext | None = None) -> callweir.ToolContext:
    """Makes a context from `old` with what `spec` says."""
    context = callweir.ToolContext() if old is None else old
    if "caller_id" in spec:
        context = context.with_caller_id(spec["caller_id"])
    if "metadata" in spec:
        context = context.with_metadata(spec["metadata"])
    if "deadline_ms" in spec:
        context = context.with_deadline(spec["deadline_ms"] / 1000)
    if "token" in spec:
        context = context.with_cancellation(world.token(spec["token"]).cancellation)
    return context
