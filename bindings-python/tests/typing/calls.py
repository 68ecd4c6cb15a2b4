"""What a user does with managed, manual and registry calls, as a type checker sees it. It is read, never run."""

from collections.abc import Awaitable, Coroutine
from typing import Any, assert_type

import callweir
from callweir import (
    Cancellation,
    Descriptor,
    ManualCall,
    Next,
    Runtime,
    ScopeHandle,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    tool,
    tools,
)


async def double(args: dict[str, int]) -> int:
    return args["n"] * 2


def shown(args: dict[str, int]) -> str:
    return str(args["n"])


def later(args: dict[str, int]) -> Awaitable[float]:
    raise NotImplementedError


async def managed_calls() -> None:
    assert_type(await tools.execute("double", {"n": 1}, double), int)
    assert_type(await tools.execute("shown", {"n": 1}, shown), str)
    assert_type(await tools.execute("later", {"n": 1}, later), float)
    assert_type(await tools.execute("none", {}, lambda args: None), None)
    waiting = tools.execute("double", {"n": 1}, double)
    _ = assert_type(waiting, Coroutine[Any, Any, int])
    await waiting
    stop = Cancellation()
    assert_type(
        await tools.execute("double", {"n": 1}, double, metadata={"run": 1}, tool_call_id="c1", cancellation=stop), int
    )
    stop.cancel()
    assert_type(stop.cancelled, bool)
    assert_type(stop.child(), Cancellation)
    assert_type(tools.current_call(), ScopeHandle | None)
    assert_type(callweir.current_call(), ScopeHandle | None)


async def on_a_runtime_of_its_own() -> None:
    runtime = Runtime(queue_events=10, error_text=True)
    assert_type(runtime, Runtime)
    assert_type(await runtime.execute("double", {"n": 1}, double), int)
    assert_type(await runtime.execute("shown", {"n": 1}, shown), str)
    assert_type(await runtime.shutdown_async(1), int)
    assert_type(runtime.counts(), dict[str, int])
    assert_type(ToolRegistry(runtime=runtime), ToolRegistry)


def manual_calls() -> None:
    call = tools.call("charge", {"amount": 1}, attributes=["remote"])
    assert_type(call, ManualCall)
    assert_type(call.scope, ScopeHandle)
    assert_type(call.uuid, str)
    tools.call_end(call, {"charged": True})
    tools.call_end(call, error=ValueError("no"), outcome="failed")


@tool
def plain(a: int, b: int = 2) -> int:
    return a + b


@tool(name="stock.lookup", read_only=True, idempotent=True)
async def named(sku: str, context: ToolContext) -> int:
    return len(sku)


@tool("in.place", blocking=False)
def in_place(n: int) -> int:
    return n


def definitions() -> None:
    assert_type(plain, Tool)
    assert_type(named, Tool)
    assert_type(in_place, Tool)
    assert_type(plain.name, str)
    assert_type(plain.descriptor, Descriptor)
    assert_type(plain.descriptor.parameters, dict[str, Any])
    assert_type(plain.descriptor.read_only, bool)


async def audit(call: ToolCall, next: Next) -> object:
    assert_type(call.name, str)
    assert_type(call.context, ToolContext)
    assert_type(call.context.caller_id, str | None)
    assert_type(call.context.deadline, float | None)
    assert_type(call.descriptor, Descriptor | None)
    assert_type(call.with_arguments({}), ToolCall)
    assert_type(call.with_context(call.context.with_deadline(1.0)), ToolCall)
    rest = next(call)
    _ = assert_type(rest, Coroutine[Any, Any, Any])
    result: object = await rest
    return result


class Policy:
    async def __call__(self, call: ToolCall, next: Next) -> object:
        return await next(call)

    def on_refused(self, call: ToolCall, refusal: callweir.ToolNotFound) -> None: ...


async def registries() -> None:
    registry = ToolRegistry().register(plain, named, shown).use(audit, Policy()).subset(["plain"])
    assert_type(registry, ToolRegistry)
    assert_type(ToolRegistry().register(registry), ToolRegistry)
    context = ToolContext(caller_id="a", metadata={"tenant": 1}, cancellation=Cancellation(), deadline=5)
    assert_type(await registry.dispatch("plain", {"a": 1}, context), Any)
    assert_type(await registry.dispatch_json("plain", '{"a": 1}'), str)
    assert_type(registry.descriptors(), list[Descriptor])
    assert_type(registry.middleware(), list[Any])
    assert_type(registry.explain("plain"), list[dict[str, Any]])


def alone() -> None:
    call = ToolCall("plain", {"a": 1}, ToolContext(caller_id="a"), plain.descriptor)
    assert_type(call, ToolCall)
    assert_type(Descriptor("t", "text", {"type": "object"}, idempotent=True), Descriptor)
