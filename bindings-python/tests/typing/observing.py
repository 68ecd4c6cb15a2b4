"""What a user does with scopes, events, registrations and errors, as a type checker sees it. It is read, never run."""

from pathlib import Path
from typing import Any, Literal, assert_type

import callweir
from callweir import (
    Event,
    ScopeHandle,
    ScopeType,
    ToolCallCompleted,
    ToolCallStarted,
    Verdict,
    export,
    guardrails,
    intercepts,
    scope,
    subscribers,
)


def with_scope() -> ScopeHandle:
    with scope.scope("turn", ScopeType.Agent, input={"user": "ann"}) as handle:
        assert_type(handle, ScopeHandle)
        assert_type(handle.uuid, str)
        assert_type(handle.parent, ScopeHandle | None)
        assert_type(handle.is_open, bool)
        scope.event("thinking", {"step": 1}, handle=handle)
    manager = scope.scope("turn")
    manager.set_output({"done": True})
    with callweir.attach(handle.propagation()) as attached:
        assert_type(attached, ScopeHandle)
    # A scope never swallows an exception, so that what follows it is reached.
    with scope.scope("turn"):
        return handle


async def with_async_scope() -> None:
    async with scope.scope("turn", "agent") as handle:
        assert_type(handle, ScopeHandle)
    pushed = scope.push("step")
    assert_type(pushed, ScopeHandle)
    assert_type(scope.get_handle(), ScopeHandle | None)
    scope.pop(pushed, output=1)
    assert_type(callweir.propagation(), dict[str, Any] | None)


def show(event: Event) -> None:
    assert_type(event.kind, Literal["scope", "mark"])
    assert_type(event.scope_category, Literal["start", "end"] | None)
    assert_type(event.name, str)
    assert_type(event.category, str | None)
    assert_type(event.outcome, str | None)
    assert_type(event.to_dict(), dict[str, Any])
    assert_type(event.to_json(), str)


def count(record: ToolCallStarted | ToolCallCompleted) -> None:
    assert_type(record.caller_id, str | None)
    if isinstance(record, ToolCallCompleted):
        assert_type(record.duration, float)
        assert_type(record.short_circuited, bool)
        assert_type(record.error_type, str | None)


async def observing() -> None:
    subscribers.register("show", show, inline=True)
    subscribers.register_calls("count", count)
    export.jsonl(Path("calls.jsonl"))
    assert_type(subscribers.flush(1.0), int)
    assert_type(await subscribers.flush_async(), int)
    assert_type(subscribers.deregister("show"), bool)
    assert_type(callweir.registrations(), list[dict[str, Any]])
    assert_type(callweir.explain("tool", "lookup"), list[dict[str, Any]])
    callweir.configure(queue_bytes=1 << 20, credential_headers=["x-secret"])
    assert_type(callweir.shutdown(2), int)
    assert_type(await callweir.shutdown_async(), int)


def limit(name: str, args: dict[str, Any]) -> str | Verdict | None:
    return Verdict.reject("too much") if args["amount"] > 10 else None


async def retry(name: str, args: dict[str, Any], next: callweir.Next) -> object:
    result: object = await next(args)
    return result


def registering(handle: ScopeHandle) -> None:
    guardrails.register_tool_conditional_execution("limit", 0, limit, scope=handle)
    intercepts.register_tool_request("same", 0, True, lambda name, args: args)
    intercepts.register_tool_execution("retry", -5, retry)
    guardrails.register_mark_sanitize("less", 0, lambda event, fields: {**fields, "data": event.name})
    # A boolean is no decision, and would fail the call.
    guardrails.register_tool_conditional_execution("bad", 0, lambda name, args: True)  # pyright: ignore[reportArgumentType]
    assert_type(guardrails.deregister_tool_conditional_execution("limit", scope=handle), bool)
    assert_type(Verdict.allow().allowed, bool)
    callweir.Runtime.default().register("tool.execution", "again", retry, priority=1)


def errors() -> None:
    try:
        raise callweir.ToolCallDenied("refund", "no", code="over_limit")
    except callweir.CallRejected as rejected:
        assert_type(rejected.by, str)
        assert_type(rejected.name, str)
    except callweir.Denied as denied:
        assert_type(denied.reason, str)
        assert_type(denied.code, str)
        assert_type(denied.for_model(), str)
    except callweir.ToolNotPermitted as missing:
        assert_type(missing.tool, str)
    except callweir.NotJson as not_json:
        assert_type(not_json.path, str)
    except callweir.InvalidReturn as invalid:
        assert_type((invalid.family, invalid.entry), tuple[str, str])
    assert_type(callweir.for_model(KeyError("x")), str)
    as_time_out: TimeoutError = callweir.TimedOut()
    assert_type(callweir.errors.BY_NAME, dict[str, type[callweir.Error]])
    raise as_time_out
