"""Events: their form, the sanitizers, typed records."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import threading
import time
from typing import Any

import pytest
from callweir import (
    CallRejected,
    Runtime,
    ToolCallCompleted,
    ToolCallDenied,
    ToolCallStarted,
    ToolContext,
    ToolNotFound,
    ToolRegistry,
    export,
    guardrails,
    intercepts,
    scope,
    subscribers,
    tool,
    tools,
)

from helpers import KINDS, Seen, call, flushed, go, made, run_with

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_evt_1_the_wire_format(seen: Seen) -> None:
    guardrails.register_tool_conditional_execution("g", 0, lambda *_: None)

    async def main() -> None:
        with scope.scope("S", "agent"):
            await call("t", {"a": 1}, tool_call_id="c1", metadata={"mine": 1})
            scope.event("m", {"d": 1}, {"k": 1}, data_schema={"type": "object"})

    go(main)
    wire = [event.to_dict() for event in seen.flushed()]
    assert [(one["kind"], one.get("scope_category"), one["name"]) for one in wire] == [
        ("scope", "start", "S"),
        ("scope", "start", "g"),
        ("scope", "end", "g"),
        ("scope", "start", "t"),
        ("scope", "end", "t"),
        ("mark", None, "m"),
        ("scope", "end", "S"),
    ]
    outer, guarded, allowed, start, end, mark, _ = wire
    for one in wire:
        assert one["atof_version"] == "0.1" and UUID7.fullmatch(one["uuid"])
        assert one["timestamp"].endswith("Z")
        datetime.datetime.fromisoformat(one["timestamp"])
    assert sorted(one["timestamp"] for one in wire) == [one["timestamp"] for one in wire]
    assert outer["parent_uuid"] is None and mark["parent_uuid"] == start["parent_uuid"] == outer["uuid"]
    assert guarded["category"] == "guardrail" and guarded["metadata"]["callweir.call_uuid"] == start["uuid"]
    assert guarded["data"] == {"kind": "tool_conditional_execution", "target_name": "t"}
    assert allowed["data"] == {"allowed": True, "rejected": False}
    assert (start["category"], start["data"], start["attributes"]) == ("tool", {"a": 1}, [])
    assert start["category_profile"] == {"tool_call_id": "c1"} and start["metadata"]["mine"] == 1
    assert end["metadata"]["callweir.outcome"] == "succeeded" and end["metadata"]["otel.status_code"] == "OK"
    assert (mark["data"], mark["metadata"]["k"], mark["data_schema"]) == ({"d": 1}, 1, {"type": "object"})
    assert "scope_category" not in mark or mark["scope_category"] is None
    for event, one in zip(seen, wire, strict=True):
        assert json.loads(event.to_json()) == one
        for field, value in one.items():
            assert getattr(event, field) == value


def test_a_rejection(seen: Seen) -> None:
    guardrails.register_tool_conditional_execution("g", 0, lambda *_: "no")
    ran: list[Any] = []
    with pytest.raises(CallRejected):
        go(lambda: call("t", {}, ran.append))
    assert seen.flushed().shown() == [("start", "g"), ("end", "g"), ("mark", "t")] and not ran
    _, end, mark = seen
    assert end.data == {"allowed": False, "rejected": True, "rejection_reason": "no"}
    assert mark.data == {"rejected": True, "rejection_reason": "no"}
    assert mark.metadata["callweir.mark"] == "rejection"
    assert mark.metadata["callweir.call_uuid"] == end.metadata["callweir.call_uuid"]


@pytest.mark.parametrize("kind", ["async", "awaitable", "async_method"])
def test_c82_what_an_event_sanitizer_may_change(kind: str, seen: Seen) -> None:
    asked: list[Any] = []
    done = threading.Event()

    async def sanitize(event: Any, fields: Any) -> Any:
        asked.append((event.name, json.loads(json.dumps(fields))))
        await asyncio.sleep(0.02)
        for name in ("name", "uuid"):
            with pytest.raises(AttributeError):
                setattr(event, name, "other")
        done.set()
        return {"data": {**fields["data"], "added": 1}, "name": "other", "uuid": "other"}

    guardrails.register_tool_sanitize_request("mask", 0, lambda _, args: {**args, "pin": "***"})
    guardrails.register_scope_sanitize_start("s", 0, made(kind, sanitize))

    async def main() -> None:
        await call("t", {"pin": 1234, "a": 1}, metadata={"mine": 1}, tool_call_id="c1")
        assert not done.is_set(), "the call did not wait"

    flushed(main)
    (name, fields), start = asked[0], seen.of("start", "t")[0]
    assert name == "t" and set(fields) == {"data", "category_profile", "metadata"}
    assert fields["data"] == {"pin": "***", "a": 1}
    assert start.data == {"pin": "***", "a": 1, "added": 1}
    assert start.name == "t" and start.uuid == seen.end("t").uuid
    assert start.category_profile is None and "mine" not in (start.metadata or {})


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable"])
def test_sanitizers_cannot_touch_what_is_callweir_s_own(kind: str, seen: Seen) -> None:
    def sanitize(_event: Any, fields: Any) -> Any:
        return {
            **fields,
            "metadata": {"callweir.outcome": "lie", "otel.status_code": "lie", "error.type": "lie", "k": 1},
        }

    guardrails.register_scope_sanitize_end("s", 0, made(kind, sanitize))

    def fail(_args: Any) -> None:
        raise ValueError

    async def main() -> None:
        await call("good")
        with pytest.raises(ValueError):
            await call("bad", {}, fail)

    flushed(main)
    good, bad = seen.end("good").metadata, seen.end("bad").metadata
    assert (good["callweir.outcome"], good["otel.status_code"], good["k"]) == ("succeeded", "OK", 1)
    assert good.get("error.type") is None
    assert (bad["callweir.outcome"], bad["error.type"], bad["otel.status_code"]) == ("failed", "ValueError", "ERROR")


@pytest.mark.parametrize("wrong", [5, "text", [1], {"data": 1, "metadata": "text"}])
def test_an_event_sanitizer_that_returns_something_else(wrong: Any, seen: Seen) -> None:
    guardrails.register_mark_sanitize("s", 0, lambda *_: wrong)
    scope.event("m", {"secret": 1})
    (mark,) = seen.flushed()
    assert "secret" not in json.dumps(mark.to_dict())


def test_sanitizers_run_in_order(seen: Seen) -> None:
    for name, priority in (("b", 0), ("a", 0), ("z", -1)):
        guardrails.register_tool_sanitize_request(name, priority, lambda _, args, name=name: args + [name])
    go(lambda: call("t", []))
    assert seen.flushed().of("start", "t")[0].data == ["z", "a", "b"]


@pytest.mark.parametrize("kind", KINDS)
def test_c63_an_event_emitted_inside_a_subscriber(kind: str, seen: Seen) -> None:
    asked: list[str] = []

    def answer(event: Any) -> None:
        asked.append(event.name)
        if event.name == "go" and asked.count("go") == 1:
            scope.event("answer")

    subscribers.register("answers", made(kind, answer))

    async def main() -> None:
        scope.event("go")
        scope.event("go")

    flushed(main)
    seen.flushed()
    assert sorted(asked) == ["answer", "go", "go"] and sorted(event.name for event in seen) == sorted(asked)


@pytest.mark.parametrize("kind", ["plain", "async", "awaitable"])
def test_evt_10_an_event_cannot_feed_itself_for_ever(kind: str, seen: Seen) -> None:
    asked: list[str] = []

    def feed(event: Any) -> None:
        asked.append(event.name)
        scope.event(event.name)
        scope.event(event.name)

    subscribers.register("feeds", made(kind, feed))

    async def main() -> None:
        scope.event("again")

    flushed(main)
    # Each flush covers what was emitted before it: one for each answer to an answer.
    for _ in range(8):
        assert subscribers.flush(10) == 0
    assert 1 < len(asked) < 10_000 and len(seen) >= len(asked)


@pytest.mark.parametrize("kind", KINDS)
def test_c83_typed_records(kind: str, backend: str, seen: Seen) -> None:
    records: list[Any] = []
    subscribers.register_calls("records", made(kind, records.append))

    def middleware(one: Any, next: Any) -> Any:
        if one.name == "denied":
            raise ToolCallDenied("denied", "PRIVATE-9")
        return "PRIVATE-9" if one.name == "answered" else next(one)

    def fail(**_: Any) -> None:
        raise ValueError("PRIVATE-9")

    registry = ToolRegistry().use(middleware)
    for name, function in (("good", lambda **args: args), ("fails", fail), ("denied", fail), ("answered", fail)):
        registry.register(tool(name=name, parameters={"type": "object"})(function))

    async def main() -> None:
        for name in ("good", "fails", "denied", "answered", "unknown"):
            try:
                await registry.dispatch(name, {"a": "PRIVATE-9"}, ToolContext(caller_id="me"))
            except (ValueError, ToolCallDenied, ToolNotFound):
                pass
        await call("no registry call")
        assert await subscribers.flush_async(10) == 0

    run_with(backend, main)
    shown = [(type(one).__name__, one.tool) for one in records]
    both = ["good", "fails", "denied", "answered"]
    assert shown == [(t, n) for n in both for t in ("ToolCallStarted", "ToolCallCompleted")] + [
        ("ToolCallCompleted", "unknown")
    ]
    completed = [one for one in records if isinstance(one, ToolCallCompleted)]
    assert [one.outcome for one in completed] == ["succeeded", "failed", "refused", "succeeded", "refused"]
    assert [one.short_circuited for one in completed] == [False, False, True, True, False] or [
        one.short_circuited for one in completed
    ][3]
    assert [one.error_type for one in completed][:4] == [None, "ValueError", "denied", None]
    now = time.time()
    for one in records:
        assert one.caller_id == "me" and abs(now - one.timestamp) < 60
        assert "PRIVATE-9" not in repr(one)
        public = [getattr(one, field) for field in dir(one) if not field.startswith("_")]
        assert "PRIVATE-9" not in repr(public)
        if isinstance(one, ToolCallCompleted):
            assert one.duration >= 0
        else:
            assert isinstance(one, ToolCallStarted)
    for started, ended in zip(records[0:8:2], records[1:8:2], strict=True):
        assert started.uuid == ended.uuid
    assert {one.uuid for one in records[:8]} == {event.uuid for event in seen.of("start") if event.name in both}


def test_where_callbacks_of_the_dispatcher_run() -> None:
    threads: dict[str, int] = {}
    here = threading.get_ident()

    async def asynchronous(_event: Any) -> None:
        threads["async"] = threading.get_ident()

    subscribers.register("plain", lambda _: threads.__setitem__("plain", threading.get_ident()))
    subscribers.register("inline", lambda _: threads.__setitem__("inline", threading.get_ident()), inline=True)
    subscribers.register("async", asynchronous)
    guardrails.register_mark_sanitize(
        "s", 0, lambda _, fields: threads.__setitem__("s", threading.get_ident()) or fields
    )

    async def main() -> None:
        scope.event("m")

    flushed(main)
    assert threads["async"] == threads["inline"] == here
    assert threads["plain"] == threads["s"] != here


def test_pay_6_without_readers_nothing_is_copied() -> None:
    class Watched:
        def toJSON(self) -> Any:
            raise AssertionError("nobody asked")

    assert go(lambda: call("t", {}, lambda _: Watched())) is not None
    made_runtime = Runtime()
    assert made_runtime.counts()["pending"] == 0


def test_scope_local_subscribers_and_sanitizers(seen: Seen) -> None:
    local: list[str] = []
    with scope.scope("S") as handle:
        subscribers.register("local", lambda event: local.append(event.name), scope=handle)
        guardrails.register_mark_sanitize("s", 0, lambda _, fields: {"data": "masked"}, scope=handle)
        scope.event("inside", 1)
    scope.event("outside", 1)
    seen.flushed()
    assert "inside" in local and "outside" not in local
    assert {mark.name: mark.data for mark in seen.of(None)} == {"inside": "masked", "outside": 1}
    assert subscribers.deregister("local", scope=handle) is False


def test_two_runtimes_share_nothing(seen: Seen) -> None:
    runtime, events = Runtime(), []
    runtime.subscribe("seen", events.append)
    go(lambda: runtime.execute("t", {}, len))
    runtime.register("tool.request", "r", lambda _, args: args)
    assert runtime.flush(5) == 0 and len(events) == 2 and not seen.flushed()
    assert [line["name"] for line in runtime.registrations()] == ["r", "seen"]
    runtime.shutdown(5)
    go(lambda: call("t"))
    assert len(seen.flushed()) == 2


def test_timestamps_that_the_program_gives(seen: Seen) -> None:
    when = datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    scope.event("m", timestamp=when)
    handle = tools.call("t", {}, timestamp=when.timestamp())
    tools.call_end(handle, 1, timestamp=when + datetime.timedelta(seconds=1))
    shown = [event.timestamp for event in seen.flushed()]
    assert shown == ["2024-02-03T04:05:06.000000Z", "2024-02-03T04:05:06.000000Z", "2024-02-03T04:05:07.000000Z"]
    with pytest.raises((ValueError, TypeError, AttributeError)):
        scope.event("m", timestamp="yesterday")  # type: ignore[arg-type]


def test_export_jsonl(tmp_path: Any) -> None:
    path = tmp_path / "events.jsonl"
    export.jsonl(path)
    intercepts.register_tool_request("r", 0, False, lambda _, args: {**args, "ü": "\u2028"})
    go(lambda: call("t", {"a": 1}))
    assert subscribers.flush(5) == 0
    lines = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    assert [(line["scope_category"], line["data"]) for line in lines] == [
        ("start", {"a": 1, "ü": "\u2028"}),
        ("end", {"a": 1, "ü": "\u2028"}),
    ]
    assert subscribers.deregister("jsonl") is True
    go(lambda: call("t", {"a": 1}))
    assert subscribers.flush(5) == 0
    assert len(path.read_text("utf-8").splitlines()) >= 2
    from callweir import InvalidArgument

    with pytest.raises(InvalidArgument):
        export.jsonl(tmp_path / "no" / "such" / "folder")
